package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// untilKilled is a program that runs until it is killed, and counts running programs.
func untilKilled(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	host.Output(engine.Stdout, []byte("up"))
	return sandboxtest.UntilKilled(ctx), nil
}

func TestCallerLeaves(t *testing.T) {
	for _, tt := range []struct {
		name   string
		dies   time.Duration // how long the sandbox takes to kill
		within time.Duration
	}{
		{"at once", 0, 0},
		{"the sandbox is slow", time.Minute, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, engine.Config{Concurrency: 1}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
					*engine.Outcome, error) {
					o := sandboxtest.UntilKilled(ctx)
					time.Sleep(tt.dies)
					return o, nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				start := time.Now()
				_, err := r.Run(ctx, alice, python(""))
				e := wantKind(t, err, engine.ErrCanceled, "")
				if took := time.Since(start) - 5*time.Second; took > tt.within {
					t.Errorf("returned %v after the caller left", took)
				}
				time.Sleep(tt.dies)
				synctest.Wait()
				id, _ := engine.ParseID(e.ID)
				checkRun(t, runFacts{Status: engine.StatusCancelled, Message: "caller left"}, "recorded")(
					r.GetRun(t.Context(), alice, id))
			})
		})
	}
}

func TestCancelAtEachStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{Concurrency: 1}, untilKilled)
		ctx := t.Context()
		first, err := r.Start(ctx, alice, python("1"))
		if err != nil {
			t.Fatal(err)
		}
		queued, err := r.Start(ctx, alice, python("2"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := r.Stats(); s.Running != 1 || s.Queued != 1 {
			t.Fatalf("%d run, %d wait", s.Running, s.Queued)
		}
		checkRun(t, runFacts{Status: engine.StatusRunning})(r.GetRun(ctx, alice, first.ID))
		if runs, err := r.ListRuns(ctx, alice, engine.RunQuery{}); err != nil || runs[0].Status != engine.StatusQueued ||
			runs[1].Status != engine.StatusRunning {
			t.Errorf("%+v, %v", runs, err)
		}
		if err := r.CancelRun(ctx, alice, queued.ID); err != nil {
			t.Fatal(err)
		}
		run, err := r.GetRun(ctx, alice, queued.ID)
		if err != nil || run.Status != engine.StatusCancelled || !run.StartedAt.IsZero() ||
			!strings.Contains(run.Message, "before it started") {
			t.Errorf("%+v, %v", run, err)
		}
		if s := r.Stats(); s.Queued != 0 {
			t.Errorf("%d wait", s.Queued)
		}
		events, err := r.Watch(ctx, alice, queued.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for e := range events {
			if e.Seq != 1 || e.Type != engine.EventResult {
				t.Errorf("a run that never started has event %+v", e)
			}
		}
		for range 2 { // and again, when it has ended
			if err := r.CancelRun(ctx, alice, first.ID); err != nil {
				t.Fatal(err)
			}
		}
		checkRun(t, runFacts{Status: engine.StatusCancelled, Stdout: "up"})(r.GetRun(ctx, alice, first.ID))
		if n := len(r.sandbox.Specs()); n != 1 {
			t.Errorf("%d programs were started", n)
		}
	})
}

func TestCancelWhileStaging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{}, untilKilled)
		file := r.put(t, alice, "a", "a")
		reached, goOn := make(chan struct{}), make(chan struct{})
		r.blobs.Fail(func(op string) error {
			close(reached)
			<-goOn
			return errors.New("disk trouble, or the cancel")
		})
		req := python("")
		req.Files = []engine.FileRef{{ID: file.ID}}
		run, err := r.Start(t.Context(), alice, req)
		if err != nil {
			t.Fatal(err)
		}
		<-reached
		cancelled := make(chan error)
		go func() { cancelled <- r.CancelRun(t.Context(), alice, run.ID) }()
		synctest.Wait()
		close(goOn)
		if err := <-cancelled; err != nil {
			t.Fatal(err)
		}
		checkRun(t, runFacts{Status: engine.StatusCancelled})(r.GetRun(t.Context(), alice, run.ID))
	})
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{Concurrency: 1, Queue: 2, QueuePerOwner: 1}, untilKilled)
		for _, caller := range []engine.Caller{alice, alice, bob} {
			if _, err := r.Start(t.Context(), caller, python("")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for _, caller := range []engine.Caller{alice, {Owner: "carol"}} {
			_, err := r.Start(t.Context(), caller, python(""))
			if e := wantKind(t, err, engine.ErrBusy, ""); e.RetryAfter < time.Second {
				t.Errorf("retry after %v", e.RetryAfter)
			}
		}
		if n := r.Stats().Rejected; n != 2 {
			t.Errorf("%d rejected", n)
		}
		if n := r.index.Calls("StartRun"); n != 3 {
			t.Errorf("%d runs were recorded", n)
		}
	})
}

func TestIdempotency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := func(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return &engine.Outcome{Cancelled: true}, nil
			}
			host.Output(engine.Stdout, []byte("once"))
			return sandboxtest.Exit(0), nil
		}
		r := newRig(t, engine.Config{}, program)
		req := python("1")
		req.IdempotencyKey = "k"
		req.Profile.Calls.Handler = handler(nil) // the connection is no part of the request
		var mu sync.Mutex
		var got []*engine.Run
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				run, err := r.Run(t.Context(), alice, req)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				got = append(got, run)
			})
		}
		hasty, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		time.Sleep(time.Millisecond)
		_, err := r.Run(hasty, alice, req) // leaving ends only the run that one began
		wantKind(t, err, engine.ErrCanceled, "")
		wg.Wait()
		for _, run := range got[1:] {
			if diff := cmp.Diff(got[0], run); diff != "" {
				t.Errorf("different answers:\n%s", diff)
			}
		}
		if n := len(r.sandbox.Specs()); n != 1 || got[0].Stdout != "once" {
			t.Errorf("%d programs were started: %+v", n, got[0])
		}
		other := python("2")
		other.IdempotencyKey = "k"
		_, err = r.Run(t.Context(), alice, other)
		wantKind(t, err, engine.ErrConflict, "idempotency key")
		if run, err := r.Run(t.Context(), bob, other); err != nil || run.ID == got[0].ID {
			t.Errorf("another owner's key: %+v, %v", run, err)
		}
		// After a restart too.
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := enginetest.StartOn(t, engine.Config{Defaults: engine.Limits{Timeout: time.Second}}, r.sandbox, r.blobs,
			r.index)
		run, err := second.Run(t.Context(), alice, req)
		got[0].Timings = nil // they are not recorded
		if diff := cmp.Diff(got[0], run); err != nil || diff != "" {
			t.Errorf("after a restart: %v\n%s", err, diff)
		}
	})
}

func TestShutdownDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{Concurrency: 1}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
			*engine.Outcome, error) {
			time.Sleep(time.Second)
			return sandboxtest.Exit(0), nil
		})
		results := make(chan *engine.Run, 2)
		for range 2 {
			go func() {
				run, err := r.Run(t.Context(), alice, python(""))
				if err != nil {
					t.Error(err)
				}
				results <- run
			}()
		}
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- r.Shutdown(t.Context()) }()
		synctest.Wait()
		_, err := r.Run(t.Context(), alice, python(""))
		wantKind(t, err, engine.ErrUnavailable, "")
		_, err = r.CreateSession(t.Context(), alice, engine.SessionRequest{})
		wantKind(t, err, engine.ErrUnavailable, "")
		wantKind(t, r.Ready(t.Context()), engine.ErrUnavailable, "")
		if err := <-closed; err != nil {
			t.Error(err)
		}
		for range 2 {
			checkRun(t, runFacts{Status: engine.StatusOK})(<-results, nil)
		}
	})
}

func TestShutdownKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{Concurrency: 1}, untilKilled)
		var runs []*engine.Run
		for range 2 {
			run, err := r.Start(t.Context(), alice, python(""))
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, run)
		}
		synctest.Wait()
		go r.Shutdown(t.Context()) // would wait for ever; a second call hurries it
		hurry, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := r.Shutdown(hurry); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("took %v", took)
		}
		for _, run := range runs {
			checkRun(t, runFacts{Status: engine.StatusCancelled, Message: "shutting down"})(
				r.GetRun(t.Context(), alice, run.ID))
		}
	})
}

// endsBetween is a context that ends after its first n answers.
type endsBetween struct {
	context.Context
	n int
}

func (c *endsBetween) Err() error {
	if c.n--; c.n < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// However the end of the wait falls between two of our looks, the runs that
// are left are killed.
func TestShutdownKillsWheneverItIsTime(t *testing.T) {
	for n := range 5 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, engine.Config{Concurrency: 1}, untilKilled)
			if _, err := r.Start(t.Context(), alice, python("")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := r.Shutdown(&endsBetween{t.Context(), n}); err != nil {
				t.Errorf("after %d answers: %v", n, err)
			}
		})
	}
}

func TestOpenPutsRight(t *testing.T) {
	sandbox, blobs, index := sandboxtest.NewFake(nil), enginetest.NewBlobs(), enginetest.NewIndex()
	ctx := t.Context()
	run := &engine.Run{ID: engine.NewID(), Owner: "alice", Status: engine.StatusQueued}
	if _, err := index.StartRun(ctx, run, nil, "", engine.Digest{}); err != nil {
		t.Fatal(err)
	}
	held := engine.Session{ID: engine.NewID(), Owner: "alice", Kind: engine.SessionHeld,
		ExpiresAt: time.Now().Add(time.Hour)}
	if err := index.AddSession(ctx, held, nil); err != nil {
		t.Fatal(err)
	}
	orphan, err := blobs.Put(ctx, strings.NewReader("nobody's"), 100)
	if err != nil {
		t.Fatal(err)
	}
	blobs.Unpin(orphan.SHA256)

	s := engine.New(engine.Config{}, sandbox, blobs, index, slog.New(slog.DiscardHandler))
	_, err = s.Run(ctx, alice, python(""))
	wantKind(t, err, engine.ErrUnavailable, "")
	wantKind(t, s.Ready(ctx), engine.ErrUnavailable, "")
	if err := s.Open(ctx); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(ctx)
	if err := s.Ready(ctx); err != nil {
		t.Error(err)
	}
	checkRun(t, runFacts{Status: engine.StatusInterrupted})(s.GetRun(ctx, alice, run.ID))
	req := python("") // a held session outlives its workspace
	req.Session = held.ID
	if got, err := s.Run(ctx, alice, req); err != nil || !strings.Contains(got.Stderr, "in a restart of the service") {
		t.Errorf("%+v, %v", got, err)
	}
	if n, _ := blobs.Len(); n != 0 {
		t.Errorf("%d blobs left", n)
	}
}

func TestWatchLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{Concurrency: 1}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
			*engine.Outcome, error) {
			for i := range 5 {
				host.Output(engine.Stdout, fmt.Appendf(nil, "%d\n", i))
				time.Sleep(time.Second)
			}
			return sandboxtest.Exit(0), nil
		})
		run, err := r.Start(t.Context(), alice, python(""))
		if err != nil {
			t.Fatal(err)
		}
		follow := func(after int, ctx context.Context) []string {
			events, err := r.Watch(ctx, alice, run.ID, after)
			if err != nil {
				t.Error(err)
				return nil
			}
			var seen []string
			for e := range events {
				seen = append(seen, fmt.Sprint(e.Seq, " ", e.Type, " ", strings.TrimSpace(e.Data)))
			}
			return seen
		}
		whole := []string{"1 started ", "2 output 0", "3 output 1", "4 output 2", "5 output 3", "6 output 4", "7 result "}
		var wg sync.WaitGroup
		for _, late := range []time.Duration{0, 1500 * time.Millisecond, time.Minute} {
			wg.Go(func() {
				time.Sleep(late)
				if diff := cmp.Diff(whole, follow(0, t.Context())); diff != "" {
					t.Errorf("%v late:\n%s", late, diff)
				}
			})
		}
		wg.Go(func() { // loses its connection, and comes back
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			seen := follow(0, ctx)
			if diff := cmp.Diff(whole[:4], seen); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(whole[4:], follow(len(seen), t.Context())); diff != "" {
				t.Error(diff)
			}
		})
		wg.Wait()
	})
}

// What a young index does not know is not taken for waste.
func TestYoungIndexSweepsNothing(t *testing.T) {
	for _, young := range []bool{true, false} {
		blobs, index := enginetest.NewBlobs(), enginetest.NewIndex()
		index.IsYoung = young
		unknown, err := blobs.Put(t.Context(), strings.NewReader("of a lost index"), 100)
		if err != nil {
			t.Fatal(err)
		}
		blobs.Unpin(unknown.SHA256)
		s := engine.New(engine.Config{}, sandboxtest.NewFake(nil), blobs, index, slog.New(slog.DiscardHandler))
		if err := s.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n, _ := blobs.Len(); (n == 1) != young {
			t.Errorf("young %v: %d blobs left", young, n)
		}
	}
}
