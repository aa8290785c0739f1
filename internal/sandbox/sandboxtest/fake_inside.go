package sandboxtest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// FakeProcess replaces a process inside a sandbox: it returns its exit code. With a
// terminal stderr is stdout. After SIGKILL it counts as ended, even if it is still running.
type FakeProcess func(spec *engine.ProcessSpec, stdin io.Reader, stdout, stderr io.Writer,
	signals <-chan syscall.Signal) int

// Processes sets the functions that Start and Dial call. If process or dial is nil, the
// respective call fails.
func (f *Fake) Processes(process FakeProcess, dial func(port int) (net.Conn, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.process, f.port = process, dial
}

func (f *Fake) count(held engine.ID, more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[held] += more
}

// standing returns why no process can be started beside the program in a workspace. The
// caller holds the lock.
func (f *Fake) standing(held engine.ID) error {
	_, known := f.held[held]
	switch {
	case f.fault != nil:
		return f.fault
	case !known:
		return engine.ErrNotFound
	case f.running[held] == 0:
		return engine.ErrConflict
	}
	return nil
}

// Start calls the function set by Processes.
func (f *Fake) Start(_ context.Context, held engine.ID, spec *engine.ProcessSpec) (engine.Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.standing(held); err != nil {
		return nil, err
	}
	if f.process == nil || len(spec.Argv) == 0 {
		return nil, engine.ErrInvalid
	}
	p := &fakeProcess{terminal: spec.Terminal != nil, signals: make(chan syscall.Signal, 16), ended: make(chan struct{})}
	var stdin *io.PipeReader
	var stdout, stderr *io.PipeWriter
	stdin, p.stdin = io.Pipe()
	p.stdout, stdout = io.Pipe()
	p.stderr, stderr = io.Pipe()
	var errs io.Writer = stderr
	if p.terminal {
		errs = stdout
	}
	go func() {
		code := f.process(spec, stdin, stdout, errs, p.signals)
		stdin.Close()
		stdout.Close()
		stderr.Close()
		p.end(engine.ProcessEnd{ExitCode: code})
	}()
	return p, nil
}

// Dial calls the function set by Processes.
func (f *Fake) Dial(_ context.Context, held engine.ID, port int) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.standing(held); err != nil {
		return nil, err
	}
	if f.port == nil {
		return nil, engine.ErrConflict
	}
	return f.port(port)
}

// SetUsage sets what Usage returns.
func (f *Fake) SetUsage(use engine.SandboxUsage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.usage = use
}

// Usage returns what SetUsage was called with.
func (f *Fake) Usage(_ context.Context, held engine.ID) (engine.SandboxUsage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.usage, f.standing(held)
}

type fakeProcess struct {
	stdin          *io.PipeWriter
	stdout, stderr *io.PipeReader
	terminal       bool
	signals        chan syscall.Signal

	once  sync.Once
	ended chan struct{}
	how   engine.ProcessEnd
}

func (p *fakeProcess) end(how engine.ProcessEnd) {
	p.once.Do(func() {
		p.how = how
		close(p.ended)
	})
}

func (p *fakeProcess) Stdin() engine.ProcessInput { return fakeInput{p.stdin} }

// fakeInput is an input whose writes cannot be ended.
type fakeInput struct{ *io.PipeWriter }

func (fakeInput) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

func (p *fakeProcess) Stdout() io.ReadCloser { return p.stdout }
func (p *fakeProcess) Stderr() io.ReadCloser {
	if p.terminal {
		return nil
	}
	return p.stderr
}

func (p *fakeProcess) Signal(signal syscall.Signal) error {
	select {
	case <-p.ended:
		return engine.ErrConflict
	default:
	}
	select {
	case p.signals <- signal:
	default: // the process handles no signals
	}
	if signal == syscall.SIGKILL {
		p.end(engine.ProcessEnd{ExitCode: 137, Signal: "SIGKILL"})
		return p.closeStreams()
	}
	return nil
}

func (p *fakeProcess) closeStreams() error {
	return errors.Join(p.stdin.Close(), p.stdout.Close(), p.stderr.Close())
}

func (p *fakeProcess) Resize(engine.TerminalSize) error {
	if !p.terminal {
		return engine.ErrInvalid
	}
	return nil
}

func (p *fakeProcess) Wait() (engine.ProcessEnd, error) {
	<-p.ended
	return p.how, nil
}

func (p *fakeProcess) PID() int { return 0 }

func (p *fakeProcess) WaitAll() error { return nil }

func (p *fakeProcess) Close() error {
	_ = p.Signal(syscall.SIGKILL) // it may have ended
	return p.closeStreams()
}

// fakeFolder is the folder of a held workspace, with its watches.
type fakeFolder struct {
	root *os.Root

	mu       sync.Mutex
	watchers map[int]func([]engine.FileEvent)
	next     int
}

// drop removes a workspace. The caller holds the lock.
func (f *Fake) drop(id engine.ID) {
	delete(f.held, id)
	if folder := f.folders[id]; folder != nil {
		folder.root.Close()
		os.RemoveAll(folder.root.Name())
		delete(f.folders, id)
	}
}

// Files returns files in a folder of the test's machine, which are not those that
// programs see. A watch reports only changes made through them.
func (f *Fake) Files(held engine.ID) engine.Files { return fakeFiles{f, held} }

// Tmp returns the same folder: a fake has only one.
func (f *Fake) Tmp(held engine.ID) engine.Files { return f.Files(held) }

type fakeFiles struct {
	fake *Fake
	held engine.ID
}

func (f fakeFiles) folder() (*fakeFolder, error) {
	f.fake.mu.Lock()
	defer f.fake.mu.Unlock()
	if _, known := f.fake.held[f.held]; !known {
		return nil, engine.ErrNotFound
	}
	if folder := f.fake.folders[f.held]; folder != nil {
		return folder, nil
	}
	dir, err := os.MkdirTemp("", "held-*")
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	folder := &fakeFolder{root: root, watchers: map[int]func([]engine.FileEvent){}}
	f.fake.folders[f.held] = folder
	return folder, nil
}

func (f *fakeFolder) tell(e engine.FileEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, seen := range f.watchers {
		seen([]engine.FileEvent{e})
	}
}

// kindOf converts a file system error into an engine error.
func kindOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return engine.ErrNotFound
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY):
		return engine.ErrConflict
	}
	return engine.ErrInvalid
}

func entryOf(name string, info fs.FileInfo) engine.Entry {
	e := engine.Entry{Path: name, Kind: engine.EntryOther, Mode: info.Mode().Perm(), Modified: info.ModTime()}
	switch {
	case info.Mode().IsRegular():
		e.Kind, e.Size = engine.EntryFile, info.Size()
	case info.IsDir():
		e.Kind = engine.EntryFolder
	case info.Mode()&fs.ModeSymlink != 0:
		e.Kind = engine.EntryLink
	}
	return e
}

func (f fakeFiles) List(_ context.Context, name string, depth int) (entries []engine.Entry, more bool, err error) {
	folder, err := f.folder()
	if err != nil {
		return nil, false, err
	}
	list, err := fs.ReadDir(folder.root.FS(), name)
	if err != nil {
		return nil, false, kindOf(err)
	}
	for _, d := range list {
		info, err := d.Info()
		if err != nil {
			continue
		}
		inner := path.Join(name, d.Name())
		entries = append(entries, entryOf(inner, info))
		if d.IsDir() && depth > 1 {
			below, _, err := f.List(context.Background(), inner, depth-1)
			if err != nil {
				return nil, false, err
			}
			entries = append(entries, below...)
		}
	}
	return entries, false, nil
}

func (f fakeFiles) Stat(_ context.Context, name string) (engine.Entry, error) {
	folder, err := f.folder()
	if err != nil {
		return engine.Entry{}, err
	}
	info, err := folder.root.Lstat(name)
	if err != nil {
		return engine.Entry{}, kindOf(err)
	}
	return entryOf(name, info), nil
}

func (f fakeFiles) Open(ctx context.Context, name string) (*os.File, engine.Entry, error) {
	e, err := f.Stat(ctx, name)
	if err != nil {
		return nil, e, err
	}
	if e.Kind != engine.EntryFile {
		return nil, e, engine.ErrInvalid
	}
	folder, err := f.folder()
	if err != nil {
		return nil, e, err
	}
	file, err := folder.root.Open(name)
	return file, e, kindOf(err)
}

func (f fakeFiles) Write(ctx context.Context, name string, content io.Reader) (engine.Entry, error) {
	all, err := io.ReadAll(content)
	if err != nil {
		return engine.Entry{}, err
	}
	folder, err := f.folder()
	if err != nil {
		return engine.Entry{}, err
	}
	kind := engine.FileModified
	if _, err := folder.root.Lstat(name); err != nil {
		kind = engine.FileCreated
	}
	if err := folder.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return engine.Entry{}, kindOf(err)
	}
	if err := folder.root.WriteFile(name, all, 0o644); err != nil {
		return engine.Entry{}, kindOf(err)
	}
	folder.tell(engine.FileEvent{Kind: kind, Path: name})
	return f.Stat(ctx, name)
}

func (f fakeFiles) MakeFolder(ctx context.Context, name string) (engine.Entry, error) {
	folder, err := f.folder()
	if err != nil {
		return engine.Entry{}, err
	}
	if err := folder.root.MkdirAll(name, 0o755); err != nil {
		return engine.Entry{}, kindOf(err)
	}
	folder.tell(engine.FileEvent{Kind: engine.FileCreated, Path: name, Folder: true})
	return f.Stat(ctx, name)
}

func (f fakeFiles) Move(ctx context.Context, from, to string, replace bool) (engine.Entry, error) {
	folder, err := f.folder()
	if err != nil {
		return engine.Entry{}, err
	}
	if _, err := folder.root.Lstat(to); err == nil && !replace {
		return engine.Entry{}, engine.ErrConflict
	}
	if err := folder.root.Rename(from, to); err != nil {
		return engine.Entry{}, kindOf(err)
	}
	folder.tell(engine.FileEvent{Kind: engine.FileMoved, Path: to, From: from})
	return f.Stat(ctx, to)
}

func (f fakeFiles) Remove(ctx context.Context, name string, recursive bool) error {
	if _, err := f.Stat(ctx, name); err != nil {
		return err
	}
	folder, err := f.folder()
	if err != nil {
		return err
	}
	remove := folder.root.Remove
	if recursive {
		remove = folder.root.RemoveAll
	}
	if err := remove(name); err != nil {
		return kindOf(err)
	}
	folder.tell(engine.FileEvent{Kind: engine.FileDeleted, Path: name})
	return nil
}

func (f fakeFiles) Watch(ctx context.Context, name string, _ bool, ready func(), seen func([]engine.FileEvent)) error {
	if _, err := f.Stat(ctx, name); err != nil {
		return err
	}
	folder, err := f.folder()
	if err != nil {
		return err
	}
	folder.mu.Lock()
	folder.next++
	id := folder.next
	folder.watchers[id] = seen
	folder.mu.Unlock()
	ready()
	<-ctx.Done()
	folder.mu.Lock()
	delete(folder.watchers, id)
	folder.mu.Unlock()
	return nil
}
