package httpd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAhead sends requests. Requests to /api/v1/x register a function for the next request
// with the same line.
func TestAhead(t *testing.T) {
	var done atomic.Int32
	_, address := start(t, Options{Mounts: []Mount{{Prefix: "/api/v1", Public: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.RequestURI == "/api/v1/x" {
				Ahead(r, func() { done.Add(1) })
			}
			fmt.Fprint(w, done.Load())
		})}}})
	type client struct {
		net.Conn
		*bufio.Reader
	}
	dial := func() client {
		c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return client{c, bufio.NewReader(c)}
	}
	one, other := dial(), dial()
	for i, step := range []struct {
		client
		line, want string
	}{
		{one, "POST /api/v1/x", "0"},
		{one, "POST /api/v1/x", "1"},
		{other, "POST /api/v1/x", "1"},
		{one, "GET /api/v1/x", "1"},
		{one, "POST /api/v1/x", "1"},
		{one, "POST /api/v1/xy", "1"},
		{one, "POST /api/v1/x", "2"},
	} {
		fmt.Fprintf(step.Conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", step.line)
		response, err := http.ReadResponse(step.Reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != step.want {
			t.Errorf("request %d, %s: %s done, want %s", i, step.line, body, step.want)
		}
	}
}
