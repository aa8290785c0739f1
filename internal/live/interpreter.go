package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/toolcall"
)

// interpreter is the interpreter of a session: a run of the engine that polls for orders.
type interpreter struct {
	at    *session
	run   engine.ID
	start time.Time
	gone  chan struct{} // closed when it has ended and is cleaned up

	// Guarded by the session's mu:
	out      func(bool) // notifies the engine that it begins or ends to wait
	controls engine.Controls
	orders   chan struct{}  // has an entry when there may be an order
	cut      chan struct{}  // has an entry when its cell is interrupted, for Node's driver
	began    bool           // it has polled for an order
	fresh    bool           // it has not run a cell
	count    int            // of its next cell; 0: the first cell
	asks     toolcall.Queue // the call that its cell waits for; one at most
	paused   int            // calls of its cell that a person must answer
	ending   string         // why it is being ended; empty: it is not being ended
	vacate   bool           // the workspace is released with it
	keeping  chan struct{}  // closed when it is stored with its memory; nil: it is not being stored
	kept     bool           // it ends because it is
	leases   int            // other users of its sandbox
	awake    bool           // the engine lets it run
	hadLease bool           // it had a lease
	found    string         // what the first cell is told of the files
	unsaved  bool           // there may be unstored files, whatever its driver reports
	partial  map[engine.Stream][]byte
}

// launch starts an interpreter, whose first cell is known or nil. The caller holds mu.
func (at *session) launch(first *cell) error {
	it := &interpreter{
		at: at, start: time.Now(), gone: make(chan struct{}), orders: make(chan struct{}, 1), cut: make(chan struct{}, 1),
		fresh: true, out: func(bool) {},
		partial: map[engine.Stream][]byte{},
	}
	var imports []string
	if first != nil && first.request.Program == nil && at.settings.Language == "python" {
		imports = language.Imports(first.request.Code)
	}
	s := at.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return closing()
	}
	run, err := s.engine.Start(s.life, at.caller, engine.RunRequest{
		Language: at.settings.Language, Session: at.record.ID, Network: at.settings.Network, Secrets: at.secrets,
		Image: cmp.Or(at.settings.Image, engine.HostImage), Packages: at.settings.Packages,
		Mounts: append([]string{}, at.settings.Mounts...), Volumes: at.settings.Volumes,
		Profile: engine.Profile{
			Origin: engine.OriginLive, Limits: at.settings.Limits,
			Files: engine.FileRules{Discard: true, TTL: at.record.TTL},
			Calls: engine.Calls{Handler: it, Rounds: it.Rounds},
			Live: &engine.Interpreter{Resident: it, Fresh: at.fresh, Apart: at.id != at.record.ID,
				Image: at.settings.ImageID, Imports: imports},
		},
	})
	if err != nil {
		return err
	}
	it.run, it.unsaved = run.ID, !at.fresh
	at.interpreter, at.cpu, at.fresh, at.paused = it, 0, false, false
	if !at.setup.empty() {
		code := at.setup.Code
		if at.settings.Language != "python" {
			code = ""
		}
		at.orders = slices.Insert(at.orders, 0, &order{do: setupOrder, reply: make(chan reply, 1), text: struct {
			Do   string            `json:"do"`
			Env  map[string]string `json:"env,omitempty"`
			Dir  string            `json:"dir,omitempty"`
			Code string            `json:"code,omitempty"`
		}{setupOrder, at.setup.Env, at.setup.Dir, code}})
	}
	s.work.Go(func() { it.follow(s.life) })
	return nil
}

// setupOrder is the first order of an interpreter, if its session has a Setup.
const setupOrder = "setup"

// call notifies the interpreter of an order.
func (it *interpreter) call() {
	select {
	case it.orders <- struct{}{}:
	default:
	}
}

// await waits until the interpreter has ended and is cleaned up.
func (it *interpreter) await(ctx context.Context) error { return await(ctx, it.gone) }

// end ends the interpreter. The caller holds mu.
func (it *interpreter) end(why string) {
	if it.ending != "" {
		return
	}
	it.ending = why
	it.at.service.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		if err := it.at.service.engine.CancelRun(ctx, it.at.caller, it.run); err != nil &&
			!errors.Is(err, engine.ErrNotFound) {
			it.at.service.log.Error("a live interpreter could not be ended", "run", it.run, "error", err)
		}
	})
}

// endTime is the time limit of the engine for ending a run, and for storing what a cell left.
const endTime = 30 * time.Second

// interrupt sends the signal. Node is notified over its channel first, and gets the signal if that
// is not enough. A call that waits for an answer fails, since the interpreter may be frozen. The
// caller holds mu.
func (it *interpreter) interrupt(again bool) {
	if it.at.settings.inNode() && !again {
		select {
		case it.cut <- struct{}{}:
		default:
		}
	} else if it.controls.Interrupt != nil {
		_ = it.controls.Interrupt() // then it is killed
	}
	it.asks.Answer(toolcall.Failed("the cell was interrupted"))
}

// Rounds sets what to call about rounds; see engine.Calls.
func (it *interpreter) Rounds(out func(bool)) {
	it.at.mu.Lock()
	defer it.at.mu.Unlock()
	it.out = func(waits bool) {
		if waits {
			it.awake = false
		}
		out(waits)
	}
}

// SetControls implements engine.Resident.
func (it *interpreter) SetControls(controls engine.Controls) {
	it.at.mu.Lock()
	defer it.at.mu.Unlock()
	it.controls = controls
}

// Resumed implements engine.Resident: the clock of a cell runs from here, and who only wants a sandbox
// that runs need not wait for the interpreter's answer, nor for the cells that were asked for before.
func (it *interpreter) Resumed() {
	at := it.at
	at.mu.Lock()
	defer at.mu.Unlock()
	it.awake = true
	if o := at.current; o != nil && o.do != setupOrder && it.asks.First() == nil {
		if o.do == wakeOrder {
			o.answer(reply{})
		}
		at.orders = slices.DeleteFunc(at.orders, func(o *order) bool {
			if o.do == wakeOrder {
				o.answer(reply{})
			}
			return o.do == wakeOrder
		})
	}
	if at.current == nil || at.current.cell == nil || it.asks.First() != nil || it.paused > 0 {
		return
	}
	c := at.current.cell
	c.run(func() {
		at.mu.Lock()
		defer at.mu.Unlock()
		if !c.Status.Final() && !c.stopping {
			c.timedOut = true
			at.stop(c)
		}
	})
}

// running marks a cell as running: from now on it can be interrupted. A cell of Python is marked
// when it is given out; its driver reports it only if an interrupt came before. The caller holds
// mu.
func (it *interpreter) running(c *cell, count int) {
	at := it.at
	if c.Status != StatusQueued {
		if c.stopping {
			it.interrupt(false)
		}
		return
	}
	c.Status = StatusRunning
	if !c.request.Silent {
		c.ExecutionCount = count
	}
	if it.fresh && at.why != "" {
		c.Restarted, c.Message = true, sentence("This is a new interpreter: variables are gone, "+it.found, at.why)
	}
	it.fresh, at.why = false, ""
	started := c.Cell
	c.log.add(Event{Output: Output{Type: StartedEvent}, Cell: &started})
	if c.stopping {
		it.interrupt(false)
	}
}

// Output implements engine.Resident. The output is that of processes of the cell.
func (it *interpreter) Output(stream engine.Stream, data []byte) {
	at := it.at
	at.mu.Lock()
	defer at.mu.Unlock()
	text := slices.Concat(it.partial[stream], data)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if utf8.RuneStart(text[len(text)-back]) {
			if !utf8.FullRune(text[len(text)-back:]) {
				whole = len(text) - back
			}
			break
		}
	}
	it.partial[stream] = slices.Clone(text[whole:])
	if c := it.currentCell(); c != nil {
		c.log.write(OutputType(stream), strings.ToValidUTF8(string(text[:whole]), "\uFFFD"), false)
	}
}

// currentCell returns the cell that the output belongs to. The caller holds mu.
func (it *interpreter) currentCell() *cell {
	if it.at.current != nil && it.at.current.cell != nil {
		return it.at.current.cell
	}
	return nil
}

// message is a message of a driver, of any kind.
type message struct {
	Text      string                     `json:"text"`
	Flush     bool                       `json:"flush"`
	Data      map[string]json.RawMessage `json:"data"`
	Metadata  json.RawMessage            `json:"metadata"`
	DisplayID string                     `json:"display_id"`
	Update    bool                       `json:"update"`
	Name      string                     `json:"name"`
	Value     string                     `json:"value"`
	Traceback []string                   `json:"traceback"`
	Prompt    string                     `json:"prompt"`
	Password  bool                       `json:"password"`
	Wait      bool                       `json:"wait"`
	Count     int                        `json:"count"`
	Exit      bool                       `json:"exit"` // of an error: it is sys.exit
	Kind      string                     `json:"kind"` // of a comm, with Metadata
	Content   json.RawMessage            `json:"content"`
	Buffers   [][]byte                   `json:"buffers"`
}

// Call implements engine.CallHandler.
func (it *interpreter) Call(ctx context.Context, name string, input []byte) ([]byte, error) {
	switch name {
	case "next":
		return it.next(ctx, input)
	case "call":
		return it.callHost(ctx, input)
	case "exit":
		it.at.mu.Lock()
		if it.ending == "" {
			it.ending = "It was left with exit()." // before its cell ends: the next cell is for another interpreter
		}
		it.at.mu.Unlock()
		it.report(input)
		return []byte("null"), nil
	case "interrupt":
		select {
		case <-it.cut:
			return []byte("null"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	var m message
	if err := json.Unmarshal(input, &m); err != nil {
		return nil, errors.New("this is no message of a driver")
	}
	if name == "input" {
		return it.askCaller(ctx, &m)
	}
	it.at.mu.Lock()
	c := it.currentCell()
	it.at.mu.Unlock()
	if c == nil {
		return nil, nil
	}
	switch kind := OutputType(name); kind {
	case "running":
		it.at.mu.Lock()
		it.running(c, m.Count)
		it.at.mu.Unlock()
	case Stdout, Stderr:
		c.log.write(kind, m.Text, m.Flush)
	case Display, Result:
		if it.at.settings.Language == "r" { // what it prints comes through its pipes
			it.drain()
		}
		c.log.add(Event{Output: Output{Type: kind, Data: m.Data, Metadata: m.Metadata, DisplayID: m.DisplayID,
			Update: m.Update}})
	case Error:
		it.drain()
		if m.Exit {
			kind = ExitEvent
		} else {
			m.Traceback = it.addHint(ctx, c, m.Traceback)
		}
		c.log.add(Event{Output: Output{Type: kind, Text: m.Text, Name: m.Name, Value: m.Value, Traceback: m.Traceback}})
	case ClearEvent:
		c.log.add(Event{Output: Output{Type: kind}, Wait: m.Wait})
	case CommEvent:
		c.log.add(Event{Output: Output{Type: kind}, Comm: &CommMessage{m.Kind, m.Content, m.Metadata, m.Buffers}})
	}
	return nil, nil
}

// drain returns when all output until now is in the log.
func (it *interpreter) drain() {
	it.at.mu.Lock()
	drain := it.controls.Drain
	it.at.mu.Unlock()
	if drain != nil {
		drain()
	}
}

// next takes the report about the last order and returns the next order.
func (it *interpreter) next(ctx context.Context, report []byte) ([]byte, error) {
	it.report(report)
	runtime.Gosched() // lets a goroutine that waits for the cell run first
	at := it.at
	if len(report) == 0 {
		it.goOn(ctx)
	}
	it.compare(ctx)
	at.mu.Lock()
	it.began, at.refused = true, 0
	for len(at.orders) == 0 || it.ending != "" {
		if it.leases == 0 {
			it.out(true)
		}
		at.mu.Unlock()
		select {
		case <-it.orders:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		at.mu.Lock()
	}
	defer at.mu.Unlock()
	it.out(false)
	select {
	case <-it.cut: // of a cell that has ended
	default:
	}
	at.current = at.orders[0]
	at.orders = slices.Delete(at.orders, 0, 1)
	if o, ok := at.current.text.(*cellOrder); ok && o.Begun {
		it.running(at.current.cell, max(it.count, 1))
	}
	if at.idle != nil {
		at.idle.Stop()
	}
	return json.Marshal(at.current.text)
}

// report ends the current order.
func (it *interpreter) report(text []byte) {
	at := it.at
	at.mu.Lock()
	o := at.current
	at.mu.Unlock()
	if o == nil {
		return
	}
	if o.cell == nil {
		at.mu.Lock()
		at.current = nil
		at.rest()
		at.mu.Unlock()
		o.answer(reply{report: slices.Clone(text)})
		return
	}
	var result struct {
		Status      string `json:"status"`
		Count       int    `json:"count"`
		Interrupted bool   `json:"interrupted"`
		Failed      string `json:"failed"`
		Unchanged   bool   `json:"unchanged"` // no file of the workspace has changed since the last cell
		Exit        *int   `json:"exit"`      // exit code; nil: by its status
	}
	_ = json.Unmarshal(text, &result)                                // invalid JSON counts as an error
	it.asks.Answer(toolcall.Failed("the cell that asked has ended")) // a task that its cell has left
	it.drain()
	if c := o.cell; result.Status != "ok" && !c.request.Silent {
		it.addHint(context.Background(), c, nil)
	}
	at.mu.Lock()
	c := o.cell
	c.hold()
	at.mu.Unlock()
	made := at.nameWholes(c)
	at.mu.Lock()
	if result.Unchanged && !made && !it.unsaved && it.controls.Usage != nil {
		cpu, peak := it.controls.Usage()
		at.charge(c, cpu, peak)
	} else {
		at.mu.Unlock()
		it.save(c)
		at.mu.Lock()
	}
	defer at.mu.Unlock()
	status := StatusError
	switch {
	case c.timedOut:
		status = StatusTimeout
	case c.stopping:
		status = StatusInterrupted
	case result.Status == "ok":
		status = StatusOK
	}
	message := result.Failed
	if c.timedOut {
		message = fmt.Sprintf("It was interrupted: it ran for longer than %s.", engine.DurationText(c.request.Timeout))
	}
	if !c.request.Silent && !c.request.Unrecorded && result.Count > 0 {
		c.ExecutionCount, at.count = result.Count, result.Count
		it.count = result.Count + 1
	}
	if c.ExitCode = result.Exit; c.ExitCode == nil {
		c.ExitCode = exitCodes[status]
	}
	if status == StatusOK {
		status, message = it.missesFiles(c)
	}
	at.current = nil
	at.finish(c, status, message)
	at.rest()
}

// missesFiles returns the status and the message of a cell that ended well: an error if its files could not be stored.
func (it *interpreter) missesFiles(c *cell) (Status, string) {
	switch n := engine.Unstored(c.Dropped); {
	case n > 0:
		return StatusError, fmt.Sprintf("The code ended well, but %d of its files could not be stored.", n)
	case it.unsaved: // its message says so
		return StatusError, ""
	}
	return StatusOK, ""
}

// exitCodes are those of scripts whose interpreter has ended normally.
var exitCodes = map[Status]*int{StatusOK: new(0), StatusError: new(1)}

// rest starts the timer that ends an idle interpreter, which can make room from now on. The
// caller holds mu.
func (at *session) rest() {
	at.service.rooms.notify()
	if at.idle != nil {
		at.idle.Stop()
	}
	idle := cmp.Or(at.settings.Idle, at.service.config.Idle)
	at.idle = time.AfterFunc(idle, func() {
		if at.endIdle(fmt.Sprintf("It was ended after %v without a cell.", idle)) {
			at.service.expired.Add(1)
		}
	})
}

// save stores the files that a cell has changed. It is skipped if the driver reports no changes and
// nothing waits to be stored: a program that hides changes only delays them in its own session,
// until the next cell or the end of a process.
func (it *interpreter) save(c *cell) {
	at := it.at
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	saved, err := at.service.engine.SaveSession(ctx, at.record, at.settings.Limits)
	at.mu.Lock()
	defer at.mu.Unlock()
	if err != nil || len(saved.Files)+len(saved.Deleted) > 0 {
		at.stored = at.service.changes.Add(1)
	}
	if err != nil {
		if !errors.Is(err, engine.ErrNotFound) { // otherwise there is nothing to store
			at.service.log.Error("the files of a live session could not be stored", "session", at.record.ID, "error", err)
		}
		it.unsaved, c.Message = true, sentence(c.Message, "Its files could not be stored.")
		return
	}
	it.unsaved = false
	at.note(saved, nil)
	c.Files, c.Deleted, c.Dropped = saved.Files, saved.Deleted, slices.Concat(at.dropped, saved.Dropped)
	at.dropped = nil
	at.charge(c, saved.CPU, saved.MemoryPeak)
}

// charge adds a cell's usage until its end. The caller holds mu.
func (at *session) charge(c *cell, cpu time.Duration, memoryPeak int64) {
	if cpu > 0 {
		c.Usage.CPU, at.cpu = max(0, cpu-at.cpu), cpu
	}
	c.Usage.MemoryPeak = memoryPeak
}

// NoInput begins the value of the EOFError that input() raises in a cell without AllowInput.
const NoInput = "this cell has no input"

// askCaller puts a cell's question to its caller.
func (it *interpreter) askCaller(ctx context.Context, m *message) ([]byte, error) {
	at := it.at
	it.drain()
	at.mu.Lock()
	c := it.currentCell()
	switch {
	case c == nil || it.asks.First() != nil:
		at.mu.Unlock()
		return nil, errors.New("there is nobody to ask")
	case c.stopping:
		at.mu.Unlock()
		return nil, errors.New("the cell was interrupted")
	case !c.request.AllowInput:
		at.mu.Unlock()
		return nil, errors.New(NoInput +
			": its caller answers no questions; put the value into the code, or read it from a file")
	}
	q := toolcall.NewCall("input", nil)
	it.asks.Put(q)
	c.hold()
	it.out(true)
	at.mu.Unlock()
	c.log.add(Event{Output: Output{Type: InputEvent}, Prompt: m.Prompt, Password: m.Password})
	answer, err := q.Wait(ctx)
	if err != nil {
		return nil, err
	}
	at.mu.Lock()
	it.out(false)
	at.mu.Unlock()
	return answer.Result, answer.Failure()
}

// Answer answers the input() that the running cell waits with.
func (s *Service) Answer(ctx context.Context, caller engine.Caller, session engine.ID, text string) error {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return err
	}
	answer, err := json.Marshal(strings.TrimSuffix(text, "\n"))
	if err != nil {
		return err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.interpreter == nil || !at.interpreter.asks.Answer(toolcall.Answer{Result: answer}) {
		return &engine.Error{Op: "answer", Kind: engine.ErrConflict,
			Err: errors.New("no cell of this session waits for an answer")}
	}
	return nil
}

// follow waits for the end of the interpreter.
func (it *interpreter) follow(ctx context.Context) {
	at := it.at
	result := &engine.Run{Status: engine.StatusInterrupted}
	events, err := at.service.engine.Watch(context.WithoutCancel(ctx), at.caller, it.run, 0)
	if err != nil {
		at.service.log.Error("a live interpreter cannot be followed", "run", it.run, "error", err)
	} else {
		for e := range events {
			if e.Type == engine.EventResult {
				result = e.Run
			}
		}
	}
	it.ended(result)
	close(it.gone)
}
