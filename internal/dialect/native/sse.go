package native

import (
	"bytes"
	"context"
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
		finished = sendFrames(q, events, appendEvent)
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

// sendFrames answers with an event stream and reports whether the last event went
// out: add appends the frame of one, and says whether it is the last.
func sendFrames[E any](q *request, events iter.Seq[E], add func([]byte, E) ([]byte, bool)) (finished bool) {
	h := q.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx
	q.w.WriteHeader(http.StatusOK)
	return wire.Send(q.w, q.Request, events, keepAlive, add)
}

func appendEvent(b []byte, e engine.Event) (frame []byte, last bool) {
	var data any
	switch e.Type {
	case engine.EventOutput:
		data = outputBody{Stream: e.Stream, Data: e.Data}
	default:
		data = runOf(e.Run)
	}
	return appendFrame(b, strconv.Itoa(e.Seq), string(e.Type), data), e.Type == engine.EventResult
}

// appendFrame writes one event; one without an id cannot be resumed at.
func appendFrame(b []byte, id, event string, data any) []byte {
	text := wire.Encode(data)
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	if bytes.IndexByte(text, 0x7f) >= 0 { // the one in ASCII that is not printed
		text = bytes.ReplaceAll(text, []byte{0x7f}, []byte(`\u007f`))
	}
	return wire.AppendFrame(b, event, text)
}

type outputBody struct {
	Stream engine.Stream `json:"stream"`
	Data   string        `json:"data"`
}
