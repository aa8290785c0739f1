package live

import (
	"context"
	"errors"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Processes run beside the cells of a session, in its sandbox. While one runs, or what it has
// left in the background, the sandbox is not frozen between cells, unless no request was about
// the process for as long as an interpreter may be idle.

// ProcessRequest is a process to start: Argv, or Shell for bash to run.
type ProcessRequest struct {
	Argv     []string
	Shell    string
	Env      map[string]string
	Dir      string               // inside; relative to the workspace, which it is if empty
	Terminal *engine.TerminalSize // nil: pipes
	Deadline time.Time            // when it is killed; zero: never
	Whole    bool                 // beyond its first and its last part, its output is kept as a file
	Note     any                  // data of the edge that starts it, kept with the process
}

// Process is the current state of a process of a session.
type Process struct {
	ID         engine.ID
	Session    engine.ID
	PID        int // in the sandbox
	Argv       []string
	Dir        string
	Terminal   *engine.TerminalSize // as it was last set; nil: it has pipes
	Running    bool
	Background bool   // it has ended, and what it started goes on in the background
	ExitCode   *int   // 128+n after signal n; nil while it runs, and if it was lost
	Signal     string // that ended it: "SIGKILL"
	Overdue    bool   // its deadline passed before its end
	StartedAt  time.Time
	EndedAt    time.Time // zero while it runs
	CPU        time.Duration
	Output     int64 // bytes so far
	Truncated  bool  // some of it is not kept, but in Whole
	Whole      []WholeFile
	Note       any // of its ProcessRequest
}

// ProcessEventType is the type of an event of a process.
type ProcessEventType string

// The events of a process. The offsets count the bytes of all its streams together.
const (
	ProcessStdout   ProcessEventType = "stdout"
	ProcessStderr   ProcessEventType = "stderr"
	ProcessTerminal ProcessEventType = "terminal"
	ProcessDropped  ProcessEventType = "dropped" // Dropped bytes are not kept any more
	ProcessExit     ProcessEventType = "exit"    // the last
)

// ProcessEvent is a part of a process's output, or its end. A reader continues at Offset+len(Data)
// of the last event, or Offset+Dropped.
type ProcessEvent struct {
	Type    ProcessEventType
	Offset  int64
	Data    []byte // not to be changed
	Dropped int64
	Files   []WholeFile // of dropped: they have what is not kept, once the process has ended
	Process *Process    // exit
}

// LeftOut returns the line that stands for output that is not kept.
func (e *ProcessEvent) LeftOut() string {
	if len(e.Files) == 0 {
		return engine.LeftOut(e.Dropped, "", 0)
	}
	names, first := []string{}, int64(0)
	for _, f := range e.Files {
		names = append(names, f.Path)
		if !f.Whole {
			first = f.Bytes
		}
	}
	return engine.LeftOut(e.Dropped, strings.Join(names, " and "), first)
}

const (
	keptOutput    = 1 << 20   // bytes of a process, in memory
	keptHead      = 512 << 10 // where the whole goes to a file, from the beginning
	keptProcesses = 64        // ended processes
	// A process that writes faster is slowed down: reading its output costs time that is charged to
	// no process.
	outputRate  = 32 << 20 // bytes a second
	outputBurst = 8 << 20
	outputGrace = 50 * time.Millisecond // for its last output
)

// process is a process with its output.
type process struct {
	session *session
	started engine.Process
	run     engine.ID // of its interpreter
	shell   bool      // it runs a line of the shell, not a command with arguments
	output  output
	pumps   sync.WaitGroup
	drained chan struct{} // closed when its streams have ended: nothing holds its output
	over    chan struct{} // closed when nothing that it started is left

	// Guarded by the session's mu:
	Process
	lease    *lease // nil: no caller watches it, and its sandbox may be frozen
	watchers int
	idle     *time.Timer
}

// StartProcess starts a process, and an interpreter if there is none.
func (s *Service) StartProcess(
	ctx context.Context, caller engine.Caller, session engine.ID, req ProcessRequest,
) (Process, error) {
	spec, err := req.spec()
	if err != nil {
		return Process{}, err
	}
	if err := s.engine.CheckMonth(ctx, "start process", caller); err != nil {
		return Process{}, err
	}
	e, err := s.acquire(ctx, caller, session)
	if err != nil {
		return Process{}, err
	}
	started, err := s.engine.Inside().Start(ctx, session, spec)
	if err != nil {
		e.release()
		return Process{}, sandboxError(err)
	}
	at := e.it.at
	s.engine.Count(at.caller, engine.Consumption{Runs: 1})
	p := &process{
		session: at, run: e.it.run, started: started, shell: req.Shell != "",
		lease: e, drained: make(chan struct{}), over: make(chan struct{}),
		output: output{changed: make(chan struct{})},
		Process: Process{ID: engine.NewID(), Session: session, PID: started.PID(), Argv: spec.Argv, Dir: spec.Dir,
			Terminal: spec.Terminal, Running: true, StartedAt: time.Now(), Note: req.Note},
	}
	if req.Whole {
		p.output.keep = p.keep
	}
	at.mu.Lock()
	at.keepProcess(p)
	p.extend()
	snapshot := p.snapshot()
	at.mu.Unlock()
	if !s.background(func() { p.follow(caller, req.Deadline) }) {
		started.Close()
		return Process{}, closing()
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

// sandboxError makes an error temporary if it reports that the sandbox has just ended.
func sandboxError(err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok && errors.Is(err, engine.ErrNoProgram) {
		return &engine.Error{Op: e.Op, Kind: engine.ErrUnavailable,
			Err: errors.New("the sandbox of the session has just ended"), Hint: "Try again.", RetryAfter: time.Second}
	}
	return err
}

// keepProcess remembers a process, and forgets the oldest ended processes. The caller
// holds mu.
func (at *session) keepProcess(p *process) {
	at.processes = append(at.processes, p)
	ended := 0
	for _, other := range at.processes {
		if !other.Running && !other.Background {
			ended++
		}
	}
	at.processes = slices.DeleteFunc(at.processes, func(other *process) bool {
		if other.Running || other.Background || ended <= keptProcesses {
			return false
		}
		ended--
		return true
	})
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

// release allows freezing the sandbox. The caller holds mu.
func (p *process) release() {
	p.idle.Stop()
	if e := p.lease; e != nil {
		p.lease = nil
		e.releaseSoon()
	}
}

// snapshot is called with mu held.
func (p *process) snapshot() Process {
	s := p.Process
	p.output.state(&s)
	return s
}

// process finds a process of a session.
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

// running finds a running process, and keeps its sandbox running.
func (s *Service) running(ctx context.Context, caller engine.Caller, session, id engine.ID) (*process, error) {
	return s.alive(ctx, caller, session, id, func(p *process) bool { return p.Running })
}

// alive finds a process that runs or, depending on is, has left others.
func (s *Service) alive(
	ctx context.Context, caller engine.Caller, session, id engine.ID, is func(*process) bool,
) (*process, error) {
	p, err := s.process(ctx, caller, session, id)
	if err != nil {
		return nil, err
	}
	at := p.session
	at.mu.Lock()
	running, attended := is(p), p.lease != nil
	if running && attended {
		p.extend()
	}
	at.mu.Unlock()
	if !running {
		return nil, &engine.Error{Op: "process", Kind: engine.ErrConflict, ID: id.String(),
			Err: errors.New("the process has ended")}
	}
	if attended {
		return p, nil
	}
	e, err := s.acquire(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if !is(p) || p.lease != nil {
		e.releaseLocked()
		return p, nil
	}
	p.lease = e
	p.extend()
	return p, nil
}

// attend finds a process as running does, and also an exited process.
func (s *Service) attend(ctx context.Context, caller engine.Caller, session, id engine.ID) (*process, error) {
	p, err := s.running(ctx, caller, session, id)
	if errors.Is(err, engine.ErrConflict) {
		return s.process(ctx, caller, session, id)
	}
	return p, err
}

// Processes returns the running and the last exited processes, oldest first.
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

// Process returns the current state of a process.
func (s *Service) Process(ctx context.Context, caller engine.Caller, session, id engine.ID) (Process, error) {
	p, err := s.process(ctx, caller, session, id)
	if err != nil {
		return Process{}, err
	}
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	return p.snapshot(), nil
}

// WatchProcess yields the output of a process from an offset on, as far as it is kept, and then new
// output, up to its exit or the end of ctx.
func (s *Service) WatchProcess(
	ctx context.Context, caller engine.Caller, session, id engine.ID, from int64,
) (iter.Seq[ProcessEvent], error) {
	p, err := s.attend(ctx, caller, session, id)
	if err != nil {
		return nil, err
	}
	if from < 0 {
		return nil, engine.Invalid("from", "is negative")
	}
	return func(yield func(ProcessEvent) bool) {
		p.watched(+1)
		defer p.watched(-1)
		p.output.read(ctx, from, nil, yield)
	}, nil
}

// FollowProcess yields all output of a process, and its exit: the process blocks while its reader
// is far behind. It begins with new output or, with all, with the first byte that is kept. The
// sequence must be read, once; it ends with ctx.
func (s *Service) FollowProcess(
	ctx context.Context, caller engine.Caller, session, id engine.ID, all bool,
) (iter.Seq[ProcessEvent], error) {
	p, err := s.attend(ctx, caller, session, id)
	if err != nil {
		return nil, err
	}
	at := p.output.follower(all)
	stop := context.AfterFunc(ctx, func() { p.output.leave(at) })
	return func(yield func(ProcessEvent) bool) {
		p.watched(+1)
		defer p.watched(-1)
		defer stop()
		defer p.output.leave(at)
		p.output.read(ctx, *at, at, yield)
	}, nil
}

func (p *process) watched(more int) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.watchers += more; p.lease != nil {
		p.extend()
	}
}

// WriteProcess writes to the stdin or terminal of a process, and closes stdin with
// eof. It returns when the process or the kernel has accepted the data.
func (s *Service) WriteProcess(
	ctx context.Context, caller engine.Caller, session, id engine.ID, data []byte, eof bool,
) error {
	p, err := s.running(ctx, caller, session, id)
	if err != nil {
		return err
	}
	if eof && p.started.Stderr() == nil {
		data, eof = append(slices.Clone(data), 4), false // ^D: its terminal stays
	}
	stdin := p.started.Stdin()
	stop := context.AfterFunc(ctx, func() { _ = stdin.SetWriteDeadline(time.Now()) })
	defer func() {
		if !stop() {
			_ = stdin.SetWriteDeadline(time.Time{})
		}
	}()
	if len(data) > 0 {
		if _, err := stdin.Write(data); err != nil {
			if ctx.Err() != nil {
				return canceled(ctx)
			}
			return &engine.Error{Op: "write to process", Kind: engine.ErrConflict, ID: id.String(),
				Err: errors.New("its input is closed")}
		}
	}
	if !eof {
		return nil
	}
	if err := stdin.Close(); !errors.Is(err, os.ErrClosed) { // it has ended meanwhile
		return err
	}
	return nil
}

// ResizeProcess sets the size of the terminal of a process.
func (s *Service) ResizeProcess(
	ctx context.Context, caller engine.Caller, session, id engine.ID, size engine.TerminalSize,
) error {
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
