package egress

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

	"net"
	"os"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Client hands grants to the egress process and starts it for the first one. It implements
// engine.Egress for the service.
type Client struct {
	launcher Launcher

	mu     sync.Mutex
	link   *net.UnixConn // nil: there is no process
	closed bool
}

// NewClient returns a client that starts processes with a launcher, which it closes.
func NewClient(launcher Launcher) *Client { return &Client{launcher: launcher} }

// Close ends the process and with it every connection.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.link != nil {
		c.link.Close()
	}
	return c.launcher.Close()
}

// grantMessage is a grant with its secrets.
type grantMessage struct {
	engine.Grant
	Secrets []engine.RevealedSecret `json:"secrets,omitempty"`
}

// first is the first answer of the process to a grant.
type first struct {
	Error string `json:"error,omitempty"`
}

// lease is a grant in force.
type lease struct {
	link *net.UnixConn
	done chan struct{} // closed after the last report
}

// lastReport bounds the time for the last report of a grant.
const lastReport = 5 * time.Second

// Close ends the grant.
func (l *lease) Close() error {
	_ = l.link.CloseWrite()
	_ = l.link.SetReadDeadline(time.Now().Add(lastReport))
	<-l.done
	return nil
}

// Open implements engine.Egress.
func (c *Client) Open(ctx context.Context, grant engine.Grant, listener *os.File, report func([]engine.Contact)) (
	io.Closer, error) {
	var message bytes.Buffer
	encoder := json.NewEncoder(&message)
	encoder.SetEscapeHTML(false) // secrets would take six times their room
	if err := encoder.Encode(grantMessage{grant, grant.Reveal()}); err != nil {
		return nil, err
	}
	local, remote, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer remote.Close()
	link, err := packets(local)
	if err != nil {
		return nil, err
	}
	if err := c.hand(ctx, message.Bytes(), remote, listener); err != nil {
		link.Close()
		return nil, unavailable(err)
	}
	remote.Close()
	buffer := make([]byte, maxPacket)
	if deadline, ok := ctx.Deadline(); ok {
		_ = link.SetReadDeadline(deadline)
	}
	var said first
	answer, files, err := receive(link, buffer)
	closeAll(files)
	if err == nil {
		err = json.Unmarshal(answer, &said)
	}
	if err == nil && said.Error != "" {
		err = errors.New(said.Error)
	}
	if err != nil {
		link.Close()
		return nil, unavailable(fmt.Errorf("the egress process did not take a grant: %w", err))
	}
	_ = link.SetReadDeadline(time.Time{})
	l := &lease{link: link, done: make(chan struct{})}
	go l.read(buffer, report)
	return l, nil
}

func unavailable(err error) error {
	return &engine.Error{Op: "open the network", Kind: engine.ErrUnavailable, Err: err,
		Hint: "`airlock doctor` says whether this host lets the egress process start"}
}

// read passes the reports of the process on, until the last one or the end of the process.
func (l *lease) read(buffer []byte, report func([]engine.Contact)) {
	defer close(l.done)
	defer l.link.Close()
	for {
		message, files, err := receive(l.link, buffer)
		closeAll(files)
		var contacts []engine.Contact
		if err != nil || json.Unmarshal(message, &contacts) != nil {
			return
		}
		report(contacts)
	}
}

// hand gives a grant to the process. It starts a process if there is none or if the last one
// has died.
func (c *Client) hand(ctx context.Context, message []byte, files ...*os.File) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 2 {
		if c.closed {
			return errors.New("the service is shutting down")
		}
		if c.link == nil {
			socket, err := c.launcher.Launch(ctx)
			if err != nil {
				return err
			}
			if c.link, err = packets(socket); err != nil {
				return err
			}
		}
		if err = send(c.link, message, files...); err == nil {
			return nil
		}
		c.link.Close()
		c.link = nil
	}
	return err
}

// authorityLife is longer than any run.
const authorityLife = 30 * 24 * time.Hour

// Authority implements engine.Egress.
func (c *Client) Authority() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Airlock, for one run"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}
