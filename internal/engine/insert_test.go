package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
)

// A short run is recorded once, at its end. The index knows a run that goes on
// or prints much before it ends, and every run of which its caller hears while
// it runs.
func TestWhenRunsAreRecorded(t *testing.T) {
	code := 0
	r := newRig(t, engine.Config{}, func(_ context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		if spec.Code == "much" {
			host.Output(engine.Stdout, []byte(strings.Repeat("x", 20<<10)))
		}
		return &engine.Outcome{ExitCode: &code}, nil
	})
	keyed := python("")
	keyed.IdempotencyKey = "k"
	for _, test := range []struct {
		name    string
		request engine.RunRequest
		start   bool
		want    int
	}{
		{"short", python(""), false, 0},
		{"much output", python("much"), false, 1},
		{"with a key", keyed, false, 1},
		{"started", python(""), true, 1},
	} {
		begun := func() int { return r.index.Calls("StartRun") + r.index.Calls("InsertStarted") }
		before := begun()
		do := r.Run
		if test.start {
			do = r.Start
		}
		run, err := do(t.Context(), alice, test.request)
		if err != nil {
			t.Fatal(err)
		}
		if n := begun() - before; n != test.want {
			t.Errorf("%s: recorded %d times as begun, want %d", test.name, n, test.want)
		}
		if got, err := r.GetRun(t.Context(), alice, run.ID); err != nil || got.ID != run.ID {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
		if _, err := r.GetSession(t.Context(), alice, run.Session); err != nil {
			t.Errorf("%s: its session: %v", test.name, err)
		}
	}

	long := newRig(t, engine.Config{}, func(ctx context.Context, _ *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
		index := ctx.Value(indexKey{}).(*enginetest.Index)
		for deadline := time.Now().Add(time.Minute); index.Calls("InsertStarted") == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		return &engine.Outcome{ExitCode: &code}, nil
	})
	if _, err := long.Run(context.WithValue(t.Context(), indexKey{}, long.index), alice, python("")); err != nil ||
		long.index.Calls("InsertStarted") != 1 || long.index.Calls("FinishRun") != 1 {
		t.Errorf("a long run: %v, begun %d times, ended %d times", err, long.index.Calls("InsertStarted"),
			long.index.Calls("FinishRun"))
	}
}

type indexKey struct{}

// A record that cannot be made is tried again later: the run can still be had, and is
// recorded when it can be.
func TestShortRunThatCannotBeRecorded(t *testing.T) {
	code := 0
	r := newRig(t, engine.Config{}, func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		return &engine.Outcome{ExitCode: &code}, nil
	})
	r.index.Fail(func(op string) error {
		if op == "InsertFinished" {
			return engine.ErrFull
		}
		return nil
	})
	run, err := r.Run(t.Context(), alice, python(""))
	if err != nil || !strings.Contains(run.Message, "could not be recorded") {
		t.Fatalf("%+v, %v", run, err)
	}
	if got, err := r.GetRun(t.Context(), alice, run.ID); err != nil || got.Status != engine.StatusOK {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.GetRun(t.Context(), bob, run.ID); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("another owner: %v", err)
	}
	r.index.Fail(nil)
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := r.index.Run(t.Context(), "alice", run.ID); err != nil || got.Message != "" {
		t.Errorf("recorded later: %+v, %v", got, err)
	}
}

// The first cell of a new live session does not wait for the record of its interpreter,
// which is made soon after, or at its end. If the session is gone by then the
// interpreter ends, and nothing is recorded.
func TestInterpreterOfNewSession(t *testing.T) {
	code := 0
	goOn := make(chan struct{})
	program := func(ctx context.Context, _ *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
		select {
		case <-goOn:
			return &engine.Outcome{ExitCode: &code}, nil
		case <-ctx.Done():
			return &engine.Outcome{Cancelled: true}, nil
		}
	}
	start := func(r *rig, fresh bool, fault func(session engine.ID) error) (*engine.Run, error) {
		session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionLive, Live: "{}"})
		if err != nil {
			t.Fatal(err)
		}
		r.index.Fail(func(op string) error {
			if op == "StartRun" {
				return fault(session.ID)
			}
			return nil
		})
		request := python("")
		request.Session, request.Profile.Live, request.Profile.Fresh = session.ID, true, fresh
		return r.Start(t.Context(), alice, request)
	}
	ended := func(r *rig, run *engine.Run) (last *engine.Run) {
		events, err := r.Watch(t.Context(), alice, run.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for e := range events {
			last = e.Run
		}
		return last
	}
	full := func(engine.ID) error { return engine.ErrFull }

	r := newRig(t, engine.Config{}, program)
	if _, err := start(r, false, full); err == nil {
		t.Error("an interpreter of an older session started without a record")
	}
	run, err := start(r, true, full)
	if err != nil {
		t.Fatal(err)
	}
	r.index.Fail(nil)

	other := newRig(t, engine.Config{}, program)
	lost, err := start(other, true, func(session engine.ID) error {
		return other.index.DeleteSession(t.Context(), "alice", session) // as another node does
	})
	if err != nil {
		t.Fatal(err)
	}
	if last := ended(other, lost); last.Status != engine.StatusCancelled {
		t.Errorf("its session is gone: %+v", last)
	}
	if got, err := other.index.Run(t.Context(), "alice", lost.ID); err == nil {
		t.Errorf("its session is gone: %+v", got)
	}

	close(goOn)
	if last := ended(r, run); last.Status != engine.StatusOK {
		t.Errorf("%+v", last)
	}
	if got, err := r.index.Run(t.Context(), "alice", run.ID); err != nil || got.Status != engine.StatusOK {
		t.Errorf("at its end: %+v, %v", got, err)
	}
}
