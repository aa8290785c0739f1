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
	w    http.ResponseWriter
	out  *http.ResponseController
	mu   sync.Mutex
	tick *time.Ticker
	stop chan struct{}
	done sync.WaitGroup
}

// keepAlive is the time without an event after which a comment is sent: models think, code
// runs, and proxies close idle connections.
const keepAlive = 15 * time.Second

// begin sends the headers. The zero value has not begun.
func (e *events) begin(w http.ResponseWriter) {
	e.w, e.out, e.stop, e.tick = w, http.NewResponseController(w), make(chan struct{}), time.NewTicker(keepAlive)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e.done.Go(func() {
		for {
			select {
			case <-e.stop:
				return
			case <-e.tick.C:
				e.write([]byte(": keep-alive\n\n"))
			}
		}
	})
}

func (e *events) write(text []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.w.Write(text); err == nil {
		_ = e.out.Flush()
	}
}

// send sends an event. Events of chat completions have no name.
func (e *events) send(name string, body any) {
	var line []byte
	if name != "" {
		line = append(append(append(line, "event: "...), name...), '\n')
	}
	e.tick.Reset(keepAlive)
	e.write(append(wire.AppendASCII(append(line, "data: "...), encode(body)), "\n\n"...))
}

// end waits for the comments to end, and writes last.
func (e *events) end(last string) {
	e.tick.Stop()
	close(e.stop)
	e.done.Wait()
	if last != "" {
		e.write([]byte(last))
	}
}
