package page

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/wire"
)

// KeepAlive is how long a stream of events stays silent: proxies cut one off after 30 or 60
// seconds.
const KeepAlive = 15 * time.Second

// WriteFrames writes the frames of events, and reports whether it wrote all of them; else
// the visitor has left. Events that wait are sent together. flush adds to what is written;
// idle: the interval has passed.
func WriteFrames[T any](
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

// AppendData writes the type of an event and its data.
func AppendData(b []byte, kind string, data any) []byte {
	return wire.AppendFrame(b, kind, wire.Encode(data))
}

// StartEvents answers with a stream of events.
func StartEvents(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	w.WriteHeader(http.StatusOK)
}
