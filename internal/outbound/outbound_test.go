package outbound_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/outbound"
)

func policy(t *testing.T, loopback bool, allowed ...string) *outbound.Policy {
	t.Helper()
	p, err := outbound.New(allowed, func() bool { return loopback })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		address string
		allowed []string
		want    bool
	}{
		{"https://93.184.216.34/api", nil, true},
		{"https://[2606:2800:220:1::1]", nil, true},
		{"http://127.0.0.1:9", nil, false},
		{"http://127.0.0.1:9", []string{"http://127.0.0.1:9"}, true},
		{"http://127.0.0.1:10", []string{"http://127.0.0.1:9"}, false},
		{"http://localhost:9", nil, false},
		{"http://localhost:9", []string{"localhost"}, true},
		{"https://LOCALHOST", []string{"https://localhost"}, true},
		{"https://10.1.2.3", nil, false},
		{"https://10.1.2.3", []string{"10.1.2.0/24"}, true},
		{"https://10.1.3.3", []string{"10.1.2.0/24"}, false},
		{"https://172.16.0.1", nil, false},
		{"https://192.168.0.1", nil, false},
		{"https://169.254.169.254", nil, false},
		{"https://100.64.0.1", nil, false},
		{"https://0.0.0.0", nil, false},
		{"https://255.255.255.255", nil, false},
		{"https://224.0.0.1", nil, false},
		{"https://[::1]", nil, false},
		{"https://[::]", nil, false},
		{"https://[::ffff:10.0.0.1]", nil, false},
		{"https://[::ffff:127.0.0.1]", nil, false},
		{"https://[64:ff9b::a00:1]", nil, false},
		{"https://[2002:a00:1::]", nil, false},
		{"https://[fd00::1]", nil, false},
		{"https://[fe80::1]", nil, false},
		{"https://[::127.0.0.1]", nil, false},
	} {
		err := policy(t, false, c.allowed...).Check(t.Context(), c.address)
		refused := new(outbound.RefusedError)
		if (err == nil) != c.want || err != nil && !errors.As(err, &refused) {
			t.Errorf("%s with %q: %v", c.address, c.allowed, err)
		}
	}
	if err := policy(t, true).Check(t.Context(), "http://127.0.0.1:9"); err != nil {
		t.Errorf("loopback, allowed: %v", err)
	}
	for _, bad := range []string{"", "https://", "https://user@host", "10.0.0.0/40", "a b"} {
		if _, err := outbound.New([]string{bad}, nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Every connection is checked after the name was resolved, redirects and
// proxied requests included.
func TestTransport(t *testing.T) {
	asked := 0
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked++ }))
	defer inside.Close()
	port := inside.URL[strings.LastIndex(inside.URL, ":"):]
	away := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusFound))
	defer away.Close()

	get := func(p *outbound.Policy, proxy func(*http.Request) (*url.URL, error), address string) error {
		base := http.DefaultTransport.(*http.Transport).Clone()
		base.Proxy = proxy
		client := &http.Client{Transport: p.Transport(base)}
		defer client.CloseIdleConnections()
		resp, err := client.Get(address)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	throughIt := func(*http.Request) (*url.URL, error) { return url.Parse(inside.URL) }
	for _, c := range []struct {
		name    string
		allowed []string
		proxy   func(*http.Request) (*url.URL, error)
		address string
		want    bool
	}{
		{"address", nil, nil, inside.URL, false},
		{"name", nil, nil, "http://localhost" + port, false},
		{"allowed address", []string{inside.URL}, nil, inside.URL, true},
		{"allowed name", []string{"localhost"}, nil, "http://localhost" + port, true},
		{"allowed network", []string{"127.0.0.0/8"}, nil, inside.URL, true},
		{"redirect", []string{away.URL}, nil, away.URL, false},
		{"proxy to an inner address", nil, throughIt, "http://10.0.0.1/", false},
		{"proxy to an allowed address", []string{"10.0.0.1"}, throughIt, "http://10.0.0.1/", true},
	} {
		asked = 0
		err := get(policy(t, false, c.allowed...), c.proxy, c.address)
		if refused := new(outbound.RefusedError); (err == nil) != c.want || (asked == 1) != c.want ||
			err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v, asked %d times", c.name, err, asked)
		}
	}
	if err := get(policy(t, true), nil, inside.URL); err != nil {
		t.Errorf("loopback, allowed: %v", err)
	}
}
