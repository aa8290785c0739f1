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
func (q *request) streamRun(req engine.RunRequest) error {
	req.Attended = true
	run, err := q.engine.Start(q.Context(), q.caller, req)
	if err != nil {
		return err
	}
	q.w.Header().Set("Location", q.Prefix+"/runs/"+run.ID.String())
	events, err := q.engine.Watch(q.Context(), q.caller, run.ID, 0)
	finished := false
	if err == nil {
		finished, err = sendEvents(q.w, q.Request, events)
	}
	if !finished && req.IdempotencyKey == "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), cancelLimit)
		defer cancel()
		if cancelErr := q.engine.CancelRun(ctx, q.caller, run.ID); cancelErr != nil &&
			engine.KindOf(cancelErr) != engine.ErrNotFound {
			q.Log.ErrorContext(ctx, "cancel a run whose client left", "run", run.ID, "err", cancelErr)
		}
	}
	return err
}

// sendEvents answers with a run's events and reports whether the result went out.
func sendEvents(w http.ResponseWriter, r *http.Request, events iter.Seq[engine.Event]) (finished bool, err error) {
	return sendFrames(w, r, events, func(b []byte, e engine.Event) ([]byte, bool) {
		return appendEvent(b, e), e.Type == engine.EventResult
	})
}

// sendFrames answers with an event stream and reports whether the last event went
// out: add appends the frame of one, and says whether it is the last. From its
// first byte on nothing else can be answered, so errors of the connection end it
// silently.
func sendFrames[E any](
	w http.ResponseWriter, r *http.Request, events iter.Seq[E], add func([]byte, E) ([]byte, bool),
) (finished bool, err error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if out.Flush() != nil || r.Method == http.MethodHead {
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
			frame, last = add(frame, e)
		}
		if _, err := w.Write(frame); err != nil {
			return false, nil
		}
		if out.Flush() != nil || last {
			return last, nil
		}
	}
}

func appendEvent(b []byte, e engine.Event) []byte {
	var data any
	switch e.Type {
	case engine.EventOutput:
		data = outputBody{Stream: e.Stream, Data: e.Data}
	default:
		data = runOf(e.Run)
	}
	return appendFrame(b, strconv.Itoa(e.Seq), string(e.Type), data)
}

// appendFrame writes one event in the framing of Server-Sent Events; one without
// an id cannot be resumed at. The data is one line of ASCII: line readers differ in
// whether U+0085, U+2028 and U+2029 end a line, and a program that prints
// "\n\nevent: result" must not be able to forge one.
func appendFrame(b []byte, id, event string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // our own types
	}
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(b, "event: "...), event...)
	b = append(b, "\ndata: "...)
	if bytes.IndexByte(text, 0x7f) >= 0 { // the one in ASCII that is not printed
		text = bytes.ReplaceAll(text, []byte{0x7f}, []byte(`\u007f`))
	}
	b = wire.AppendASCII(b, text)
	return append(b, "\n\n"...)
}
