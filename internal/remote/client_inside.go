package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// duplex returns the connection of a request that was upgraded to a stream in both directions.
func duplex(answer *http.Response) io.ReadWriteCloser {
	stream, _ := answer.Body.(io.ReadWriteCloser)
	return stream
}

// Dial implements engine.Inside.
func (s *Sandbox) Dial(ctx context.Context, held engine.ID, port int) (net.Conn, error) {
	q := func(l lease) any { return dialRequest{held, l, port} }
	_, answer, err := s.at(ctx, held, "dial", q, nil) //nolint:bodyclose // as a stream
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe() // which has deadlines, unlike stream
	stream := duplex(answer)
	go func() {
		_, _ = io.Copy(theirs, stream)
		theirs.Close()
	}()
	go func() {
		_, _ = io.Copy(stream, theirs)
		stream.Close()
	}()
	return ours, nil
}

// Start implements engine.Inside.
func (s *Sandbox) Start(ctx context.Context, held engine.ID, spec *engine.ProcessSpec) (engine.Process, error) {
	q := startRequest{ID: engine.NewID(), Held: held, Env: spec.Env, Dir: []byte(spec.Dir), Term: spec.Terminal}
	for _, a := range spec.Argv {
		q.Argv = append(q.Argv, []byte(a))
	}
	leased := func(l lease) any {
		q.Lease = l
		return q
	}
	t, answer, err := s.at(context.WithoutCancel(ctx), held, "start", leased, nil) //nolint:bodyclose // as a stream
	if err != nil {
		return nil, err
	}
	stream := duplex(answer)
	pid, _ := strconv.Atoi(answer.Header.Get(headPID)) // 0 if the worker does not know it
	p := &process{pid: pid, sandbox: s, target: t, id: q.ID, stream: stream, ended: make(chan struct{}),
		terminal: q.Term != nil, frames: &frames{r: bufio.NewReader(stream), w: stream}}
	var out, problem *io.PipeWriter
	p.stdout, out = io.Pipe()
	if !p.terminal {
		p.stderr, problem = io.Pipe()
	}
	p.reading.Go(func() { p.read(out, problem) })
	return p, nil
}

// process is a process on a worker.
type process struct {
	pid            int
	sandbox        *Sandbox
	target         *target
	id             engine.ID
	stream         io.ReadWriteCloser
	frames         *frames
	stdout, stderr *io.PipeReader
	terminal       bool
	reading        sync.WaitGroup

	once  sync.Once
	ended chan struct{}
	end   processEnd
}

// read writes output to the pipes and notes the end, until the connection ends.
func (p *process) read(out, problem *io.PipeWriter) {
	var last error
	defer func() {
		p.finish(processEnd{Error: newFailure(lostWorker(unexpected(last)))})
		out.CloseWithError(io.EOF)
		if problem != nil {
			problem.CloseWithError(io.EOF)
		}
	}()
	for {
		k, payload, err := p.frames.receive()
		if err != nil {
			last = err
			return
		}
		to := out
		switch {
		case k == kindDone:
			if last = decoded(payload, func(end processEnd) error { p.finish(end); return nil }); last != nil {
				return
			}
			continue
		case k == kindAllDone:
			return
		case k == kindStderr && problem != nil:
			to = problem
		case k != kindStdout:
			continue
		}
		if len(payload) == 0 {
			to.Close()
		} else {
			_, _ = to.Write(payload) // it fails if the reader has closed the pipe
		}
	}
}

func (p *process) finish(end processEnd) {
	p.once.Do(func() {
		p.end = end
		close(p.ended)
	})
}

// stdin writes to a process until it has ended.
type stdin struct {
	frameWriter
	ended <-chan struct{}
}

func (s stdin) Write(b []byte) (int, error) {
	select {
	case <-s.ended:
		return 0, syscall.EPIPE
	default:
		return s.frameWriter.Write(b)
	}
}

// SetWriteDeadline implements engine.ProcessInput.
func (stdin) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

func (p *process) PID() int { return p.pid }

func (p *process) Stdin() engine.ProcessInput {
	return stdin{frameWriter{p.frames, kindBytes}, p.ended}
}

func (p *process) Stdout() io.ReadCloser { return p.stdout }

func (p *process) Stderr() io.ReadCloser {
	if p.terminal {
		return nil
	}
	return p.stderr
}

func (p *process) Signal(signal syscall.Signal) error {
	return p.order(processOrder{ID: p.id, Signal: int(signal)})
}

func (p *process) Resize(size engine.TerminalSize) error {
	if !p.terminal {
		return engine.Invalid("terminal", "this process has no terminal")
	}
	return p.order(processOrder{ID: p.id, Size: &size})
}

func (p *process) order(o processOrder) error {
	_, err := p.sandbox.query(context.Background(), p.target, question{Process: &o})
	return err
}

func (p *process) Wait() (engine.ProcessEnd, error) {
	<-p.ended
	if p.end.Error != nil {
		return engine.ProcessEnd{}, p.end.Error.err()
	}
	return p.end.End, nil
}

func (p *process) WaitAll() error {
	if p.end.End.Left {
		p.reading.Wait()
	}
	return nil
}

func (p *process) Close() error {
	p.stdout.Close()
	if p.stderr != nil {
		p.stderr.Close()
	}
	err := p.stream.Close()
	p.reading.Wait()
	return err
}

// files are those of a workspace on a worker. The request names the workspace.
type files struct {
	sandbox *Sandbox
	request filesRequest
}

// Files implements engine.Inside.
func (s *Sandbox) Files(held engine.ID) engine.Files {
	return &files{s, filesRequest{Held: held}}
}

// Tmp implements engine.Inside.
func (s *Sandbox) Tmp(held engine.ID) engine.Files {
	return &files{s, filesRequest{Held: held, Tmp: true}}
}

func (f *files) query(ctx context.Context, q filesRequest) (list []engine.Entry, more bool, err error) {
	t, l, err := f.sandbox.worker(f.request.Held)
	if err != nil {
		return nil, false, err
	}
	q.Held, q.Lease, q.Tmp = f.request.Held, l, f.request.Tmp
	a, err := f.sandbox.query(ctx, t, question{Files: &q})
	for _, e := range a.Entries {
		list = append(list, e.entry())
	}
	return list, a.More, err
}

func (f *files) one(ctx context.Context, q filesRequest) (engine.Entry, error) {
	list, _, err := f.query(ctx, q)
	if err == nil && len(list) != 1 {
		err = lostWorker(errors.New("an answer without the file"))
	}
	if err != nil {
		return engine.Entry{}, err
	}
	return list[0], nil
}

func (f *files) List(ctx context.Context, path string, depth int) ([]engine.Entry, bool, error) {
	return f.query(ctx, filesRequest{Op: "list", Path: []byte(path), Depth: depth})
}

func (f *files) Stat(ctx context.Context, path string) (engine.Entry, error) {
	return f.one(ctx, filesRequest{Op: "stat", Path: []byte(path)})
}

func (f *files) MakeFolder(ctx context.Context, path string) (engine.Entry, error) {
	return f.one(ctx, filesRequest{Op: "folder", Path: []byte(path)})
}

func (f *files) Move(ctx context.Context, from, to string, replace bool) (engine.Entry, error) {
	return f.one(ctx, filesRequest{Op: "move", Path: []byte(from), To: []byte(to), Replace: replace})
}

func (f *files) Remove(ctx context.Context, path string, recursive bool) error {
	_, _, err := f.query(ctx, filesRequest{Op: "remove", Path: []byte(path), Recursive: recursive})
	return err
}

// at sends a request about a path, whose answer has a body.
func (f *files) at(
	ctx context.Context, name, path string, recursive bool, body io.Reader,
) (*http.Response, error) {
	q := f.request
	q.Path, q.Recursive = []byte(path), recursive
	leased := func(l lease) any {
		q.Lease = l
		return q
	}
	_, answer, err := f.sandbox.at(ctx, q.Held, name, leased, body)
	return answer, err
}

// Open returns a copy of the file on this machine.
func (f *files) Open(ctx context.Context, path string) (*os.File, engine.Entry, error) {
	answer, err := f.at(ctx, "open", path, false, nil)
	if err != nil {
		return nil, engine.Entry{}, err
	}
	defer answer.Body.Close()
	var e entry
	if err := json.Unmarshal([]byte(answer.Header.Get(headRequest)), &e); err != nil {
		return nil, engine.Entry{}, lostWorker(err)
	}
	file, err := f.sandbox.temporary()
	if err != nil {
		return nil, engine.Entry{}, err
	}
	if _, err = io.Copy(file, answer.Body); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, engine.Entry{}, lostWorker(err)
	}
	return file, e.entry(), nil
}

func (f *files) Write(ctx context.Context, path string, content io.Reader) (engine.Entry, error) {
	body := &source{Reader: content}
	answer, err := f.at(ctx, "write", path, false, body)
	if failed := body.fault(); failed != nil { // the request was cut off, and wrote nothing
		err = failed
	}
	if err != nil {
		return engine.Entry{}, err
	}
	defer answer.Body.Close()
	var a reply
	if err := json.NewDecoder(answer.Body).Decode(&a); err != nil || len(a.Entries) != 1 {
		return engine.Entry{}, lostWorker(err)
	}
	return a.Entries[0].entry(), nil
}

// source remembers the error of its reader.
type source struct {
	io.Reader
	mu  sync.Mutex
	err error
}

func (s *source) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

func (f *files) Watch(
	ctx context.Context, path string, recursive bool, ready func(), seen func([]engine.FileEvent),
) error {
	answer, err := f.at(ctx, "watch", path, recursive, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	in := &frames{r: bufio.NewReader(answer.Body)}
	for {
		k, payload, err := in.receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return lostWorker(unexpected(err))
		case k == kindStarted:
			ready()
			continue
		case k == kindDone:
			return decoded(payload, func(r result) error {
				if r.Error != nil {
					return r.Error.err()
				}
				return nil
			})
		}
		err = decoded(payload, func(m fileEvents) error {
			list := make([]engine.FileEvent, len(m.Events))
			for i, e := range m.Events {
				list[i] = e.FileEvent
				list[i].Path, list[i].From = string(e.Path), string(e.From)
			}
			seen(list)
			return nil
		})
		if err != nil {
			return lostWorker(err)
		}
	}
}
