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
	batchBytes   = 4 << 10
	batchTime    = 100 * time.Millisecond
	largestEvent = 32 << 10
)

// runLog is the log of one run that has not ended, or that is still being watched. The
// log is in memory only: the output of an interrupted run is lost.
//
// Invariant: joining the Data of all output events of one stream gives the
// run's Stdout or Stderr, live, after the end, and out of the index.
type runLog struct {
	events  EventLog[Event]
	mu      sync.Mutex
	streams map[Stream]*Capture
	pending map[Stream][]byte // text that is not yet in an event
	first   Stream            // the stream whose text arrived first
	emit    delay             // of the pending text
	flushed time.Time         // time of the last output event
	ended   bool

	note       string // added to the end of a stream, beyond its limit
	noteStream Stream
	noteInLine bool // what the program wrote before does not end its line
}

func newRunLog(limit OutputLimit) *runLog {
	l := &runLog{
		streams: map[Stream]*Capture{Stdout: NewCapture(limit), Stderr: NewCapture(limit)},
		pending: map[Stream][]byte{},
	}
	l.emit.call = l.flushNow
	return l
}

// start logs that the program starts.
func (l *runLog) start(run *Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(Event{Type: EventStarted, Run: run})
}

// output logs text that the program wrote. It does not retain data.
func (l *runLog) output(stream Stream, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.streams[stream]
	if c == nil || l.ended {
		return
	}
	eager := len(l.events.All()) < eagerEvents
	if eager && l.first != "" && l.first != stream {
		l.flush() // keeps the order of the streams
	}
	text := c.Write(l.pending[stream], data)
	if len(text) == 0 {
		return
	}
	l.first = cmp.Or(l.first, stream)
	l.pending[stream] = text
	wait := batchTime
	if eager {
		wait = momentTime - time.Since(l.flushed)
	}
	if wait <= 0 || len(text) >= batchBytes {
		l.flush()
	} else {
		l.emit.start(wait)
	}
}

// flushNow emits the buffered text.
func (l *runLog) flushNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.flush()
	}
}

// flush emits the buffered text as events.
func (l *runLog) flush() {
	l.emit.stop()
	order := []Stream{Stdout, Stderr}
	if l.first == Stderr {
		order = []Stream{Stderr, Stdout}
	}
	l.first = ""
	for _, stream := range order {
		text := l.pending[stream]
		for len(text) > 0 {
			n := len(text)
			if n > largestEvent {
				for n = largestEvent; !utf8.RuneStart(text[n]); {
					n--
				}
			}
			l.add(Event{Type: EventOutput, Stream: stream, Data: string(text[:n])})
			text = text[n:]
			l.flushed = time.Now()
		}
		l.pending[stream] = l.pending[stream][:0]
	}
}

func (l *runLog) add(e Event) {
	e.Seq = len(l.events.All()) + 1
	l.events.Add(e, e.Type == EventResult)
}

// closeOutput ends both streams, and returns their whole text and its log.
// Later output of the program is lost.
func (l *runLog) closeOutput() (chunks []OutputChunk, stdout, stderr string, truncated bool) {
	l.emit.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.flush() // earlier text precedes the withheld text
		for stream, c := range l.streams {
			text, cut := c.Finish(l.pending[stream])
			if stream == l.noteStream {
				text = l.appendNote(text)
			}
			l.pending[stream], truncated = text, truncated || cut
		}
		l.flush()
		l.ended = true
	}
	var texts [2]strings.Builder
	for _, e := range l.events.All() {
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
	l.streams, l.pending = nil, nil
	return chunks, texts[0].String(), texts[1].String(), truncated
}

// addNote adds a line to what the program wrote to a stream.
func (l *runLog) addNote(stream Stream, note string, inLine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteStream, l.note, l.noteInLine = stream, note, inLine
}

// appendNote appends the note to the last text of its stream.
func (l *runLog) appendNote(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] != '\n' || n == 0 && l.noteInLine {
		text = append(text, '\n')
	}
	return append(text, l.note...)
}

// finish logs the result, the last of the events.
func (l *runLog) finish(run *Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(Event{Type: EventResult, Run: run})
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
