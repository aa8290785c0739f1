package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// An owner that holds all workspaces does not lock out the others. It loses the least
// recently used workspace.
func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{Concurrency: 4, SessionTTL: 24 * time.Hour,
			Defaults: engine.Limits{Timeout: 5 * time.Minute}}, func(ctx context.Context, spec *engine.Spec, _ engine.Host) (
			*engine.Outcome, error) {
			if spec.Code == "long" {
				time.Sleep(3 * time.Minute)
			}
			return sandboxtest.Exit(0), nil
		})
		r.sandbox.Bound(4)
		ctx := t.Context()
		hold := func(caller engine.Caller) (engine.Session, error) {
			return r.CreateSession(ctx, caller, engine.SessionRequest{Kind: engine.SessionHeld})
		}
		var hers []engine.Session
		for range 4 {
			session, err := hold(alice)
			if err != nil {
				t.Fatal(err)
			}
			hers = append(hers, session)
			time.Sleep(time.Second)
		}
		_, err := hold(alice)
		wantKind(t, err, engine.ErrFull, "")
		_, err = hold(bob)
		wantKind(t, err, engine.ErrFull, "") // all of them were used a moment ago
		long := engine.RunRequest{Language: "bash", Code: "long", Session: hers[1].ID}
		if _, err := r.Start(ctx, alice, long); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := r.Run(ctx, alice, engine.RunRequest{Language: "bash", Code: "", Session: hers[0].ID}); err != nil {
			t.Fatal(err)
		}
		_, err = hold(alice)
		wantKind(t, err, engine.ErrFull, "") // an owner never evicts its own
		if _, err := hold(bob); err != nil {
			t.Fatalf("bob is locked out: %v", err)
		}
		for i, gone := range []bool{false, false, true, false} {
			if _, err := r.GetSession(ctx, alice, hers[i].ID); (err != nil) != gone {
				t.Errorf("session %d: %v", i, err)
			}
		}
		if _, err := hold(bob); err != nil {
			t.Fatalf("bob has less than an equal part: %v", err)
		}
		_, err = hold(bob)
		wantKind(t, err, engine.ErrFull, "") // an equal part is what there is
		if n := len(r.sandbox.Workspaces()); n != 4 {
			t.Errorf("%d are held", n)
		}
		time.Sleep(5 * time.Minute) // the long one ends
	})
}

// Commands in a session run concurrently, programs with a file do not.
func TestRunsInOneSession(t *testing.T) {
	for name, want := range map[string]time.Duration{"bash": time.Second, "python": 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, engine.Config{Concurrency: 4}, func(context.Context, *engine.Spec, engine.Host) (
				*engine.Outcome, error) {
				time.Sleep(time.Second)
				return sandboxtest.Exit(0), nil
			})
			ctx := t.Context()
			session, err := r.CreateSession(ctx, alice, engine.SessionRequest{Kind: engine.SessionHeld})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			ended := make(chan error)
			for range 3 {
				go func() {
					req := engine.RunRequest{Language: name, Code: "x", Session: session.ID}
					req.Profile.Program.Inline = name == "bash"
					_, err := r.Run(ctx, alice, req)
					ended <- err
				}()
			}
			for range 3 {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); took != want {
				t.Errorf("three of %s took %v, want %v", name, took, want)
			}
		})
	}
}
