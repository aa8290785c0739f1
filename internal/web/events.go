package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"io"
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
	return p.follow(w, v, id, after)
}

// follow answers with the events of a run after one of them: started, output and result,
// and then the list of the latest runs. None of it needs another request.
func (p *runPage) follow(w http.ResponseWriter, v *webRequest, id engine.ID, after int) error {
	events, err := p.Engine.Watch(v.Context(), v.caller, id, after)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if p.stream(w, v, id, after, events) {
		_, _ = w.Write(p.appendRecent(nil, v))
		_ = out.Flush() // the visitor may be gone
	}
	return nil
}

// stream writes events until the result, or until the visitor leaves, and reports whether
// the result went out.
func (p *runPage) stream(
	w http.ResponseWriter, v *webRequest, id engine.ID, after int, events iter.Seq[engine.Event],
) (ended bool) {
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return false
	}
	next, stop := wire.Follow(v.Context(), events, 64)
	defer stop()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	var frame []byte
	for last := false; !last; {
		frame = frame[:0]
		select {
		case <-v.Context().Done():
			return false
		case <-tick.C:
			frame = append(frame, ": keep-alive\n\n"...)
		case e, more := <-next:
			if !more {
				// Of a run that was cut short less is kept than a watcher may
				// have seen. It has a result all the same.
				run, err := p.Engine.GetRun(v.Context(), v.caller, id)
				if err != nil || !run.Status.Final() {
					return false
				}
				e = engine.Event{Seq: after + 1, Type: engine.EventResult, Run: run}
			}
			frame, last = p.appendEvent(frame, v, e), e.Type == engine.EventResult
			// What is there already goes out together.
			for !last && len(next) > 0 && len(frame) < 128<<10 {
				e = <-next
				frame, last = p.appendEvent(frame, v, e), e.Type == engine.EventResult
			}
		}
		if _, err := w.Write(frame); err != nil || out.Flush() != nil {
			return false
		}
	}
	return true
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

// resultBody is how a run ended, with the part of its page that says so.
type resultBody struct {
	stateBody
	HTML string `json:"html"`
}

// appendEvent writes one event.
func (p *runPage) appendEvent(b []byte, v *webRequest, e engine.Event) []byte {
	var data any
	switch e.Type {
	case engine.EventOutput:
		data = outputBody{e.Stream, e.Data}
	case engine.EventStarted:
		data = stateBody{e.Run.Status, e.Run.Status.Words(), max(p.Now().Sub(e.Run.StartedAt).Milliseconds(), 0)}
	default:
		o := p.outcome(v, e.Run)
		p.inline(v, o.Files)
		data = resultBody{stateBody{e.Run.Status, outcomeWords(e.Run), e.Run.Duration.Milliseconds()},
			p.part(v, "result", &runView{Run: o})}
	}
	b = append(b, "id: "...)
	b = strconv.AppendInt(b, int64(e.Seq), 10)
	return appendData(append(b, '\n'), string(e.Type), data)
}

// appendRecent writes the list of the latest runs, the last thing that a stream has.
func (p *runPage) appendRecent(b []byte, v *webRequest) []byte {
	recent, _, err := p.history(v, "", engine.ID{}, recentRuns)
	if err != nil {
		p.Log.WarnContext(v.Context(), "recent runs", "err", err)
	}
	return appendData(b, "recent", struct {
		HTML string `json:"html"`
	}{p.part(v, "recent", &runView{Recent: recent})})
}

// appendData writes the type of an event and its data. JSON has no line breaks, so a
// program that prints "\n\nevent: result" cannot forge one.
func appendData(b []byte, kind string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // our own types
	}
	b = append(append(b, "event: "...), kind...)
	b = append(append(b, "\ndata: "...), text...)
	return append(b, "\n\n"...)
}

// part renders a part of the page.
func (p *runPage) part(v *webRequest, name string, body *runView) string {
	var text bytes.Buffer
	if err := p.execute(&text, "run", name, view{Token: p.signIns.token(v.cookie), Body: body}); err != nil {
		p.Log.ErrorContext(v.Context(), "render a part", "part", name, "err", err)
	}
	return text.String()
}

// inlined bounds the pictures that a result brings along, in bytes. Others are fetched.
const inlined = 512 << 10

// inline puts small pictures into the document itself.
func (p *runPage) inline(v *webRequest, files []fileView) {
	room := int64(inlined)
	for i := range files {
		f := &files[i]
		if f.Kind != "image" || f.Size > room {
			continue
		}
		room -= f.Size
		_, content, err := p.Engine.OpenFile(v.Context(), v.caller, f.ID)
		if err != nil {
			continue // its own address says why
		}
		raw, err := io.ReadAll(content)
		_ = content.Close()
		if err == nil {
			f.Inline = template.URL("data:" + safeType(f.MIME) + ";base64," + base64.StdEncoding.EncodeToString(raw)) //nolint:gosec // of an image's type
		}
	}
}
