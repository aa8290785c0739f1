package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/internal/sse"
)

// EventType is the type of an event of a run.
type EventType string

// A run has one started event, any number of output events, and one result.
const (
	EventStarted EventType = "started"
	EventOutput  EventType = "output"
	EventResult  EventType = "result"
)

// OutputStream is a stream of output of a program.
type OutputStream string

// The streams.
const (
	Stdout OutputStream = "stdout"
	Stderr OutputStream = "stderr"
)

// Event is an entry of a run's log.
type Event struct {
	Seq    int // 1, 2, 3, ...
	Type   EventType
	Stream OutputStream // with EventOutput
	Data   string       // with EventOutput; UTF-8, unless RunRequest.AllOutput is set
	Run    *Run         // with EventStarted and EventResult
}

// Stream runs a program and yields its events as they happen, the result
// last. Leaving the loop early, or cancelling ctx, ends the program. An error
// ends the sequence, which can be read once: a second loop would run the
// program again, and gets an error.
func (c *Client) Stream(ctx context.Context, req RunRequest) iter.Seq2[Event, error] {
	read := runEvent
	if req.AllOutput {
		read = func(f sse.Event) (Event, bool, error) {
			f.ID = "0" // it has none
			return runEvent(f)
		}
	}
	return stream(ctx, c, req.request(nil), read)
}

// stream makes one call and yields the events of its answer, up to the last.
func stream[E any](
	ctx context.Context, c *Client, r request, read func(sse.Event) (e E, last bool, err error),
) iter.Seq2[E, error] {
	var begun atomic.Bool
	return func(yield func(E, error) bool) {
		var none E
		if begun.Swap(true) {
			yield(none, errors.New("airlock: these events were read before: make the call again for others"))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.events(ctx, r)
		if err != nil {
			yield(none, err)
			return
		}
		defer resp.Body.Close()
		for f, err := range sse.Read(resp.Body, maxEvent) {
			e, last := none, false
			if err == nil {
				e, last, err = read(f)
			}
			if !yield(e, err) || err != nil || last {
				return
			}
		}
		yield(none, io.ErrUnexpectedEOF)
	}
}

// events makes a call whose answer is an event stream.
func (c *Client) events(ctx context.Context, r request) (*http.Response, error) {
	header := http.Header{"Accept": {"text/event-stream"}}
	maps.Copy(header, r.header)
	r.header = header
	return c.do(ctx, r)
}

// How Events comes back after a connection broke.
const (
	firstPause  = 100 * time.Millisecond
	longestWait = 5 * time.Second
	maxFailures = 8 // in a row, without one event between them
)

// Events yields the events of a run with Seq > after, past ones first. If the connection breaks it
// reconnects and continues. An *Error of the service, or a service that stays unreachable, ends the
// sequence. Leaving the loop does not affect the run.
func (c *Client) Events(ctx context.Context, id string, after int) iter.Seq2[Event, error] {
	return resume(ctx, c, "/runs/"+segment(id)+"/events", int64(after), runEvent)
}

// resume yields the events of an address that follow an event, up to the last, over as many
// connections as necessary.
func resume[E any](
	ctx context.Context, c *Client, path string, after int64, read func(sse.Event) (e E, last bool, err error),
) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		failures := 0
		for {
			seen, done, err := follow(ctx, c, path, after, read, yield)
			if done {
				return
			}
			if seen > after {
				after, failures = seen, 0
			}
			if failures++; failures > maxFailures || !worthRetrying(ctx, err) {
				yield(none, err)
				return
			}
			pause := time.NewTimer(min(firstPause<<(failures-1), longestWait))
			select {
			case <-ctx.Done():
				pause.Stop()
				yield(none, ctx.Err())
				return
			case <-pause.C:
			}
		}
	}
}

// follow reads the events of one connection. It returns the number of the last, and whether the
// sequence is complete.
func follow[E any](
	ctx context.Context, c *Client, path string, after int64,
	read func(sse.Event) (E, bool, error), yield func(E, error) bool,
) (seen int64, done bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := get(path, nil)
	if after > 0 {
		r.header = http.Header{"Last-Event-Id": {strconv.FormatInt(after, 10)}}
	}
	resp, err := c.events(ctx, r)
	if err != nil {
		return after, false, err
	}
	defer resp.Body.Close()
	seen = after
	for f, err := range sse.Read(resp.Body, maxEvent) {
		if err != nil {
			return seen, false, err
		}
		id, err := number(f)
		if err != nil {
			return seen, false, err
		}
		e, last, err := read(f)
		if err != nil {
			return seen, false, err
		}
		if id <= seen && !last {
			continue
		}
		seen = id
		if !yield(e, nil) || last {
			return seen, true, nil
		}
	}
	return seen, false, io.ErrUnexpectedEOF
}

// worthRetrying reports whether a request that failed with err may succeed later.
func worthRetrying(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if _, broken := errors.AsType[*formatError](err); broken || errors.Is(err, sse.ErrTooLong) {
		return false
	}
	refused, ok := errors.AsType[*Error](err)
	return !ok || refused.Status == http.StatusTooManyRequests ||
		refused.Status >= 500 && refused.Status != http.StatusInsufficientStorage
}

// formatError reports an event that no Airlock service sends.
type formatError struct{ what string }

func (e *formatError) Error() string { return "airlock: " + e.what }

const maxEvent = 256 << 20 // a result holds the whole output

// number returns the id of an event.
func number(f sse.Event) (int64, error) {
	n, err := strconv.ParseInt(f.ID, 10, 64)
	if err != nil {
		return 0, &formatError{fmt.Sprintf("an event has the number %.20q", f.ID)}
	}
	return n, nil
}

// decode decodes the data of an event.
func decode(f sse.Event, into any) error {
	if err := json.Unmarshal(f.Data, target(into)); err != nil {
		return &formatError{fmt.Sprintf("event %s cannot be read: %v", f.ID, err)}
	}
	return nil
}

// runEvent reads an event of a run. Events of unknown types are of a newer service.
func runEvent(f sse.Event) (_ Event, last bool, err error) {
	seq, err := number(f)
	if err != nil {
		return Event{}, false, err
	}
	e := Event{Seq: int(seq), Type: EventType(f.Type)}
	switch e.Type {
	case EventOutput:
		var output struct {
			Stream OutputStream
			Data   string
			Base64 []byte
		}
		err = decode(f, &output)
		e.Stream, e.Data = output.Stream, output.Data+string(output.Base64)
	case EventStarted, EventResult:
		e.Run = new(Run)
		err = decode(f, e.Run)
	}
	return e, e.Type == EventResult, err
}
