package native

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// What our answers have, and what a server in a session must not set.
var (
	ours    = []string{"Cross-Origin-Resource-Policy", "Referrer-Policy", "X-Content-Type-Options"}
	notBack = []string{"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Service-Worker-Allowed",
		"Content-Security-Policy", "Report-To", "Origin-Agent-Cluster", "Access-Control-Allow-Origin",
		"Access-Control-Max-Age"}
)

// behind serves something as the server of a session, and returns a client's view
// of the dialect in front of it.
func behind(t *testing.T, handler http.HandlerFunc) (front *httptest.Server, prefix string) {
	t.Helper()
	r, f := liveRig(t)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	f.serve = server.Listener.Addr().String()
	front = httptest.NewServer(http.StripPrefix("/api/v1", http.HandlerFunc(
		func(w http.ResponseWriter, req *http.Request) {
			for _, name := range ours { // as the front door does
				w.Header().Set(name, "ours")
			}
			r.handler.ServeHTTP(w, req)
		})))
	t.Cleanup(front.Close)
	return front, "/api/v1" + f.spell("/sessions/{id}/ports/{port}")
}

func TestPort(t *testing.T) {
	var seen *http.Request
	var body string
	front, prefix := behind(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		seen, body = r, string(text)
		h := w.Header()
		for _, name := range notBack {
			h.Set(name, "theirs")
		}
		h.Set("Location", "/next?x=1")
		h.Set("Hx-Target", "kept")
		h.Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "<script>")
	})
	req, err := http.NewRequestWithContext(t.Context(), "PATCH", front.URL+prefix+"/a%20b/c?q=1;2",
		strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "Referer"} {
		req.Header.Set(name, "secret")
	}
	req.Header.Set("Origin", front.URL)
	req.Header.Set("Hx-Target", "kept")
	resp, err := front.Client().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusTeapot || string(text) != "<script>" {
		t.Errorf("%d %q %v", resp.StatusCode, text, err)
	}
	if seen.Method != "PATCH" || seen.RequestURI != "/a%20b/c?q=1;2" || body != "text" || seen.Host != "localhost:8000" ||
		seen.Header.Get("Origin") != "http://localhost:8000" {
		t.Errorf("%s %s, host %s, body %q", seen.Method, seen.RequestURI, seen.Host, body)
	}
	for name, values := range seen.Header {
		if strings.Contains(strings.Join(values, " "), "secret") {
			t.Errorf("%s is passed on", name)
		}
	}
	if seen.Header.Get("Hx-Target") != "kept" || seen.Header.Get("X-Forwarded-Prefix") != prefix {
		t.Errorf("%v", seen.Header)
	}
	for name, values := range resp.Header {
		if strings.Contains(strings.Join(values, " "), "theirs") {
			t.Errorf("%s comes back", name)
		}
	}
	h := resp.Header
	policy := h.Get("Content-Security-Policy")
	if h.Get("Location") != prefix+"/next?x=1" || h.Get("Hx-Target") != "kept" || !strings.HasPrefix(policy, "sandbox ") ||
		strings.Contains(policy, "same-origin") ||
		!slices.Equal(h["Referrer-Policy"], []string{"no-referrer"}) ||
		!slices.Equal(h["X-Content-Type-Options"], []string{"nosniff"}) || h["Cross-Origin-Resource-Policy"] != nil {
		t.Errorf("%v", h)
	}
}

// TestPortOrigins checks which pages may use a server: those that it serves, whose
// origin is opaque, and no other site's.
func TestPortOrigins(t *testing.T) {
	front, prefix := behind(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	for _, c := range []struct {
		method, origin string
		status         int
		readable       string
	}{
		{"GET", "", 200, ""}, {"GET", front.URL, 200, ""}, {"POST", "null", 200, "null"}, {"OPTIONS", "null", 204, "null"},
		{"GET", "https://evil.example", 403, ""}, {"POST", "https://evil.example", 403, ""},
		{"OPTIONS", "https://evil.example", 403, ""}, {"GET", "::", 403, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, front.URL+prefix+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		req.Header.Set("Access-Control-Request-Method", "PUT")
		resp, err := front.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Access-Control-Allow-Origin"); resp.StatusCode != c.status || got != c.readable {
			t.Errorf("%s from %q: %d, readable by %q", c.method, c.origin, resp.StatusCode, got)
		}
	}
}

func TestPortWebSocket(t *testing.T) {
	front, prefix := behind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" || r.RequestURI != "/socket" {
			t.Errorf("%s %v", r.RequestURI, r.Header)
		}
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(both,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSet-Cookie: a=b\r\n\r\n")
		both.Flush()
		line, _ := both.ReadString('\n')
		fmt.Fprintf(conn, "you said %s", line)
	})
	ask := func(origin string) (*http.Response, net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s/socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Cookie: a=b\r\nOrigin: %s\r\n\r\n", prefix, front.Listener.Addr(), origin)
		from := bufio.NewReader(conn)
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp, conn, from
	}
	resp, conn, from := ask("null")
	defer conn.Close()
	if h := resp.Header; resp.StatusCode != 101 || h.Get("Set-Cookie") != "" || h.Get("Connection") != "Upgrade" {
		t.Errorf("%d %v", resp.StatusCode, h)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := from.ReadString('\n'); line != "you said hello\n" {
		t.Errorf("%q %v", line, err)
	}
	other, conn, _ := ask("https://evil.example")
	conn.Close()
	other.Body.Close()
	if other.StatusCode != 403 {
		t.Errorf("a foreign page gets %d", other.StatusCode)
	}
}

// TestPortNonsense checks what comes of a server that does not speak HTTP.
func TestPortNonsense(t *testing.T) {
	r, f := liveRig(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			fmt.Fprint(conn, "SSH-2.0-OpenSSH\r\n")
			conn.Close()
		}
	}()
	f.serve = listener.Addr().String()
	check(t, r.send("GET", f.spell("/sessions/{id}/ports/{port}/{path...}"), "", ""), 502, "bad_gateway")
}
