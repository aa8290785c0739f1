package openai

import (
	"net/http"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/wire"
)

// events writes server-sent events, and comments while there are none.
type events struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	mu   sync.Mutex
	tick *time.Ticker
	stop chan struct{}
	done sync.WaitGroup
	err  error // the client is gone
}

// keepAlive is after how much silence a comment is sent: models think, code runs, and
// proxies close what is silent.
const keepAlive = 15 * time.Second

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
				e.mu.Lock()
				e.write([]byte(": keep-alive\n\n"))
				e.mu.Unlock()
			}
		}
	})
}

// write writes and flushes. The caller holds mu.
func (e *events) write(text []byte) {
	if e.err == nil {
		if _, e.err = e.w.Write(text); e.err == nil {
			e.err = e.out.Flush()
		}
	}
}

// send sends an event; without a name it is one of chat completions.
func (e *events) send(name string, body any) error {
	var line []byte
	if name != "" {
		line = append(append(append(line, "event: "...), name...), '\n')
	}
	line = append(wire.AppendASCII(append(line, "data: "...), encode(body)), "\n\n"...)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tick.Reset(keepAlive)
	e.write(line)
	return e.err
}

// end writes what is left, if anything, and waits for the comments to end.
func (e *events) end(last string) {
	e.tick.Stop()
	close(e.stop)
	e.done.Wait()
	if last != "" {
		e.write([]byte(last))
	}
}
