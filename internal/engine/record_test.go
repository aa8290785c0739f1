package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A short run is recorded once, at its end. A run that takes long or prints much
// is recorded before it ends, and so is every run whose caller gets events while
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
		before := r.index.Calls("StartRun")
		do := r.Run
		if test.start {
			do = r.Start
		}
		run, err := do(t.Context(), alice, test.request)
		if err != nil {
			t.Fatal(err)
		}
		if n := r.index.Calls("StartRun") - before; n != test.want {
			t.Errorf("%s: recorded %d times as begun, want %d", test.name, n, test.want)
		}
		if got, err := r.GetRun(t.Context(), alice, run.ID); err != nil || got.ID != run.ID {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
		if _, err := r.GetSession(t.Context(), alice, run.Session); err != nil {
			t.Errorf("%s: its session: %v", test.name, err)
		}
	}

	synctest.Test(t, func(t *testing.T) {
		long := newRig(t, engine.Config{}, func(ctx context.Context, _ *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
			index := ctx.Value(indexKey{}).(*enginetest.Index)
			for deadline := time.Now().Add(time.Minute); index.Calls("StartRun") == 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			return &engine.Outcome{ExitCode: &code}, nil
		})
		if _, err := long.Run(context.WithValue(t.Context(), indexKey{}, long.index), alice, python("")); err != nil ||
			long.index.Calls("StartRun") != 1 || long.index.Calls("FinishRun") != 1 {
			t.Errorf("a long run: %v, begun %d times, ended %d times", err, long.index.Calls("StartRun"),
				long.index.Calls("FinishRun"))
		}
	})
}

type indexKey struct{}

// A caller sees a run that is still on its way to the index, whatever the caller asks for.
func TestGatheredRunsAreSeen(t *testing.T) {
	ctx := context.Background
	for name, look := range map[string]func(*rig, *engine.Run) error{
		"GetRun":     func(r *rig, run *engine.Run) error { _, err := r.GetRun(ctx(), alice, run.ID); return err },
		"GetSession": func(r *rig, run *engine.Run) error { _, err := r.GetSession(ctx(), alice, run.Session); return err },
		"CancelRun":  func(r *rig, run *engine.Run) error { return r.CancelRun(ctx(), alice, run.ID) },
		"DeleteSession": func(r *rig, run *engine.Run) error {
			return r.DeleteSession(ctx(), alice, run.Session)
		},
		"Run in its session": func(r *rig, run *engine.Run) error {
			req := python("")
			req.Session = run.Session
			_, err := r.Run(ctx(), alice, req)
			return err
		},
		"Watch": func(r *rig, run *engine.Run) error {
			events, err := r.Watch(ctx(), alice, run.ID, 0)
			if err != nil {
				return err
			}
			text := ""
			for e := range events {
				text += e.Data
			}
			if text != "out" {
				err = fmt.Errorf("it printed %q", text)
			}
			return err
		},
		"ListRuns": func(r *rig, run *engine.Run) error {
			runs, err := r.ListRuns(ctx(), alice, engine.RunQuery{})
			if err == nil && (len(runs) != 1 || runs[0].ID != run.ID) {
				err = fmt.Errorf("%+v", runs)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // no time passes: nothing is flushed by itself
				db, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				r := &rig{sandbox: sandboxtest.NewFake(func(
					_ context.Context, _ *engine.Spec, host engine.Host,
				) (*engine.Outcome, error) {
					host.Output(engine.Stdout, []byte("out"))
					return sandboxtest.Exit(0), nil
				})}
				r.Service = enginetest.StartOn(t, engine.Config{}, r.sandbox, enginetest.NewBlobs(), db)
				defer r.Shutdown(t.Context())
				run, err := r.Run(t.Context(), alice, python(""))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := db.Run(t.Context(), "alice", run.ID); engine.KindOf(err) != engine.ErrNotFound {
					t.Fatalf("it is in the index at once: %v", err)
				}
				if _, err := r.GetRun(t.Context(), bob, run.ID); engine.KindOf(err) != engine.ErrNotFound {
					t.Errorf("another owner: %v", err)
				}
				if err := look(r, run); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Brief runs are recorded together, a moment later.
func TestBriefRunsAreRecordedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{}, nil)
		for range 10 {
			if _, err := r.Run(t.Context(), alice, python("")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if n := r.index.Calls("InsertFinished"); n != 1 {
			t.Errorf("%d calls of the index", n)
		}
		if runs, err := r.index.Runs(t.Context(), engine.RunQuery{Owner: "alice"}); err != nil || len(runs) != 10 {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

// A service that was shut down calls its index no more, even if that has refused a run.
func TestNothingIsRecordedAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{}, nil)
		refused := 0
		r.index.Fail(func(op string) error {
			if op == "InsertFinished" {
				refused++
				return engine.ErrFull
			}
			return nil
		})
		if _, err := r.Run(t.Context(), alice, python("")); err != nil {
			t.Fatal(err)
		}
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := refused
		if before == 0 {
			t.Error("Shutdown did not try to record the run")
		}
		time.Sleep(time.Minute)
		if refused != before {
			t.Errorf("%d calls of the index after Shutdown", refused-before)
		}
	})
}

// A record that cannot be made is tried again later: the run can still be had, and is
// recorded when it can be. The caller of the next run is told.
func TestShortRunThatCannotBeRecorded(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	r.index.Fail(func(op string) error {
		if op == "InsertFinished" {
			return engine.ErrFull
		}
		return nil
	})
	first, err := r.Run(t.Context(), alice, python(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ListRuns(t.Context(), alice, engine.RunQuery{}); err != nil { // it tries to record the run first
		t.Fatal(err)
	}
	second, err := r.Run(t.Context(), alice, python(""))
	if err != nil || !strings.Contains(second.Message, "could not be recorded") {
		t.Fatalf("%+v, %v", second, err)
	}
	for _, run := range []*engine.Run{first, second} {
		checkRun(t, runFacts{Status: engine.StatusOK, Message: "could not be recorded"})(r.GetRun(t.Context(), alice, run.ID))
		if _, err := r.GetRun(t.Context(), bob, run.ID); engine.KindOf(err) != engine.ErrNotFound {
			t.Errorf("another owner: %v", err)
		}
	}
	r.index.Fail(nil)
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, run := range []*engine.Run{first, second} {
		checkRun(t, runFacts{NoMessage: true}, "recorded later")(r.index.Run(t.Context(), "alice", run.ID))
	}
}

// A run that is not brief, and whose beginning the index refuses, is recorded later, too:
// its end is not the end of a run that was deleted.
func TestLongRunOutlastsTheDisk(t *testing.T) {
	refused := make(chan struct{})
	r := newRig(t, engine.Config{}, func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		<-refused
		host.Output(engine.Stdout, []byte(strings.Repeat("x", 20<<10)))
		return sandboxtest.Exit(0), nil
	})
	full := sync.OnceFunc(func() { close(refused) })
	r.index.Fail(func(op string) error {
		if op == "StartRun" {
			full()
			return engine.ErrFull
		}
		return nil
	})
	run, err := r.Run(t.Context(), alice, python(""))
	if err != nil || !strings.Contains(run.Message, "could not be recorded") {
		t.Fatalf("%+v, %v", run, err)
	}
	for range 3 {
		if _, err := r.ListRuns(t.Context(), alice, engine.RunQuery{}); err != nil { // it tries again
			t.Fatal(err)
		}
		checkRun(t, runFacts{Status: engine.StatusOK})(r.GetRun(t.Context(), alice, run.ID))
	}
	r.index.Fail(nil)
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := r.index.Run(t.Context(), "alice", run.ID)
	if err != nil || got.Status != engine.StatusOK || len(got.Stdout) != 20<<10 {
		t.Errorf("recorded later: %v, %v", got, err)
	}
	if _, err := r.index.Session(t.Context(), "alice", run.Session); err != nil {
		t.Errorf("its session: %v", err)
	}
}

// picky is an index that never takes the runs of one owner.
type picky struct {
	engine.Index
	cause error
}

func (p *picky) InsertFinished(ctx context.Context, runs ...engine.FinishedRun) error {
	if slices.ContainsFunc(runs, func(r engine.FinishedRun) bool { return r.Run.Owner == "bob" }) {
		return p.cause
	}
	return p.Index.InsertFinished(ctx, runs...)
}

// A run that the index does not take, while it takes others, holds up no other: it is
// dropped unless there may be room for it later.
func TestRunThatTheIndexNeverTakes(t *testing.T) {
	for cause, kept := range map[error]bool{errors.New("a fault of its own"): false, engine.ErrFull: true} {
		synctest.Test(t, func(t *testing.T) {
			fake := enginetest.NewIndex()
			s := enginetest.StartOn(t, engine.Config{}, sandboxtest.NewFake(nil), enginetest.NewBlobs(), &picky{fake, cause})
			defer s.Shutdown(t.Context())
			lost, err := s.Run(t.Context(), bob, python(""))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // alone it is tried again: it may be the disk
			if _, err := s.GetRun(t.Context(), bob, lost.ID); err != nil {
				t.Error(err)
			}
			for range 3 {
				run, err := s.Run(t.Context(), alice, python(""))
				checkRun(t, runFacts{NoMessage: true}, "another run")(run, err)
				time.Sleep(time.Second)
				if _, err := fake.Run(t.Context(), "alice", run.ID); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.GetRun(t.Context(), bob, lost.ID); (err == nil) != kept {
				t.Errorf("%v: the run that the index does not take: %v", cause, err)
			}
		})
	}
}

// The first cell of a new live session does not wait for the record of its interpreter,
// which is made soon after, or at its end. If the session was deleted by then, the
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
		request.Session, request.Profile.Live = session.ID, &engine.Interpreter{Fresh: fresh}
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
	checkRun(t, runFacts{Status: engine.StatusCancelled}, "its session is gone")(ended(other, lost), nil)
	if got, err := other.index.Run(t.Context(), "alice", lost.ID); err == nil {
		t.Errorf("its session is gone: %+v", got)
	}

	close(goOn)
	checkRun(t, runFacts{Status: engine.StatusOK})(ended(r, run), nil)
	checkRun(t, runFacts{Status: engine.StatusOK}, "at its end")(r.index.Run(t.Context(), "alice", run.ID))
}
