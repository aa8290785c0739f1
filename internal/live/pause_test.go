package live

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// paused lets a test meet the release of a workspace.
type paused struct {
	*executor.Sandbox
	release func() // called before the first release
	write   func(engine.Files) engine.Files
	once    sync.Once
}

func (p *paused) Release(ctx context.Context, id engine.ID, generation int64) error {
	p.once.Do(p.release)
	return p.Sandbox.Release(ctx, id, generation)
}

func (p *paused) Files(held engine.ID) engine.Files {
	if p.write == nil {
		return p.Sandbox.Files(held)
	}
	return p.write(p.Sandbox.Files(held))
}

// lateFiles are files whose writer is slow.
type lateFiles struct {
	engine.Files
	begun, release, done, answer chan struct{}
}

func (f lateFiles) Write(ctx context.Context, path string, content io.Reader) (engine.Entry, error) {
	close(f.begun)
	<-f.release
	e, err := f.Files.Write(ctx, path, content)
	close(f.done)
	<-f.answer
	return e, err
}

// A file is written into a workspace that is released before the file is stored: its writer is told, though there is
// another workspace by then.
func TestWriteBesidePause(t *testing.T) {
	late := lateFiles{nil, make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})}
	sandbox := &paused{Sandbox: sharedSandbox(t, false)}
	sandbox.release = func() {
		close(late.release)
		<-late.done
	}
	p := openOn(t, Config{}, sandbox, enginetest.NewBlobs(), enginetest.NewIndex())
	s := p.session("bash")
	p.want(p.run(s, "echo kept > kept.txt"), StatusOK)
	sandbox.write = func(f engine.Files) engine.Files {
		late.Files = f
		return late
	}
	written := make(chan error)
	go func() {
		_, err := p.WriteFile(t.Context(), p.caller, s, "late.txt", strings.NewReader("late"))
		written <- err
	}()
	<-late.begun
	if err := p.Pause(t.Context(), p.caller, s, WithoutMemory); err != nil {
		t.Fatal(err)
	}
	c := p.want(p.run(s, "cat kept.txt late.txt"), StatusError)
	close(late.answer)
	if err := <-written; engine.KindOf(err) != engine.ErrUnavailable {
		t.Errorf("the file is said to be stored: %v; and there is %q %q", err, text(c, Stdout), text(c, Stderr))
	}
}

// No interpreter starts in a workspace that is being released.
func TestStartBesidePause(t *testing.T) {
	sandbox := &paused{Sandbox: sharedSandbox(t, false)}
	p := openOn(t, Config{}, sandbox, enginetest.NewBlobs(), enginetest.NewIndex())
	s := p.session("bash")
	p.want(p.run(s, "echo kept > kept.txt"), StatusOK)
	if err := p.Restart(t.Context(), p.caller, s); err != nil {
		t.Fatal(err)
	}
	sandbox.release = func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		at := p.within(s)[0]
		at.mu.Lock()
		defer at.mu.Unlock()
		if err := at.ensure(ctx, nil); engine.KindOf(err) != engine.ErrCanceled || at.interpreter != nil {
			t.Errorf("meanwhile one starts: %v", err)
		}
	}
	if err := p.Pause(t.Context(), p.caller, s, WithoutMemory); err != nil {
		t.Fatal(err)
	}
	c := p.want(p.run(s, "cat kept.txt"), StatusOK)
	if text(c, Stdout) != "kept\n" {
		t.Errorf("%q", text(c, Stdout))
	}
}
