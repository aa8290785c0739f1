package e2b

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// The messages of process.Process. The numbers are the fields of its binary form.
type (
	processConfig struct {
		Cmd  string            `json:"cmd,omitempty" pb:"1"`
		Args []string          `json:"args,omitempty" pb:"2"`
		Envs map[string]string `json:"envs,omitempty" pb:"3"`
		Cwd  string            `json:"cwd,omitempty" pb:"4"`
	}
	terminalSize struct {
		Cols uint32 `json:"cols,omitempty" pb:"1"`
		Rows uint32 `json:"rows,omitempty" pb:"2"`
	}
	terminal struct {
		Size *terminalSize `json:"size,omitempty" pb:"1"`
	}
	startRequest struct {
		Process *processConfig `json:"process,omitempty" pb:"1"`
		PTY     *terminal      `json:"pty,omitempty" pb:"2"`
		Tag     *string        `json:"tag,omitempty" pb:"3"`
		Stdin   *bool          `json:"stdin,omitempty" pb:"4"`
	}
	startEvent struct {
		PID uint32 `json:"pid,omitempty" pb:"1"`
	}
	dataEvent struct {
		Stdout []byte `json:"stdout,omitempty" pb:"1"`
		Stderr []byte `json:"stderr,omitempty" pb:"2"`
		PTY    []byte `json:"pty,omitempty" pb:"3"`
	}
	endEvent struct {
		ExitCode int32   `json:"exitCode,omitempty" pb:"1"`
		Exited   bool    `json:"exited,omitempty" pb:"2"`
		Status   string  `json:"status,omitempty" pb:"3"`
		Error    *string `json:"error,omitempty" pb:"4"`
	}
	processEvent struct {
		Start     *startEvent `json:"start,omitempty" pb:"1"`
		Data      *dataEvent  `json:"data,omitempty" pb:"2"`
		End       *endEvent   `json:"end,omitempty" pb:"3"`
		Keepalive *empty      `json:"keepalive,omitempty" pb:"4"`
	}
	eventResponse struct {
		Event *processEvent `json:"event,omitempty" pb:"1"`
	}
	selector struct {
		PID uint32 `json:"pid,omitempty" pb:"1"`
		Tag string `json:"tag,omitempty" pb:"2"`
	}
	input struct {
		Stdin []byte `json:"stdin,omitempty" pb:"1"`
		PTY   []byte `json:"pty,omitempty" pb:"2"`
	}
	inputRequest struct {
		Process selector `json:"process" pb:"1"`
		Input   input    `json:"input" pb:"2"`
	}
	streamInput struct {
		Start *struct {
			Process selector `json:"process" pb:"1"`
		} `json:"start,omitempty" pb:"1"`
		Data *struct {
			Input input `json:"input" pb:"2"`
		} `json:"data,omitempty" pb:"2"`
		Keepalive *empty `json:"keepalive,omitempty" pb:"3"`
	}
	selected struct {
		Process selector `json:"process" pb:"1"`
	}
	signalRequest struct {
		Process selector `json:"process" pb:"1"`
		Signal  signal   `json:"signal" pb:"2"`
	}
	updateRequest struct {
		Process selector  `json:"process" pb:"1"`
		PTY     *terminal `json:"pty,omitempty" pb:"2"`
	}
	processInfo struct {
		Config *processConfig `json:"config,omitempty" pb:"1"`
		PID    uint32         `json:"pid,omitempty" pb:"2"`
		Tag    *string        `json:"tag,omitempty" pb:"3"`
	}
	listResponse struct {
		Processes []processInfo `json:"processes,omitempty" pb:"1"`
	}
)

type signal string

func (signal) names() []string {
	return []string{unix.SIGTERM: "SIGNAL_SIGTERM", unix.SIGKILL: "SIGNAL_SIGKILL"}
}

// process is a process that was started through this protocol.
type process struct {
	id engine.ID
	*started
}

// started is kept with a process.
type started struct {
	pid    uint32 // differs from the process's number in the sandbox
	tag    *string
	config *processConfig
	stdin  bool
	late   atomic.Bool // its deadline passed before its end
}

// endedFor is how long an ended process can still be queried.
const endedFor = 30 * time.Second

// processes returns the processes that run or have just ended, oldest first.
func (h *Handler) processes(ctx context.Context, sb *sandbox) ([]live.Process, error) {
	all, err := h.Live.Processes(ctx, sb.caller, sb.session)
	return slices.DeleteFunc(all, func(p live.Process) bool {
		_, ok := p.Note.(*started)
		return !ok || !p.Running && time.Since(p.EndedAt) > endedFor
	}), err
}

// process returns the last process with a number or a tag.
func (h *Handler) process(ctx context.Context, sb *sandbox, s selector) (*process, error) {
	all, err := h.processes(ctx, sb)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(all) {
		known := p.Note.(*started)
		if s.PID != 0 && known.pid == s.PID || s.PID == 0 && s.Tag != "" && known.tag != nil && *known.tag == s.Tag {
			return &process{p.ID, known}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("process not found"))
}

func (t *terminal) size() (*engine.TerminalSize, error) {
	if t == nil {
		return nil, nil
	}
	size := engine.TerminalSize{Columns: 80, Rows: 24}
	if s := t.Size; s != nil {
		if s.Cols < 1 || s.Cols > math.MaxUint16 || s.Rows < 1 || s.Rows > math.MaxUint16 {
			return nil, invalid("a terminal has 1 to 65535 columns and rows")
		}
		size = engine.TerminalSize{Columns: uint16(s.Cols), Rows: uint16(s.Rows)}
	}
	return &size, nil
}

// startProcess starts a process and streams its output. The deadline of the request kills it; a
// client that leaves does not.
func (h *Handler) startProcess(ctx context.Context, c call, q *startRequest, send func(*eventResponse) error) error {
	if q.Process == nil || q.Process.Cmd == "" {
		return invalid("process.cmd is missing")
	}
	size, err := q.PTY.size()
	if err != nil {
		return err
	}
	env := maps.Clone(c.env)
	maps.Copy(env, q.Process.Envs)
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return invalid("envs: a name or a value cannot be set")
		}
	}
	dir := absolute(q.Process.Cwd)
	// A client that leaves ends neither a process nor its start.
	note := &started{pid: c.lastPID.Add(1), tag: q.Tag, config: q.Process, stdin: q.Stdin == nil || *q.Stdin}
	made, err := h.Live.StartProcess(context.WithoutCancel(ctx), c.caller, c.session, live.ProcessRequest{
		Argv: append([]string{q.Process.Cmd}, q.Process.Args...), Env: env, Dir: dir, Terminal: size, Whole: true, Note: note,
	})
	if err != nil {
		return err
	}
	p := &process{made.ID, note}
	if over, ok := ctx.Deadline(); ok { // also if its client disconnects before
		time.AfterFunc(time.Until(over), func() { h.overdue(c.sandbox, p) })
	}
	if size == nil && !p.stdin {
		if err := h.Live.WriteProcess(ctx, c.caller, c.session, p.id, nil, true); err != nil &&
			engine.KindOf(err) != engine.ErrConflict {
			return err
		}
	}
	return h.follow(ctx, c, p, true, send)
}

func (h *Handler) connectProcess(ctx context.Context, c call, q *selected, send func(*eventResponse) error) error {
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return err
	}
	return h.follow(ctx, c, p, false, send)
}

// follow streams a process until it ends or the client's deadline passes.
func (h *Handler) follow(ctx context.Context, c call, p *process, all bool, send func(*eventResponse) error) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := h.Live.FollowProcess(following, c.caller, c.session, p.id, all)
	if err != nil {
		return err
	}
	event := func(e processEvent) error { return send(&eventResponse{&e}) }
	next, stop := wire.Follow(following, events, 0)
	defer func() { cancel(); stop() }()
	if err := event(processEvent{Start: &startEvent{p.pid}}); err != nil {
		return err
	}
	silence := pings(c.header)
	defer silence.Stop()
	for {
		var e processEvent
		select {
		case <-silence.C:
			e.Keepalive = &empty{}
		case got, more := <-next:
			if !more {
				return left(ctx)
			}
			if e = eventOf(&got); e == (processEvent{}) {
				continue
			}
		}
		if e.End != nil {
			if _, limited := ctx.Deadline(); limited && p.late.Load() && e.End.ExitCode < 0 {
				return errOverdue // either the process or its request ended first
			}
		}
		if err := event(e); err != nil || e.End != nil {
			return err
		}
	}
}

var errOverdue = connect.NewError(connect.CodeDeadlineExceeded, errors.New("the time of this request is over"))

// left returns why a stream ends before its process.
func left(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errOverdue
	}
	return connect.NewError(connect.CodeCanceled, errors.New("the client left, or the sandbox has ended"))
}

// overdue kills a process whose time is over.
func (h *Handler) overdue(sb *sandbox, p *process) {
	p.late.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	err := h.Live.SignalProcess(ctx, sb.caller, sb.session, p.id, "KILL")
	if kind := engine.KindOf(err); err != nil && kind != engine.ErrConflict && kind != engine.ErrNotFound {
		h.Log.Error("a process could not be killed when its time was over", "session", sb.session, "err", err)
	}
}

func eventOf(e *live.ProcessEvent) processEvent {
	switch e.Type {
	case live.ProcessStdout:
		return processEvent{Data: &dataEvent{Stdout: e.Data}}
	case live.ProcessStderr:
		return processEvent{Data: &dataEvent{Stderr: e.Data}}
	case live.ProcessTerminal:
		return processEvent{Data: &dataEvent{PTY: e.Data}}
	case live.ProcessExit:
		return processEvent{End: endOf(e.Process)}
	}
	return processEvent{}
}

// endOf formats the end of a process like Go's os/exec, which envd uses.
func endOf(p *live.Process) *endEvent {
	end := &endEvent{}
	switch {
	case p.Signal != "":
		end.ExitCode, end.Status = -1, "signal: "+unix.SignalNum(p.Signal).String()
	case p.ExitCode == nil:
		end.ExitCode, end.Status = -1, "lost with its sandbox"
	default:
		end.ExitCode, end.Exited, end.Status = int32(*p.ExitCode), true, "exit status "+strconv.Itoa(*p.ExitCode)
	}
	if end.ExitCode != 0 {
		end.Error = &end.Status
	}
	return end
}

func (h *Handler) listProcesses(ctx context.Context, c call, _ *empty) (*listResponse, error) {
	all, err := h.processes(ctx, c.sandbox)
	list := &listResponse{}
	for _, p := range all {
		if known := p.Note.(*started); p.Running {
			list.Processes = append(list.Processes, processInfo{known.config, known.pid, known.tag})
		}
	}
	return list, err
}

func (h *Handler) sendInput(ctx context.Context, c call, q *inputRequest) (*empty, error) {
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return nil, err
	}
	return &empty{}, h.write(ctx, c, p, q.Input)
}

func (h *Handler) write(ctx context.Context, c call, p *process, in input) error {
	if len(in.Stdin) > 0 && !p.stdin {
		return connect.NewError(connect.CodeInternal, errors.New("stdin is not enabled for this process"))
	}
	return gone(h.Live.WriteProcess(ctx, c.caller, c.session, p.id, append(in.Stdin, in.PTY...), false))
}

// gone translates the error of a process that has exited.
func gone(err error) error {
	if err != nil && engine.KindOf(err) == engine.ErrConflict {
		return connect.NewError(connect.CodeNotFound, errors.New("the process has ended"))
	}
	return err
}

func (h *Handler) streamInput(ctx context.Context, in *connect.ClientStream[streamInput]) error {
	c := call{sandbox: sandboxOf(ctx)}
	var p *process
	for in.Receive() {
		switch m := in.Msg(); {
		case m.Start != nil:
			var err error
			if p, err = h.process(ctx, c.sandbox, m.Start.Process); err != nil {
				return err
			}
		case m.Data != nil && p == nil:
			return invalid("the first message names the process")
		case m.Data != nil:
			if err := h.write(ctx, c, p, m.Data.Input); err != nil {
				return err
			}
		}
	}
	return in.Err()
}

func (h *Handler) closeStdin(ctx context.Context, c call, q *selected) (*empty, error) {
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return nil, err
	}
	return &empty{}, gone(h.Live.WriteProcess(ctx, c.caller, c.session, p.id, nil, true))
}

func (h *Handler) sendSignal(ctx context.Context, c call, q *signalRequest) (*empty, error) {
	name, ok := strings.CutPrefix(string(q.Signal), "SIGNAL_SIG")
	if !ok { // also a name that protobuf does not know
		return nil, invalid("signal must be SIGNAL_SIGTERM or SIGNAL_SIGKILL")
	}
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return nil, err
	}
	return &empty{}, gone(h.Live.SignalProcess(ctx, c.caller, c.session, p.id, name))
}

func (h *Handler) updateProcess(ctx context.Context, c call, q *updateRequest) (*empty, error) {
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return nil, err
	}
	size, err := q.PTY.size()
	if err != nil || size == nil {
		return &empty{}, err
	}
	return &empty{}, gone(h.Live.ResizeProcess(ctx, c.caller, c.session, p.id, *size))
}
