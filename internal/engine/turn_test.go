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

// sleepy runs programs that take a minute.
func sleepy(t *testing.T, bound time.Duration) *rig {
	return newRig(t, engine.Config{Concurrency: 1, QueueTime: bound, Defaults: engine.Limits{Timeout: 5 * time.Minute}},
		func(ctx context.Context, _ *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
			select {
			case <-time.After(time.Minute):
				return sandboxtest.Exit(0), nil
			case <-ctx.Done():
				return &engine.Outcome{Cancelled: true}, nil
			}
		})
}

func TestQueueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sleepy(t, 30*time.Second)
		ctx := t.Context()
		_, turn, err := r.StartAttended(ctx, alice, python(""))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = r.Run(ctx, bob, python("")) // two owners: no other owner's turn comes first
		if e := wantKind(t, err, engine.ErrBusy, ""); e.RetryAfter <= 0 || time.Since(began) != 30*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), e)
		}
		time.Sleep(2 * time.Second)
		run, next, err := r.StartAttended(ctx, bob, python(""))
		if err != nil {
			t.Fatal(err)
		}
		unattended, err := r.Start(ctx, engine.Caller{Owner: "carol"}, python(""))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := turn.Await(ctx); err != nil {
			t.Errorf("of one that runs: %v", err)
		}
		began = time.Now()
		if err := next.Await(ctx); err != nil || time.Since(began) != 27*time.Second {
			t.Errorf("its turn comes after 28 s: %v after %v", err, time.Since(began))
		}
		synctest.Wait() // its slot comes before its status
		checkRun(t, runFacts{Status: engine.StatusRunning})(r.GetRun(ctx, bob, run.ID))
		time.Sleep(4 * time.Minute)
		checkRun(t, runFacts{Status: engine.StatusOK}, "nobody waits for it, so it waits for its turn")(
			r.GetRun(ctx, engine.Caller{Owner: "carol"}, unattended.ID))
	})
}

func TestQueueTimeGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sleepy(t, 30*time.Second)
		ctx := t.Context()
		if _, err := r.Start(ctx, alice, python("")); err != nil {
			t.Fatal(err)
		}
		run, turn, err := r.StartAttended(ctx, bob, python(""))
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, turn.Await(ctx), engine.ErrBusy, "")
		wantKind(t, turn.Await(ctx), engine.ErrBusy, "") // also when it is asked for late
		checkRun(t, runFacts{Status: engine.StatusCancelled})(r.GetRun(ctx, bob, run.ID))
		if n := len(r.sandbox.Specs()); n != 1 {
			t.Errorf("%d programs ran", n)
		}
	})
}

// One with a key keeps its place: the caller comes back for it.
func TestQueueTimeWithKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sleepy(t, 25*time.Second)
		ctx := t.Context()
		if _, err := r.Start(ctx, alice, python("")); err != nil {
			t.Fatal(err)
		}
		req := python("keyed")
		req.IdempotencyKey = "again"
		for range 2 {
			_, err := r.Run(ctx, bob, req)
			wantKind(t, err, engine.ErrBusy, "")
		}
		run, err := r.Run(ctx, bob, req)
		checkRun(t, runFacts{Status: engine.StatusOK})(run, err)
	})
}

// A bound of nothing refuses what cannot start at once, and nothing else.
func TestQueueTimeOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sleepy(t, 1)
		ctx := t.Context()
		done := make(chan error, 1)
		go func() {
			_, err := r.Run(ctx, alice, python(""))
			done <- err
		}()
		synctest.Wait()
		_, err := r.Run(ctx, bob, python(""))
		wantKind(t, err, engine.ErrBusy, "")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What is expected to take too long is refused at once.
func TestQueueTimeExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := sleepy(t, 30*time.Second)
		ctx := t.Context()
		if _, err := r.Run(ctx, alice, python("")); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := r.Start(ctx, alice, python("")); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_, err := r.Run(ctx, alice, python(""))
		e := wantKind(t, err, engine.ErrBusy, "")
		if e.RetryAfter < 30*time.Second || time.Since(began) != 0 {
			t.Errorf("%+v after %v", e, time.Since(began))
		}
		if !errors.Is(err, engine.ErrBusy) || r.Stats().Rejected != 1 {
			t.Errorf("%d are counted", r.Stats().Rejected)
		}
	})
}
