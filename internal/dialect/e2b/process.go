package e2b

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/dialect/e2b/envd"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// process is a process that was started through this protocol.
type process struct {
	id  engine.ID
	pid uint32
	*started
}

// started is kept with a process.
type started struct {
	tag    *string
	config *envd.ProcessConfig
	stdin  bool
}

// endedFor is how long an ended process can still be queried.
const endedFor = 30 * time.Second

// processes returns the processes that run or have just ended, oldest first.
func (h *Handler) processes(ctx context.Context, sb *sandbox) ([]live.Process, error) {
	all, err := h.Live.Processes(ctx, sb.caller, sb.session)
	return slices.DeleteFunc(all, func(p live.Process) bool {
		_, ok := p.Note.(*started)
		return !ok || !p.Running && !p.Background && time.Since(p.EndedAt) > endedFor
	}), err
}

// process returns the last process with a number or a tag.
func (h *Handler) process(ctx context.Context, sb *sandbox, s *envd.Selector) (*process, error) {
	all, err := h.processes(ctx, sb)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(all) {
		known := p.Note.(*started)
		if pid, tag := s.GetPid(), s.GetTag(); pid != 0 && uint32(p.PID) == pid ||
			pid == 0 && tag != "" && known.tag != nil && *known.tag == tag {
			return &process{p.ID, uint32(p.PID), known}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("process not found"))
}

func sizeOfTerminal(t *envd.Terminal) (*engine.TerminalSize, error) {
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
func (h *Handler) startProcess(
	ctx context.Context, c call, q *envd.StartRequest,
	send func(*envd.EventResponse) error,
) error {
	if q.Process == nil || q.Process.Cmd == "" {
		return invalid("process.cmd is missing")
	}
	size, err := sizeOfTerminal(q.Pty)
	if err != nil {
		return err
	}
	env := map[string]string{"E2B_SANDBOX_ID": c.id, "E2B_TEMPLATE_ID": c.template}
	maps.Copy(env, c.env)
	maps.Copy(env, q.Process.Envs)
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return invalid("envs: a name or a value cannot be set")
		}
	}
	dir := absolute(q.Process.Cwd)
	// A client that leaves ends neither a process nor its start.
	note := &started{tag: q.Tag, config: q.Process, stdin: q.Stdin == nil || *q.Stdin}
	over, _ := ctx.Deadline() // it is for the process, too, also if its client disconnects before
	made, err := h.Live.StartProcess(context.WithoutCancel(ctx), c.caller, c.session, live.ProcessRequest{
		Argv: append([]string{q.Process.Cmd}, q.Process.Args...), Env: env, Dir: dir, Terminal: size,
		Deadline: over, Note: note,
	})
	if err != nil {
		return err
	}
	p := &process{made.ID, uint32(made.PID), note}
	if size == nil && !p.stdin {
		if err := h.Live.WriteProcess(ctx, c.caller, c.session, p.id, nil, true); err != nil &&
			engine.KindOf(err) != engine.ErrConflict {
			return err
		}
	}
	return h.follow(ctx, c, p, true, send)
}

func (h *Handler) connectProcess(
	ctx context.Context, c call, q *envd.SelectRequest,
	send func(*envd.EventResponse) error,
) error {
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return err
	}
	return h.follow(ctx, c, p, false, send)
}

// follow streams a process until it ends or the client's deadline passes.
func (h *Handler) follow(
	ctx context.Context, c call, p *process, all bool,
	send func(*envd.EventResponse) error,
) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := h.Live.FollowProcess(following, c.caller, c.session, p.id, all)
	if err != nil {
		return err
	}
	event := func(e *envd.ProcessEvent) error { return send(&envd.EventResponse{Event: e}) }
	next, stop := wire.Follow(following, events, 0)
	defer func() { cancel(); stop() }()
	if err := event(&envd.ProcessEvent{Start: &envd.StartEvent{Pid: p.pid}}); err != nil {
		return err
	}
	silence := pings(c.header)
	defer silence.Stop()
	for {
		var e *envd.ProcessEvent
		overdue := false
		select {
		case <-silence.C:
			e = &envd.ProcessEvent{Keepalive: &envd.Empty{}}
		case got, more := <-next:
			if !more {
				return left(ctx)
			}
			if e = eventOf(&got); e == nil {
				continue
			}
			overdue = got.Process != nil && got.Process.Overdue
		}
		if e.End != nil {
			if _, limited := ctx.Deadline(); limited && overdue && e.End.ExitCode < 0 {
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

// eventOf returns the event of E2B, nil if there is none.
func eventOf(e *live.ProcessEvent) *envd.ProcessEvent {
	switch e.Type {
	case live.ProcessStdout:
		return &envd.ProcessEvent{Data: &envd.DataEvent{Stdout: e.Data}}
	case live.ProcessStderr:
		return &envd.ProcessEvent{Data: &envd.DataEvent{Stderr: e.Data}}
	case live.ProcessTerminal:
		return &envd.ProcessEvent{Data: &envd.DataEvent{Pty: e.Data}}
	case live.ProcessExit:
		return &envd.ProcessEvent{End: endOf(e.Process)}
	}
	return nil
}

// endOf formats the end of a process like Go's os/exec, which envd uses.
func endOf(p *live.Process) *envd.EndEvent {
	end := &envd.EndEvent{}
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

func (h *Handler) listProcesses(ctx context.Context, c call, _ *envd.Empty) (*envd.ListResponse, error) {
	all, err := h.processes(ctx, c.sandbox)
	list := &envd.ListResponse{}
	for _, p := range all {
		if known := p.Note.(*started); p.Running || p.Background {
			list.Processes = append(list.Processes, &envd.ProcessInfo{Config: known.config, Pid: uint32(p.PID), Tag: known.tag})
		}
	}
	return list, err
}

func (h *Handler) sendInput(ctx context.Context, c call, q *envd.InputRequest) (*envd.Empty, error) {
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return nil, err
	}
	return &envd.Empty{}, h.write(ctx, c, p, q.Input)
}

func (h *Handler) write(ctx context.Context, c call, p *process, in *envd.Input) error {
	if len(in.GetStdin()) > 0 && !p.stdin {
		return connect.NewError(connect.CodeInternal, errors.New("stdin is not enabled for this process"))
	}
	return gone(h.Live.WriteProcess(ctx, c.caller, c.session, p.id, append(in.GetStdin(), in.GetPty()...), false))
}

// gone translates the error of a process that has exited.
func gone(err error) error {
	if err != nil && engine.KindOf(err) == engine.ErrConflict {
		return connect.NewError(connect.CodeNotFound, errors.New("the process has ended"))
	}
	return err
}

func (h *Handler) streamInput(ctx context.Context, in *connect.ClientStream[envd.StreamInput]) error {
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

func (h *Handler) closeStdin(ctx context.Context, c call, q *envd.SelectRequest) (*envd.Empty, error) {
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return nil, err
	}
	return &envd.Empty{}, gone(h.Live.WriteProcess(ctx, c.caller, c.session, p.id, nil, true))
}

func (h *Handler) sendSignal(ctx context.Context, c call, q *envd.SignalRequest) (*envd.Empty, error) {
	if q.Signal != envd.Signal_SIGNAL_SIGTERM && q.Signal != envd.Signal_SIGNAL_SIGKILL {
		return nil, invalid("signal must be SIGNAL_SIGTERM or SIGNAL_SIGKILL")
	}
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return nil, err
	}
	err = h.Live.SignalProcess(ctx, c.caller, c.session, p.id, strconv.Itoa(int(q.Signal)))
	if err == nil && q.Signal == envd.Signal_SIGNAL_SIGKILL { // the next list does not have it
		err = h.Live.KillProcess(ctx, c.caller, c.session, p.id)
	}
	return &envd.Empty{}, gone(err)
}

func (h *Handler) updateProcess(ctx context.Context, c call, q *envd.UpdateRequest) (*envd.Empty, error) {
	p, err := h.process(ctx, c.sandbox, q.Process)
	if err != nil {
		return nil, err
	}
	size, err := sizeOfTerminal(q.Pty)
	if err != nil || size == nil {
		return &envd.Empty{}, err
	}
	return &envd.Empty{}, gone(h.Live.ResizeProcess(ctx, c.caller, c.session, p.id, *size))
}
