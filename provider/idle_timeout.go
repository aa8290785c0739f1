package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// idleTimeoutTransport cancels a request that makes no progress: an upload that is not
// read, an answer that does not come, a body that brings nothing. A request that makes
// progress may take any time.
type idleTimeoutTransport struct {
	next http.RoundTripper
	t    Timeouts
}

// errIdle is the cause of a request cancelled for lack of progress.
var errIdle = errors.New("nothing moved for too long")

// RoundTrip implements http.RoundTripper.
func (a idleTimeoutTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	w := &watch{stop: cancel}
	r = r.Clone(ctx)
	if r.Body != nil && r.Body != http.NoBody && (r.ContentLength <= 0 || r.ContentLength > smallBody) {
		// Between two reads of the body the network has it. A small one is left as it is:
		// of a reader that it does not know net/http sends headers and body apart.
		r.Body = &sentBody{body: r.Body, w: w, idle: a.t.Idle, answer: a.answerWithin(r)}
	}
	w.wait(a.answerWithin(r))
	resp, err := a.next.RoundTrip(r)
	w.answer()
	if err != nil {
		silent := w.silent()
		cancel()
		if silent {
			err = errIdle
		}
		return nil, err
	}
	after := a.t.Idle
	if strings.Contains(resp.Header.Get("Content-Type"), "event-stream") {
		after = a.t.Silence
	}
	// A body that nobody reads at the moment is not silent: only a Read waits.
	resp.Body = &receivedBody{body: resp.Body, w: w, after: after}
	return resp, nil
}

// smallBody is sent in one piece: a peer that does not take it does not answer either.
const smallBody = 32 << 10

// answerWithin is how long the answer may take to begin. What is asked of a model
// takes its time; everything else is a look-up.
func (a idleTimeoutTransport) answerWithin(r *http.Request) time.Duration {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodDelete {
		return a.t.Idle
	}
	return a.t.Silence
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (a idleTimeoutTransport) CloseIdleConnections() {
	if c, ok := a.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// watch is one timer, which ends the request.
type watch struct {
	stop     context.CancelFunc
	mu       sync.Mutex
	timer    *time.Timer
	answered bool
	fired    bool
	over     bool
}

// wait starts the timer anew.
func (w *watch) wait(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(d)
}

// sending is wait for the body of a request, which a server may leave unread once
// it has answered.
func (w *watch) sending(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.answered {
		w.set(d)
	}
}

// set is called with the lock held. 0 only stops the timer.
func (w *watch) set(d time.Duration) {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.over || d == 0 {
		return
	}
	w.timer = time.AfterFunc(d, func() {
		w.mu.Lock()
		w.fired = !w.over
		w.mu.Unlock()
		w.stop()
	})
}

// answer says that the answer has begun.
func (w *watch) answer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = true
	w.set(0)
}

// end stops the timer for good.
func (w *watch) end() {
	w.mu.Lock()
	w.over = true
	w.set(0)
	w.mu.Unlock()
	w.stop()
}

func (w *watch) silent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired
}

// sentBody is the body of a request: the network has it between two reads.
type sentBody struct {
	body         io.ReadCloser
	w            *watch
	idle, answer time.Duration
}

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	b.w.sending(0)
	n, err := b.body.Read(p)
	if err != nil {
		b.w.sending(b.answer) // all of it has been read
	} else {
		b.w.sending(b.idle)
	}
	return n, err
}

// Close implements io.Closer.
func (b *sentBody) Close() error { return b.body.Close() }

// receivedBody is the body of an answer.
type receivedBody struct {
	body  io.ReadCloser
	w     *watch
	after time.Duration
}

// Read implements io.Reader.
func (b *receivedBody) Read(p []byte) (int, error) {
	b.w.wait(b.after)
	n, err := b.body.Read(p)
	b.w.wait(0)
	if err != nil && !errors.Is(err, io.EOF) && b.w.silent() {
		err = errIdle
	}
	return n, err
}

// Close implements io.Closer.
func (b *receivedBody) Close() error {
	err := b.body.Close()
	b.w.end()
	return err
}
