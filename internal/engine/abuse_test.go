package engine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// TestAbuse holds the part of the list of abuses that the core decides, by its
// numbers.
func TestAbuse(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"A15 caller leaves":               TestCallerLeaves,
		"A15 leaving at each stage":       TestCancelAtEachStage,
		"A16 queue full":                  TestBusy,
		"A16 every run once":              testCrowd,
		"A16 large requests that wait":    testLargeRequests,
		"A17 constant time":               testConstantTime,
		"A19 foreign is unknown":          TestForeignIsUnknown,
		"A24 uploads beside a quota":      testQuotaRace,
		"A24 outputs over a quota":        testOutputQuota,
		"A24 upload that is half way":     testQuotaInMidUpload,
		"A30 one name, many uploads":      testOneName,
		"A31 delete while reading":        testDeleteWhileReading,
		"A32 sixteen deletes":             testManyDeletes,
		"A33 use and delete":              testUseAndDelete,
		"A38 what sandboxes hand over":    TestRun,
		"A44 two runs in one session":     TestSessionRunsInOrder,
		"A46 session deleted in mid-run":  TestDeleteSessionKillsItsRuns,
		"A47 expiry in mid-run":           TestExpiry,
		"A48 abandoned sessions":          testAbandonedSessions,
		"A49 cancel twice":                testCancelTwice,
		"A50 same key":                    TestIdempotency,
		"A50 input gone, queue full":      testRepeatWithoutInput,
		"A50 the caller leaves":           testKeyedCallerLeaves,
		"A59 interrupted runs":            TestOpenPutsRight,
		"A62 the sandbox fails":           TestSandboxFails,
		"A63 drain":                       TestShutdownDrains,
		"A63 drain, out of time":          TestShutdownKills,
		"A64 disk full on outputs":        TestDiskFullOnOutputs,
		"A61 between bytes and row":       testCutOff,
		"A66 the n-th call fails":         testFaultSweep,
		"A68 clock jumps":                 TestClockJumps,
		"A48 results of one owner":        testResultsTrimmed,
		"A16 one owner does not fill all": testShare,
	} {
		t.Run(name, test)
	}
}

// stores is a service on the stores that it has in production, with a quota.
func stores(t *testing.T, cfg engine.Config, program sandboxtest.Program) *engine.Service {
	t.Helper()
	dir := t.TempDir()
	store, err := blob.Open(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	cfg.Now = engine.SteadyClock(time.Now)
	db, err := index.Open(t.Context(), filepath.Join(dir, "index.db"), slog.New(slog.DiscardHandler),
		index.WithClock(cfg.Now), index.WithQuota(cfg.Quota))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return enginetest.StartOn(t, cfg, sandboxtest.NewFake(program), store, db)
}

func put(ctx context.Context, s *engine.Service, who engine.Caller, name, content string) (engine.File, error) {
	return s.PutFile(ctx, who, engine.Upload{Name: name}, strings.NewReader(content))
}

// testCrowd sends many more runs than there is room for, of several owners.
func testCrowd(t *testing.T) {
	var ran sync.Map
	s := stores(t, engine.Config{Concurrency: 2, Queue: 30, QueuePerOwner: 20},
		func(_ context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			if _, twice := ran.LoadOrStore(spec.Code, true); twice {
				t.Errorf("%s ran twice", spec.Code)
			}
			host.Output(engine.Stdout, []byte(spec.Code))
			return sandboxtest.Exit(0), nil
		})
	var done, busy atomic.Int64
	var crowd sync.WaitGroup
	for i := range 600 {
		crowd.Go(func() {
			owner, code := engine.Owner(fmt.Sprint("owner", i%3)), fmt.Sprint("program ", i)
			run, err := s.Run(t.Context(), engine.Caller{Owner: owner}, python(code))
			switch e, _ := errors.AsType[*engine.Error](err); {
			case err == nil && run.Stdout == code:
				done.Add(1)
			case err != nil && e.Kind == engine.ErrBusy && e.RetryAfter >= time.Second:
				busy.Add(1)
			default:
				t.Errorf("%d: %+v, %v", i, run, err)
			}
		})
	}
	crowd.Wait()
	count := int64(0)
	ran.Range(func(any, any) bool { count++; return true })
	// How many of the queue are refused because they waited is up to the machine.
	if count != done.Load() || done.Load()+busy.Load() != 600 || done.Load() < 2 {
		t.Errorf("%d were answered, %d ran, %d were refused", done.Load(), count, busy.Load())
	}
	recorded := 0
	for i := range 3 {
		runs, err := s.ListRuns(t.Context(), engine.Caller{Owner: engine.Owner(fmt.Sprint("owner", i))},
			engine.RunQuery{Page: engine.Page{Limit: 1000}})
		if err != nil {
			t.Error(err)
		}
		recorded += len(runs)
	}
	if int64(recorded) != count {
		t.Errorf("%d runs are recorded, %d were", recorded, count)
	}
}

// testLargeRequests checks that requests which wait cannot fill the memory,
// and that one owner leaves room for others.
func testLargeRequests(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 1, Queue: 1000, QueuePerOwner: 1000}, untilKilled)
	big := python("x")
	big.Stdin = make([]byte, 10<<20)
	accepted := 0
	var err error
	for err == nil {
		if _, err = r.Start(t.Context(), alice, big); err == nil {
			accepted++
		}
	}
	wantKind(t, err, engine.ErrBusy, "")
	if accepted != 12 {
		t.Errorf("%d requests of 10 MiB wait", accepted)
	}
	if _, err := r.Start(t.Context(), alice, python("small")); err != nil {
		t.Errorf("a small one: %v", err)
	}
	last, err := r.Start(t.Context(), bob, big)
	if err != nil {
		t.Fatalf("another owner: %v", err)
	}
	if err := r.CancelRun(t.Context(), bob, last.ID); err != nil {
		t.Fatal(err)
	}
	runs, err := r.ListRuns(t.Context(), alice, engine.RunQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if err := r.CancelRun(t.Context(), alice, run.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Start(t.Context(), alice, big); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// testConstantTime checks that it takes as long to refuse a secret that is
// wrong as one whose key is unknown: what differs must be lost in the noise.
func testConstantTime(t *testing.T) {
	s := stores(t, engine.Config{}, nil)
	_, token, err := s.CreateKey(t.Context(), admin, engine.NewKey{Owner: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) string {
		b := []byte(token)
		if b[at]++; b[at] > 'z' || b[at] == 'm' {
			b[at] = 'b'
		}
		return string(b)
	}
	guesses := map[string]string{"first letter wrong": flip(len("ak_") + 13), "last letter wrong": flip(len(token) - 1),
		"unknown key": "ak_bbbbbbbbbbbb" + token[len("ak_")+12:]}
	times := map[string][]time.Duration{}
	for range 1000 {
		for name, guess := range guesses {
			begin := time.Now()
			_, err := s.Authenticate(t.Context(), guess)
			times[name] = append(times[name], time.Since(begin))
			if !errors.Is(err, engine.ErrUnauthorized) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	median := func(name string) time.Duration { slices.Sort(times[name]); return times[name][len(times[name])/2] }
	reference := median("last letter wrong")
	for name := range guesses {
		if m := median(name); m > reference*3/2+20*time.Microsecond || reference > m*3/2+20*time.Microsecond {
			t.Errorf("%s takes %v, a wrong secret %v", name, m, reference)
		}
	}
}

// testOneName uploads different contents under one name at once: each is whole.
func testOneName(t *testing.T) {
	s := stores(t, engine.Config{}, nil)
	var crowd sync.WaitGroup
	for i := range 40 {
		crowd.Go(func() {
			content := strings.Repeat(fmt.Sprintf("%03d ", i%10), 50_000)
			f, err := put(t.Context(), s, alice, "same", content)
			if err != nil {
				t.Error(err)
				return
			}
			_, open, err := s.OpenFile(t.Context(), alice, f.ID)
			if err != nil {
				t.Error(err)
				return
			}
			defer open.Close()
			got, err := io.ReadAll(open)
			if err != nil || sha256.Sum256(got) != sha256.Sum256([]byte(content)) {
				t.Errorf("%d: %d bytes that are not what was sent, %v", i, len(got), err)
			}
		})
	}
	crowd.Wait()
}

func testDeleteWhileReading(t *testing.T) {
	s := stores(t, engine.Config{}, nil)
	content := strings.Repeat("content", 100_000)
	f, err := put(t.Context(), s, alice, "a", content)
	if err != nil {
		t.Fatal(err)
	}
	_, open, err := s.OpenFile(t.Context(), alice, f.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := s.DeleteFile(t.Context(), alice, f.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.GetFile(t.Context(), alice, f.ID)
	wantKind(t, err, engine.ErrNotFound, "")
	if got, err := io.ReadAll(open); err != nil || string(got) != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func testManyDeletes(t *testing.T) {
	s := stores(t, engine.Config{}, nil)
	f, err := put(t.Context(), s, alice, "a", "a")
	if err != nil {
		t.Fatal(err)
	}
	session, err := s.CreateSession(t.Context(), alice, engine.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func() error{
		"file":    func() error { return s.DeleteFile(t.Context(), alice, f.ID) },
		"session": func() error { return s.DeleteSession(t.Context(), alice, session.ID) },
	} {
		var gone, missing atomic.Int64
		var crowd sync.WaitGroup
		for range 16 {
			crowd.Go(func() {
				switch err := remove(); {
				case err == nil:
					gone.Add(1)
				case errors.Is(err, engine.ErrNotFound):
					missing.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		crowd.Wait()
		if gone.Load() != 1 || missing.Load() != 15 {
			t.Errorf("%s: %d deleted it, %d found none", name, gone.Load(), missing.Load())
		}
	}
}

// testUseAndDelete has runs, and deletes of their session and file, meet: each
// run is whole or was refused, and nothing is left.
func testUseAndDelete(t *testing.T) {
	s := stores(t, engine.Config{Concurrency: 4}, func(_ context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		in := staged(t, spec)
		host.Output(engine.Stdout, []byte(in["in"]))
		return leaves(t, "out", in["in"]+"!"), nil
	})
	for range 30 {
		f, err := put(t.Context(), s, alice, "in", "whole")
		if err != nil {
			t.Fatal(err)
		}
		session, err := s.CreateSession(t.Context(), alice, engine.SessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var crowd sync.WaitGroup
		for range 3 {
			crowd.Go(func() {
				req := python("")
				req.Session, req.Files = session.ID, []engine.FileRef{{ID: f.ID, Path: "in"}}
				run, err := s.Run(t.Context(), alice, req)
				if err != nil && !errors.Is(err, engine.ErrNotFound) || err == nil && run.Status == engine.StatusOK &&
					run.Stdout != "whole" {
					t.Errorf("%+v, %v", run, err)
				}
			})
		}
		crowd.Go(func() { _ = s.DeleteFile(t.Context(), alice, f.ID) })
		crowd.Go(func() {
			if err := s.DeleteSession(t.Context(), alice, session.ID); err != nil {
				t.Error(err)
			}
		})
		crowd.Wait()
		_, err = s.GetSession(t.Context(), alice, session.ID)
		wantKind(t, err, engine.ErrNotFound, "")
	}
}

func testCancelTwice(t *testing.T) {
	r := newRig(t, engine.Config{}, untilKilled)
	run, err := r.Start(t.Context(), alice, python(""))
	if err != nil {
		t.Fatal(err)
	}
	var crowd sync.WaitGroup
	for range 5 {
		crowd.Go(func() {
			if err := r.CancelRun(t.Context(), alice, run.ID); err != nil {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	if err := r.CancelRun(t.Context(), alice, run.ID); err != nil {
		t.Errorf("after the end: %v", err)
	}
	checkRun(t, runFacts{Status: engine.StatusCancelled})(r.GetRun(t.Context(), alice, run.ID))
	wantKind(t, r.CancelRun(t.Context(), bob, run.ID), engine.ErrNotFound, run.ID.String())
}

// testRepeatWithoutInput checks that a repeat gets the recorded result, also
// when its inputs were deleted and the queue is full.
func testRepeatWithoutInput(t *testing.T) {
	block := make(chan struct{})
	s := stores(t, engine.Config{Concurrency: 1, Queue: 1, QueuePerOwner: 1},
		func(_ context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			if spec.Code == "block" {
				<-block
			}
			host.Output(engine.Stdout, []byte("first"))
			return sandboxtest.Exit(0), nil
		})
	f, err := put(t.Context(), s, alice, "in", "x")
	if err != nil {
		t.Fatal(err)
	}
	req := python("")
	req.Files, req.IdempotencyKey = []engine.FileRef{{ID: f.ID}}, "k"
	first, err := s.Run(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteFile(t.Context(), alice, f.ID); err != nil {
		t.Fatal(err)
	}
	defer close(block)
	for err == nil {
		_, err = s.Start(t.Context(), alice, python("block"))
	}
	wantKind(t, err, engine.ErrBusy, "")
	again, err := s.Run(t.Context(), alice, req)
	if err != nil || again.ID != first.ID || again.Stdout != "first" {
		t.Errorf("%+v, %v", again, err)
	}
	other := req
	other.Code = "other"
	_, err = s.Run(t.Context(), alice, other)
	wantKind(t, err, engine.ErrConflict, "idempotency key")
}

// testKeyedCallerLeaves checks that a run with a key continues without its
// caller, and a run without a key does not.
func testKeyedCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{}, func(ctx context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return sandboxtest.UntilKilled(ctx), nil
			}
			host.Output(engine.Stdout, []byte("late"))
			return sandboxtest.Exit(0), nil
		})
		req := python("")
		req.IdempotencyKey = "k"
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Run(hasty, alice, req)
		wantKind(t, err, engine.ErrCanceled, "")
		run, err := r.Run(t.Context(), alice, req)
		if err != nil || run.Stdout != "late" || len(r.sandbox.Specs()) != 1 {
			t.Errorf("%+v, %v", run, err)
		}
	})
}
