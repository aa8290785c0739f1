package onyx

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// cancelLimit is how long the engine may take to end a run whose client left.
const cancelLimit = 30 * time.Second

// executeStream runs a program and sends its output as it comes. Whatever is
// wrong with the request is an ordinary answer; the stream begins when it is
// the run's turn.
func (a *api) executeStream(w http.ResponseWriter, r *http.Request) error {
	in, err := a.readExecute(w, r)
	if err != nil {
		return err
	}
	caller := a.Caller(r)
	req, err := a.prepare(r.Context(), caller, in)
	if err != nil {
		return err
	}
	count := a.meter.begin("execute_stream")
	req.Attended = true
	run, err := a.engine.Start(r.Context(), caller, req)
	if err == nil {
		if err = a.engine.AwaitTurn(r.Context(), caller, run.ID); errors.Is(err, engine.ErrCanceled) {
			a.cancel(r.Context(), caller, run.ID)
		}
	}
	if err != nil {
		count.end(nil, err)
		return a.runError(r.Context(), caller, in.files, err)
	}
	events, err := a.engine.Watch(r.Context(), caller, run.ID, 0)
	var result *engine.Run
	if err == nil {
		result = sendEvents(w, r, events)
	}
	count.end(result, err)
	if result == nil {
		a.cancel(r.Context(), caller, run.ID)
	}
	return err
}

// cancel ends a run whose client left.
func (a *api) cancel(ctx context.Context, caller engine.Caller, id engine.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer cancel()
	if err := a.engine.CancelRun(ctx, caller, id); err != nil && engine.KindOf(err) != engine.ErrNotFound {
		a.Log.ErrorContext(ctx, "cancel a run whose client left", "run", id, "err", err)
	}
}

// sendEvents answers with an event stream and returns the run that it ended
// with, nil if the client left before. From its first byte on nothing else can
// be answered, so errors of the connection end it silently.
func sendEvents(w http.ResponseWriter, r *http.Request, events iter.Seq[engine.Event]) *engine.Run {
	h := w.Header()
	// Without the charset a client takes the text for Latin-1.
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	if h.Get("Connection") == "" {
		h.Set("Connection", "keep-alive")
	}
	w.WriteHeader(http.StatusOK)
	var result *engine.Run
	finished := wire.Send(w, r, events, 0, func(b []byte, e engine.Event) ([]byte, bool) {
		result = e.Run
		return appendEvent(b, e), e.Type == engine.EventResult
	})
	if !finished {
		return nil
	}
	return result
}

// appendEvent writes one event as the frames that a client of Onyx knows.
func appendEvent(b []byte, e engine.Event) []byte {
	switch e.Type {
	case engine.EventOutput:
		return wire.AppendFrame(b, "output", wire.EncodePlain(outputEvent{e.Stream, e.Data}))
	case engine.EventResult:
		run := e.Run
		if run.Status == engine.StatusInterrupted {
			return wire.AppendFrame(b, "error", wire.EncodePlain(errorEvent{run.Message}))
		}
		if text := explanation(run); text != "" {
			b = wire.AppendFrame(b, "output", wire.EncodePlain(outputEvent{engine.Stderr, text}))
		}
		return wire.AppendFrame(b, "result", wire.EncodePlain(resultEvent{
			ExitCode: exitCode(run), TimedOut: run.Status == engine.StatusTimeout,
			Duration: run.Duration.Milliseconds(), Files: filesOf(run),
		}))
	}
	return b
}
