package openai

import (
	"net/http"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/wire"
)

// events writes server-sent events, and comments while there are none. A write that fails
// also ends the context of the request, so that no caller has to look at its error.
type events struct {
	w       http.ResponseWriter
	mu      sync.Mutex
	silence *time.Timer // nil: the stream has ended
}

// keepAlive is the time without an event after which a comment is sent: models think, code
// runs, and proxies close idle connections.
const keepAlive = 15 * time.Second

// sendHeaders sends the headers. The zero value has not begun.
func (e *events) sendHeaders(w http.ResponseWriter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w, e.silence = w, time.AfterFunc(keepAlive, func() { e.write([]byte(": keep-alive\n\n")) })
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

func (e *events) write(text []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silence == nil {
		return
	}
	if _, err := e.w.Write(text); err == nil {
		_ = http.NewResponseController(e.w).Flush()
	}
	e.silence.Reset(keepAlive)
}

// send sends an event. Events of chat completions have no name.
func (e *events) send(name string, body any) {
	var line []byte
	if name != "" {
		line = append(append(append(line, "event: "...), name...), '\n')
	}
	e.write(append(wire.AppendASCII(append(line, "data: "...), encode(body)), "\n\n"...))
}

// end writes last, and ends the comments.
func (e *events) end(last string) {
	e.write([]byte(last))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silence.Stop()
	e.silence = nil
}
