// Package sandboxtest holds the tests of sandboxes, and helpers for tests with a
// sandbox: the suite that every backend passes, and a fake that runs a Go function
// instead of a program.
package sandboxtest

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Program replaces the code of a run. Sandbox.Run calls it in its goroutine and under
// its contract: it writes to host, and when ctx ends it returns an Outcome with
// Cancelled set.
type Program func(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error)

// Fake is a Sandbox without isolation, and without processes.
type Fake struct {
	program Program

	mu    sync.Mutex
	specs []engine.Spec
	held  map[engine.ID][]string
	most  int // maximum number of held workspaces; 0: no limit
	fault error

	running map[engine.ID]int // number of running programs, by held workspace
	process FakeProcess
	port    func(port int) (net.Conn, error)
	folders map[engine.ID]*fakeFolder
	usage   engine.SandboxUsage
	changes map[engine.ID][]engine.Output // of held workspaces, see Change
}

var _ engine.Sandbox = (*Fake)(nil)

// NewFake returns a sandbox whose every run calls program. A nil program does nothing
// and exits 0.
func NewFake(program func(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error)) *Fake {
	if program == nil {
		program = func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) { return Exit(0), nil }
	}
	return &Fake{program: program, held: map[engine.ID][]string{}, running: map[engine.ID]int{},
		folders: map[engine.ID]*fakeFolder{}}
}

// Run calls the program. It returns ErrNotFound if spec names a workspace that is not
// held.
func (f *Fake) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	f.mu.Lock()
	f.specs = append(f.specs, *spec)
	_, held := f.held[spec.Held]
	fault := f.fault
	f.mu.Unlock()
	if fault != nil {
		return nil, fault
	}
	if spec.Make && !held {
		if err := f.Hold(ctx, spec.Held, spec.Generation, spec.Wall, spec.Inputs, spec.Limits); err != nil {
			return nil, err
		}
		held = true
	}
	if !spec.Held.IsZero() && !held {
		return nil, engine.ErrNotFound
	}
	f.count(spec.Held, 1)
	defer f.count(spec.Held, -1)
	return f.program(ctx, spec, host)
}

// Hold records a workspace and the paths of its inputs.
func (f *Fake) Hold(
	ctx context.Context, id engine.ID, generation int64, wall engine.Wall, inputs []engine.Input, limits engine.Limits,
) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil {
		return f.fault
	}
	if f.most > 0 && len(f.held) >= f.most {
		return engine.ErrFull
	}
	paths := []string{}
	for _, input := range inputs {
		paths = append(paths, input.Path)
	}
	f.held[id] = paths
	return nil
}

// Release removes a held workspace.
func (f *Fake) Release(ctx context.Context, id engine.ID, generation int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(id)
	return f.fault
}

// Change makes files changes of a held workspace, until Changes returns them.
func (f *Fake) Change(id engine.ID, files ...engine.Output) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes == nil {
		f.changes = map[engine.ID][]engine.Output{}
	}
	f.changes[id] = append(f.changes[id], files...)
}

// Changes returns what Change was called with since the last time.
func (f *Fake) Changes(
	ctx context.Context, id engine.ID, limits engine.FileLimit, _ ...string,
) (*engine.Changes, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, held := f.held[id]; !held {
		return nil, engine.ErrNotFound
	}
	changed := f.changes[id]
	delete(f.changes, id)
	return &engine.Changes{Outputs: changed}, f.fault
}

// Held returns one byte for each held workspace.
func (f *Fake) Held(ctx context.Context) (map[engine.ID]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := map[engine.ID]int64{}
	for id := range f.held {
		held[id] = 1
	}
	return held, f.fault
}

// Isolation returns no isolation.
func (f *Fake) Isolation(ctx context.Context) (engine.Isolation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return engine.Isolation{Backend: "fake", Summary: "no isolation: a test"}, f.fault
}

// Distant implements engine.Sandbox.
func (f *Fake) Distant() bool { return false }

// Close does nothing: the runs end with their contexts.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.folders {
		f.drop(id)
	}
	return nil
}

// Pools implements engine.Sandbox. The pools that it returns do not exist.
func (f *Fake) Pools(context.Context) ([]engine.Pool, error) {
	return []engine.Pool{{Name: "bare", Ready: true, Waiting: 2, Wanted: 3}, {Name: "full"},
		{Name: "numpy", Cold: "their interpreter ended while it imported packages: ImportError: libopenblas"}}, nil
}

// Fail makes every call fail with err, until it is called with nil.
func (f *Fake) Fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = err
}

// Specs returns the specs of all runs so far, in order. The files of the inputs are
// closed.
func (f *Fake) Specs() []engine.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]engine.Spec(nil), f.specs...)
}

// Bound makes Hold return ErrFull once most workspaces are held.
func (f *Fake) Bound(most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most = most
}

// Workspaces returns the held workspaces, and the initial paths of each.
func (f *Fake) Workspaces() map[engine.ID][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := map[engine.ID][]string{}
	for id, paths := range f.held {
		held[id] = paths
	}
	return held
}

// Lose drops a held workspace, like the exit of an executor.
func (f *Fake) Lose(id engine.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(id)
}

// Exit returns the outcome of a program that ended by itself.
func Exit(code int) *engine.Outcome {
	return &engine.Outcome{ExitCode: &code, Duration: time.Millisecond}
}

// UntilKilled waits for the end of ctx, and returns the outcome of a program that was
// killed then.
func UntilKilled(ctx context.Context) *engine.Outcome {
	<-ctx.Done()
	return &engine.Outcome{Cancelled: true, Signal: "SIGKILL"}
}

// File returns an output file as the sandbox returns it: open, and without a name in
// the file system.
func File(path, content string) (engine.Output, error) {
	f, err := os.CreateTemp("", "output-*")
	if err != nil {
		return engine.Output{}, err
	}
	os.Remove(f.Name())
	if _, err := f.WriteString(content); err != nil {
		f.Close()
		return engine.Output{}, err
	}
	return engine.Output{Path: path, File: f, Size: int64(len(content))}, nil
}
