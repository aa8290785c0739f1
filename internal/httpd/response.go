package httpd

import (
	"bufio"
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// response records the status and the route of an answer, and bounds the time of each write.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration // how long one write may wait for the client
	status  int           // 0: not written yet
	prefix  string        // of the mount that answered
	route   string        // the pattern in it
	stream  bool          // its end was not known when it began to be sent
	refused string        // why it did not get to a handler; empty: it did
	caller  engine.Caller // zero: not known
	sent    atomic.Int64  // bytes of the body, or of what a handler sends that has taken over the connection
}

// sendPiece bounds one sendfile, which would block for the whole file: the client has to
// read each piece in time.
const sendPiece = 256 << 10

func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.progress()
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	w.setStatus()
	w.progress()
	n, err := w.ResponseWriter.Write(p)
	w.sent.Add(int64(n))
	return n, err
}

func (w *response) FlushError() error {
	w.setStatus()
	w.stream = w.stream || w.Header().Get("Content-Length") == ""
	w.progress()
	return w.control.Flush()
}

// Flush is for callers that ask for an http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// ReadFrom lets http.ServeContent use sendfile.
func (w *response) ReadFrom(src io.Reader) (total int64, err error) {
	to, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	w.setStatus()
	rest := int64(1<<63 - 1)
	limited, nested := src.(*io.LimitedReader)
	if nested { // sendfile looks through one limit, not through two
		src, rest = limited.R, limited.N
	}
	for rest > 0 {
		w.progress()
		piece := min(rest, sendPiece)
		n, err := to.ReadFrom(&io.LimitedReader{R: src, N: piece})
		total, rest = total+n, rest-n
		w.sent.Add(n)
		if nested {
			limited.N -= n
		}
		if err != nil || n < piece {
			return total, err
		}
	}
	return total, nil
}

// Hijack lets a handler take over the connection. What it sends to a known caller counts.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := w.control.Hijack()
	if err != nil || w.caller.Owner == "" {
		return conn, buffered, err
	}
	counted := &sentConn{Conn: conn, sent: &w.sent}
	buffered.Writer.Reset(counted)
	return counted, buffered, nil
}

// sentConn counts what is written to it.
type sentConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c *sentConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

func (w *response) setStatus() {
	w.status = cmp.Or(w.status, http.StatusOK)
}

func (w *response) progress() {
	if w.idle > 0 {
		// Not every connection has deadlines (a recorder in a test has none).
		_ = w.control.SetWriteDeadline(time.Now().Add(w.idle))
	}
}

// sendFirst flushes an answer of known length once it is complete, so that the caller does
// not wait for logs and metrics.
func sendFirst(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if answered(w) && w.Header().Get("Content-Length") != "" {
			_ = http.NewResponseController(w).Flush() // fails if the client has disconnected
		}
	})
}

// watch returns the response that w is or wraps.
func watch(w http.ResponseWriter) *response {
	for {
		switch v := w.(type) {
		case *response:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}

func answered(w http.ResponseWriter) bool {
	v := watch(w)
	return v != nil && v.status != 0
}

// setRoute records which route of which mount answered.
func setRoute(w http.ResponseWriter, prefix, pattern string) {
	if v := watch(w); v != nil {
		v.prefix, v.route = prefix, pattern
	}
}

// protocol returns the first name in the prefix of the mount that answered, as "e2b": "native" for Airlock's own API,
// "root" without a prefix, "other" if no route answered.
func (w *response) protocol() string {
	name, _, _ := strings.Cut(strings.TrimLeft(w.prefix, "/."), "/")
	switch {
	case name == "api":
		return "native"
	case name == "" && w.route != "":
		return "root"
	}
	return cmp.Or(name, "other")
}

// name returns the route without its method, or "other" if no route answered.
func (w *response) name() string {
	route := w.route
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	if w.prefix+route == "" {
		return "other"
	}
	return w.prefix + route
}
