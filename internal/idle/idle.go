// Package idle cancels HTTP requests that make no progress.
package idle

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Transport cancels a request that makes no progress: an upload that the server does not
// read, an answer that does not begin, a body without data. A request that makes progress may
// take any time.
type Transport struct {
	Next   http.RoundTripper
	Idle   time.Duration // without progress of a transfer, or until a look-up is answered
	Answer time.Duration // until other requests are answered, and between the events of a stream
}

// Err is the error of a request cancelled for lack of progress.
var Err = errors.New("nothing moved for too long")

// smallBody is sent in one piece: a server that does not read it does not answer either.
const smallBody = 32 << 10

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	answer := t.Answer
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodDelete {
		answer = t.Idle
	}
	w := &watch{ctx: ctx, cancel: cancel, timer: time.AfterFunc(answer, func() { cancel(Err) })}
	r = r.Clone(ctx)
	if r.Body != nil && r.Body != http.NoBody && (r.ContentLength <= 0 || r.ContentLength > smallBody) {
		// Between two reads the network has the body. A small body is not wrapped: net/http
		// sends headers and body apart if it does not know the reader.
		r.Body = &sentBody{ReadCloser: r.Body, w: w, idle: t.Idle, answer: answer}
	}
	resp, err := t.Next.RoundTrip(r)
	w.stopSending()
	if err != nil {
		err = w.explain(err)
		cancel(nil)
		return nil, err
	}
	idle := t.Idle
	if strings.Contains(resp.Header.Get("Content-Type"), "event-stream") {
		idle = t.Answer
	}
	resp.Body = &receivedBody{body: resp.Body, w: w, idle: idle}
	return resp, nil
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (t Transport) CloseIdleConnections() {
	if c, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Body returns a body whose Read fails with Err, and closes it, if it takes longer than the
// timeout.
func Body(body io.ReadCloser, timeout time.Duration) io.ReadCloser {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &receivedBody{body: body, idle: timeout, w: &watch{ctx: ctx, cancel: cancel,
		timer: time.AfterFunc(timeout, func() {
			cancel(Err)
			body.Close()
		})}}
}

// watch is the timer of a request.
type watch struct {
	ctx    context.Context //nolint:containedctx // of the request
	cancel context.CancelCauseFunc
	timer  *time.Timer

	mu       sync.Mutex
	answered bool // the server may leave the rest of the request unread
}

// sending restarts the timer while the request is sent; 0 only stops it.
func (w *watch) sending(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.answered:
	case d == 0:
		w.timer.Stop()
	default:
		w.timer.Reset(d)
	}
}

func (w *watch) stopSending() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = true
	w.timer.Stop()
}

// explain returns Err in place of an error that the timer caused.
func (w *watch) explain(err error) error {
	if errors.Is(context.Cause(w.ctx), Err) {
		return Err
	}
	return err
}

// sentBody is the body of a request. The timer runs between two reads.
type sentBody struct {
	io.ReadCloser
	w            *watch
	idle, answer time.Duration
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.w.sending(0)
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.w.sending(b.answer) // the body ended: now the server answers
	} else {
		b.w.sending(b.idle)
	}
	return n, err
}

// receivedBody is the body of an answer. The timer runs during a Read only: the reader may
// pause.
type receivedBody struct {
	body io.ReadCloser
	w    *watch
	idle time.Duration
}

func (b *receivedBody) Read(p []byte) (int, error) {
	b.w.timer.Reset(b.idle)
	n, err := b.body.Read(p)
	b.w.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.w.explain(err)
	}
	return n, err
}

func (b *receivedBody) Close() error {
	err := b.body.Close()
	b.w.timer.Stop()
	b.w.cancel(nil)
	return err
}
