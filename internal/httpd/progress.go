package httpd

import (
	"io"
	"net/http"
	"time"
)

// progress cuts peers that keep a connection without using it. A deadline for
// the whole of a request would cut slow but honest uploads and long runs, so
// each read and each write moves the deadline on.
//
// A connection ends with a body in chunks: if the request had a length too, and a
// proxy in front went by that, what follows is not what it thinks. It ends as well
// with a request for another protocol, granted or not: strictConn reads no further,
// so that a later request would go unchecked.
func progress(t Timeouts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := watch(w); v != nil {
			v.idle = t.WriteIdle
		}
		if _, upgrades := r.Header["Upgrade"]; upgrades || len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		if r.Body != nil && r.Body != http.NoBody {
			body := &idleBody{ReadCloser: r.Body, control: http.NewResponseController(w), idle: t.BodyIdle}
			body.push() // also for the server, which drains what the handler leaves
			r = withBody(r, body)
		}
		next.ServeHTTP(w, r)
	})
}

// withBody leaves the request as it is, because the server goes on to use it:
// from the type of its body it tells whether the client still waits to be
// asked for it, and how much is left of it.
func withBody(r *http.Request, body io.ReadCloser) *http.Request {
	other := *r
	other.Body = body
	return &other
}

type idleBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
}

func (b *idleBody) Read(p []byte) (int, error) {
	b.push()
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		// From here on the server itself reads, to learn whether the client
		// is still there. A deadline would look to it like a client that left.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *idleBody) push() { _ = b.control.SetReadDeadline(time.Now().Add(b.idle)) }
