// Package mutual secures the connections between Airlock processes that share a
// token. Both sides derive one Ed25519 key from the token and authenticate with it in
// TLS 1.3. So each proves to the other that it has the token, which is never sent, and
// no certificates have to be managed. Names and dates in the certificates are ignored, so
// that a wrong clock does no harm.
package mutual

import (
	"crypto"
	"crypto/ed25519"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ShortestToken is the least length of a token: a peer that can connect may try tokens
// offline.
const ShortestToken = 32

const rounds = 200_000 // some 50 ms, once in a process

// Config returns the TLS configuration of both sides of a connection.
func Config(token string) (*tls.Config, error) {
	if len(token) < ShortestToken {
		return nil, fmt.Errorf("the worker token has %d characters, and needs %d", len(token), ShortestToken)
	}
	seed, err := pbkdf2.Key(sha256.New, token, []byte("airlock worker token"), rounds, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<33, 0)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:       []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it
		VerifyConnection:   func(state tls.ConnectionState) error { return verify(state, key.Public()) },
		ServerName:         keyName(key.Public().(ed25519.PublicKey)),
		MinVersion:         tls.VersionTLS13,
		// A resumed session would skip VerifyConnection's proof that the peer has the token now.
		SessionTicketsDisabled: true,
	}, nil
}

// ErrToken is the error for a peer that does not have the same token.
var ErrToken = errors.New("the other side does not have the same worker token")

func verify(state tls.ConnectionState, ours crypto.PublicKey) error {
	if len(state.PeerCertificates) == 0 {
		return ErrToken
	}
	theirs, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || !theirs.Equal(ours) {
		return ErrToken
	}
	return nil
}

// TLS is the type that Config returns.
type TLS = tls.Config

// Optional is Config, or returns nil if there is no token.
func Optional(token string) (*tls.Config, error) {
	if token == "" {
		return nil, nil
	}
	return Config(token)
}
