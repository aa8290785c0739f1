package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A run may take longer than its session and its files last. They are in use while
// the run waits and executes, and their lifetime restarts when it ends.
func TestRunsOutlastLifetimes(t *testing.T) {
	for _, ttl := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 29 * time.Second, 61 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			db, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			long := 3*ttl + 40*time.Second // the janitor comes in the meantime
			r := &rig{sandbox: sandboxtest.NewFake(func(ctx context.Context, _ *engine.Spec, _ engine.Host) (
				*engine.Outcome, error) {
				select {
				case <-time.After(long):
				case <-ctx.Done():
				}
				return sandboxtest.Exit(0), nil
			})}
			cfg := engine.Config{FileTTL: ttl, SessionTTL: ttl, Defaults: engine.Limits{Timeout: time.Hour},
				Maxima: engine.Limits{Timeout: time.Hour}}
			r.Service = enginetest.StartOn(t, cfg, r.sandbox, enginetest.NewBlobs(), db)
			defer r.Shutdown(t.Context())
			ctx := t.Context()
			placed, given, unused := r.put(t, alice, "placed", "p"), r.put(t, alice, "given", "g"),
				r.put(t, alice, "unused", "u")
			session, err := r.CreateSession(ctx, alice, engine.SessionRequest{Files: []engine.FileRef{{ID: placed.ID}}})
			if err != nil {
				t.Fatal(err)
			}
			first := python("")
			first.Session = session.ID
			second := first // it waits for the first
			second.Files = []engine.FileRef{{ID: given.ID}}
			for _, req := range []engine.RunRequest{first, second} {
				if _, err := r.Start(ctx, alice, req); err != nil {
					t.Fatal(err)
				}
			}
			there := func() error { // no look at them is a use
				_, err := r.GetSession(ctx, alice, session.ID)
				files, _, filesErr := r.SessionFiles(ctx, alice, session.ID)
				_, placedErr := r.GetFile(ctx, alice, placed.ID)
				_, givenErr := r.GetFile(ctx, alice, given.ID)
				list, listErr := r.ListSessions(ctx, alice, engine.SessionQuery{})
				if listErr == nil && len(list) != 1 || filesErr == nil && len(files) == 0 {
					listErr = fmt.Errorf("%d sessions with %d files", len(list), len(files))
				}
				return errors.Join(err, filesErr, placedErr, givenErr, listErr)
			}
			began := time.Now()
			for time.Since(began) < 2*long+ttl*9/10 { // sampled: each look costs processor time
				if err := there(); err != nil {
					t.Fatalf("a lifetime of %v, after %v of runs that take %v: %v", ttl, time.Since(began), 2*long, err)
				}
				time.Sleep(long / 40)
			}
			if _, err := r.GetFile(ctx, alice, unused.ID); err == nil {
				t.Error("a file that no run uses is there")
			}
			time.Sleep(ttl)
			for what, err := range map[string]error{
				"the session": func() error { _, err := r.GetSession(ctx, alice, session.ID); return err }(),
				"a file":      func() error { _, err := r.GetFile(ctx, alice, placed.ID); return err }(),
			} {
				if err == nil || !strings.Contains(err.Error(), "not_found") {
					t.Errorf("%s, a lifetime of %v after the runs: %v", what, ttl, err)
				}
			}
		})
	}
}

// Whatever its lifetime, an object that is used often enough stays, and an unused
// object is deleted when it expires.
func TestUseAndExpiryAgree(t *testing.T) {
	for _, ttl := range []time.Duration{2, 20, 31, 59, 61, 91, 150} {
		ttl *= time.Second
		synctest.Test(t, func(t *testing.T) {
			// The index knows of expiry, too, which the one of other tests does not.
			db, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			r := &rig{sandbox: sandboxtest.NewFake(nil)}
			r.Service = enginetest.StartOn(t, engine.Config{FileTTL: ttl, SessionTTL: ttl}, r.sandbox, enginetest.NewBlobs(), db)
			defer r.Shutdown(t.Context())
			ctx := t.Context()
			place := func() (engine.Session, engine.File) {
				f := r.put(t, alice, "a", "a")
				session, err := r.CreateSession(ctx, alice, engine.SessionRequest{
					TTL: ttl, Files: []engine.FileRef{{ID: f.ID, Path: "a"}}})
				if err != nil {
					t.Fatal(err)
				}
				return session, f
			}
			opened := r.put(t, alice, "opened", "o")
			in, found := place()
			listed, _ := place()
			worked, _ := place()
			idle, unused := place()
			uses := map[string]func() error{
				"a file that is read": func() error {
					_, content, err := r.OpenFile(ctx, alice, opened.ID)
					if err == nil {
						content.Close()
					}
					return err
				},
				"a file that is found in a session": func() error {
					_, _, _, err := r.SessionFile(ctx, alice, in.ID, found.ID)
					return err
				},
				"a session that is used": func() error {
					_, files, _, err := r.UseSession(ctx, alice, listed.ID)
					if err == nil && len(files) != 1 {
						err = fmt.Errorf("it has %d files", len(files))
					}
					return err
				},
				"a session with a run now and then": func() error {
					req := python("")
					req.Session = worked.ID
					_, err := r.Run(ctx, alice, req)
					return err
				},
			}
			began := time.Now()
			for time.Since(began) < 3*ttl+40*time.Second { // the janitor comes at least once
				for what, use := range uses {
					if err := use(); err != nil {
						t.Fatalf("%s, after %v of a lifetime of %v: %v", what, time.Since(began), ttl, err)
					}
				}
				step := ttl * 9 / 10
				if time.Since(began) > 2*ttl {
					step = ttl / 5
				}
				time.Sleep(step)
				_, err := r.GetFile(ctx, alice, unused.ID)
				if gone := err != nil; gone != (time.Since(began) >= ttl) {
					t.Fatalf("a file that nobody uses, after %v of %v: %v", time.Since(began), ttl, err)
				}
				_, err = r.GetSession(ctx, alice, idle.ID)
				if gone := err != nil; gone != (time.Since(began) >= ttl) {
					t.Fatalf("a session that nobody uses, after %v of %v: %v", time.Since(began), ttl, err)
				}
			}
			time.Sleep(ttl + time.Minute)
			for what, use := range uses {
				if err := use(); err == nil || !strings.Contains(err.Error(), "not_found") {
					t.Errorf("%s, unused for longer than %v: %v", what, ttl, err)
				}
			}
		})
	}
}

// forgetful is an index that cannot write uses down while failing says so.
type forgetful struct {
	engine.Index
	failing error
}

func (f *forgetful) Touch(ctx context.Context, uses map[engine.ID]time.Time) error {
	if f.failing != nil {
		return f.failing
	}
	return f.Index.Touch(ctx, uses)
}

// What was used is not said to be missing because the use could not be written
// down: that is an error while it lasts, and afterwards all of it is there.
func TestUsesThatCannotBeWritten(t *testing.T) {
	const ttl = 50 * time.Second
	synctest.Test(t, func(t *testing.T) {
		db, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		full := &forgetful{Index: db}
		r := &rig{sandbox: sandboxtest.NewFake(nil)}
		r.Service = enginetest.StartOn(t, engine.Config{FileTTL: ttl, SessionTTL: ttl}, r.sandbox, enginetest.NewBlobs(),
			full)
		defer r.Shutdown(t.Context())
		ctx := t.Context()
		used, unused := r.put(t, alice, "used", "u"), r.put(t, alice, "unused", "n")
		session, err := r.CreateSession(ctx, alice, engine.SessionRequest{
			TTL: ttl, Files: []engine.FileRef{{ID: used.ID, Path: "used"}}})
		if err != nil {
			t.Fatal(err)
		}
		looks := map[string]func() error{
			"the file":       func() error { _, err := r.GetFile(ctx, alice, used.ID); return err },
			"the session":    func() error { _, err := r.GetSession(ctx, alice, session.ID); return err },
			"the file in it": func() error { _, _, _, err := r.SessionFile(ctx, alice, session.ID, used.ID); return err },
			"its files": func() error {
				_, files, _, err := r.UseSession(ctx, alice, session.ID)
				if err == nil && len(files) != 1 {
					err = fmt.Errorf("%d: %w", len(files), engine.ErrNotFound)
				}
				return err
			},
		}
		time.Sleep(ttl / 2)
		full.failing = errors.New("no space left on device")
		if err := looks["its files"](); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl/2 + time.Second)
		for name, look := range looks {
			if err := look(); err == nil || errors.Is(err, engine.ErrNotFound) {
				t.Errorf("%s, while uses cannot be written: %v", name, err)
			}
		}
		full.failing = nil
		for name, look := range looks {
			if err := look(); err != nil {
				t.Errorf("%s, afterwards: %v", name, err)
			}
		}
		if _, err := r.GetFile(ctx, alice, unused.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("what was not used: %v", err)
		}
	})
}
