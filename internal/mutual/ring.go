package mutual

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// A Ring has the tokens of an api's workers. Each token is for workers of some names: one name, a pool of names with
// the same beginning, as gpu-*, or all. A name may have several tokens, so that they can be replaced one after the
// other. A worker has one token, and names the key of it, in the clear, when it connects.
type Ring struct{ keys []ringKey }

type ringKey struct {
	names  string
	public ed25519.PublicKey
	config *tls.Config
}

// maxTokens bounds a Ring: deriving a key takes some 50 ms.
const maxTokens = 256

// NewRing returns a Ring with a token for all workers, if it is not empty, and with those of lines "NAME TOKEN". Empty
// lines, and those that begin with #, are skipped. Without any token it returns nil.
func NewRing(shared, lines string) (*Ring, error) {
	type named struct{ names, token string }
	var all []named
	if shared != "" {
		all = append(all, named{"*", shared})
	}
	for i, line := range strings.Split(lines, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0, strings.HasPrefix(fields[0], "#"):
		case len(fields) != 2, strings.Contains(strings.TrimSuffix(fields[0], "*"), "*"):
			return nil, fmt.Errorf("line %d of the tokens of workers is not NAME TOKEN, or NAME* TOKEN", i+1)
		default:
			all = append(all, named{fields[0], fields[1]})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	if len(all) > maxTokens {
		return nil, fmt.Errorf("there are %d tokens of workers, more than %d", len(all), maxTokens)
	}
	r := &Ring{keys: make([]ringKey, len(all))}
	errs := make([]error, len(all))
	var deriving sync.WaitGroup
	for i, one := range all {
		deriving.Go(func() {
			config, err := Config(one.token)
			if err != nil {
				errs[i] = fmt.Errorf("of %s: %w", one.names, err)
				return
			}
			r.keys[i] = ringKey{one.names, publicOf(config), config}
		})
	}
	deriving.Wait()
	return r, errors.Join(errs...)
}

func publicOf(config *tls.Config) ed25519.PublicKey {
	return config.Certificates[0].PrivateKey.(ed25519.PrivateKey).Public().(ed25519.PublicKey)
}

// keyName returns the name of a key in the greeting of TLS. It reveals nothing of the token.
func keyName(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return "k" + hex.EncodeToString(sum[:16])
}

// has reports whether a pattern of names has a name.
func has(names, name string) bool {
	if start, pool := strings.CutSuffix(names, "*"); pool {
		return strings.HasPrefix(name, start)
	}
	return names == name
}

// Server returns the configuration of an api to which workers connect.
func (r *Ring) Server() *tls.Config {
	config := r.keys[0].config.Clone() // for one that names no key
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		for i := range r.keys {
			if keyName(r.keys[i].public) == hello.ServerName {
				return r.keys[i].config, nil
			}
		}
		return nil, nil
	}
	return config
}

// ErrName is the error for a worker whose token is for others.
var ErrName = errors.New("the token of this worker is for other names")

// Check returns ErrName unless a connection was made with a token for that name.
func (r *Ring) Check(state *tls.ConnectionState, name string) error {
	if state != nil && len(state.PeerCertificates) > 0 {
		for i := range r.keys {
			if r.keys[i].public.Equal(state.PeerCertificates[0].PublicKey) && has(r.keys[i].names, name) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w than %s", ErrName, name)
}

// Dial returns a function that connects an api to the worker at an address, which must have a token for the name that
// nameAt says.
func (r *Ring) Dial(
	dial func(ctx context.Context, network, address string) (net.Conn, error), timeout time.Duration, protocols []string,
	nameAt func(address string) (name string, ok bool),
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name, ok := nameAt(address)
		if !ok {
			return nil, fmt.Errorf("no worker is known at %s", address)
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		link := tls.Client(conn, r.client(name, protocols))
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := link.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return link, nil
	}
}

// client returns the configuration of one connection to a worker. It answers with the key that the worker has shown,
// which comes first.
func (r *Ring) client(name string, protocols []string) *tls.Config {
	shown := -1
	return &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			for i := range r.keys {
				if has(r.keys[i].names, name) && verify(state, r.keys[i].public) == nil {
					shown = i
					return nil
				}
			}
			return fmt.Errorf("the worker at the address of %s: %w", name, ErrToken)
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if shown < 0 {
				return nil, ErrToken
			}
			return &r.keys[shown].config.Certificates[0], nil
		},
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, NextProtos: protocols,
	}
}
