package engine

import (
	"cmp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The granularity of the log. Text after a pause becomes an event at once. Text that
// follows closely is buffered briefly, as long as it is of one stream, because a traceback
// arrives in hundreds of pieces. The text of a program that keeps printing is buffered for
// longer, and by stream. So the limits of output and time bound the number of events, and
// with it the memory of the log.
const (
	eagerEvents  = 1000
	momentTime   = time.Millisecond
	gatherBytes  = 4 << 10
	gatherTime   = 100 * time.Millisecond
	largestEvent = 32 << 10
)

// recorder is the log of one run that has not ended, or that is still being watched. The
// log is in memory only: the output of an interrupted run is lost.
//
// Invariant: joining the Data of all output events of one stream gives the
// run's Stdout or Stderr, live, after the end, and out of the index.
type recorder struct {
	events  EventLog[Event]
	mu      sync.Mutex
	streams map[Stream]*Capture
	gather  map[Stream][]byte // text that is not yet in an event
	first   Stream            // the stream whose text arrived first
	timer   *time.Timer       // runs while there is such text
	flushed time.Time         // time of the last output event
	ended   bool
}

func newRecorder(limit OutputLimit) *recorder {
	return &recorder{
		streams: map[Stream]*Capture{Stdout: NewCapture(limit), Stderr: NewCapture(limit)},
		gather:  map[Stream][]byte{},
	}
}

// start logs that the program starts.
func (r *recorder) start(run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(Event{Type: EventStarted, Run: run})
}

// output logs text that the program wrote. It does not retain data.
func (r *recorder) output(stream Stream, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.streams[stream]
	if c == nil || r.ended {
		return
	}
	eager := len(r.events.All()) < eagerEvents
	if eager && r.first != "" && r.first != stream {
		r.flush() // keeps the order of the streams
	}
	text := c.Write(r.gather[stream], data)
	if len(text) == 0 {
		return
	}
	r.first = cmp.Or(r.first, stream)
	r.gather[stream] = text
	wait := gatherTime
	if eager {
		wait = momentTime - time.Since(r.flushed)
	}
	switch {
	case wait <= 0 || len(text) >= gatherBytes:
		r.flush()
	case r.timer == nil:
		r.timer = time.AfterFunc(wait, r.flushNow)
	}
}

// flushNow emits the buffered text.
func (r *recorder) flushNow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended { // the timer may have fired at the end
		r.flush()
	}
}

// flush emits the buffered text as events.
func (r *recorder) flush() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	order := []Stream{Stdout, Stderr}
	if r.first == Stderr {
		order = []Stream{Stderr, Stdout}
	}
	r.first = ""
	for _, stream := range order {
		text := r.gather[stream]
		for len(text) > 0 {
			n := len(text)
			if n > largestEvent {
				for n = largestEvent; !utf8.RuneStart(text[n]); {
					n--
				}
			}
			r.add(Event{Type: EventOutput, Stream: stream, Data: string(text[:n])})
			text = text[n:]
			r.flushed = time.Now()
		}
		r.gather[stream] = r.gather[stream][:0]
	}
}

func (r *recorder) add(e Event) {
	e.Seq = len(r.events.All()) + 1
	r.events.Add(e, e.Type == EventResult)
}

// closeOutput ends both streams, and returns their whole text and its log.
// Later output of the program is lost.
func (r *recorder) closeOutput() (chunks []OutputChunk, stdout, stderr string, truncated bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.flush() // earlier text precedes the withheld text
		for stream, c := range r.streams {
			text, cut := c.Finish(r.gather[stream])
			r.gather[stream], truncated = text, truncated || cut
		}
		r.flush()
		r.ended = true
	}
	var texts [2]strings.Builder
	for _, e := range r.events.All() {
		if e.Type != EventOutput {
			continue
		}
		chunks = append(chunks, OutputChunk{Stream: e.Stream, Data: e.Data})
		i := 0
		if e.Stream == Stderr {
			i = 1
		}
		texts[i].WriteString(e.Data)
	}
	r.streams, r.gather = nil, nil
	return chunks, texts[0].String(), texts[1].String(), truncated
}

// finish logs the result, the last of the events.
func (r *recorder) finish(run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(Event{Type: EventResult, Run: run})
}

// replay returns the log of a run that has ended, out of the index: the same
// events under the same numbers.
func replay(run *Run, chunks []OutputChunk) []Event {
	events := make([]Event, 0, len(chunks)+2)
	add := func(e Event) {
		e.Seq = len(events) + 1
		events = append(events, e)
	}
	if !run.StartedAt.IsZero() {
		add(Event{Type: EventStarted, Run: asStarted(run)})
	}
	for _, chunk := range chunks {
		add(Event{Type: EventOutput, Stream: chunk.Stream, Data: chunk.Data})
	}
	add(Event{Type: EventResult, Run: run})
	return events
}

// asStarted returns the run as it was when its program started.
func asStarted(run *Run) *Run {
	return &Run{
		ID: run.ID, Owner: run.Owner, Origin: run.Origin, Session: run.Session, Language: run.Language,
		Status: StatusRunning, CreatedAt: run.CreatedAt, StartedAt: run.StartedAt,
	}
}
