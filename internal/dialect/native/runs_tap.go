package native

import (
	"context"
	"encoding/base64"
	"iter"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// tap has the output of a run arrive at a channel, all of it, and as slowly as it is read.
func tap(ctx context.Context, req *engine.RunRequest) <-chan engine.Event {
	tapped := make(chan engine.Event)
	req.Profile.Output.Tap = func(stream engine.Stream, data []byte) {
		select {
		case tapped <- engine.Event{Type: engine.EventOutput, Stream: stream, Data: string(data)}:
		case <-ctx.Done(): // the client is gone, and the run is cancelled
		}
	}
	return tapped
}

// withAll yields the events of a run with all its output in place of the output that the run keeps.
func withAll(ctx context.Context, events iter.Seq[engine.Event], tapped <-chan engine.Event) iter.Seq[engine.Event] {
	return func(yield func(engine.Event) bool) {
		next, stop := wire.Follow(ctx, events, 0)
		defer stop()
		var output <-chan engine.Event // once the run has started
		for {
			select {
			case e := <-output:
				if !yield(e) {
					return
				}
			case e, more := <-next:
				if !more || e.Type != engine.EventOutput && !yield(e) {
					return
				}
				output = tapped
			}
		}
	}
}

// tappedBody is a piece of output as the program wrote it: text, or base64 if its bytes are not UTF-8.
type tappedBody struct {
	Stream engine.Stream `json:"stream"`
	Data   *string       `json:"data,omitempty"`
	Base64 *string       `json:"base64,omitempty"`
}

// appendTapped is appendEvent for a stream that cannot be resumed.
func appendTapped(b []byte, e engine.Event) (frame []byte, last bool) {
	if e.Type != engine.EventOutput {
		return appendFrame(b, "", string(e.Type), runOf(e.Run)), e.Type == engine.EventResult
	}
	body := tappedBody{Stream: e.Stream}
	if utf8.ValidString(e.Data) {
		body.Data = &e.Data
	} else {
		body.Base64 = new(base64.StdEncoding.EncodeToString([]byte(e.Data)))
	}
	return appendFrame(b, "", string(e.Type), body), false
}
