package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// session is a live session: its orders, and the interpreter that executes them.
type session struct {
	service  *Service
	id       engine.ID // the recorded session's, except for a fork
	caller   engine.Caller
	record   engine.Session
	settings settings
	setup    Setup

	mu          sync.Mutex
	secrets     []engine.Secret // those of settings, with their values; nil: they are gone
	interpreter *interpreter    // nil: there is none
	orders      []*order        // waiting orders, in order
	current     *order          // the order that the interpreter executes
	cells       []*cell         // kept, oldest first
	count       int             // of the last cell
	fresh       bool            // it was made here, and has had no interpreter yet
	admitted    bool            // there is room for its interpreter, which is about to start
	vacating    chan struct{}   // closed when its workspace is released: no interpreter starts before; nil: it stays
	vacated     int             // how often its workspace was released
	paused      bool            // it was paused, and not used since
	refused     int             // interpreters in a row for which there was no memory
	used        time.Time
	idle        *time.Timer
	processes   []*process        // that run, and some that have ended, oldest first
	looks       map[int]time.Time // processes of the service itself, and when they have ended
	ports       int               // connections that are open
	nextFlush   *flush            // that has not begun; nil: none
	flushing    sync.Mutex        // held while one stores
	why         string            // the next cell's message about the previous interpreter; empty: none
	cpu         time.Duration
	stored      uint64 // see Info.Files

	unstored map[string]string // reasons by path, of files that are in the workspace alone
	failed   error             // of the last attempt to store files

	dropped []engine.DroppedFile // could not be stored beside cells: the next cell tells
}

// order is a task for an interpreter: a cell or a question.
type order struct {
	do    string
	text  any // the encoded order for the driver
	cell  *cell
	reply chan reply // of a question
}

type reply struct {
	report json.RawMessage
	err    error
}

// answer answers a question, unless it is answered.
func (o *order) answer(r reply) {
	select {
	case o.reply <- r:
	default:
	}
}

// State is the state of a live session.
type State string

// The states of a live session.
const (
	StateNone    State = "none"    // there is no interpreter: the next cell starts one
	StatePaused  State = "paused"  // the same, by request
	StateIdle    State = "idle"    // it waits, and is frozen
	StateBusy    State = "busy"    // it runs a cell
	StateWaiting State = "waiting" // its cell waits for an answer to input()
)

// Info describes the current state of a live session.
type Info struct {
	Session  engine.Session
	Language string
	State    State
	Cell     engine.ID // that runs; zero: none
	Queued   int       // cells that wait
	Count    int       // execution count of the last cell
	Stored   uint64    // another number whenever files were stored or forgotten
	Fresh    bool      // its interpreter has run no cell yet: there are no variables
	Memory   bool      // there is no interpreter, and the next one goes on with variables and processes
	LastUse  time.Time
}

// Info describes a session.
func (s *Service) Info(ctx context.Context, caller engine.Caller, id engine.ID) (info Info, err error) {
	at, err := s.find(ctx, caller, id)
	if err != nil {
		return Info{}, err
	}
	info = at.info()
	if (info.State == StateNone || info.State == StatePaused) && keepsMemory(at.record) {
		info.Memory, err = s.engine.HasMemory(ctx, at.record)
	}
	return info, err
}

func (at *session) info() Info {
	at.mu.Lock()
	defer at.mu.Unlock()
	info := Info{Session: at.record, Language: at.settings.language(), State: StateNone, Count: at.count,
		Stored: at.stored, LastUse: at.used}
	for _, o := range at.orders {
		if o.cell != nil {
			info.Queued++
		}
	}
	switch {
	case at.interpreter == nil && at.paused:
		info.State = StatePaused
	case at.interpreter == nil:
	case at.current == nil || at.current.cell == nil:
		info.State = StateIdle
	default:
		info.State, info.Cell = StateBusy, at.current.cell.ID
		if at.interpreter.asks.First() != nil {
			info.State = StateWaiting
		}
	}
	info.Fresh = at.interpreter != nil && at.interpreter.fresh
	return info
}

// Start puts a cell in its session's queue, and returns at once.
func (s *Service) Start(ctx context.Context, caller engine.Caller, id engine.ID, req CellRequest) (Cell, error) {
	at, err := s.findToRun(ctx, caller, id)
	if err == nil {
		err = s.engine.CheckMonth(ctx, "start cell", caller)
	}
	if err != nil {
		return Cell{}, err
	}
	c, err := at.start(ctx, req, nil)
	if err != nil {
		return Cell{}, err
	}
	return at.show(c), nil
}

// start puts a cell in the queue, or a message to a comm.
func (at *session) start(ctx context.Context, req CellRequest, comm *CommMessage) (*cell, error) {
	_, maxima := at.service.engine.Limits()
	switch {
	case len(req.Code) > largestCell:
		return nil, &engine.Error{Op: "start cell", Kind: engine.ErrTooLarge, ID: "code",
			Err: errors.New("a cell may have 16 MiB")}
	case req.Timeout < 0, maxima.Timeout > 0 && req.Timeout > maxima.Timeout:
		return nil, engine.Invalid("timeout", "must be at most %s", engine.DurationText(maxima.Timeout))
	case req.Timeout == 0:
		req.Timeout = at.settings.Limits.Timeout
	}
	c := &cell{
		Cell:    Cell{ID: at.newCellID(), Session: at.id, Status: StatusQueued, CreatedAt: time.Now()},
		request: req, comm: comm, left: req.Timeout, done: make(chan struct{}),
		log: newLog(at.settings.Limits.Output),
	}
	text, err := at.text(c)
	if err != nil {
		return nil, err
	}
	if !req.Silent && comm == nil {
		at.keepWhole(c)
	}
	return c, at.enqueue(ctx, &order{do: "run", cell: c, text: text})
}

// enqueue queues an order for an interpreter, and starts the interpreter if there is none.
func (at *session) enqueue(ctx context.Context, o *order) error {
	at.mu.Lock()
	defer at.mu.Unlock()
	if len(at.orders) >= maxWaiting {
		return &engine.Error{Op: "start cell", Kind: engine.ErrBusy, RetryAfter: time.Second,
			Err: errors.New("too many cells of this session wait")}
	}
	if err := at.ensure(ctx, o.cell); err != nil {
		return err
	}
	at.orders = append(at.orders, o)
	if o.cell != nil && o.cell.comm == nil {
		at.keep(o.cell)
	}
	at.interpreter.call()
	return nil
}

// ensure starts an interpreter if there is none, whose first cell is known or nil. The caller holds mu, which
// is unlocked meanwhile.
func (at *session) ensure(ctx context.Context, first *cell) error {
	if err := at.hasSecrets(); err != nil {
		return err
	}
	for at.interpreter == nil || at.interpreter.ending != "" {
		free := at.vacating
		if it := at.interpreter; it != nil { // its successor starts after its end
			free = it.gone
		}
		if free != nil {
			at.mu.Unlock()
			err := await(ctx, free)
			at.mu.Lock()
			if err != nil {
				return err
			}
			continue
		}
		at.mu.Unlock()
		err := at.service.makeRoom(ctx, at)
		at.mu.Lock()
		if err != nil {
			return err
		}
		if at.interpreter == nil && at.vacating == nil {
			err = at.launch(first)
		}
		at.leaveRoom() // its interpreter takes it now
		if err != nil {
			return err
		}
	}
	return nil
}

// keep remembers a cell, and forgets old ones. The caller holds mu.
func (at *session) keep(c *cell) {
	at.cells = append(at.cells, c)
	bytes, first := 0, 0
	for i, older := range slices.Backward(at.cells[:len(at.cells)-1]) {
		bytes += older.log.size()
		if older.Status.Final() && (bytes > keptBytes || len(at.cells)-i > keptCells) {
			first = i + 1
			break
		}
	}
	at.cells = slices.Delete(at.cells, 0, first)
}

// cell finds a kept cell.
func (s *Service) cell(ctx context.Context, caller engine.Caller, session, id engine.ID) (*session, *cell, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return nil, nil, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	i := slices.IndexFunc(at.cells, func(c *cell) bool { return c.ID == id })
	if i < 0 {
		if c := at.formerCell(id); c != nil {
			return at, c, nil
		}
		return nil, nil, missing("cell " + id.String())
	}
	return at, at.cells[i], nil
}

// Cell returns the current state of a cell. The last cells of a session are kept
// while the service runs.
func (s *Service) Cell(ctx context.Context, caller engine.Caller, session, id engine.ID) (Cell, error) {
	at, c, err := s.cell(ctx, caller, session, id)
	if err != nil {
		return Cell{}, err
	}
	return at.show(c), nil
}

// show returns the current state of a cell.
func (at *session) show(c *cell) Cell {
	at.mu.Lock()
	defer at.mu.Unlock()
	return c.snapshot()
}

// Cells returns the kept cells, oldest first.
func (s *Service) Cells(ctx context.Context, caller engine.Caller, session engine.ID) ([]Cell, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	all := make([]Cell, len(at.cells))
	for i, c := range at.cells {
		all[i] = c.snapshot()
	}
	return all, nil
}

// Wait returns a cell when it has ended. The end of ctx does not end the cell.
func (s *Service) Wait(ctx context.Context, caller engine.Caller, session, id engine.ID) (Cell, error) {
	at, c, err := s.cell(ctx, caller, session, id)
	if err != nil {
		return Cell{}, err
	}
	if err := await(ctx, c.done); err != nil {
		return Cell{}, err
	}
	return at.show(c), nil
}

// await waits until done is closed.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return canceled(ctx)
	}
}

func canceled(ctx context.Context) error {
	return &engine.Error{Op: "wait for a cell", Kind: engine.ErrCanceled, Err: context.Cause(ctx)}
}

// Watch yields the events of a cell with Seq > after, up to its done or the end of
// ctx. Any number may watch.
func (s *Service) Watch(
	ctx context.Context, caller engine.Caller, session, id engine.ID, after int,
) (iter.Seq[Event], error) {
	_, c, err := s.cell(ctx, caller, session, id)
	if err != nil {
		return nil, err
	}
	return c.log.events.Watch(ctx, after), nil
}

// CancelCell removes a queued cell from the queue, or interrupts a running one. It returns when the
// cell has ended.
func (s *Service) CancelCell(ctx context.Context, caller engine.Caller, session, id engine.ID) error {
	at, c, err := s.cell(ctx, caller, session, id)
	if err != nil {
		return err
	}
	return at.interruptCell(ctx, c)
}

// Interrupt interrupts the running cell, or the next one, and returns when it has ended. A cell
// that does not end within 2 s is killed, with the interpreter.
func (s *Service) Interrupt(ctx context.Context, caller engine.Caller, session engine.ID) error {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return err
	}
	at.mu.Lock()
	running := at.current
	if running == nil && len(at.orders) > 0 {
		running = at.orders[0]
	}
	at.mu.Unlock()
	if running == nil || running.cell == nil {
		return nil
	}
	return at.interruptCell(ctx, running.cell)
}

func (at *session) interruptCell(ctx context.Context, c *cell) error {
	at.mu.Lock()
	if i := slices.IndexFunc(at.orders, func(o *order) bool { return o.cell == c }); i >= 0 {
		at.orders = slices.Delete(at.orders, i, i+1)
		at.finish(c, StatusInterrupted, "It was cancelled before it ran.")
	}
	if at.current != nil && at.current.cell == c {
		at.stop(c)
	}
	at.mu.Unlock()
	return await(ctx, c.done)
}

// stop interrupts the running cell. The caller holds mu.
func (at *session) stop(c *cell) {
	it := at.interpreter
	if c.stopping || it == nil {
		return
	}
	c.stopping = true
	if c.Status == StatusRunning { // otherwise it is interrupted when it begins
		it.interrupt(false)
	}
	grace := cmp.Or(c.request.Grace, interruptTime)
	wait, pause := grace, grace // Bash's driver interrupts again itself
	switch {
	case at.settings.inNode(): // it gets no signal at first, and may lose one
		wait, pause = interruptTime/40, interruptTime/5
	case at.settings.Language == "python", at.settings.Language == "r":
		// An "except:" without a type swallows one, and so does a destructor.
		wait, pause = grace/2, grace/8
	}
	over := time.Now().Add(grace)
	at.service.work.Go(func() { at.pursue(it, c, over, wait, pause) })
}

// pursue interrupts a stopping cell again, first after wait, then every pause, until it ends. If it has not ended when
// its time is over, pursue ends the interpreter.
func (at *session) pursue(it *interpreter, c *cell, over time.Time, wait, pause time.Duration) {
	timer := time.NewTimer(min(wait, time.Until(over)))
	defer timer.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-timer.C:
		}
		expired := !time.Now().Before(over)
		at.mu.Lock()
		switch {
		case at.current == nil || at.current.cell != c || at.interpreter != it:
		case expired:
			at.service.lost.Add(1)
			it.end(fmt.Sprintf("It did not heed an interrupt within %v, and was killed.",
				cmp.Or(c.request.Grace, interruptTime)))
		case it.ending == "" && c.Status == StatusRunning:
			it.interrupt(true)
		}
		at.mu.Unlock()
		if expired {
			return
		}
		timer.Reset(min(pause, time.Until(over)))
	}
}

// Restart ends the interpreter and all programs of the session. Waiting cells are
// interrupted. Files stay.
func (s *Service) Restart(ctx context.Context, caller engine.Caller, session engine.ID) error {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return err
	}
	at.mu.Lock()
	at.cancelQueued("It was restarted before this ran.")
	it := at.interpreter
	if it != nil {
		it.end("It was restarted by request.")
	}
	at.mu.Unlock()
	if it == nil {
		return nil
	}
	return it.await(ctx)
}

// cancelQueued ends all waiting orders. The caller holds mu.
func (at *session) cancelQueued(why string) {
	for _, o := range at.orders {
		at.give(o, StatusInterrupted, why)
	}
	at.orders = nil
}

// give ends an order that the interpreter has not executed. The caller holds mu.
func (at *session) give(o *order, status Status, why string) {
	if o.cell != nil {
		at.finish(o.cell, status, why)
		return
	}
	o.answer(reply{err: &engine.Error{Op: o.do, Kind: engine.ErrUnavailable, Err: errors.New(why),
		RetryAfter: time.Second}})
}

// finish ends a cell. The caller holds mu.
func (at *session) finish(c *cell, status Status, message string) {
	if c.Status.Final() {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.hold()
	c.Status, c.Message, c.FinishedAt = status, sentence(c.Message, message), time.Now()
	c.Usage.Duration = c.request.Timeout - c.left
	at.service.cells.Add(1)
	at.service.computed.Add(int64(c.Usage.Duration))
	if c.comm == nil && c.Usage.Duration > 0 {
		at.service.engine.Count(at.caller, engine.Consumption{Runs: 1})
	}
	at.used = c.FinishedAt
	c.Dropped = append(c.Dropped, c.log.unkept...)
	c.Truncated = c.log.end(c.Cell)
	close(c.done)
}

// ran returns for how long a cell has run until now; nil has not. The caller holds mu.
func (c *cell) ran() time.Duration {
	if c == nil || c.Status.Final() {
		return 0
	}
	ran := c.request.Timeout - c.left
	if !c.since.IsZero() {
		ran += time.Since(c.since)
	}
	return ran
}

// run starts a cell's clock, and hold stops it. The caller holds mu.
func (c *cell) run(over func()) {
	if !c.since.IsZero() || c.Status.Final() {
		return
	}
	c.since = time.Now()
	c.timer = time.AfterFunc(c.left, over)
}

func (c *cell) hold() {
	if c.since.IsZero() {
		return
	}
	c.timer.Stop()
	c.left -= time.Since(c.since)
	c.since = time.Time{}
}

func (at *session) alive() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.interpreter != nil
}

// young reports whether the session has just been created on this node. Whether it still exists is
// then checked when its first interpreter starts.
func (at *session) young() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.fresh && time.Since(at.used) < youth
}

const youth = time.Second

func (at *session) lastUse() time.Time {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.used
}

// endIdle ends an idle interpreter. Where memory is kept, it goes on with the next cell.
func (at *session) endIdle(why string) bool {
	if !at.isIdle() {
		return false
	}
	if at.id == at.record.ID && keepsMemory(at.record) && at.service.background(func() { _ = at.doze(why) }) {
		return true
	}
	return at.endNow(why)
}

// endNow ends an idle interpreter.
func (at *session) endNow(why string) bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	if !at.idleNow() {
		return false
	}
	at.interpreter.vacate = true
	at.interpreter.end(why)
	return true
}

// isIdle reports whether a session has an interpreter that nobody uses.
func (at *session) isIdle() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.idleNow()
}

// idleNow is isIdle for a caller that holds mu.
func (at *session) idleNow() bool {
	it := at.interpreter
	return it != nil && it.ending == "" && at.current == nil && len(at.orders) == 0 && it.leases == 0
}

// await waits until no interpreter is being ended.
func (at *session) await(ctx context.Context) {
	at.mu.Lock()
	it := at.interpreter
	at.mu.Unlock()
	if it != nil {
		_ = it.await(ctx) // the caller that needs the capacity asks again
	}
}

// quit ends the interpreter and cancels the queue.
func (at *session) quit(why string) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.cancelQueued(why)
	if at.interpreter != nil {
		at.interpreter.end(why)
	}
}
