package cli

import (
	"context"
	"io"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// queuedOutput is how much output waits for a slow reader, as less. Then the program waits too.
const queuedOutput = 4 << 20

// outputQueue writes output in a goroutine, in the order in which it came.
type outputQueue struct {
	mu      sync.Mutex
	changed sync.Cond
	pieces  []queuedPiece
	size    int
	err     error // of the first write that failed
	closed  bool
	failed  func() // called with err
	done    chan struct{}
}

type queuedPiece struct {
	to   io.Writer
	data []byte
}

func newOutputQueue(failed func()) *outputQueue {
	q := &outputQueue{failed: failed, done: make(chan struct{})}
	q.changed.L = &q.mu
	go q.run() // close waits for it
	return q
}

func (q *outputQueue) run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		for len(q.pieces) == 0 && !q.closed && q.err == nil {
			q.changed.Wait()
		}
		if len(q.pieces) == 0 || q.err != nil {
			q.mu.Unlock()
			return
		}
		p := q.pieces[0]
		q.pieces = q.pieces[1:]
		q.size -= len(p.data)
		q.changed.Broadcast()
		q.mu.Unlock()
		if _, err := p.to.Write(p.data); err != nil {
			q.fail(err)
		}
	}
}

func (q *outputQueue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
		q.failed()
	}
	q.changed.Broadcast()
}

// to returns a writer that queues what is for another one.
func (q *outputQueue) to(w io.Writer) io.Writer { return &queueWriter{q, w} }

type queueWriter struct {
	queue *outputQueue
	to    io.Writer
}

func (w *queueWriter) Write(p []byte) (int, error) {
	q := w.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size > queuedOutput && q.err == nil {
		q.changed.Wait()
	}
	if q.err != nil {
		return 0, q.err
	}
	q.pieces = append(q.pieces, queuedPiece{w.to, append([]byte(nil), p...)})
	q.size += len(p)
	q.changed.Broadcast()
	return len(p), nil
}

// close returns when all is written, or when ctx ends.
func (q *outputQueue) close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.changed.Broadcast()
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// excerpt passes on the beginning and the end of an output, with a line between them.
type excerpt struct {
	to      io.Writer
	capture *engine.Capture // nil: all of it
}

func newExcerpt(to io.Writer, most int) *excerpt {
	e := &excerpt{to: to}
	if most > 0 {
		e.capture = engine.NewCapture(engine.OutputLimit{Bytes: most, Marker: "\n[... %d bytes of output left out ...]\n"})
	}
	return e
}

func (e *excerpt) Write(p []byte) (int, error) {
	text := p
	if e.capture != nil {
		text = e.capture.Write(nil, p)
	}
	if _, err := e.to.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end passes on the end, and reports whether something is left out.
func (e *excerpt) end() (cut bool) {
	if e.capture == nil {
		return false
	}
	text, cut := e.capture.Finish(nil)
	_, _ = e.to.Write(text) // the queue has the error
	return cut
}
