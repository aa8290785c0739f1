package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// answers is a handler whose calls wait until they are let go.
type answers struct {
	came chan struct{}
	goOn chan struct{}
}

func (a *answers) Call(ctx context.Context, _ string, input []byte) ([]byte, error) {
	a.came <- struct{}{}
	select {
	case <-a.goOn:
		return input, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// calling is a program that calls, and then, if it is asked to, never ends.
func calling(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	if spec.Calls {
		if _, err := host.Call(ctx, "f", []byte("{}")); err != nil {
			return sandboxtest.UntilKilled(ctx), nil //nolint:nilerr // it was cancelled
		}
	}
	if spec.Code == "on" {
		return sandboxtest.UntilKilled(ctx), nil
	}
	return sandboxtest.Exit(0), nil
}

func caller(a *answers, code string) engine.RunRequest {
	req := python(code)
	req.Profile.Calls.Handler, req.Profile.Calls.Pauses = a, time.Hour
	return req
}

// A program that waits for an answer yields its slot, and has a slot again
// when it continues.
func TestPauseLeavesSlot(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 1}, calling)
	a := &answers{make(chan struct{}), make(chan struct{})}
	run, err := r.Start(t.Context(), alice, caller(a, "x"))
	if err != nil {
		t.Fatal(err)
	}
	<-a.came
	if _, err := r.Run(t.Context(), bob, python("x")); err != nil {
		t.Fatal(err)
	}
	if stats := r.Stats(); stats.Running != 0 {
		t.Errorf("%d slots are taken", stats.Running)
	}
	close(a.goOn)
	checkRun(t, runFacts{Status: engine.StatusOK})(finished(t, r, run.ID), nil)
}

// Without Pauses a program that waits has its slot all the while.
func TestWaitingWithoutPauses(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 1}, calling)
	a := &answers{make(chan struct{}), make(chan struct{})}
	req := caller(a, "x")
	req.Profile.Calls.Pauses = 0
	run, err := r.Start(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	<-a.came
	if stats := r.Stats(); stats.Running != 1 {
		t.Errorf("%d slots are taken", stats.Running)
	}
	close(a.goOn)
	finished(t, r, run.ID)
}

// The clock stops in a pause and runs on after it.
func TestPauseStopsClock(t *testing.T) {
	r := newRig(t, engine.Config{}, calling)
	a := &answers{make(chan struct{}), make(chan struct{})}
	req := caller(a, "on")
	req.Profile.Limits.Timeout = 200 * time.Millisecond
	run, err := r.Start(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	<-a.came
	pause := time.NewTimer(2 * req.Profile.Limits.Timeout)
	<-pause.C
	if got, err := r.GetRun(t.Context(), alice, run.ID); err != nil || got.Status != engine.StatusRunning {
		t.Fatalf("in the pause: %+v, %v", got, err)
	}
	close(a.goOn)
	checkRun(t, runFacts{Status: engine.StatusTimeout})(finished(t, r, run.ID), nil)
	if specs := r.sandbox.Specs(); specs[0].Limits.Timeout < time.Hour {
		t.Errorf("the sandbox allows %v", specs[0].Limits.Timeout)
	}
}

func TestCancelInPause(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 1}, calling)
	a := &answers{make(chan struct{}), make(chan struct{})}
	run, err := r.Start(t.Context(), alice, caller(a, "x"))
	if err != nil {
		t.Fatal(err)
	}
	<-a.came
	if err := r.CancelRun(t.Context(), alice, run.ID); err != nil {
		t.Fatal(err)
	}
	checkRun(t, runFacts{Status: engine.StatusCancelled})(finished(t, r, run.ID), nil)
	if _, err := r.Run(t.Context(), bob, python("x")); err != nil {
		t.Errorf("the next: %v", err)
	}
}

func finished(t *testing.T, r *rig, id engine.ID) *engine.Run {
	t.Helper()
	events, err := r.Watch(t.Context(), alice, id, 0)
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Type == engine.EventResult {
			return e.Run
		}
	}
	t.Fatal("the run has no end")
	return nil
}

// An edge may place another owner's file; the session stays its owner's.
func TestFileOfAnotherOwner(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	shared := engine.Caller{Owner: "shared"}
	f := r.put(t, shared, "s.txt", "s")
	req := python("x")
	req.Files = []engine.FileRef{{ID: f.ID}}
	if _, err := r.Run(t.Context(), alice, req); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("without being named: %v", err)
	}
	req.Files[0].Owner = shared.Owner
	run, err := r.Run(t.Context(), alice, req)
	if err != nil || len(run.Inputs) != 1 || run.Inputs[0].ID != f.ID {
		t.Fatalf("%+v, %v", run, err)
	}
	if files, _, err := r.SessionFiles(t.Context(), alice, run.Session); err != nil || len(files) != 0 {
		t.Errorf("the session has %v, %v", files, err)
	}
}

func TestUseSession(t *testing.T) {
	now := time.Now()
	r := newRig(t, engine.Config{Now: func() time.Time { return now }}, nil)
	f := r.put(t, alice, "a.txt", "a")
	session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{
		Files: []engine.FileRef{{ID: f.ID, Path: "x/a.txt", ReadOnly: true}}, Implicit: true, Scope: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(20 * time.Hour)
	got, file, place, err := r.SessionFile(t.Context(), alice, session.ID, f.ID)
	if err != nil || got.Scope != "mine" || place.Path != "x/a.txt" || !place.ReadOnly ||
		!file.ExpiresAt.Equal(now.Add(file.TTL)) {
		t.Errorf("%+v %+v %+v %v", got, file, place, err)
	}
	now = now.Add(20 * time.Hour)
	if _, files, _, err := r.UseSession(t.Context(), alice, session.ID); err != nil || len(files) != 1 ||
		!files[0].ExpiresAt.Equal(now.Add(file.TTL)) {
		t.Errorf("%+v, %v", files, err)
	}
	now = now.Add(20 * time.Hour)
	if _, _, _, err := r.SessionFile(t.Context(), alice, session.ID, f.ID); err != nil {
		t.Errorf("a listing is no use: %v", err)
	}
	for what, ask := range map[string]func() error{
		"a stranger": func() error { _, _, _, err := r.SessionFile(t.Context(), bob, session.ID, f.ID); return err },
		"another session": func() error {
			_, _, _, err := r.SessionFile(
				t.Context(), alice, engine.NewID(), f.ID)
			return err
		},
		"another file": func() error {
			_, _, _, err := r.SessionFile(t.Context(), alice, session.ID, engine.NewID())
			return err
		},
		"a strange list": func() error { _, _, _, err := r.UseSession(t.Context(), bob, session.ID); return err },
	} {
		if err := ask(); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := r.ListSessions(t.Context(), alice, engine.SessionQuery{}); err != nil || len(list) != 0 {
		t.Errorf("an implicit session is listed: %v, %v", list, err)
	}
}

// rounds is a handler that says itself when its program waits.
type rounds struct {
	answers
	out func(bool)
}

func (r *rounds) Rounds(out func(bool)) { r.out = out }

// frozen notes what a sandbox is told of a program.
type frozen chan engine.Motion

// next returns the next motion that the program receives.
func (f frozen) next(t *testing.T) engine.Motion {
	t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	select {
	case motion := <-f:
		return motion
	case <-limit.C:
		t.Fatal("the sandbox is told nothing")
		return 0
	}
}

// freezing is calling in a sandbox that can freeze.
func freezing(told frozen) sandboxtest.Program {
	return func(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		if spec.Calls {
			host.SetControls(engine.Controls{Freeze: func(motion engine.Motion) error { told <- motion; return nil }})
		}
		return calling(ctx, spec, host)
	}
}

// lingering is freezing for a program that runs for a while after its calls.
func lingering(told frozen, end <-chan struct{}) sandboxtest.Program {
	run := freezing(told)
	return func(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		o, err := run(ctx, spec, host)
		if spec.Calls {
			<-end
		}
		return o, err
	}
}

// A program that waits is frozen, at once if another program waits for its slot, and
// continues with the answer.
func TestPauseFreezes(t *testing.T) {
	for name, crowded := range map[string]bool{"alone": false, "crowded": true} {
		t.Run(name, func(t *testing.T) {
			told, end := make(frozen, 8), make(chan struct{})
			r := newRig(t, engine.Config{Concurrency: 1}, lingering(told, end))
			a := &answers{make(chan struct{}), make(chan struct{})}
			run, err := r.Start(t.Context(), alice, caller(a, "x"))
			if err != nil {
				t.Fatal(err)
			}
			want := engine.StopSoon
			if crowded {
				want = engine.Stop
				if _, err := r.Start(t.Context(), bob, engine.RunRequest{Language: "python", Code: "1"}); err != nil {
					t.Fatal(err)
				}
			}
			<-a.came
			if got := told.next(t); got != want {
				t.Errorf("it is told %d", got)
			}
			close(a.goOn)
			if told.next(t) != engine.GoOn {
				t.Error("it is stopped after the answer")
			}
			close(end)
			checkRun(t, runFacts{Status: engine.StatusOK})(finished(t, r, run.ID), nil)
		})
	}
}

// A program that cannot be frozen keeps its slot.
func TestPauseWithoutFreezing(t *testing.T) {
	tried := make(chan struct{}, 1)
	r := newRig(t, engine.Config{Concurrency: 1}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		host.SetControls(engine.Controls{Freeze: func(engine.Motion) error { tried <- struct{}{}; return errors.New("no") }})
		return calling(ctx, spec, host)
	})
	a := &answers{make(chan struct{}), make(chan struct{})}
	run, err := r.Start(t.Context(), alice, caller(a, "x"))
	if err != nil {
		t.Fatal(err)
	}
	<-a.came
	<-tried
	if stats := r.Stats(); stats.Running != 1 {
		t.Errorf("%d slots are taken", stats.Running)
	}
	close(a.goOn)
	finished(t, r, run.ID)
}

// Where calls are collected, the program waits when its round is out, and not
// before: others of its calls may be on their way.
func TestPauseOfRounds(t *testing.T) {
	told, end := make(frozen, 8), make(chan struct{})
	r := newRig(t, engine.Config{Concurrency: 1}, lingering(told, end))
	a := &rounds{answers: answers{make(chan struct{}), make(chan struct{})}}
	req := caller(nil, "x")
	req.Profile.Calls.Handler, req.Profile.Calls.Rounds = a, a.Rounds
	run, err := r.Start(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	<-a.came
	early := time.NewTimer(100 * time.Millisecond)
	select {
	case <-told:
		t.Error("it is frozen while its calls are collected")
	case <-early.C:
	}
	if stats := r.Stats(); stats.Running != 1 {
		t.Errorf("%d slots are taken", stats.Running)
	}
	a.out(true)
	if told.next(t) == engine.GoOn {
		t.Error("it is told to go on")
	}
	a.out(false)
	close(a.goOn)
	if told.next(t) != engine.GoOn {
		t.Error("it is stopped after the answer")
	}
	close(end)
	checkRun(t, runFacts{Status: engine.StatusOK})(finished(t, r, run.ID), nil)
}

// A quick answer finds the program as it was.
func TestQuickAnswer(t *testing.T) {
	told := make(frozen, 8)
	r := newRig(t, engine.Config{}, freezing(told))
	a := &answers{make(chan struct{}, 1), make(chan struct{})}
	close(a.goOn)
	if _, err := r.Run(t.Context(), alice, caller(a, "x")); err != nil {
		t.Fatal(err)
	}
	if len(told) > 1 { // one on a machine that had no time for us
		t.Errorf("it was told %d times", len(told))
	}
}

// Who shuts down does not wait for a program that waits.
func TestShutdownInPause(t *testing.T) {
	r := newRig(t, engine.Config{}, calling)
	a := &answers{make(chan struct{}), make(chan struct{})}
	run, err := r.Start(t.Context(), alice, caller(a, "x"))
	if err != nil {
		t.Fatal(err)
	}
	<-a.came
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	began := time.Now()
	if err := r.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	checkRun(t, runFacts{Status: engine.StatusCancelled})(r.GetRun(t.Context(), alice, run.ID))
}

// A program that was stopped has its answer only when its sandbox has let it go on: with the answer it may start a
// process at once.
func TestAnswerAfterThaw(t *testing.T) { synctest.Test(t, testAnswerAfterThaw) }

func testAnswerAfterThaw(t *testing.T) {
	thaw, answered := make(chan struct{}), make(chan struct{})
	r := newRig(t, engine.Config{}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		host.SetControls(engine.Controls{Freeze: func(motion engine.Motion) error {
			if motion == engine.GoOn {
				<-thaw
			}
			return nil
		}})
		o, err := calling(ctx, spec, host)
		close(answered)
		return o, err
	})
	defer r.Shutdown(t.Context())
	a := &answers{make(chan struct{}), make(chan struct{})}
	run, err := r.Start(t.Context(), alice, caller(a, "x"))
	if err != nil {
		t.Fatal(err)
	}
	<-a.came
	time.Sleep(2 * engine.StopDelay)
	close(a.goOn)
	synctest.Wait()
	select {
	case <-answered:
		t.Error("it has its answer while it is stopped")
	default:
	}
	close(thaw)
	checkRun(t, runFacts{Status: engine.StatusOK})(finished(t, r, run.ID), nil)
}
