package live

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// CellRequest is a piece of code to run.
type CellRequest struct {
	Code       string
	Timeout    time.Duration     // of its running, not of its waiting; zero: the session's
	AllowInput bool              // the caller answers input() with Answer; otherwise input() raises EOFError
	Silent     bool              // neither counted nor remembered, and it has no result
	Unrecorded bool              // neither counted nor remembered
	Program    *Program          // Code is a program, which runs beside the interpreter; nil: a cell of its language
	Host       Host              // functions that Python code may call outside; nil: none
	Grace      time.Duration     // to react to an interrupt before the interpreter is killed; zero: 2 s
	Env        map[string]string // of this cell, added to the interpreter's
	Parent     string            // what its caller calls the request: Python's comms answer to it; empty: none listens
}

// Program runs code outside the interpreter of its session: in any language, as a
// process that shares files and limits with the interpreter.
type Program struct {
	Language string // of the language table
	Args     []string
	Stdin    string
}

// Status is the state of a cell.
type Status string

// A cell is queued, then running, then in one of the final states.
const (
	StatusQueued      Status = "queued"
	StatusRunning     Status = "running"
	StatusOK          Status = "ok"
	StatusError       Status = "error"       // it raised
	StatusInterrupted Status = "interrupted" // a caller interrupted it
	StatusTimeout     Status = "timeout"     // it ran for longer than it may
	StatusLost        Status = "lost"        // its interpreter ended: memory, os._exit, a crash, the service
)

// Final reports whether a cell in this state has ended.
func (s Status) Final() bool { return s != StatusQueued && s != StatusRunning }

// Cell is the current state of a piece of code that runs or has run.
type Cell struct {
	ID             engine.ID
	Session        engine.ID
	ExecutionCount int // 0 until it has one
	Status         Status
	ExitCode       *int                 // as a script's: 1 after an error, n after sys.exit(n); nil if it was ended
	Outputs        []Output             // in order; neighbouring text of one stream is one output
	Truncated      bool                 // outputs over a limit were left out, which the outputs say; known at the end
	Files          []engine.File        // new and changed, in order of path
	Deleted        []string             // paths of deleted files
	Dropped        []engine.DroppedFile // in the workspace, but not stored
	Usage          Usage
	Restarted      bool   // first cell after an interpreter was lost: variables are lost, files are kept
	Message        string // for a person: why it was lost, or why there is a new interpreter
	Hint           string // what can be done about what it missed, as a line of its output says; empty: nothing
	Package        string // that it missed, and that Install may bring; empty: none
	CreatedAt      time.Time
	FinishedAt     time.Time // zero until final
}

// Usage is the resource usage of a cell.
type Usage struct {
	Duration   time.Duration // of its running
	CPU        time.Duration // of the whole sandbox since the previous cell; 0 where the host cannot measure it
	MemoryPeak int64         // of the sandbox so far; 0 where the host cannot measure it
}

// OutputType distinguishes outputs and events.
type OutputType string

// The types of outputs.
const (
	Stdout  OutputType = "stdout"
	Stderr  OutputType = "stderr"
	Display OutputType = "display"
	Result  OutputType = "result" // the value of the last expression
	Error   OutputType = "error"
)

// TableForm is the MIME type of a data frame as a page shows it: its size, and the values of
// its first rows.
const TableForm = "application/vnd.airlock.table+json"

// The types of the other events in a cell's log.
const (
	StartedEvent OutputType = "started"
	InputEvent   OutputType = "input" // the cell waits for Answer
	CommEvent    OutputType = "comm"  // a widget's message to its page; only of a cell with a Parent
	ClearEvent   OutputType = "clear" // discard earlier displays
	ExitEvent    OutputType = "exit"  // sys.exit: Text is what a script then prints to stderr; an Error in notebooks
	DoneEvent    OutputType = "done"  // the last
)

// Output is one output of a cell.
type Output struct {
	Type OutputType
	Text string // of stdout, stderr and exit
	// Data has a display or result by MIME type: a string, base64 for binary types, or any JSON for
	// JSON types.
	Data      map[string]json.RawMessage
	Metadata  json.RawMessage // an object; nil: none
	DisplayID string          // a display that may be updated
	Update    bool            // of the display with that DisplayID
	Name      string          // of an error or exit
	Value     string          // of an error or exit
	Traceback []string        // of an error or exit, without colours
}

// Event is an entry of a cell's log.
type Event struct {
	Output
	Seq      int    // 1, 2, 3, ...
	Prompt   string // of input
	Password bool   // of input
	Wait     bool   // of clear: until new output replaces the cleared output
	Comm     *CommMessage
	Cell     *Cell // of started and done
}

// Limits of a cell's output. Text is limited by the session's limits of output.
const (
	maxDisplays   = 1000 // and as many errors
	displayBytes  = 16 << 20
	eagerEvents   = 1000 // of a cell with more, text is gathered by stream, whoever flushes it
	gatherWait    = 100 * time.Millisecond
	textGather    = 4 << 10
	textWait      = 5 * time.Millisecond
	lineWait      = 50 * time.Millisecond // for the end of a line
	keptCells     = 100
	keptBytes     = 16 << 20 // of the outputs of ended cells of one session
	largestCell   = 16 << 20
	maxWaiting    = 64 // cells of one session
	interruptTime = 2 * time.Second
)

// cell is a cell with its log. The fields beside the log are guarded by the session.
type cell struct {
	Cell
	request  CellRequest
	comm     *CommMessage // instead of code; nil: none
	timer    *time.Timer  // until its time is over
	left     time.Duration
	since    time.Time // it has been running; zero: it is not
	timedOut bool
	stopping bool // it was interrupted
	examined bool // for a hint; see engine.Service.Hint
	done     chan struct{}

	log log
}

// log holds the output of a cell.
type log struct {
	events   engine.EventLog[Event]
	mu       sync.Mutex
	kind     OutputType // of text that is not yet in an event
	text     []byte
	other    []byte // such text of the other stream, once there are eagerEvents
	flushed  time.Time
	timer    *time.Timer
	streams  [2]*engine.Capture // of stdout and stderr
	wholes   [2]string          // files of the workspace that have all of them, before they get names
	unkept   []engine.DroppedFile
	bytes    int // of text in events
	displays amount
	errors   amount
	comms    amount
	short    bool // outputs were left out, which an event says
	ended    bool
}

func newLog(limit engine.OutputLimit) log {
	return log{streams: [2]*engine.Capture{engine.NewCapture(limit), engine.NewCapture(limit)}}
}

// capture returns the capture of a stream.
func (l *log) capture(kind OutputType) *engine.Capture {
	if kind == Stderr {
		return l.streams[1]
	}
	return l.streams[0]
}

// amount counts outputs.
type amount struct{ outputs, bytes int }

// add counts an output, and reports whether a cell may have it.
func (a *amount) add(bytes, most, mostBytes int) bool {
	a.outputs++
	if a.outputs > most || a.bytes+bytes > mostBytes {
		return false
	}
	a.bytes += bytes
	return true
}

// isEager reports whether there are so few events that output need not be gathered: so limits of
// output and time bound the memory of the log.
func (l *log) isEager() bool { return len(l.events.All()) < eagerEvents }

// write appends text, as far as the capture of its stream lets it through. A line that has not
// ended waits a little for its end, unless flush is set.
func (l *log) write(kind OutputType, text string, flush bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || text == "" && !flush {
		return
	}
	kept := l.capture(kind).Write(nil, []byte(text))
	if len(kept) == 0 && text != "" {
		return
	}
	if !l.isEager() {
		l.gather(kind, kept)
		return
	}
	if l.kind != kind {
		l.flush()
	}
	l.kind, l.text = kind, append(l.text, kept...)
	wait := textWait - time.Since(l.flushed)
	switch {
	case flush:
		l.flush()
	case len(l.text) >= textGather:
		l.emit(l.due())
	case wait <= 0:
		l.emit(l.lines())
	}
	switch whole := l.lines() > 0; {
	case len(l.text) == 0:
	case l.timer == nil && !whole:
		l.timer = time.AfterFunc(lineWait, l.flushDue)
	case l.timer == nil:
		l.timer = time.AfterFunc(wait, l.flushDue)
	case whole:
		l.timer.Reset(wait)
	}
}

// gather is write for a cell with many events. The caller holds mu.
func (l *log) gather(kind OutputType, text []byte) {
	if l.kind != kind {
		l.swap()
	}
	l.kind, l.text = kind, append(l.text, text...)
	if len(l.text) >= textGather {
		l.flush()
	} else if l.timer == nil {
		l.timer = time.AfterFunc(gatherWait, l.flushDue)
	}
}

// swap exchanges the texts of the streams.
func (l *log) swap() {
	l.kind, l.text, l.other = otherStream(l.kind), l.other, l.text
}

func otherStream(kind OutputType) OutputType {
	if kind == Stdout {
		return Stderr
	}
	return Stdout
}

// lines returns the length of the whole lines in the text.
func (l *log) lines() int { return bytes.LastIndexByte(l.text, '\n') + 1 }

// due returns the length of the text to emit now: the whole lines, or else all of it.
func (l *log) due() int { return cmp.Or(l.lines(), len(l.text)) }

func (l *log) flushDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if !l.isEager() {
		l.flush()
	}
	l.emit(l.due())
	if len(l.text) > 0 && !l.ended {
		l.timer = time.AfterFunc(lineWait, l.flushDue)
	}
}

// flush makes events of the text, of the last stream at last. The caller holds mu.
func (l *log) flush() {
	if len(l.other) > 0 {
		l.swap()
		l.emit(len(l.text))
		l.swap()
	}
	l.emit(len(l.text))
}

// emit makes an event of the first n bytes of the text. The caller holds mu.
func (l *log) emit(n int) {
	if n == 0 || l.ended {
		return
	}
	l.append(Event{Output: Output{Type: l.kind, Text: string(l.text[:n])}}, false)
	l.bytes += n
	l.text = append(l.text[:0], l.text[n:]...)
	l.flushed = time.Now()
}

// add appends an event that is not text.
func (l *log) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	size := len(e.Text) + len(e.Metadata) + len(e.Name) + len(e.Value)
	for _, form := range e.Data {
		size += len(form)
	}
	for _, line := range e.Traceback {
		size += len(line)
	}
	fits := true
	switch e.Type {
	case Display, Result:
		fits = l.displays.add(size, maxDisplays, displayBytes)
	case CommEvent:
		fits = l.comms.add(e.Comm.size(), maxComms, commBytes)
	case Error, ExitEvent:
		fits = l.errors.add(size, maxDisplays, displayBytes) || l.errors.outputs == 1
	case ClearEvent:
		for _, c := range l.streams {
			c.Clear()
		}
		if !l.isEager() {
			l.text, l.other = nil, nil // it would be cleared
			if all := l.events.All(); all[len(all)-1].Type == ClearEvent && all[len(all)-1].Wait == e.Wait {
				return
			}
		}
	}
	l.flush()
	switch {
	case fits:
		l.append(e, false)
	case !l.short:
		l.short = true
		l.append(Event{Output: Output{Type: Stderr, Text: leftOut}}, false)
	}
}

var leftOut = fmt.Sprintf("[... more than %d displays or errors, or %d MiB of them, or %d messages of widgets, or "+
	"%d MiB of those, left out ...]\n", maxDisplays, displayBytes>>20, maxComms, commBytes>>20)

func (l *log) append(e Event, last bool) {
	e.Seq = len(l.events.All()) + 1
	l.events.Add(e, last)
}

// end adds the end of each stream and the last event, with the cell as it is then.
// It reports whether outputs were left out.
func (l *log) end(last Cell) (truncated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last.Truncated = l.short
	for _, kind := range []OutputType{Stdout, Stderr} {
		text, cut := l.capture(kind).Finish(nil)
		last.Truncated = last.Truncated || cut
		l.gather(kind, text)
	}
	l.flush()
	last.Outputs = joined(l.events.All())
	if l.timer != nil {
		l.timer.Stop()
	}
	l.append(Event{Output: Output{Type: DoneEvent}, Cell: &last}, true)
	l.ended = true
	return last.Truncated
}

// outputs returns the outputs so far.
func (l *log) outputs() []Output {
	l.mu.Lock()
	defer l.mu.Unlock()
	return joined(append(l.events.All(), // reading emits no event for half a line
		Event{Output: Output{Type: otherStream(l.kind), Text: string(l.other)}},
		Event{Output: Output{Type: l.kind, Text: string(l.text)}}))
}

// joined returns the outputs that result from events.
func joined(events []Event) (all []Output) {
	var kind OutputType
	var text strings.Builder
	join := func() {
		if text.Len() > 0 {
			all = append(all, Output{Type: kind, Text: text.String()})
			text.Reset()
		}
	}
	for _, e := range events {
		switch e.Type {
		case Stdout, Stderr, ExitEvent:
			if e.Type == ExitEvent {
				e.Type = Stderr
			}
			if e.Type != kind {
				join()
			}
			kind = e.Type
			text.WriteString(e.Text)
		case Display, Result, Error:
			join()
			all = append(all, e.Output)
		case ClearEvent:
			text.Reset()
			all = nil
		}
	}
	join()
	return all
}

// size returns the size of all outputs, in bytes.
func (l *log) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.displays.bytes + l.errors.bytes + l.comms.bytes + l.bytes + len(l.text) + len(l.other)
}

// snapshot returns the current state of the cell. The caller holds the session's mu.
func (c *cell) snapshot() Cell {
	snapshot := c.Cell
	snapshot.Outputs = c.log.outputs()
	return snapshot
}

// cellOrder is a cell as sent to a driver. With argv it is a program.
type cellOrder struct {
	Do     string `json:"do"`
	Code   string `json:"code"`
	Silent bool   `json:"silent,omitempty"`

	Unrecorded bool `json:"unrecorded,omitempty"`
	Begun      bool `json:"begun,omitempty"` // it counts as running once it is given out

	Modules []string `json:"modules,omitempty"` // that Host offers

	Entry string            `json:"entry,omitempty"` // the file that Code is written to
	Argv  []string          `json:"argv,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Stdin string            `json:"stdin,omitempty"`

	Parent string       `json:"parent,omitempty"`
	Comm   *CommMessage `json:"comm,omitempty"` // instead of Code
}

// programPrefix begins the name of a program's source. The file lies where programs search for
// imports, and is removed before the session's files are stored.
const programPrefix = "/workspace/airlock_"

// text returns the order for a cell.
func (at *session) text(c *cell) (*cellOrder, error) {
	req := &c.request
	if req.Program == nil {
		o := &cellOrder{Do: "run", Code: req.Code, Silent: req.Silent, Unrecorded: req.Unrecorded, Env: req.Env,
			Begun: at.settings.Language == "python", Parent: req.Parent, Comm: c.comm}
		if req.Host != nil {
			o.Modules = req.Host.Modules()
		}
		return o, nil
	}
	lang, ok := language.Find(req.Program.Language)
	if !ok {
		return nil, engine.Invalid("language", "%.40q is not known", req.Program.Language)
	}
	lang, err := at.inImage(lang)
	if err != nil {
		return nil, err
	}
	entry := programPrefix + strings.ToLower(lang.Entry)
	o := &cellOrder{
		Do: "program", Code: req.Code, Silent: req.Silent, Entry: entry, Stdin: req.Program.Stdin, Env: map[string]string{},
		Argv: lang.Command(language.Program{Entry: entry, Code: req.Code, Args: req.Program.Args,
			Memory: at.settings.Limits.Memory}),
	}
	for _, pair := range lang.Env {
		name, value, _ := strings.Cut(pair, "=")
		o.Env[name] = value
	}
	return o, nil
}
