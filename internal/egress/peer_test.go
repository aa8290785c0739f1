package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// ways to a server: a tunnel with TLS of which nothing is seen, the same inspected, plain requests to the proxy, and
// plain requests in a tunnel.
var ways = []string{"tunnel", "inspected", "request", "plain tunnel"}

// reach returns a connection on which requests for good.test can be made, and what comes before their path.
func reach(t *testing.T, way string, w waits, change func(*engine.Grant)) (r *rig, c net.Conn, prefix string) {
	t.Helper()
	secure := serveHTTPS(t)
	port := secure.port
	if strings.Contains(way, "request") || strings.Contains(way, "plain") {
		port = serveHTTP(t)
	}
	rule := "good.test:" + port
	if way == "inspected" {
		rule = "https://good.test:" + port + "/v1/*"
	}
	grant := grantOf(t, rule)
	change(&grant)
	r = newRigWith(t, w, grant, secure)
	if way == "request" {
		return r, r.dial(), "http://good.test:" + port
	}
	c, line := r.connect("good.test:" + port)
	if !strings.Contains(line, "200") {
		t.Fatal(line)
	}
	if way == "plain tunnel" {
		return r, c, ""
	}
	inside := tls.Client(c, &tls.Config{ServerName: "good.test", RootCAs: r.roots, MinVersion: tls.VersionTLS12})
	if err := inside.Handshake(); err != nil {
		t.Fatal(err)
	}
	return r, inside, ""
}

// ask makes a request and reads the head of the answer. The port of the host is that of the tunnel.
func ask(t *testing.T, r *rig, c net.Conn, path string, header string) *http.Response {
	t.Helper()
	host := "good.test:" + r.port()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, host, header)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// port is that of the grant's first rule.
func (r *rig) port() string { return fmt.Sprint(r.grant.Allow[0].Port) }

// handshake is the header of a request for a WebSocket.
const handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// upgrade begins a WebSocket.
func upgrade(r *rig, c net.Conn, prefix string) {
	r.t.Helper()
	fmt.Fprintf(c, "GET %s/v1/socket HTTP/1.1\r\nHost: good.test:%s\r\n"+handshake+"\r\n", prefix, r.port())
	if line := r.answer(c); !strings.Contains(line, "101") {
		r.t.Fatal(line)
	}
}

// frame returns a frame of a client.
func frame(payload []byte) []byte {
	head := []byte{0x82, 0x80 | 127}
	head = binary.BigEndian.AppendUint64(head, uint64(len(payload)))
	switch n := len(payload); {
	case n < 126:
		head = []byte{0x82, 0x80 | byte(n)}
	case n < 1<<16:
		head = []byte{0x82, 0x80 | 126, byte(n >> 8), byte(n)}
	}
	return append(append(head, 0, 0, 0, 0), payload...)
}

func unchanged(*engine.Grant) {}

// A WebSocket passes in every way, in both directions, and is one line of the log with its bytes.
func TestWebSocket(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			r, c, prefix := reach(t, way, waits{headerTime, idleTime}, unchanged)
			upgrade(r, c, prefix)
			for i := range 3 {
				word := frame(bytes.Repeat([]byte("message"), []int{1, 30, 10_000}[i]))
				got := make([]byte, len(word))
				go func() { _, _ = c.Write(word) }()
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, word) {
					t.Fatalf("%q %v", got, err)
				}
			}
			c.Close()
			for _, line := range r.audit() {
				if line.Verdict == engine.VerdictAllowed && line.Host == "good.test" && line.Received > 30 {
					return
				}
			}
			t.Errorf("%+v", r.contacts)
		})
	}
}

// An answer passes that begins before the request has ended.
func TestEarlyAnswer(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			r, c, prefix := reach(t, way, waits{headerTime, idleTime}, unchanged)
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprintf(c, "POST %s/v1/early HTTP/1.1\r\nHost: good.test:%s\r\nContent-Length: 10\r\n\r\nfirst",
				prefix, r.port())
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			part := make([]byte, 5)
			if _, err := io.ReadFull(response.Body, part); err != nil || string(part) != "first" {
				t.Fatalf("%q %v", part, err)
			}
			_, _ = io.WriteString(c, " then")
			if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != " then" {
				t.Errorf("%q %v", rest, err)
			}
		})
	}
}

// A WebSocket counts against the bytes of its run, after the upgrade too.
func TestWebSocketBytes(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			r, c, prefix := reach(t, way, waits{headerTime, idleTime}, func(g *engine.Grant) { g.MaxBytes = 1 << 20 })
			upgrade(r, c, prefix)
			piece, total := frame(make([]byte, 16<<10)), 0
			for range 1000 {
				n, err := c.Write(piece)
				if err == nil {
					_, err = io.ReadFull(c, piece)
				}
				if total += n; err != nil {
					break
				}
			}
			if total > 1<<20 {
				t.Errorf("%d bytes passed", total)
			}
			if list := r.refusals(); len(list) != 1 || !strings.Contains(list[0], "used up the bytes") {
				t.Errorf("%q %+v", list, r.contacts)
			}
		})
	}
}

// A file of 10 GB ends where the bytes of the run do, and the process holds none of it.
func TestLargeDownload(t *testing.T) {
	const most = 192 << 20
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			r, c, prefix := reach(t, way, waits{headerTime, idleTime}, func(g *engine.Grant) { g.MaxBytes = most })
			_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			response := ask(t, r, c, prefix+largePath, "")
			if response.ContentLength != largeSize {
				t.Fatalf("%+v", response)
			}
			n, err := io.Copy(io.Discard, response.Body)
			runtime.ReadMemStats(&after)
			if err == nil || n > most || n < most/2 {
				t.Errorf("%d bytes came, and then %v", n, err)
			}
			if grown := int64(after.Sys) - int64(before.Sys); grown > most/2 {
				t.Errorf("the process grew by %d bytes", grown)
			}
			if list := r.refusals(); len(list) != 1 || !strings.Contains(list[0], "used up the bytes") {
				t.Errorf("%q %+v", list, r.contacts)
			}
		})
	}
}

// ended reports whether the proxy ends a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection goes on")
	}
}

// A program that does not say what it wants is not waited for.
func TestSlowPrograms(t *testing.T) {
	short := waits{header: 200 * time.Millisecond, idle: time.Hour}
	for name, said := range map[string]string{
		"nothing": "", "half a line": "CONNECT good", "half a header": "GET http://good.test:80/ HTTP/1.1\r\nHost: go",
		"SOCKS, half":       "\x05\x01",
		"SOCKS, no request": "\x05\x01\x00", "SOCKS, half a request": "\x05\x01\x00\x05\x01\x00\x03\x09go",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, short, grantOf(t, "good.test:80"))
			c := r.dial()
			_, _ = io.WriteString(c, said)
			ended(t, c)
		})
	}
	t.Run("a tunnel and no hello", func(t *testing.T) {
		secure := serveHTTPS(t)
		r := newRigWith(t, short, grantOf(t, "https://good.test:"+secure.port+"/v1/*"), secure)
		c, line := r.connect("good.test:" + secure.port)
		if !strings.Contains(line, "200") {
			t.Fatal(line)
		}
		ended(t, c)
	})
}

// A server that says nothing is not waited for without end, and neither is a program that does not read.
func TestSilentPeers(t *testing.T) {
	short := waits{header: time.Minute, idle: 300 * time.Millisecond}
	for _, way := range ways {
		t.Run("silent server, "+way, func(t *testing.T) {
			r, c, prefix := reach(t, way, short, unchanged)
			fmt.Fprintf(c, "GET %s/v1/never HTTP/1.1\r\nHost: good.test:%s\r\n\r\n", prefix, r.port())
			if way == "tunnel" {
				ended(t, c)
			} else {
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				if line := r.answer(c); !strings.Contains(line, "502") {
					t.Errorf("%q", line)
				}
			}
			idle(t, r)
		})
		t.Run("program that does not read, "+way, func(t *testing.T) {
			r, c, prefix := reach(t, way, short, unchanged)
			fmt.Fprintf(c, "GET %s%s HTTP/1.1\r\nHost: good.test:%s\r\n\r\n", prefix, largePath, r.port())
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			for range 600 { // a minute
				if r.open() == 0 {
					return
				}
				<-time.After(100 * time.Millisecond)
			}
			t.Error("the connection goes on")
		})
	}
}

// idle wants a line that says why a connection ended.
func idle(t *testing.T, r *rig) {
	t.Helper()
	for _, line := range r.audit() {
		if line.Verdict == engine.VerdictFailed && strings.Contains(line.Reason, "idle") {
			return
		}
	}
	t.Errorf("%+v", r.contacts)
}

// The rules of a run hold for each request of a connection, and its answers do not show the
// operator's headers: nothing but a WebSocket follows an upgrade.
func TestOtherProtocols(t *testing.T) {
	for _, way := range ways[1:] { // of a tunnel with TLS nothing is seen
		for what, request := range map[string]string{
			"h2c": "GET %s/v1/x HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n" +
				"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
			"foo":          "GET %s/v1/x HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: foo\r\n",
			"two":          "GET %s/v1/x HTTP/1.1\r\n" + strings.Replace(handshake, "websocket", "websocket, foo", 1),
			"another":      "GET %s/v1/x HTTP/1.1\r\n" + strings.Replace(handshake, "websocket", "foo", 1),
			"no key":       "GET %s/v1/x HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
			"POST":         "POST %s/v1/x HTTP/1.1\r\n" + handshake,
			"TRACE":        "TRACE %s/v1/x HTTP/1.1\r\n",
			"TRACK":        "TRACK %s/v1/x HTTP/1.1\r\n",
			"small":        "track %s/v1/x HTTP/1.1\r\n",
			"no WebSocket": "GET %s/v1/other HTTP/1.1\r\n" + handshake,
		} {
			if way == "plain tunnel" && strings.HasPrefix(strings.ToUpper(request), "TRACK") {
				continue // on a port that a rule names it is like any other protocol
			}
			r, c, prefix := reach(t, way, waits{headerTime, idleTime}, unchanged)
			fmt.Fprintf(c, request+"Host: good.test:%s\r\n\r\n", prefix, r.port())
			if line := r.answer(c); !strings.Contains(line, " 403 ") {
				t.Errorf("%s, %s: %q", way, what, line)
			}
			if got := r.refusals(); len(got) != 1 {
				t.Errorf("%s, %s: refusals %q", way, what, got)
			}
		}
		for what, text := range map[string]string{
			"a request": "GET /v2/secret HTTP/1.1\r\nHost: good.test\r\n\r\n", "a frame without a mask": "\x81\x02ab",
			"an unknown frame": "\x87\x80\x00\x00\x00\x00",
		} {
			r, c, prefix := reach(t, way, waits{headerTime, idleTime}, unchanged)
			upgrade(r, c, prefix)
			_, _ = io.WriteString(c, text)
			if n, _ := c.Read(make([]byte, 100)); n != 0 {
				t.Errorf("%s, after a WebSocket, %s was answered", way, what)
			}
			if got := r.refusals(); len(got) != 1 || !strings.Contains(got[0], "not a frame") {
				t.Errorf("%s, after a WebSocket, %s: refusals %q", way, what, got)
			}
		}
	}
	r, c, _ := reach(t, "inspected", waits{headerTime, idleTime}, unchanged)
	fmt.Fprintf(c, "CONNECT /v1/x HTTP/1.1\r\nHost: good.test:%s\r\n\r\n", r.port()) // at a path that a rule allows
	if line := r.answer(c); !strings.Contains(line, " 403 ") {
		t.Errorf("CONNECT in a tunnel: %q", line)
	}
	if got := r.refusals(); len(got) != 1 || !strings.Contains(got[0], "CONNECT is not allowed") {
		t.Errorf("CONNECT in a tunnel: refusals %q", got)
	}
}
