package remote

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
	"github.com/airlock-run/airlock/internal/sandbox/walls"
)

// walled is a sandbox of a worker that makes the shared wall, and gVisor's unless there is a fault.
func walled(t *testing.T, fault error) engine.Sandbox {
	t.Helper()
	s, err := walls.Start(t.Context(), walls.Config{Own: engine.WallShared, Close: func() error { return nil },
		Start: func(_ context.Context, wall engine.Wall) (engine.Sandbox, error) {
			if wall == engine.WallGVisor && fault != nil {
				return nil, fault
			}
			return sandboxtest.NewFake(nil), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A program runs on a worker that makes its wall; without one it is refused in the words of a worker.
func TestWallOfWorkers(t *testing.T) {
	_, without := serve(t, walled(t, &engine.Error{Op: "start", Kind: engine.ErrUnavailable, Hint: "install it",
		Err: errors.New("it is not there")}), "")
	_, with := serve(t, walled(t, nil), "")
	with.Epoch, with.Free = 2, 1 // the other one is asked first
	s := api(t, "", without, with)
	spec := sandboxtest.Python("1")
	for _, spec.Wall = range []engine.Wall{engine.WallShared, engine.WallGVisor, engine.WallGVisor} {
		if outcome, err := s.Run(t.Context(), spec, &sink{}); err != nil || outcome.Wall != spec.Wall {
			t.Errorf("%s: %v %+v", spec.Wall, err, outcome)
		}
	}
	held := engine.NewID()
	if err := s.Hold(t.Context(), held, 0, engine.WallGVisor, nil, spec.Limits); err != nil {
		t.Fatal(err)
	}
	inside := *spec
	inside.Held = held
	if outcome, err := s.Run(t.Context(), &inside, &sink{}); err != nil || outcome.Wall != engine.WallGVisor {
		t.Errorf("held: %v %+v", err, outcome)
	}
	s.Update([]Node{without})
	_, run := s.Run(t.Context(), spec, &sink{})
	for _, err := range []error{run, s.Hold(t.Context(), engine.NewID(), 0, engine.WallGVisor, nil, spec.Limits)} {
		e, ok := errors.AsType[*engine.Error](err)
		if !ok || !errors.Is(err, engine.ErrNoWall) || e.Kind != engine.ErrInvalid || e.ID != "wall" ||
			e.Hint != "install it" || !strings.Contains(err.Error(), "gvisor is not to be had here: it is not there") {
			t.Errorf("%v", err)
		}
	}
}
