package engine_test

import (
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

// Whatever its lifetime, what is used often enough is there each time, and what
// is not used is gone when its time is over.
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
				session, err := r.CreateSession(ctx, alice, engine.SessionRequest{TTL: ttl, Files: []engine.FileRef{{ID: f.ID, Path: "a"}}})
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
			for time.Since(began) < 3*ttl+4*time.Minute {
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
