package walls_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
	"github.com/airlock-run/airlock/internal/sandbox/walls"
)

// bench is a sandbox over fakes.
type bench struct {
	*walls.Sandbox
	t       *testing.T
	started []engine.Wall
	fakes   map[engine.Wall]*sandboxtest.Fake
	fault   error // of the next walls that start
	closed  int
}

func start(t *testing.T, own engine.Wall) *bench {
	b := &bench{t: t, fakes: map[engine.Wall]*sandboxtest.Fake{}}
	var err error
	b.Sandbox, err = walls.Start(t.Context(), walls.Config{Own: own, Close: func() error { b.closed++; return nil },
		Start: func(_ context.Context, wall engine.Wall) (engine.Sandbox, error) {
			b.started = append(b.started, wall)
			if b.fault != nil {
				return nil, b.fault
			}
			b.fakes[wall] = sandboxtest.NewFake(nil)
			return b.fakes[wall], nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// had runs a program that asks for a wall, and returns the one that it had.
func (b *bench) had(spec engine.Spec) engine.Wall {
	b.t.Helper()
	outcome, err := b.Run(b.t.Context(), &spec, nil)
	if err != nil {
		b.t.Error(err)
		return ""
	}
	return outcome.Wall
}

// A wall starts when it is first needed, once, and no program has less than the own wall.
func TestWallsStart(t *testing.T) {
	b := start(t, engine.WallShared)
	if pools, err := b.Pools(t.Context()); err != nil || len(pools) != 3 {
		t.Errorf("%v %+v", err, pools)
	}
	for _, wall := range []engine.Wall{"", engine.WallShared} {
		if got := b.had(engine.Spec{Wall: wall}); got != engine.WallShared {
			t.Errorf("%q: %q", wall, got)
		}
	}
	if diff := cmp.Diff([]engine.Wall{engine.WallShared}, b.started); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		if got := b.had(engine.Spec{Wall: engine.WallGVisor}); got != engine.WallGVisor {
			t.Errorf("%q", got)
		}
	}
	if diff := cmp.Diff([]engine.Wall{engine.WallShared, engine.WallGVisor}, b.started); diff != "" {
		t.Error(diff)
	}
	isolation, err := b.Isolation(t.Context())
	if err != nil || isolation.Wall != engine.WallShared || len(isolation.Others) != 1 ||
		isolation.Others[0].Wall != engine.WallGVisor {
		t.Errorf("%v %+v", err, isolation)
	}
	if pools, err := b.Pools(t.Context()); err != nil || len(pools) != 6 || pools[3].Name != "gvisor bare" {
		t.Errorf("%v %+v", err, pools)
	}
	strong := start(t, engine.WallGVisor)
	if got := strong.had(engine.Spec{Wall: engine.WallShared}); got != engine.WallGVisor || len(strong.started) != 1 {
		t.Errorf("%q %q", got, strong.started)
	}
	for _, each := range []*bench{b, strong} {
		if err := each.Close(); err != nil || each.closed != 1 {
			t.Errorf("closed %d times, %v", each.closed, err)
		}
	}
	if _, err := b.Run(t.Context(), &engine.Spec{Wall: engine.WallGVisor}, nil); err != nil { // it is the fake's
		t.Error(err)
	}
}

// Programs that ask for a wall at once start it once, also if the first of them gives up.
func TestWallStartsOnce(t *testing.T) {
	b := start(t, engine.WallShared)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for i := range 16 {
		ctx := t.Context()
		if i%2 == 0 {
			ctx = gone
		}
		all.Go(func() {
			if _, err := b.Run(ctx, &engine.Spec{Wall: engine.WallGVisor}, nil); err != nil {
				t.Error(err)
			}
			if _, err := b.Isolation(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(b.started) != 2 || len(b.fakes[engine.WallGVisor].Specs()) != 16 {
		t.Errorf("started %q", b.started)
	}
}

// What is asked about a held workspace goes to its wall, until it is released.
func TestHeldWorkspaces(t *testing.T) {
	b := start(t, engine.WallShared)
	plain, guarded, live := engine.NewID(), engine.NewID(), engine.NewID()
	for id, wall := range map[engine.ID]engine.Wall{plain: "", guarded: engine.WallGVisor} {
		if err := b.Hold(t.Context(), id, 0, wall, nil, engine.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.had(engine.Spec{Wall: engine.WallGVisor, Held: live, Make: true}); got != engine.WallGVisor {
		t.Errorf("%q", got)
	}
	at := map[engine.ID]engine.Wall{plain: engine.WallShared, guarded: engine.WallGVisor, live: engine.WallGVisor}
	for id, wall := range at {
		for _, asked := range []engine.Wall{"", engine.WallShared, wall} { // that of the workspace counts
			if got := b.had(engine.Spec{Wall: asked, Held: id}); got != wall {
				t.Errorf("%q for %q: %q", wall, asked, got)
			}
		}
		if _, err := b.Changes(t.Context(), id, engine.FileLimit{}); err != nil {
			t.Errorf("%s: %v", wall, err)
		}
		if _, err := b.Files(id).Write(t.Context(), "a", strings.NewReader("a")); err != nil {
			t.Errorf("%s: %v", wall, err)
		}
		if there := b.fakes[wall].Workspaces(); there[id] == nil {
			t.Errorf("%s has %v", wall, there)
		}
	}
	held, err := b.Held(t.Context())
	if err != nil || len(held) != len(at) {
		t.Errorf("%v %v", err, held)
	}
	for id := range at {
		if err := b.Release(t.Context(), id, 0); err != nil {
			t.Error(err)
		}
		if _, err := b.Changes(t.Context(), id, engine.FileLimit{}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("after its release: %v", err)
		}
	}
	if held, err := b.Held(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("%v %v", err, held)
	}
	if err := b.Release(t.Context(), engine.NewID(), 0); err != nil {
		t.Errorf("an unknown one: %v", err)
	}
}

// A wall that does not start is refused in its own words, without another attempt for a while; others go on.
func TestWallIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, engine.WallShared)
		b.fault = &engine.Error{Op: "start the sandbox", Kind: engine.ErrUnavailable, Hint: "install it",
			Err: errors.New("it is not there")}
		id := engine.NewID()
		for range 3 {
			_, run := b.Run(t.Context(), &engine.Spec{Wall: engine.WallGVisor}, nil)
			for _, err := range []error{run, b.Hold(t.Context(), id, 0, engine.WallGVisor, nil, engine.Limits{})} {
				e, ok := errors.AsType[*engine.Error](err)
				if !ok || e.Kind != engine.ErrInvalid || !errors.Is(err, engine.ErrNoWall) || e.Hint != "install it" ||
					e.Err.Error() != "gvisor is not to be had here: it is not there" {
					t.Errorf("%v", err)
				}
			}
		}
		if len(b.started) != 2 {
			t.Errorf("started %q", b.started)
		}
		if got := b.had(engine.Spec{}); got != engine.WallShared {
			t.Errorf("%q", got)
		}
		b.fault = nil
		<-time.After(time.Minute)
		if got := b.had(engine.Spec{Wall: engine.WallGVisor}); got != engine.WallGVisor {
			t.Errorf("%q", got)
		}
	})
}

// The own wall has to start.
func TestOwnWallIsMissing(t *testing.T) {
	fault, closed := errors.New("none"), false
	_, err := walls.Start(t.Context(), walls.Config{Own: engine.WallGVisor,
		Start: func(context.Context, engine.Wall) (engine.Sandbox, error) { return nil, fault },
		Close: func() error { closed = true; return nil }})
	if !errors.Is(err, fault) || !closed {
		t.Errorf("%v, closed %v", err, closed)
	}
}
