package executor

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Start starts a process inside a sandbox; see engine.Inside.
func (s *Sandbox) Start(ctx context.Context, held engine.ID, spec *engine.ProcessSpec) (engine.Process, error) {
	p := &process{}
	request := &enterRequest{Held: held.String(), Argv: spec.Argv, Env: processEnvironment(spec), Dir: spec.Dir,
		Terminal: spec.Terminal}
	if request.Dir == "" {
		request.Dir = image.RootWorkspace
	}
	if err := request.check(); err != nil {
		return nil, &engine.Error{Op: "start a process", Kind: engine.ErrInvalid, Err: err}
	}
	var theirs []*os.File
	defer func() { CloseAll(theirs...) }()
	if spec.Terminal == nil {
		ourEnds := [...]int{1, 0, 0} // the service writes stdin and reads the others
		for i, ours := range []**os.File{&p.stdin, &p.stdout, &p.stderr} {
			pipe, err := newPipeEnds(ourEnds[i])
			if err != nil {
				p.closeFiles()
				return nil, err
			}
			*ours, theirs = pipe.ours, append(theirs, pipe.theirs)
			// A user's pipes have so many pages together. A process that waits needs few.
			_, _ = unix.FcntlInt(pipe.theirs.Fd(), unix.F_SETPIPE_SZ, processPipes[i]) // it may be smaller already
		}
	}
	if err := s.startProcess(ctx, p, request, theirs); err != nil {
		p.closeFiles()
		return nil, err
	}
	return p, nil
}

// processPipes are the sizes of the pipes of a process beside a program.
var processPipes = [...]int{4 << 10, 16 << 10, 4 << 10}

func (s *Sandbox) startProcess(ctx context.Context, p *process, r *enterRequest, theirs []*os.File) error {
	want := 0
	if r.Terminal != nil {
		want = 1
	}
	l, begun, files, err := s.begun(ctx, "start a process", request{Enter: r}, theirs, want)
	if err != nil {
		return err
	}
	if want > 0 {
		p.stdin, p.stdout, p.terminal = files[0], files[0], true
	}
	p.link, p.pid = l, begun.PID
	return nil
}

// begun sends a request and waits until it is accepted, with a number of open files.
func (s *Sandbox) begun(
	ctx context.Context, op string, r request, theirs []*os.File, want int,
) (*Link, *answer, []*os.File, error) {
	l, stop, err := s.openRequest(ctx, r, theirs...)
	if err != nil {
		return nil, nil, nil, err
	}
	l.SetReadDeadline(time.Now().Add(EnterTime + endTime))
	a, files, err := l.next(ctx, op, want)
	if !stop() && err == nil {
		CloseAll(files...)
		err = &engine.Error{Op: op, Kind: engine.ErrCanceled, Err: ctx.Err()}
	}
	if err != nil {
		l.Close()
		return nil, nil, nil, err
	}
	l.SetReadDeadline(time.Time{})
	return l, &a, files, nil
}

// Dial connects to a port inside a sandbox; see engine.Inside.
func (s *Sandbox) Dial(ctx context.Context, held engine.ID, port int) (net.Conn, error) {
	l, _, files, err := s.begun(ctx, "dial", request{Dial: &dialRequest{held.String(), port}}, nil, 1)
	if err != nil {
		return nil, err
	}
	l.Close()
	defer files[0].Close()
	return net.FileConn(files[0])
}

// processEnvironment returns the environment of a process inside a sandbox.
func processEnvironment(spec *engine.ProcessSpec) []string {
	var all language.Language // it may run any of them
	for _, name := range []string{"python", "javascript"} {
		l, _ := language.Find(name)
		all.Env = append(all.Env, l.Env...)
	}
	list := Variables(&engine.Spec{Language: all, Home: image.RootWorkspace, Env: spec.Env})
	if _, set := spec.Env["TERM"]; spec.Terminal != nil && !set {
		list = append(list, "TERM=xterm-256color")
	}
	return list
}

// process is a process inside a sandbox, on the service's side.
type process struct {
	link                  *Link
	pid                   int
	stdin, stdout, stderr *os.File
	terminal              bool
	left                  bool // it has ended, and what it has started has not
}

func (p *process) Stdin() engine.ProcessInput { return p.stdin }

func (p *process) Stdout() io.ReadCloser {
	if p.terminal {
		return terminalOutput{p.stdout}
	}
	return p.stdout
}

func (p *process) Stderr() io.ReadCloser {
	if p.terminal {
		return nil
	}
	return p.stderr
}

// terminalOutput returns io.EOF when no process has the terminal open, which the kernel
// reports as an error.
type terminalOutput struct{ *os.File }

func (t terminalOutput) Read(b []byte) (int, error) {
	n, err := t.File.Read(b)
	if errors.Is(err, unix.EIO) {
		err = io.EOF
	}
	return n, err
}

func (p *process) PID() int { return p.pid }

func (p *process) Signal(signal syscall.Signal) error {
	if signal < 1 || signal > 64 {
		return engine.Invalid("signal", "%d is no signal", signal)
	}
	if err := p.link.Send(processControl{int(signal)}); err != nil {
		return &engine.Error{Op: "signal", Kind: engine.ErrConflict, Err: errors.New("the process has ended")}
	}
	return nil
}

func (p *process) Resize(size engine.TerminalSize) error {
	if !p.terminal {
		return engine.Invalid("terminal", "this process has no terminal")
	}
	conn, err := p.stdout.SyscallConn()
	if err != nil {
		return err
	}
	closed := conn.Control(func(fd uintptr) { err = resize(int(fd), size) })
	return errors.Join(closed, err)
}

func (p *process) Wait() (engine.ProcessEnd, error) {
	ended, err := p.next()
	if err != nil {
		return engine.ProcessEnd{}, err
	}
	p.left = ended.Left
	status := unix.WaitStatus(ended.Status)
	end := engine.ProcessEnd{ExitCode: status.ExitStatus(), CPU: ended.CPU, Left: ended.Left}
	if status.Signaled() {
		end.ExitCode, end.Signal = 128+int(status.Signal()), unix.SignalName(status.Signal())
	}
	return end, nil
}

func (p *process) WaitAll() error {
	if !p.left {
		return nil
	}
	_, err := p.next()
	return err
}

// next waits for the end of the process, or of all that it has left.
func (p *process) next() (*processEnd, error) {
	a, _, err := p.link.next(context.Background(), "wait for a process", 0)
	if err == nil && a.Ended == nil {
		err = lost(errors.New("an answer without how it ended"))
	}
	return a.Ended, err
}

func (p *process) Close() error {
	p.closeFiles()
	return p.link.Close()
}

func (p *process) closeFiles() {
	CloseAll(p.stdin, p.stdout, p.stderr)
}
