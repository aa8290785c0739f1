package httpd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dialFrom connects from one of this machine's addresses.
func dialFrom(t *testing.T, from, address string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// ask sends a request and returns the status of its answer, or 0.
func ask(conn net.Conn, path, key string) int {
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n\r\n", path, key)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// counts returns the numbers of connections that a gate counts: all, and of an address those
// without a caller.
func (g *gate) counts(from string) (all, strange int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if of := g.addresses[network(netip.MustParseAddr(from))]; of != nil {
		strange = of.count
	}
	return len(g.open), strange
}

// Whoever sends half a header on more connections than there may be closes their own, not those
// of others: from one address, from many, and with a key.
func TestHalfHeaders(t *testing.T) {
	const most, half = 64, "GET /ready HTTP/1.1\r\nHost: loc"
	for name, attack := range map[string]func(t *testing.T, address string){
		"one address": func(t *testing.T, address string) {
			for range 3 * most {
				_, _ = io.WriteString(dialFrom(t, "127.0.0.2", address), half)
			}
		},
		"many addresses": func(t *testing.T, address string) {
			for i := range 3 * most {
				_, _ = io.WriteString(dialFrom(t, fmt.Sprint("127.0.0.", 2+i%8), address), half)
			}
		},
		"a caller": func(t *testing.T, address string) {
			for range 3 * most {
				conn := dialFrom(t, "127.0.0.2", address)
				if status := ask(conn, "/api/v1/x", aliceKey); status != http.StatusOK {
					t.Fatalf("status %d", status)
				}
				_, _ = io.WriteString(conn, half)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, address := start(t, Options{Engine: &fakeEngine{hasKeys: true}, MaxConns: most, Rate: 1e6,
				Timeouts: Timeouts{Header: time.Hour}})
			attack(t, address)
			for i := range most / 4 {
				if status := ask(dialFrom(t, "127.0.0.1", address), "/api/v1/x", adminKey); status != http.StatusOK {
					t.Fatalf("another caller's request %d: %d", i, status)
				}
			}
			all, strange := s.gate.counts("127.0.0.2")
			if all > most || strange > most/4 {
				t.Errorf("%d connections, %d of an address without a caller", all, strange)
			}
		})
	}
}

// Connections that became another protocol count until they are closed, for their address until
// somebody was authenticated on them.
func TestUpgradesAreCounted(t *testing.T) {
	held := make(chan net.Conn, 64)
	upgrade := func(known bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if known { // the handler has authenticated by itself
				Authenticated(r.Context())
			}
			w.Header().Set("Upgrade", "x")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			held <- conn
		})
	}
	s, address := start(t, Options{Engine: &fakeEngine{hasKeys: true}, MaxConns: 64, Mounts: []Mount{
		{Prefix: "/open", Public: true, Handler: upgrade(false)}, {Prefix: "/known", Public: true, Handler: upgrade(true)}}})
	upgraded := func(path string, times int) (n int) {
		for range times {
			if ask(dialFrom(t, "127.0.0.2", address), path, "") == http.StatusSwitchingProtocols {
				n++
			}
		}
		return n
	}
	if n := upgraded("/open", 40); n != 16 {
		t.Errorf("%d of one address, without a caller", n)
	}
	if n := upgraded("/known", 8); n != 0 {
		t.Errorf("%d more, before they were authenticated", n)
	}
	all, strange := s.gate.counts("127.0.0.2")
	for range 8 {
		(<-held).Close()
	}
	if less, fewer := s.gate.counts("127.0.0.2"); all != 16 || strange != 16 || less != 8 || fewer != 8 {
		t.Errorf("%d counted, %d of the address; after 8 were closed %d and %d", all, strange, less, fewer)
	}
	if n := upgraded("/known", 40); n != 40 {
		t.Errorf("%d with a caller", n)
	}
	if all, strange = s.gate.counts("127.0.0.2"); all != 48 || strange != 8 {
		t.Errorf("%d counted, %d of the address", all, strange)
	}
	for range len(held) {
		(<-held).Close()
	}
}

// A network of IPv6 that one line has counts as one address.
func TestNetworkOfAddress(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "2001:db8:0:1:2::3": "2001:db8:0:1::/64", "": "invalid Prefix",
	} {
		a, _ := netip.ParseAddr(address)
		if got := network(a).String(); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
}

// Other callers, however many, do not give back what a caller has used up.
func TestRateOfManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRateLimit(1, 8)
		spend := func(caller string) (n int) {
			for l.bucket(caller).Allow() {
				n++
			}
			return n
		}
		if n := spend("owner x"); n != 2 {
			t.Errorf("a burst of %d", n)
		}
		for i := range 3 * maxCallers {
			spend(fmt.Sprint(byAddress, i))
		}
		if n := spend("owner x"); n != 0 {
			t.Errorf("after many addresses: %d more", n)
		}
		if len(l.callers) > maxCallers+2 || l.recent.Len() != len(l.callers) {
			t.Errorf("%d callers are remembered", len(l.callers))
		}
		for i := range 3 * maxCallers {
			spend(fmt.Sprint("owner ", i))
		}
		if n := spend("owner x"); n != 0 {
			t.Errorf("after many owners: %d more", n)
		}
		busy := l.bucket("owner busy")
		busy.open.Add(1)
		time.Sleep(2 * time.Second)
		if n := spend("owner x"); n != 2 {
			t.Errorf("two seconds later: %d", n)
		}
		time.Sleep(time.Hour)
		for i := range 6 * maxCallers {
			spend(fmt.Sprint(byAddress, "of late ", i))
		}
		if l.bucket("owner busy") != busy {
			t.Error("a caller with a request in progress is forgotten")
		}
	})
}
