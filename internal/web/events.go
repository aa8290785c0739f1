package web

import (
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// keepAlive is how long a stream of events stays silent: proxies cut one at 30
// or 60 seconds.
const keepAlive = 15 * time.Second

// events sends what a run does, as it does it. A browser that lost the
// connection comes back by itself and says which event was its last.
func (p *runPage) events(w http.ResponseWriter, v *webRequest) error {
	id, err := engine.ParseID(v.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	after := 0
	if last := v.Header.Get("Last-Event-ID"); last != "" {
		if after, err = strconv.Atoi(last); err != nil || after < 0 {
			return refuse(http.StatusBadRequest, "Last-Event-ID must be the number of an event.", "Load the page again.")
		}
	}
	events, err := p.runs.Watch(v.Context(), v.caller, id, after)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	p.stream(w, v, id, after, events)
	return nil
}

// stream writes events until the result, or until the visitor leaves.
func (p *runPage) stream(w http.ResponseWriter, v *webRequest, id engine.ID, after int, events iter.Seq[engine.Event]) {
	out := http.NewResponseController(w)
	if _, err := w.Write([]byte("retry: 500\n\n")); err != nil || out.Flush() != nil {
		return
	}
	next, stop := wire.Follow(v.Context(), events, 64)
	defer stop()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	var frame []byte
	for {
		frame = frame[:0]
		last := false
		select {
		case <-v.Context().Done():
			return
		case <-tick.C:
			frame = append(frame, ": keep-alive\n\n"...)
		case e, more := <-next:
			if !more {
				// Of a run that was cut short less is kept than a watcher may
				// have seen. It has a result all the same.
				run, err := p.runs.GetRun(v.Context(), v.caller, id)
				if err == nil && run.Status.Final() {
					frame = p.appendEvent(frame, v, engine.Event{Seq: after + 1, Type: engine.EventResult, Run: run})
					if _, err := w.Write(frame); err == nil {
						_ = out.Flush() // the visitor may be gone
					}
				}
				return
			}
			frame, last = p.appendEvent(frame, v, e), e.Type == engine.EventResult
			// What is there already goes out together.
			for !last && len(next) > 0 && len(frame) < 128<<10 {
				e = <-next
				frame, last = p.appendEvent(frame, v, e), e.Type == engine.EventResult
			}
		}
		if _, err := w.Write(frame); err != nil || out.Flush() != nil || last {
			return
		}
	}
}

// outputBody is text that a program printed.
type outputBody struct {
	Stream engine.Stream `json:"stream"`
	Data   string        `json:"data"`
}

// stateBody is how a run stands.
type stateBody struct {
	Status  engine.Status `json:"status"`
	Words   string        `json:"words"`
	Elapsed int64         `json:"elapsed_ms"`
}

// appendEvent writes one event. JSON has no line breaks, so a program that
// prints "\n\nevent: result" cannot forge one.
func (p *runPage) appendEvent(b []byte, v *webRequest, e engine.Event) []byte {
	var data any
	switch e.Type {
	case engine.EventOutput:
		data = outputBody{e.Stream, e.Data}
	case engine.EventStarted:
		data = stateBody{e.Run.Status, e.Run.Status.Words(), max(p.Now().Sub(e.Run.StartedAt).Milliseconds(), 0)}
	default:
		data = stateBody{e.Run.Status, outcomeWords(e.Run), e.Run.Duration.Milliseconds()}
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // our own types
	}
	b = append(b, "id: "...)
	b = strconv.AppendInt(b, int64(e.Seq), 10)
	b = append(b, "\nevent: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: "...)
	b = append(b, text...)
	return append(b, "\n\n"...)
}
