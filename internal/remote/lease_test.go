package remote

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// leads is an api with an epoch of its own.
func leads(t *testing.T, epoch int64, node Node) fetched {
	t.Helper()
	s := api(t, token, node)
	s.config.Self = func() int64 { return epoch }
	return fetched{s}
}

// interpreter is a program that makes the workspace of a session with files, or runs in it.
func interpreter(t *testing.T, id engine.ID, generation int64, files ...string) *engine.Spec {
	t.Helper()
	spec := sandboxtest.Python("1")
	spec.Held, spec.Generation, spec.Live, spec.Calls = id, generation, true, true
	for _, name := range files {
		spec.Make = true
		spec.Inputs = append(spec.Inputs, sandboxtest.Input(t, name, name))
	}
	return spec
}

// A session that comes back to a worker does not go on in the workspace that it had there, in which what was stored
// since is missing; and an api that no longer leads it does not reach the new one.
func TestLeases(t *testing.T) {
	sandbox := sandboxtest.NewFake(nil)
	_, node := serve(t, sandbox, token)
	one, two := leads(t, 11, node), leads(t, 12, node)
	id := engine.NewID()
	run := func(at fetched, spec *engine.Spec) error {
		t.Helper()
		_, err := at.Run(t.Context(), spec, &sink{})
		return err
	}
	there := func(want ...string) {
		t.Helper()
		if got := sandbox.Workspaces()[id]; !slices.Equal(got, want) {
			t.Errorf("the workspace has %q, not %q", got, want)
		}
	}
	if err := run(one, interpreter(t, id, 1, "f1")); err != nil {
		t.Fatal(err)
	}
	if err := run(one, interpreter(t, id, 1)); err != nil {
		t.Errorf("the workspace that it has made: %v", err)
	}
	if err := run(two, interpreter(t, id, 2, "f1", "f2")); err != nil {
		t.Fatal(err)
	}
	there("f1", "f2")
	if _, err := one.Changes(t.Context(), id, engine.FileLimit{}); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("changes of another api's workspace: %v", err)
	}
	if err := run(one, interpreter(t, id, 1)); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("a program in another api's workspace: %v", err)
	}
	if err := run(one, interpreter(t, id, 1, "f1")); err == nil {
		t.Error("an api that no longer leads the session has made a workspace")
	}
	if err := one.Release(t.Context(), id, 1); err != nil {
		t.Error(err)
	}
	there("f1", "f2")
	if _, err := two.Changes(t.Context(), id, engine.FileLimit{}); err != nil {
		t.Errorf("its own workspace: %v", err)
	}
	// The first one leads it again, and has not forgotten what it had.
	if err := run(one, interpreter(t, id, 3)); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("a workspace of an earlier generation: %v", err)
	}
	if err := one.Hold(t.Context(), id, 3, "", nil, engine.Limits{}); err != nil {
		t.Fatal(err)
	}
	there()
}

// A worker releases workspaces whose apis have ended, so that they do not take its memory for ever.
func TestOrphans(t *testing.T) {
	sandbox := sandboxtest.NewFake(nil)
	w, node := serve(t, sandbox, token)
	w.orphanTime = 0
	one, two := leads(t, 11, node), leads(t, 12, node)
	ids := []engine.ID{engine.NewID(), engine.NewID()}
	for i, at := range []fetched{one, two} {
		if err := at.Hold(t.Context(), ids[i], 1, "", nil, engine.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the first time it is only noted
		held, err := sandbox.Held(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.sweep(t.Context(), []int64{12}, held)
	}
	left := sandbox.Workspaces()
	if _, gone := left[ids[0]]; gone || len(left) != 1 {
		t.Errorf("%d workspaces are left", len(left))
	}
	if _, err := w.leaseOf(ids[0], lease{Number: 1}); err == nil {
		t.Error("a lease is left")
	}
}

// Of programs that make the workspace of one session at the same time, all but one run in what that one has made.
func TestMakeOnce(t *testing.T) {
	begun, end := make(chan struct{}, 2), make(chan struct{})
	sandbox := sandboxtest.NewFake(func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		begun <- struct{}{}
		<-end
		return sandboxtest.Exit(0), nil
	})
	_, node := serve(t, sandbox, token)
	at := leads(t, 11, node)
	id := engine.NewID()
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := at.Run(t.Context(), interpreter(t, id, 1, "f1"), &sink{})
			ended <- err
		}()
	}
	select {
	case err := <-ended:
		if engine.KindOf(err) != engine.ErrConflict {
			t.Errorf("the second one: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("a second program makes the workspace")
	}
	close(end)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(begun) != 1 {
		t.Errorf("%d programs have begun", len(begun))
	}
}
