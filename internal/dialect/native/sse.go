package native

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	keepAlive   = 15 * time.Second // proxies cut a silent stream at 30 or 60
	cancelLimit = 30 * time.Second // for the engine to end a run whose client left
)

// streamRun starts a run and sends its events. If the client leaves before
// the result, the run is cancelled, unless it has a key under which the client
// can come back for it.
func (a *api) streamRun(w http.ResponseWriter, r *http.Request, caller engine.Caller, req engine.RunRequest) error {
	req.Attended = true
	run, err := a.engine.Start(r.Context(), caller, req)
	if err != nil {
		return err
	}
	w.Header().Set("Location", a.Prefix+"/runs/"+run.ID.String())
	events, err := a.engine.Watch(r.Context(), caller, run.ID, 0)
	finished := false
	if err == nil {
		finished, err = sendEvents(w, r, events)
	}
	if !finished && req.IdempotencyKey == "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), cancelLimit)
		defer cancel()
		if cancelErr := a.engine.CancelRun(ctx, caller, run.ID); cancelErr != nil && engine.KindOf(cancelErr) != engine.ErrNotFound {
			a.Log.ErrorContext(ctx, "cancel a run whose client left", "run", run.ID, "err", cancelErr)
		}
	}
	return err
}

// sendEvents answers with an event stream and reports whether the result went
// out. From its first byte on nothing else can be answered, so errors of the
// connection end it silently.
func sendEvents(w http.ResponseWriter, r *http.Request, events iter.Seq[engine.Event]) (finished bool, err error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if out.Flush() != nil {
		return false, nil
	}

	next, stop := wire.Follow(r.Context(), events, 0)
	defer stop()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	var frame []byte
	for {
		frame = frame[:0]
		var last bool
		select {
		case <-r.Context().Done():
			return false, nil
		case <-tick.C:
			frame = append(frame, ": keep-alive\n\n"...)
		case e, more := <-next:
			if !more {
				return false, nil
			}
			frame = appendEvent(frame, e)
			last = e.Type == engine.EventResult
		}
		if _, err := w.Write(frame); err != nil {
			return false, nil
		}
		if out.Flush() != nil || last {
			return last, nil
		}
	}
}

// appendEvent writes one event in the framing of Server-Sent Events. The data
// is one line of ASCII: line readers differ in whether U+0085, U+2028 and
// U+2029 end a line, and a program that prints "\n\nevent: result" must not
// be able to forge one.
func appendEvent(b []byte, e engine.Event) []byte {
	var data any
	switch e.Type {
	case engine.EventOutput:
		data = outputBody{Stream: e.Stream, Data: e.Data}
	default:
		data = runOf(e.Run)
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
	if bytes.IndexByte(text, 0x7f) >= 0 { // the one in ASCII that is not printed
		text = bytes.ReplaceAll(text, []byte{0x7f}, []byte(`\u007f`))
	}
	b = wire.AppendASCII(b, text)
	return append(b, "\n\n"...)
}
