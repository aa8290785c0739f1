package web

import (
	"context"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// keepAlive is how long a stream of events stays silent: proxies cut one off after 30 or 60
// seconds.
const keepAlive = 15 * time.Second

// events streams the events of a run. A browser that lost its connection reconnects with the
// number of its last event.
func (p *runPage) events(w http.ResponseWriter, v *webRequest) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	after := 0
	if last := v.Header.Get("Last-Event-ID"); last != "" {
		if after, err = strconv.Atoi(last); err != nil || after < 0 {
			return refuse(http.StatusBadRequest, "Last-Event-ID must be the number of an event.", "Load the page again.")
		}
	}
	return p.follow(w, v, id, after)
}

// follow streams the events of a run after a number: started, output and result, and then
// the list of the latest runs, so that the page needs no other request.
func (p *runPage) follow(w http.ResponseWriter, v *webRequest, id engine.ID, after int) error {
	events, err := p.Engine.Watch(v.Context(), v.caller, id, after)
	if err != nil {
		return err
	}
	startEvents(w)
	ended := false
	frames := func(b []byte, e engine.Event) []byte {
		ended = ended || e.Type == engine.EventResult
		return p.appendEvent(b, v, e)
	}
	beat := func(b []byte, idle bool) []byte {
		if idle {
			b = append(b, ": keep-alive\n\n"...)
		}
		return b
	}
	if !writeFrames(v.Context(), w, events, keepAlive, frames, beat) {
		return nil
	}
	var rest []byte
	if !ended {
		// An interrupted run may have fewer events than a watcher has seen. It has a result
		// all the same.
		run, err := p.Engine.GetRun(v.Context(), v.caller, id)
		if err != nil || !run.Status.Final() {
			return nil //nolint:nilerr // the browser connects again
		}
		rest = frames(rest, engine.Event{Seq: after + 1, Type: engine.EventResult, Run: run})
	}
	_, _ = w.Write(p.appendRecent(rest, v))
	_ = http.NewResponseController(w).Flush() // the visitor may have disconnected
	return nil
}

// writeFrames writes the frames of events, and reports whether it wrote all of them; else
// the visitor has left. Events that wait are sent together. flush adds to what is written;
// idle: the interval has passed.
func writeFrames[T any](
	ctx context.Context, w http.ResponseWriter, events iter.Seq[T], interval time.Duration,
	add func(frame []byte, e T) []byte, flush func(frame []byte, idle bool) []byte,
) (all bool) {
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return false
	}
	next, stop := wire.Follow(ctx, events, 256)
	defer stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var frame []byte
	for more, idle := true, false; more; frame, idle = frame[:0], false {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			idle = true
		case e, open := <-next:
			if more = open; open {
				frame = add(frame, e)
			}
			for more && len(next) > 0 && len(frame) < 128<<10 {
				frame = add(frame, <-next)
			}
		}
		if frame = flush(frame, idle); len(frame) == 0 {
			continue
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

// stateBody is the state of a run.
type stateBody struct {
	Status  engine.Status `json:"status"`
	Words   string        `json:"words"`
	Elapsed int64         `json:"elapsed_ms"`
}

// resultBody is the end of a run, with its part of the page.
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
			p.runPart(v, "result", &runView{Run: o})}
	}
	return appendData(fmt.Appendf(b, "id: %d\n", e.Seq), string(e.Type), data)
}

// appendRecent writes the list of the latest runs, which ends a stream.
func (p *runPage) appendRecent(b []byte, v *webRequest) []byte {
	recent, _, err := p.history(v, "", engine.ID{}, recentRuns)
	if err != nil {
		p.Log.WarnContext(v.Context(), "recent runs", "err", err)
	}
	return appendData(b, "recent", struct {
		HTML string `json:"html"`
	}{p.runPart(v, "recent", &runView{Recent: recent})})
}

func (p *runPage) runPart(v *webRequest, name string, body *runView) string {
	return p.eventPart("run", name, view{Token: p.signIns.token(v.cookie), Body: body})
}

// appendData writes the type of an event and its data.
func appendData(b []byte, kind string, data any) []byte {
	return wire.AppendFrame(b, kind, wire.Encode(data))
}

// startEvents answers with a stream of events.
func startEvents(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
}

// inlined bounds the pictures in a result, in bytes. The browser fetches others.
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
			continue // the browser fetches it, and sees why
		}
		raw, err := io.ReadAll(content)
		_ = content.Close()
		if err == nil {
			f.Inline = template.URL("data:" + safeType(f.MIME) + ";base64," + base64.StdEncoding.EncodeToString(raw)) //nolint:gosec // of an image's type
		}
	}
}
