package web

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// events streams the events of a run. A browser that lost its connection reconnects with the
// number of its last event.
func (p *runPage) events(w http.ResponseWriter, v *page.Request) error {
	id, err := v.ID()
	if err != nil {
		return err
	}
	after := 0
	if last := v.Header.Get("Last-Event-ID"); last != "" {
		if after, err = strconv.Atoi(last); err != nil || after < 0 {
			return page.Refuse(http.StatusBadRequest, "Last-Event-ID must be the number of an event.", "Load the page again.")
		}
	}
	return p.follow(w, v, id, after)
}

// follow streams the events of a run after a number: started, output and result, and then
// the list of the latest runs, so that the page needs no other request.
func (p *runPage) follow(w http.ResponseWriter, v *page.Request, id engine.ID, after int) error {
	events, err := p.Engine.Watch(v.Context(), v.Caller, id, after)
	if err != nil {
		return err
	}
	page.StartEvents(w)
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
	if !page.WriteFrames(v.Context(), w, events, page.KeepAlive, frames, beat) {
		return nil
	}
	var rest []byte
	if !ended {
		// An interrupted run may have fewer events than a watcher has seen. It has a result
		// all the same.
		run, err := p.Engine.GetRun(v.Context(), v.Caller, id)
		if err != nil || !run.Status.Final() {
			return nil //nolint:nilerr // the browser connects again
		}
		rest = frames(rest, engine.Event{Seq: after + 1, Type: engine.EventResult, Run: run})
	}
	_, _ = w.Write(p.appendRecent(rest, v))
	_ = http.NewResponseController(w).Flush() // the visitor may have disconnected
	return nil
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
	Head string `json:"head"` // of the page
	HTML string `json:"html"`
}

// appendEvent writes one event.
func (p *runPage) appendEvent(b []byte, v *page.Request, e engine.Event) []byte {
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
			p.runPart(v, "run-head", &runView{Run: o}), p.runPart(v, "result", &runView{Run: o})}
	}
	return page.AppendData(fmt.Appendf(b, "id: %d\n", e.Seq), string(e.Type), data)
}

// appendRecent writes the list of the latest runs, which ends a stream.
func (p *runPage) appendRecent(b []byte, v *page.Request) []byte {
	recent, _, err := p.history(v, "", engine.ID{}, recentRuns)
	if err != nil {
		p.Log.WarnContext(v.Context(), "recent runs", "err", err)
	}
	return page.AppendData(b, "recent", struct {
		HTML string `json:"html"`
	}{p.runPart(v, "recent", &runView{Recent: recent})})
}

func (p *runPage) runPart(v *page.Request, name string, body *runView) string {
	return p.EventPart("run", name, page.View{Token: p.FormToken(v), Body: body})
}

// inlined bounds the pictures in a result, in bytes. The browser fetches others.
const inlined = 512 << 10

// inline puts small pictures into the document itself.
func (p *runPage) inline(v *page.Request, files []fileView) {
	room := int64(inlined)
	for i := range files {
		f := &files[i]
		if f.Kind != "image" || f.Size > room {
			continue
		}
		room -= f.Size
		_, content, err := p.Engine.OpenFile(v.Context(), v.Caller, f.ID)
		if err != nil {
			continue // the browser fetches it, and sees why
		}
		raw, err := io.ReadAll(content)
		_ = content.Close()
		if err == nil {
			f.Inline = template.URL("data:" + page.SafeType(f.MIME) + ";base64," + base64.StdEncoding.EncodeToString(raw)) //nolint:gosec // of an image's type
		}
	}
}
