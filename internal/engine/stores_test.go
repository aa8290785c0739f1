package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/blob"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/index"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The engine on the stores that it has in service: what the fakes promise
// holds for them too.
func TestRealStores(t *testing.T) {
	dir := t.TempDir()
	clock := engine.SteadyClock(time.Now)
	store, err := blob.Open(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	db, err := index.Open(t.Context(), filepath.Join(dir, "index.db"), slog.New(slog.DiscardHandler),
		index.WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	long := strings.Repeat("é", 1<<20)
	sandbox := sandboxtest.NewFake(func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		in := staged(t, spec)
		host.Output(engine.Stdout, fmt.Appendf(nil, "%d", len(in)))
		host.Output(engine.Stderr, []byte(long))
		return leaves(t, "out.txt", in["out.txt"]+"x"), nil
	})
	r := &rig{sandbox: sandbox}
	r.Service = enginetest.StartOn(t, engine.Config{Now: clock}, sandbox, store, db)
	defer r.Shutdown(t.Context())
	a := r.put(t, alice, "a.txt", "A")
	req := python("1")
	req.Files = []engine.FileRef{{ID: a.ID}}
	req.IdempotencyKey = "k"
	run, err := r.Run(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.Run(t.Context(), alice, req)
	if err != nil || again.ID != run.ID || again.Stdout != run.Stdout || again.Stderr != run.Stderr {
		t.Errorf("%v, %v", again, err)
	}
	events, err := r.Watch(t.Context(), alice, run.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for e := range events {
		if e.Stream == engine.Stderr {
			text += e.Data
		}
	}
	if text != run.Stderr || !run.Truncated {
		t.Error("replay differs")
	}
	for range 3 {
		next := python("2")
		next.Session = run.Session
		if run, err = r.Run(t.Context(), alice, next); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"a.txt": "input A", "out.txt": "output xxxx"}
	for _, name := range []string{"stderr.txt", "stderr_2.txt", "stderr_3.txt", "stderr_4.txt"} {
		want[name] = "output " + long
	}
	if diff := cmp.Diff(want, r.places(t, alice, run.Session)); diff != "" {
		t.Error(diff)
	}
	if err := r.DeleteSession(t.Context(), alice, run.Session); err != nil {
		t.Error(err)
	}
	if err := r.DeleteFile(t.Context(), alice, a.ID); err != nil {
		t.Error(err)
	}
}
