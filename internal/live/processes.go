package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/airlock-run/airlock/internal/engine"
)

// Processes run beside the cells of a session, in its sandbox. As long as one runs,
// or what it started holds its output, the sandbox does not stand still between cells;
// unless nobody has looked after it for as long as an interpreter may be idle.

// ProcessRequest is a process to start: Argv, or Shell for bash to run.
type ProcessRequest struct {
	Argv     []string
	Shell    string
	Env      map[string]string
	Dir      string               // inside; relative to the workspace, which it is if empty
	Terminal *engine.TerminalSize // nil: pipes
}

// Process is a process of a session as it stands.
type Process struct {
	ID        engine.ID
	Session   engine.ID
	Argv      []string
	Dir       string
	Terminal  *engine.TerminalSize // as it was last set; nil: it has pipes
	Running   bool
	ExitCode  *int   // 128+n after signal n; nil while it runs, and if it was lost
	Signal    string // that ended it: "SIGKILL"
	StartedAt time.Time
	EndedAt   time.Time // zero while it runs
	CPU       time.Duration
	Output    int64 // bytes so far
}

// ProcessEventType says what a process's event is.
type ProcessEventType string

// The events of a process. The offsets count the bytes of all its streams together.
const (
	ProcessStdout   ProcessEventType = "stdout"
	ProcessStderr   ProcessEventType = "stderr"
	ProcessTerminal ProcessEventType = "terminal"
	ProcessDropped  ProcessEventType = "dropped" // Dropped bytes are not kept any more
	ProcessExit     ProcessEventType = "exit"    // the last
)

// ProcessEvent is a part of a process's output, or its end. Who comes back goes on at
// Offset+len(Data) of the last one seen, or Offset+Dropped.
type ProcessEvent struct {
	Type    ProcessEventType
	Offset  int64
	Data    []byte // not to be changed
	Dropped int64
	Process *Process // exit
}

const (
	keptOutput    = 1 << 20 // bytes of a process
	keptProcesses = 64      // that have ended
	// A process that writes faster is slowed down: reading is work that nobody
	// charges to it.
	outputRate  = 32 << 20 // bytes a second
	outputBurst = 8 << 20
	outputGrace = 50 * time.Millisecond // for what it wrote last
)

// process is one with what it takes to go on.
type process struct {
	session *session
	started engine.Process
	output  output
	pumps   sync.WaitGroup
	drained chan struct{} // closed when its streams have ended: nothing holds its output

	// Guarded by the session's mu:
	Process
	entry    *entry // nil: nobody looks after it, and its sandbox may stand still
	watchers int
	idle     *time.Timer
}

// StartProcess starts a process, and an interpreter if there is none.
func (s *Service) StartProcess(ctx context.Context, caller engine.Caller, session engine.ID, req ProcessRequest) (Process, error) {
	spec, err := req.spec()
	if err != nil {
		return Process{}, err
	}
	e, err := s.enter(ctx, caller, session)
	if err != nil {
		return Process{}, err
	}
	started, err := s.engine.Inside().Start(ctx, session, spec)
	if err != nil {
		e.leave()
		return Process{}, inside(err)
	}
	at := e.it.at
	p := &process{
		session: at, started: started, entry: e, drained: make(chan struct{}), output: output{changed: make(chan struct{})},
		Process: Process{ID: engine.NewID(), Session: session, Argv: spec.Argv, Dir: spec.Dir, Terminal: spec.Terminal, Running: true, StartedAt: time.Now()},
	}
	at.mu.Lock()
	at.keepProcess(p)
	p.extend()
	snapshot := p.snapshot()
	at.mu.Unlock()
	if !s.background(p.follow) {
		started.Close()
		return Process{}, &engine.Error{Op: "start process", Kind: engine.ErrUnavailable, Err: errClosing}
	}
	return snapshot, nil
}

// spec checks a request.
func (r *ProcessRequest) spec() (*engine.ProcessSpec, error) {
	argv := r.Argv
	switch {
	case r.Shell != "" && len(argv) > 0:
		return nil, engine.Invalid("shell", "give either argv or shell")
	case r.Shell != "":
		argv = []string{"/bin/bash", "-c", r.Shell}
	case len(argv) == 0:
		return nil, engine.Invalid("argv", "name a command, or give a line for the shell")
	}
	dir := r.Dir
	if !strings.HasPrefix(dir, "/") {
		dir = strings.TrimSuffix("/workspace/"+dir, "/")
	}
	if t := r.Terminal; t != nil && (t.Columns == 0 || t.Rows == 0) {
		return nil, engine.Invalid("pty", "a terminal has at least one column and one row")
	}
	return &engine.ProcessSpec{Argv: slices.Clone(argv), Env: maps.Clone(r.Env), Dir: dir, Terminal: r.Terminal}, nil
}

// inside turns ErrNotFound, which is of a sandbox that has just ended, into what it
// is to a caller.
func inside(err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok && errors.Is(err, engine.ErrConflict) && e.Hint == "start one first" {
		return &engine.Error{Op: e.Op, Kind: engine.ErrUnavailable, Err: errors.New("the sandbox of the session has just ended"), Hint: "Try again.", RetryAfter: time.Second}
	}
	return err
}

// keepProcess remembers a process, and forgets the oldest that have ended. The caller
// holds mu.
func (at *session) keepProcess(p *process) {
	at.processes = append(at.processes, p)
	ended := 0
	for _, other := range at.processes {
		if !other.Running {
			ended++
		}
	}
	at.processes = slices.DeleteFunc(at.processes, func(other *process) bool {
		if other.Running || ended <= keptProcesses {
			return false
		}
		ended--
		return true
	})
}

// follow stays with a process until it has ended and nothing holds its output.
func (p *process) follow() {
	stream := func(kind ProcessEventType, from io.Reader) {
		p.pumps.Go(func() { p.output.pump(kind, from) })
	}
	if p.started.Stderr() == nil {
		stream(ProcessTerminal, p.started.Stdout())
	} else {
		stream(ProcessStdout, p.started.Stdout())
		stream(ProcessStderr, p.started.Stderr())
	}
	at := p.session
	at.service.work.Go(func() {
		p.pumps.Wait()
		close(p.drained)
	})
	end, err := p.started.Wait()
	grace := time.NewTimer(outputGrace)
	defer grace.Stop()
	select {
	case <-p.drained:
	case <-grace.C: // what it started goes on to write
	}
	at.mu.Lock()
	p.Running, p.EndedAt = false, time.Now()
	if err == nil {
		p.ExitCode, p.Signal, p.CPU = &end.ExitCode, end.Signal, end.CPU
	}
	last := p.snapshot()
	at.mu.Unlock()
	p.output.end(&last)
	<-p.drained
	p.started.Close()
	at.mu.Lock()
	p.release()
	at.mu.Unlock()
	at.changed()
}

// extend keeps the sandbox running for Idle more. The caller holds mu.
func (p *process) extend() {
	if p.idle != nil {
		p.idle.Stop()
	}
	at := p.session
	p.idle = time.AfterFunc(at.service.config.Idle, func() {
		at.mu.Lock()
		defer at.mu.Unlock()
		if p.watchers == 0 {
			p.release()
		}
	})
}

// release lets the sandbox be stopped. The caller holds mu.
func (p *process) release() {
	p.idle.Stop()
	if e := p.entry; e != nil {
		p.entry = nil
		e.left()
	}
}

// snapshot is called with mu held.
func (p *process) snapshot() Process {
	s := p.Process
	s.Output = p.output.written()
	return s
}

// process finds one of a session.
func (s *Service) process(ctx context.Context, caller engine.Caller, session, id engine.ID) (*process, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	i := slices.IndexFunc(at.processes, func(p *process) bool { return p.ID == id })
	if i < 0 {
		return nil, missing("process " + id.String())
	}
	return at.processes[i], nil
}

// running finds one that runs, and looks after it: its sandbox goes on.
func (s *Service) running(ctx context.Context, caller engine.Caller, session, id engine.ID) (*process, error) {
	p, err := s.process(ctx, caller, session, id)
	if err != nil {
		return nil, err
	}
	at := p.session
	at.mu.Lock()
	running, attended := p.Running, p.entry != nil
	if running && attended {
		p.extend()
	}
	at.mu.Unlock()
	if !running {
		return nil, &engine.Error{Op: "process", Kind: engine.ErrConflict, ID: id.String(), Err: errors.New("the process has ended")}
	}
	if attended {
		return p, nil
	}
	e, err := s.enter(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if !p.Running || p.entry != nil {
		e.left()
		return p, nil
	}
	p.entry = e
	p.extend()
	return p, nil
}

// Processes returns those of a session that run, and the last that have ended, oldest
// first.
func (s *Service) Processes(ctx context.Context, caller engine.Caller, session engine.ID) ([]Process, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	all := make([]Process, len(at.processes))
	for i, p := range at.processes {
		all[i] = p.snapshot()
	}
	return all, nil
}

// Process returns a process as it stands.
func (s *Service) Process(ctx context.Context, caller engine.Caller, session, id engine.ID) (Process, error) {
	p, err := s.process(ctx, caller, session, id)
	if err != nil {
		return Process{}, err
	}
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.snapshot(), nil
}

// WatchProcess yields the output of a process from an offset on, as far as it is kept,
// and then what comes, up to its exit or the end of ctx. Any number may watch.
func (s *Service) WatchProcess(ctx context.Context, caller engine.Caller, session, id engine.ID, from int64) (iter.Seq[ProcessEvent], error) {
	p, err := s.running(ctx, caller, session, id)
	if errors.Is(err, engine.ErrConflict) {
		p, err = s.process(ctx, caller, session, id)
	}
	if err != nil {
		return nil, err
	}
	if from < 0 {
		return nil, engine.Invalid("from", "is negative")
	}
	return func(yield func(ProcessEvent) bool) {
		p.watched(+1)
		defer p.watched(-1)
		p.output.read(ctx, from, yield)
	}, nil
}

func (p *process) watched(more int) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.watchers += more; p.entry != nil {
		p.extend()
	}
}

// WriteProcess writes to the stdin of a process, or types at its terminal, and ends
// stdin with eof. It returns when the process has taken the data, or the kernel.
func (s *Service) WriteProcess(ctx context.Context, caller engine.Caller, session, id engine.ID, data []byte, eof bool) error {
	p, err := s.running(ctx, caller, session, id)
	if err != nil {
		return err
	}
	if eof && p.started.Stderr() == nil {
		data, eof = append(slices.Clone(data), 4), false // ^D: its terminal stays
	}
	stdin := p.started.Stdin()
	if d, ok := stdin.(interface{ SetWriteDeadline(time.Time) error }); ok {
		stop := context.AfterFunc(ctx, func() { _ = d.SetWriteDeadline(time.Now()) })
		defer func() {
			if !stop() {
				_ = d.SetWriteDeadline(time.Time{})
			}
		}()
	}
	if len(data) > 0 {
		if _, err := stdin.Write(data); err != nil {
			if ctx.Err() != nil {
				return canceled(ctx)
			}
			return &engine.Error{Op: "write to process", Kind: engine.ErrConflict, ID: id.String(), Err: errors.New("its input is closed")}
		}
	}
	if eof {
		return stdin.Close()
	}
	return nil
}

// SignalProcess sends a signal to the group of a process: "SIGTERM", "TERM" or "15".
func (s *Service) SignalProcess(ctx context.Context, caller engine.Caller, session, id engine.ID, signal string) error {
	number, err := signalNumber(signal)
	if err != nil {
		return err
	}
	p, err := s.running(ctx, caller, session, id)
	if err != nil {
		return err
	}
	return p.started.Signal(number)
}

func signalNumber(name string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= 64 {
		return syscall.Signal(n), nil
	}
	if n := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")); n != 0 {
		return n, nil
	}
	return 0, engine.Invalid("signal", "%.20q is no signal", name)
}

// ResizeProcess sets the size of the terminal of a process.
func (s *Service) ResizeProcess(ctx context.Context, caller engine.Caller, session, id engine.ID, size engine.TerminalSize) error {
	p, err := s.running(ctx, caller, session, id)
	if err != nil {
		return err
	}
	if size.Columns == 0 || size.Rows == 0 {
		return engine.Invalid("pty", "a terminal has at least one column and one row")
	}
	if err := p.started.Resize(size); err != nil {
		return err
	}
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.Terminal = &size
	return nil
}

// KillProcess kills the group of a process and returns when the process has ended. One
// that has ended is no error.
func (s *Service) KillProcess(ctx context.Context, caller engine.Caller, session, id engine.ID) error {
	p, err := s.running(ctx, caller, session, id)
	if errors.Is(err, engine.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := p.started.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, engine.ErrConflict) {
		return err
	}
	return p.output.await(ctx)
}

// output is what a process has written, of which the last part is kept.
type output struct {
	mu      sync.Mutex
	chunks  []chunk // oldest first
	size    int
	next    int64 // offset of the next byte
	exit    *Process
	changed chan struct{} // closed, and made anew, when there is more
}

type chunk struct {
	stream ProcessEventType
	offset int64
	data   []byte
}

const (
	largestChunk = 32 << 10
	chunkCost    = 128 // of the smallest
)

// pump reads a stream to its end.
func (o *output) pump(stream ProcessEventType, from io.Reader) {
	buffer := make([]byte, largestChunk)
	limit := rate.NewLimiter(outputRate, outputBurst)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			o.write(stream, buffer[:n])
			_ = limit.WaitN(context.Background(), n) // it is never more than the burst
		}
		if err != nil {
			return
		}
	}
}

// write keeps data, and forgets as much of the oldest.
func (o *output) write(stream ProcessEventType, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, costs := len(o.chunks)-1, 0
	if last >= 0 && o.chunks[last].stream == stream && len(o.chunks[last].data)+len(data) <= largestChunk {
		o.chunks[last].data = append(o.chunks[last].data, data...) // readers have slices that end before
	} else {
		o.chunks = append(o.chunks, chunk{stream, o.next, slices.Clone(data)})
		costs = chunkCost
	}
	o.next += int64(len(data))
	o.size += len(data) + costs
	for o.size > keptOutput {
		o.size -= len(o.chunks[0].data) + chunkCost
		o.chunks[0] = chunk{} // its data is free
		o.chunks = o.chunks[1:]
	}
	o.tell()
}

func (o *output) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *output) end(p *Process) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exit = p
	o.tell()
}

func (o *output) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next
}

// after returns the event at an offset; ok is false if there is none yet.
func (o *output) after(from int64) (e ProcessEvent, ok bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i, found := slices.BinarySearchFunc(o.chunks, from, func(c chunk, at int64) int {
		switch {
		case c.offset+int64(len(c.data)) <= at:
			return -1
		case c.offset > at:
			return 1
		}
		return 0
	})
	switch {
	case found:
		c := o.chunks[i]
		return ProcessEvent{Type: c.stream, Offset: from, Data: slices.Clip(c.data[from-c.offset:])}, true, nil
	case i < len(o.chunks):
		return ProcessEvent{Type: ProcessDropped, Offset: from, Dropped: o.chunks[i].offset - from}, true, nil
	case o.exit != nil:
		return ProcessEvent{Type: ProcessExit, Offset: o.next, Process: o.exit}, true, nil
	}
	return ProcessEvent{}, false, o.changed
}

// read yields what there is from an offset on, and what comes.
func (o *output) read(ctx context.Context, from int64, yield func(ProcessEvent) bool) {
	for {
		e, ok, changed := o.after(from)
		if !ok {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		if !yield(e) || e.Type == ProcessExit {
			return
		}
		from += int64(len(e.Data)) + e.Dropped
	}
}

// await waits for the end.
func (o *output) await(ctx context.Context) error {
	for {
		o.mu.Lock()
		ended, changed := o.exit != nil, o.changed
		o.mu.Unlock()
		if ended {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for a process: %w", canceled(ctx))
		}
	}
}
