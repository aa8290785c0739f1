package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{FileTTL: time.Hour, SessionTTL: time.Hour, RunTTL: 2 * time.Hour},
			func(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
				if spec.Code == "long" {
					time.Sleep(4 * time.Minute)
				}
				return sandboxtest.Exit(0), nil
			})
		ctx := t.Context()
		unused, used := r.put(t, alice, "unused", "1"), r.put(t, alice, "used", "2")
		twin := r.put(t, alice, "twin", "2")
		idle, err := r.CreateSession(ctx, alice, engine.SessionRequest{Kind: engine.SessionHeld})
		if err != nil {
			t.Fatal(err)
		}
		busy, err := r.CreateSession(ctx, alice, engine.SessionRequest{Kind: engine.SessionHeld, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		brief, err := r.CreateSession(ctx, alice, engine.SessionRequest{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		short, err := r.PutFile(ctx, alice, engine.Upload{Name: "short", TTL: time.Second}, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // over, and the janitor has not been there yet
		late := python("")
		late.Session = brief.ID
		_, err = r.GetFile(ctx, alice, short.ID)
		wantKind(t, err, engine.ErrNotFound, "")
		_, err = r.Run(ctx, alice, late)
		wantKind(t, err, engine.ErrNotFound, "session "+brief.ID.String())
		req := python("long")
		req.Session = busy.ID
		go func() {
			time.Sleep(3 * time.Minute)
			if _, err := r.GetSession(ctx, alice, busy.ID); err != nil {
				t.Errorf("in mid-run: %v", err)
			}
		}()
		run, err := r.Run(ctx, alice, req)
		if err != nil || run.Status != engine.StatusOK {
			t.Fatalf("a run outlives its session's lifetime: %+v, %v", run, err)
		}
		if _, err := r.GetSession(ctx, alice, busy.ID); err != nil {
			t.Errorf("at the moment of expiry the run did not win: %v", err)
		}
		for range 20 { // many reads, few writes
			r.read(t, alice, used.ID)
		}
		if f, err := r.GetFile(ctx, alice, used.ID); err != nil ||
			f.ExpiresAt.Sub(used.ExpiresAt) != time.Since(used.CreatedAt) {
			t.Errorf("a use moved the expiry by %v, %v", f.ExpiresAt.Sub(used.ExpiresAt), err)
		}
		before := r.index.Calls("Touch")
		time.Sleep(50 * time.Minute)
		r.read(t, alice, used.ID)
		if n := r.index.Calls("Touch") - before; n > 1 {
			t.Errorf("%d writes for 20 reads", n)
		}
		time.Sleep(9 * time.Minute)
		for _, f := range []engine.File{unused, twin} {
			_, err := r.GetFile(ctx, alice, f.ID)
			wantKind(t, err, engine.ErrNotFound, f.ID.String())
		}
		r.read(t, alice, used.ID)
		_, err = r.GetSession(ctx, alice, busy.ID)
		wantKind(t, err, engine.ErrNotFound, "")
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if held := r.sandbox.Workspaces(); len(held) != 0 {
			t.Errorf("still held: %v", held)
		}
		_, err = r.GetSession(ctx, alice, idle.ID)
		wantKind(t, err, engine.ErrNotFound, "")
		if blobs, _ := r.blobs.Len(); blobs != 1 {
			t.Errorf("%d blobs, want the one that is in use", blobs)
		}
		if _, err := r.GetRun(ctx, alice, run.ID); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		_, err = r.GetRun(ctx, alice, run.ID)
		wantKind(t, err, engine.ErrNotFound, "")
	})
}

// While uses cannot be recorded, nothing expires, because it might be in use.
func TestExpiryWithoutUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{FileTTL: time.Hour}, nil)
		r.index.Now = nil // this is about what the janitor removes
		file := r.put(t, alice, "a", "a")
		r.index.Fail(func(method string) error {
			if method == "Touch" {
				return engine.ErrFull
			}
			return nil
		})
		time.Sleep(59*time.Minute + 50*time.Second)
		r.read(t, alice, file.ID)
		time.Sleep(5 * time.Minute)
		r.index.Fail(nil)
		if got := r.read(t, alice, file.ID); got != "a" {
			t.Errorf("read %q", got)
		}
	})
}

// A wall clock that jumps expires nothing, and makes nothing eternal.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var jump time.Duration
		r := newRig(t, engine.Config{Now: engine.SteadyClock(func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(jump)
		})}, nil)
		file := r.put(t, alice, "a", "a")
		session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
			mu.Lock()
			jump = by
			mu.Unlock()
			time.Sleep(time.Hour)
			if got := r.read(t, alice, file.ID); got != "a" {
				t.Errorf("after a jump: %q", got)
			}
			if _, err := r.GetSession(t.Context(), alice, session.ID); err != nil {
				t.Error(err)
			}
			if run, err := r.Run(t.Context(), alice, python("")); err != nil || run.FinishedAt.Before(run.CreatedAt) ||
				run.CreatedAt.Before(file.CreatedAt) {
				t.Errorf("%+v, %v", run, err)
			}
		}
		time.Sleep(25 * time.Hour)
		_, err = r.GetFile(t.Context(), alice, file.ID)
		wantKind(t, err, engine.ErrNotFound, "")
	})
}

func TestDeleteFileFreesBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{}, nil)
		a, twin := r.put(t, alice, "a", "same"), r.put(t, bob, "b", "same")
		if err := r.DeleteFile(t.Context(), alice, a.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.read(t, bob, twin.ID); got != "same" {
			t.Errorf("bob reads %q", got)
		}
		wantKind(t, r.DeleteFile(t.Context(), alice, a.ID), engine.ErrNotFound, a.ID.String())
		if err := r.DeleteFile(t.Context(), bob, twin.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if blobs, _ := r.blobs.Len(); blobs != 0 {
			t.Errorf("%d blobs left", blobs)
		}
	})
}

// Bytes that are uploaded between the question whether a file has them and
// their removal are not removed.
func TestReclaimOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{}, nil)
		first := r.put(t, alice, "a", "contended")
		var second engine.File
		r.blobs.Fail(func(op string) error {
			if op == "Delete" && second.ID.IsZero() {
				second = r.put(t, alice, "b", "contended")
			}
			return nil
		})
		if err := r.DeleteFile(t.Context(), alice, first.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.read(t, alice, second.ID); got != "contended" {
			t.Errorf("read %q", got)
		}
		if _, pinned := r.blobs.Len(); pinned != 0 {
			t.Errorf("%d blobs are still pinned", pinned)
		}
	})
}

// Deletions beside uploads of the same bytes never take what was acknowledged.
func TestReclaimBesideUploads(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				f := r.put(t, alice, "a", "contended")
				if got := r.read(t, alice, f.ID); got != "contended" {
					t.Errorf("read %q", got)
				}
				if err := r.DeleteFile(t.Context(), alice, f.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// What a sweep leaves because it is young goes with one an hour later; where nothing
// has gone nothing is swept.
func TestSweepsAgain(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"expired": time.Minute, "deleted": 100 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, engine.Config{}, nil)
			var mu sync.Mutex
			var sweeps []time.Duration
			began := time.Now()
			r.blobs.Fail(func(method string) error {
				mu.Lock()
				defer mu.Unlock()
				if method == "Sweep" {
					sweeps = append(sweeps, time.Since(began).Round(time.Minute))
				}
				return nil
			})
			file, err := r.PutFile(t.Context(), alice, engine.Upload{Name: "x", TTL: ttl}, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			want := []time.Duration{5 * time.Minute, 70 * time.Minute}
			if name == "deleted" {
				want = want[1:]
				want[0] = 65 * time.Minute
				if err := r.DeleteFile(t.Context(), alice, file.ID); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(24 * time.Hour)
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, sweeps); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		})
	}
}
