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
	"sync"
	"syscall"

	"github.com/airlock-run/airlock/internal/engine"
)

// duplex is the connection of a request that has become a stream both ways.
func duplex(answer *http.Response) io.ReadWriteCloser {
	stream, _ := answer.Body.(io.ReadWriteCloser)
	return stream
}

// Dial implements engine.Inside.
func (s *Sandbox) Dial(ctx context.Context, held engine.ID, port int) (net.Conn, error) {
	t, err := s.worker(held)
	if err != nil {
		return nil, err
	}
	// What is proxied here wants deadlines and half-closes of a connection.
	answer, err := s.request(ctx, s.single, t, "/worker/v1/dial", dialRequest{held, port}, nil) //nolint:bodyclose // as a stream
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
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
	t, err := s.worker(held)
	if err != nil {
		return nil, err
	}
	q := startRequest{ID: engine.NewID(), Held: held, Env: spec.Env, Dir: []byte(spec.Dir), Term: spec.Terminal}
	for _, a := range spec.Argv {
		q.Argv = append(q.Argv, []byte(a))
	}
	answer, err := s.request(context.WithoutCancel(ctx), s.single, t, "/worker/v1/start", q, nil) //nolint:bodyclose // as a stream
	if err != nil {
		return nil, err
	}
	stream := duplex(answer)
	p := &process{sandbox: s, target: t, id: q.ID, stream: stream, ended: make(chan struct{}), terminal: q.Term != nil,
		frames: &frames{r: bufio.NewReader(stream), w: stream}}
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

// read hands over what comes, until the connection ends.
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
			end, err := decodeJSON[processEnd](payload)
			if err != nil {
				last = err
				return
			}
			p.finish(end)
			continue
		case k == kindStderr && problem != nil:
			to = problem
		case k != kindStdout:
			continue
		}
		if len(payload) == 0 {
			to.Close()
		} else {
			_, _ = to.Write(payload) // whoever reads no more has closed it
		}
	}
}

func (p *process) finish(end processEnd) {
	p.once.Do(func() {
		p.end = end
		close(p.ended)
	})
}

type stdin struct{ p *process }

func (s stdin) Write(b []byte) (int, error) {
	select {
	case <-s.p.ended:
		return 0, syscall.EPIPE
	default:
	}
	if len(b) == 0 {
		return 0, nil
	}
	if err := s.p.frames.send(kindBytes, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s stdin) Close() error { return s.p.frames.send(kindBytes, nil) }

func (p *process) Stdin() io.WriteCloser { return stdin{p} }
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
	_, err := p.sandbox.ask(context.Background(), p.target, question{Process: &o})
	return err
}

func (p *process) Wait() (engine.ProcessEnd, error) {
	<-p.ended
	if p.end.Error != nil {
		return engine.ProcessEnd{}, p.end.Error.err()
	}
	return p.end.End, nil
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

// files are those of a workspace on a worker.
type files struct {
	sandbox *Sandbox
	held    engine.ID
	tmp     bool
}

// Files implements engine.Inside.
func (s *Sandbox) Files(held engine.ID) engine.Files { return &files{s, held, false} }

// Tmp implements engine.Inside.
func (s *Sandbox) Tmp(held engine.ID) engine.Files { return &files{s, held, true} }

func (f *files) ask(ctx context.Context, q filesRequest) (list []engine.Entry, more bool, err error) {
	t, err := f.sandbox.worker(f.held)
	if err != nil {
		return nil, false, err
	}
	q.Held, q.Tmp = f.held, f.tmp
	a, err := f.sandbox.ask(ctx, t, question{Files: &q})
	for _, e := range a.Entries {
		list = append(list, e.entry())
	}
	return list, a.More, err
}

func (f *files) one(ctx context.Context, q filesRequest) (engine.Entry, error) {
	list, _, err := f.ask(ctx, q)
	if err == nil && len(list) != 1 {
		err = lostWorker(errors.New("an answer without the file"))
	}
	if err != nil {
		return engine.Entry{}, err
	}
	return list[0], nil
}

func (f *files) List(ctx context.Context, path string, depth int) ([]engine.Entry, bool, error) {
	return f.ask(ctx, filesRequest{Op: "list", Path: []byte(path), Depth: depth})
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
	_, _, err := f.ask(ctx, filesRequest{Op: "remove", Path: []byte(path), Recursive: recursive})
	return err
}

// Open brings the file over.
func (f *files) Open(ctx context.Context, path string) (*os.File, engine.Entry, error) {
	t, err := f.sandbox.worker(f.held)
	if err != nil {
		return nil, engine.Entry{}, err
	}
	q := filesRequest{Held: f.held, Tmp: f.tmp, Path: []byte(path)}
	answer, err := f.sandbox.request(ctx, f.sandbox.single, t, "/worker/v1/open", q, nil)
	if err != nil {
		return nil, engine.Entry{}, err
	}
	defer answer.Body.Close()
	e, err := decodeJSON[entry]([]byte(answer.Header.Get(headRequest)))
	if err != nil {
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
	t, err := f.sandbox.worker(f.held)
	if err != nil {
		return engine.Entry{}, err
	}
	q := filesRequest{Held: f.held, Tmp: f.tmp, Path: []byte(path)}
	body := &source{Reader: content}
	answer, err := f.sandbox.request(ctx, f.sandbox.single, t, "/worker/v1/write", q, body)
	if failed := body.fault(); failed != nil { // nothing was made: the request was cut off
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

// source remembers how reading it failed.
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
	t, err := f.sandbox.worker(f.held)
	if err != nil {
		return err
	}
	q := filesRequest{Held: f.held, Tmp: f.tmp, Path: []byte(path), Recursive: recursive}
	answer, err := f.sandbox.request(ctx, f.sandbox.single, t, "/worker/v1/watch", q, nil)
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
			r, err := decodeJSON[result](payload)
			if err == nil && r.Error != nil {
				err = r.Error.err()
			}
			return err
		}
		m, err := decodeJSON[fileEvents](payload)
		if err != nil {
			return lostWorker(err)
		}
		list := make([]engine.FileEvent, len(m.Events))
		for i, e := range m.Events {
			list[i] = e.FileEvent
			list[i].Path, list[i].From = string(e.Path), string(e.From)
		}
		seen(list)
	}
}
