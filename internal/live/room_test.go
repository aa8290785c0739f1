package live

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// crowded has memory for so many workspaces of interpreters.
type crowded struct {
	*linux.Sandbox
	mu   sync.Mutex
	room int
	held map[engine.ID]bool
}

func (c *crowded) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	c.mu.Lock()
	if spec.Make && len(c.held) >= c.room {
		c.mu.Unlock()
		return nil, &engine.Error{Kind: engine.ErrFull, Err: errors.New("the memory is used up")}
	}
	if spec.Make {
		c.held[spec.Held] = true
	}
	c.mu.Unlock()
	return c.Sandbox.Run(ctx, spec, host)
}

func (c *crowded) Release(ctx context.Context, id engine.ID) error {
	c.mu.Lock()
	delete(c.held, id)
	c.mu.Unlock()
	return c.Sandbox.Release(ctx, id)
}

// TestNoMemory starts an interpreter without free memory. The longest idle interpreter
// is ended, and its next answer reports that.
func TestNoMemory(t *testing.T) {
	launcher := linux.NewLauncher(linux.LaunchOptions{Runtimes: sandboxtest.LiveRuntimesOf(t), Warm: true})
	sandbox, err := linux.Start(t.Context(), linux.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	full := &crowded{Sandbox: sandbox, room: 2, held: map[engine.ID]bool{}}
	p := openOn(t, Config{}, full, enginetest.NewBlobs(), enginetest.NewIndex())
	a, b, c := p.session("python"), p.session("python"), p.session("python")
	p.run(a, "x = 1\nopen('a.txt', 'w').write('x')")
	p.run(b, "x = 2")
	if got := p.run(c, "3"); got.Restarted || plain(t, got) != "3" {
		t.Errorf("the one that needed room: %+v", got)
	}
	if got := p.run(b, "x"); got.Restarted || plain(t, got) != "2" {
		t.Errorf("the one that was used last: %+v", got)
	}
	got := p.run(a, "open('a.txt').read()")
	if !got.Restarted || !strings.Contains(got.Message, "make room") || plain(t, got) != "'x'" {
		t.Errorf("the one that was idle for longest: %+v", got)
	}
	if n := p.Counts(); n.Interpreters != 2 || n.Evicted != 2 {
		t.Errorf("%+v", n)
	}
	full.mu.Lock()
	full.room = 0
	full.mu.Unlock()
	for _, s := range []engine.ID{a, b, c} {
		_ = p.Restart(t.Context(), p.caller, s)
	}
	if got := p.run(p.session("python"), "1"); got.Status != StatusLost || !strings.Contains(got.Message, "used up") {
		t.Errorf("without any memory: %+v", got)
	}
}
