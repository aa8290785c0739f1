package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// testQuotaRace has a hundred uploads compete for room for one.
func testQuotaRace(t *testing.T) {
	const size, most = 1000, 20_500
	s := stores(t, engine.Config{Quota: engine.Quota{Bytes: most, Files: 1000}}, nil)
	for i := range 19 {
		if _, err := put(t.Context(), s, alice, fmt.Sprint(i), strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
	}
	var stored atomic.Int64
	var crowd sync.WaitGroup
	for i := range 100 {
		crowd.Go(func() {
			_, err := put(t.Context(), s, alice, fmt.Sprint("n", i), strings.Repeat(string(rune('a'+i%26)), size))
			if err == nil {
				stored.Add(1)
				return
			}
			if e := wantFull(t, err); !strings.Contains(e.Hint, "owner_disk") || !strings.Contains(e.Hint, "delete files") {
				t.Errorf("hint %q", e.Hint)
			}
		})
	}
	crowd.Wait()
	files, err := s.ListFiles(t.Context(), alice, engine.FileQuery{Page: engine.Page{Limit: 1000}})
	var total int64
	for _, f := range files {
		total += f.Size
	}
	if err != nil || total > most || stored.Load() > 1 {
		t.Errorf("%d bytes in %d files, %d more were stored, %v", total, len(files), stored.Load(), err)
	}
	if _, err := put(t.Context(), s, bob, "b", strings.Repeat("x", size)); err != nil {
		t.Errorf("another owner: %v", err)
	}
	if err := s.DeleteFile(t.Context(), alice, files[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t.Context(), s, alice, "again", "x"); err != nil {
		t.Errorf("after a delete: %v", err)
	}
}

func wantFull(t *testing.T, err error) *engine.Error {
	t.Helper()
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || e.Kind != engine.ErrFull {
		t.Errorf("got %v, want %v", err, engine.ErrFull)
		return &engine.Error{}
	}
	return e
}

// testOutputQuota checks that a run keeps the files that fit its owner's quota,
// names the others, and succeeds.
func testOutputQuota(t *testing.T) {
	s := stores(t, engine.Config{Quota: engine.Quota{Bytes: 250, Files: 4}},
		func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
			return leaves(t, "a", strings.Repeat("a", 100), "b", strings.Repeat("b", 200), "c", strings.Repeat("c", 100), "d",
				"d", "e", "e", "f", "f"), nil
		})
	run, err := s.Run(t.Context(), alice, python(""))
	if err != nil || run.Status != engine.StatusOK {
		t.Fatalf("%+v, %v", run, err)
	}
	var kept, dropped []string
	for _, f := range run.Files {
		kept = append(kept, f.Path)
	}
	for _, d := range run.Dropped {
		dropped = append(dropped, d.Path+": "+d.Reason)
	}
	if got := fmt.Sprint(kept, dropped); got != "[a c d e] [b: quota full f: quota full]" ||
		!strings.Contains(run.Message, "quota full") {
		t.Errorf("kept %s: %s", got, run.Message)
	}
}

// testQuotaInMidUpload checks that an upload ends as soon as it is too much,
// and that uploads under way count.
func testQuotaInMidUpload(t *testing.T) {
	s := stores(t, engine.Config{Quota: engine.Quota{Bytes: 1 << 20}}, nil)
	endless := &counted{}
	_, err := s.PutFile(t.Context(), alice, engine.Upload{Name: "endless"}, endless)
	wantFull(t, err)
	if endless.read > 2<<20 {
		t.Errorf("%d bytes were taken", endless.read)
	}
	half, resume := io.Pipe()
	waiting := make(chan error)
	go func() {
		_, err := s.PutFile(t.Context(), alice, engine.Upload{Name: "half"}, half)
		waiting <- err
	}()
	// The second write is taken when the first has been counted.
	for _, size := range []int{700 << 10, 1} {
		if _, err := resume.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = put(t.Context(), s, alice, "other", strings.Repeat("x", 500<<10))
	wantFull(t, err)
	resume.Close()
	if err := <-waiting; err != nil {
		t.Errorf("the upload that fits: %v", err)
	}
}

type counted struct{ read int64 }

func (c *counted) Read(p []byte) (int, error) { c.read += int64(len(p)); return len(p), nil }

// testAbandonedSessions checks that one owner's sessions are bounded, and that
// unused sessions expire.
func testAbandonedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{sandbox: sandboxtest.NewFake(nil), blobs: enginetest.NewBlobs(), index: enginetest.NewIndex()}
		quota := engine.Quota{Sessions: 500}
		r.index.Quota = quota
		r.Service = enginetest.StartOn(t, engine.Config{Quota: quota}, r.sandbox, r.blobs, r.index)
		refused := 0
		for i := range 10_000 {
			kind := engine.SessionFiles
			if i%2 == 0 {
				kind = engine.SessionHeld
			}
			_, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: kind, TTL: time.Minute})
			if err != nil {
				if e := wantFull(t, err); !strings.Contains(e.Hint, "owner_sessions") {
					t.Fatalf("hint %q", e.Hint)
				}
				refused++
			}
		}
		if held := len(r.sandbox.Workspaces()); refused != 9_500 || held != 250 {
			t.Errorf("%d were refused, %d workspaces are held", refused, held)
		}
		if _, err := r.CreateSession(t.Context(), bob, engine.SessionRequest{}); err != nil {
			t.Errorf("another owner: %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if held := len(r.sandbox.Workspaces()); held != 0 {
			t.Errorf("%d workspaces are left", held)
		}
		if _, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// testResultsTrimmed checks that the stored output of one owner is bounded,
// and that other owners' output is untouched.
func testResultsTrimmed(t *testing.T) {
	s := stores(t, engine.Config{Quota: engine.Quota{Results: 1 << 20}},
		func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			host.Output(engine.Stdout, bytes.Repeat([]byte("x"), 200_000))
			return sandboxtest.Exit(0), nil
		})
	theirs, err := s.Run(t.Context(), bob, python(""))
	if err != nil {
		t.Fatal(err)
	}
	var last *engine.Run
	for range 20 {
		if last, err = s.Run(t.Context(), alice, python("")); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := s.ListRuns(t.Context(), alice, engine.RunQuery{})
	if err != nil || len(runs) != 5 || runs[0].ID != last.ID {
		t.Errorf("%d runs are kept, %v", len(runs), err)
	}
	for _, run := range []*engine.Run{last, theirs} {
		if kept, err := s.GetRun(t.Context(), engine.Caller{Owner: run.Owner}, run.ID); err != nil ||
			len(kept.Stdout) != 200_000 {
			t.Errorf("%v's: %v", run.Owner, err)
		}
	}
}

// testShare checks that an owner whose programs never end leaves a slot for
// others as soon as there are others.
func testShare(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 3}, func(ctx context.Context, spec *engine.Spec, _ engine.Host) (
		*engine.Outcome, error) {
		if spec.Code == "hog" {
			return sandboxtest.UntilKilled(ctx), nil
		}
		return sandboxtest.Exit(0), nil
	})
	if _, _, err := r.CreateKey(t.Context(), admin, engine.NewKey{Owner: "mallory"}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := r.Start(t.Context(), engine.Caller{Owner: "mallory"}, python("hog")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	checkRun(t, runFacts{Status: engine.StatusOK})(r.Run(ctx, alice, python("honest")))
	if n := r.Stats().Running; n != 2 {
		t.Errorf("one owner has %d of 3 slots", n)
	}
}
