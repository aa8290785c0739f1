package httpd

import (
	"io"
	"net/http"
	"time"
)

// progress cuts clients that keep a connection without using it. A deadline for a whole
// request would cut slow uploads and long runs, so each read and each write extends the
// deadline.
//
// A connection ends after a chunked body: if the request had a length too, and a proxy in
// front used that, the two would disagree where the next request begins. It ends as well
// after a request for another protocol, even a refused one: strictConn reads no further, so
// that a later request would not be checked.
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
			body.push() // also for the server, which drains the rest
			r = withBody(r, body)
		}
		next.ServeHTTP(w, r)
	})
}

// withBody returns a copy of a request with another body. It leaves the request as it is,
// because the server uses its body afterwards: its type tells whether the client waits for
// 100 Continue, and how much of it is left.
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
		// From here on the server reads, to notice a client that disconnects. An
		// expired deadline would look like one.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *idleBody) push() { _ = b.control.SetReadDeadline(time.Now().Add(b.idle)) }
