package mutual

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func tokenOf(name string) string { return name + strings.Repeat("-", ShortestToken) }

// An api reaches at a worker's address only who has a token for that worker's name.
func TestRingDials(t *testing.T) {
	ring, err := NewRing("", "alpha "+tokenOf("a1")+"\n# none\n\nalpha "+tokenOf("a2")+"\nbeta "+tokenOf("b")+"\npool-* "+
		tokenOf("p"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token string
		reached     bool
	}{
		{"alpha", "a1", true}, {"alpha", "a2", true}, {"beta", "b", true}, {"pool-9", "p", true},
		{"alpha", "b", false}, {"beta", "a1", false}, {"alpha", "unknown", false}, {"pool", "p", false},
	} {
		config, err := Config(tokenOf(c.token))
		if err != nil {
			t.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", config)
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				err = conn.(*tls.Conn).HandshakeContext(context.Background())
				conn.Close()
			}
			accepted <- err
		}()
		conn, err := ring.Dial(new(net.Dialer).DialContext, 5*time.Second, nil, func(string) (string, bool) {
			return c.name, true
		})(t.Context(), "tcp", l.Addr().String())
		if err == nil {
			conn.Close()
		}
		if served := <-accepted; (err == nil) != c.reached || c.reached && served != nil {
			t.Errorf("%s with the token of %s: %v, %v", c.name, c.token, err, served)
		}
		l.Close()
	}
	unknown := ring.Dial(nil, 0, nil, func(string) (string, bool) { return "", false })
	if _, err := unknown(t.Context(), "tcp", "x:1"); err == nil {
		t.Error("an unknown address is dialled")
	}
}

func TestRingChecks(t *testing.T) {
	ring, err := NewRing(tokenOf("all"), "alpha "+tokenOf("a1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token string
		want        bool
	}{{"alpha", "a1", true}, {"beta", "a1", false}, {"beta", "all", true}, {"alpha", "unknown", false}} {
		config, err := Config(tokenOf(c.token))
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		server := tls.Server(there, ring.Server())
		served := make(chan error, 1)
		go func() { served <- server.HandshakeContext(context.Background()) }()
		_ = tls.Client(here, config).HandshakeContext(t.Context())
		here.Close()
		if err := <-served; err != nil {
			if c.want {
				t.Errorf("%s with the token of %s: %v", c.name, c.token, err)
			}
			continue
		}
		state := server.ConnectionState()
		if err := ring.Check(&state, c.name); (err == nil) != c.want || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("%s with the token of %s: %v", c.name, c.token, err)
		}
	}
	if err := ring.Check(nil, "alpha"); err == nil {
		t.Error("a connection without TLS is let in")
	}
	for _, lines := range []string{"alpha", "alpha short", "a*b " + tokenOf("x"), "alpha " + tokenOf("x") + " more"} {
		if _, err := NewRing("", lines); err == nil {
			t.Errorf("%q is taken", lines)
		}
	}
	if ring, err := NewRing("", "\n"); ring != nil || err != nil {
		t.Errorf("no token: %v, %v", ring, err)
	}
}
