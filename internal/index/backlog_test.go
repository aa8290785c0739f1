package index

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func kept(owner engine.Owner) (*engine.Run, *engine.Session, []engine.OutputChunk) {
	run, session := newRun(owner), newSession(owner)
	run.Session, session.Implicit = session.ID, true
	end(run, engine.StatusOK)
	run.Stdout = "out\n"
	return run, &session, []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}}
}

// Whoever asks sees a run that is still on its way to the disk: by any call.
func TestKeptRunsAreSeen(t *testing.T) {
	ctx := t.Context()
	for name, seen := range map[string]func(*DB, *engine.Run) error{
		"Run":     func(db *DB, run *engine.Run) error { _, err := db.Run(ctx, run.Owner, run.ID); return err },
		"RunLog":  func(db *DB, run *engine.Run) error { _, err := db.RunLog(ctx, run.Owner, run.ID); return err },
		"Session": func(db *DB, run *engine.Run) error { _, err := db.Session(ctx, run.Owner, run.Session); return err },
		"DeleteSession": func(db *DB, run *engine.Run) error {
			return db.DeleteSession(ctx, run.Owner, run.Session)
		},
		"Runs": func(db *DB, run *engine.Run) error {
			runs, err := db.Runs(ctx, engine.RunQuery{Owner: run.Owner, Page: engine.Page{Limit: 10}})
			if err == nil && len(runs) != 1 {
				err = fmt.Errorf("%d runs", len(runs))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := openAt(t, newPath(t))
			run, session, log := kept("ada")
			if err := db.KeepRun(ctx, run, session, log); err != nil {
				t.Fatal(err)
			}
			if err := seen(db, run); err != nil {
				t.Error(err)
			}
		})
	}
}

// What was gathered is written by itself, and when the index is closed.
func TestKeptRunsAreWritten(t *testing.T) {
	path := newPath(t)
	db := openAt(t, path)
	first, session, log := kept("ada")
	if err := db.KeepRun(t.Context(), first, session, log); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for db.backlog.waiting.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing was written")
		}
		time.Sleep(time.Millisecond)
	}
	second, session, log := kept("ada")
	if err := db.KeepRun(t.Context(), second, session, log); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openAt(t, path)
	for _, run := range []*engine.Run{first, second} {
		got, err := db.Run(t.Context(), "ada", run.ID)
		if err != nil || got.Stdout != run.Stdout || got.Status != run.Status {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// More than may wait are written at once; all of them are there.
func TestKeptRunsAreBounded(t *testing.T) {
	db := openAt(t, newPath(t))
	for range 2*maxGather + 10 {
		run, session, log := kept("ada")
		if err := db.KeepRun(t.Context(), run, session, log); err != nil {
			t.Fatal(err)
		}
		if n := db.backlog.waiting.Load(); n > maxGather {
			t.Fatalf("%d wait", n)
		}
	}
	if n := count(t, db, "runs"); n != 2*maxGather+10 {
		t.Errorf("%d runs", n)
	}
}

// One run that cannot be written takes no other along.
func TestKeptRunThatCannotBe(t *testing.T) {
	db := openAt(t, newPath(t))
	good, session, log := kept("ada")
	twice := *good
	other, otherSession, otherLog := kept("ada")
	for _, err := range []error{
		db.KeepRun(t.Context(), good, session, log), db.KeepRun(t.Context(), &twice, session, log), db.KeepRun(t.Context(), other, otherSession, otherLog),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, db, "runs"); n != 2 {
		t.Errorf("%d runs", n)
	}
	if db.backlog.failing {
		t.Error("it still tries")
	}
}

func count(t *testing.T, db *DB, table string) (n int) {
	t.Helper()
	if err := db.look(t.Context(), "count", "", func(c *conn) error {
		return c.row(context.Background(), []any{&n}, "SELECT count(*) FROM "+table) //nolint:usetesting // closed by then
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
