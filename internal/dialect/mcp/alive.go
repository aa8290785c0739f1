package mcp

import (
	"maps"
	"net/http"
	"sync"
	"time"
)

// Clients and proxies give up an answer that does not begin (after 60 s, some),
// or that stands still. The SDK sends its headers with the first event.
const (
	firstComment = 3 * time.Second
	nextComment  = 15 * time.Second
)

// aliveWriter sends a comment of server-sent events when nothing else was sent
// for a while.
type aliveWriter struct {
	http.ResponseWriter
	header http.Header // the handler's own: it may write to it while a comment begins the answer
	next   time.Duration

	mu    sync.Mutex
	begun bool
	ended bool
	timer *time.Timer
}

func keepAlive(w http.ResponseWriter, first, next time.Duration) *aliveWriter {
	a := &aliveWriter{ResponseWriter: w, header: http.Header{}, next: next}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(first, a.comment)
	return a
}

func (a *aliveWriter) comment() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if !a.begun {
		a.start(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"},
			"Cache-Control": {"no-cache, no-transform"}})
	}
	if _, err := a.ResponseWriter.Write([]byte(": ok\n\n")); err == nil {
		_ = http.NewResponseController(a.ResponseWriter).Flush() // a client that left is noticed by the handler
	}
	a.timer.Reset(a.next)
}

func (a *aliveWriter) start(status int, header http.Header) {
	if a.begun {
		return // what is late is said in the stream
	}
	a.begun = true
	maps.Copy(a.ResponseWriter.Header(), header)
	a.ResponseWriter.WriteHeader(status)
}

// Header implements http.ResponseWriter.
func (a *aliveWriter) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *aliveWriter) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start(status, a.header)
}

// Write implements http.ResponseWriter.
func (a *aliveWriter) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start(http.StatusOK, a.header)
	a.timer.Reset(a.next)
	return a.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (a *aliveWriter) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start(http.StatusOK, a.header)
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (a *aliveWriter) Flush() { _ = a.FlushError() }

// stop ends the comments. None is on its way when it returns.
func (a *aliveWriter) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.timer.Stop()
}
