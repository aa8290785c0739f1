package index

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
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
			if err := db.InsertFinished(ctx, run, session, log); err != nil {
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
	if err := db.InsertFinished(t.Context(), first, session, log); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for db.store.(*local).backlog.waiting.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("nothing was written")
		}
		time.Sleep(time.Millisecond)
	}
	second, session, log := kept("ada")
	if err := db.InsertFinished(t.Context(), second, session, log); err != nil {
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
		if err := db.InsertFinished(t.Context(), run, session, log); err != nil {
			t.Fatal(err)
		}
		if n := db.store.(*local).backlog.waiting.Load(); n > maxGather {
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
		db.InsertFinished(t.Context(), good, session, log), db.InsertFinished(t.Context(), &twice, session, log),
		db.InsertFinished(t.Context(), other, otherSession, otherLog),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, db, "runs"); n != 2 {
		t.Errorf("%d runs", n)
	}
	if db.store.(*local).backlog.failing {
		t.Error("it still tries")
	}
}

// A run that cannot be written and is alone is abandoned as well: at once if
// nothing will ever take it, and after some tries over some time if it is the
// disk. The log says so, and the runs of others are gathered again.
func TestLoneRunThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		fault string // a trigger's
		tries int
	}{
		"its own fault": {"SELECT RAISE(ABORT, 'not this one')", 1},
		"the disk's":    {"", maxTries},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			now := time.Now()
			db, err := Open(t.Context(), newPath(t), slog.New(slog.NewTextHandler(&log, nil)),
				WithClock(func() time.Time { return now }))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			change := func(statement string) {
				if err := db.write(t.Context(), "change", "", func(ctx context.Context, c *conn) error {
					_, err := c.exec(ctx, statement)
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			if c.fault != "" {
				change("CREATE TRIGGER no BEFORE INSERT ON runs BEGIN " + c.fault + "; END")
			} else {
				change("ALTER TABLE runs RENAME TO gone") // no such table: not a fault of any run
			}
			run, session, _ := kept("ada")
			if !db.store.(*local).backlog.add(bufferedRun{run: run, session: session, finished: now}, func() {}) {
				t.Fatal("not taken")
			}
			for try := 1; try <= c.tries; try++ {
				if n := db.store.(*local).backlog.waiting.Load(); n != 1 {
					t.Fatalf("%d wait before try %d", n, try)
				}
				if try == maxTries {
					now = now.Add(tryTime)
				}
				db.store.(*local).catchUp()
			}
			if n := db.store.(*local).backlog.waiting.Load(); n != 0 || db.store.(*local).backlog.failing {
				t.Errorf("%d still wait", n)
			}
			if text := log.String(); strings.Count(text, "could not be recorded") != 1 ||
				!strings.Contains(text, run.ID.String()) {
				t.Errorf("the log says %q", text)
			}
			if c.fault != "" {
				change("DROP TRIGGER no")
			} else {
				change("ALTER TABLE gone RENAME TO runs")
			}
			run, session, chunks := kept("ada")
			if err := db.InsertFinished(t.Context(), run, session, chunks); err != nil {
				t.Fatal(err)
			}
			if n := count(t, db, "runs"); n != 1 {
				t.Errorf("%d runs", n)
			}
		})
	}
}

// change makes a statement fail, or succeed again, as a full disk would.
func change(t *testing.T, db *DB, statement string) {
	t.Helper()
	writer := <-db.store.(*local).writer
	defer func() { db.store.(*local).writer <- writer }()
	if _, err := writer.exec(context.Background(), statement); err != nil { //nolint:usetesting // as the index does
		t.Fatal(err)
	}
}

// A disk that is full for a while loses no run, however often it is tried.
func TestLoneRunOutlastsTheDisk(t *testing.T) {
	db := openAt(t, newPath(t))
	change(t, db, "ALTER TABLE runs RENAME TO gone")
	run, session, _ := kept("ada")
	if !db.store.(*local).backlog.add(bufferedRun{run: run, session: session, finished: time.Now()}, func() {}) {
		t.Fatal("not taken")
	}
	for range 3 * maxTries {
		db.store.(*local).catchUp()
	}
	change(t, db, "ALTER TABLE gone RENAME TO runs")
	if n := count(t, db, "runs"); n != 1 {
		t.Errorf("%d runs", n)
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

// listed records a run that is running.
func listed(t *testing.T, db *DB) (*engine.Run, []engine.OutputChunk) {
	t.Helper()
	run, session := newRun("ada"), newSession("ada")
	run.Session, session.Implicit = session.ID, true
	begun := *run
	if err := db.InsertStarted(t.Context(), &begun, &session); err != nil {
		t.Fatal(err)
	}
	end(run, engine.StatusOK)
	run.Stdout = "out\n"
	return run, []engine.OutputChunk{{Stream: engine.Stdout, Data: run.Stdout}}
}

// A run that is running is seen as such; its end comes in its place, whether it was
// written by then or not, and is written when FinishRun returns.
func TestListedRuns(t *testing.T) {
	for name, between := range map[string]func(*testing.T, *DB, *engine.Run){
		"while it waits": func(*testing.T, *DB, *engine.Run) {},
		"seen before": func(t *testing.T, db *DB, run *engine.Run) {
			if got, err := db.Run(t.Context(), "ada", run.ID); err != nil || got.Status.Final() {
				t.Errorf("%+v, %v", got, err)
			}
		},
		"others wait, too": func(t *testing.T, db *DB, _ *engine.Run) {
			other, session, log := kept("ada")
			if err := db.InsertFinished(t.Context(), other, session, log); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			db := openAt(t, path)
			run, log := listed(t, db)
			between(t, db, run)
			if err := db.FinishRun(t.Context(), run, log, nil); err != nil {
				t.Fatal(err)
			}
			if n := db.store.(*local).backlog.waiting.Load(); n != 0 {
				t.Errorf("%d still wait", n)
			}
			got, err := db.Run(t.Context(), "ada", run.ID)
			if err != nil || got.Status != engine.StatusOK || got.Stdout != run.Stdout {
				t.Errorf("%+v, %v", got, err)
			}
			session, err := db.Session(t.Context(), "ada", run.Session)
			if err != nil || session.ExpiresAt.Before(got.FinishedAt.Add(session.TTL)) {
				t.Errorf("its session %+v, %v", session, err)
			}
			if err := db.FinishRun(t.Context(), run, log, nil); engine.KindOf(err) != engine.ErrConflict {
				t.Errorf("a second end: %v", err)
			}
		})
	}
}

// A write that fails keeps nothing that waited from being written, and one that
// does not work with it is done without it.
func TestWhatWaitsAndAWriteThatFails(t *testing.T) {
	db := openAt(t, newPath(t))
	run, _ := listed(t, db)
	if err := db.DeleteSession(t.Context(), "ada", engine.NewID()); engine.KindOf(err) != engine.ErrNotFound {
		t.Errorf("%v", err)
	}
	if n := count(t, db, "runs"); n != 1 {
		t.Errorf("%d runs", n)
	}
	again := *run
	again.Status = engine.StatusRunning
	session := newSession("ada")
	session.Implicit = true
	if err := db.InsertStarted(t.Context(), &again, &session); err != nil { // it is there already
		t.Fatal(err)
	}
	if err := db.DeleteSession(t.Context(), "ada", run.Session); err != nil {
		t.Error(err)
	}
}

// A disk that takes neither a run's beginning nor its end is not a run that is
// not there: its end is tried again.
func TestListedRunOutlastsTheDisk(t *testing.T) {
	now := time.Now()
	db, err := Open(t.Context(), newPath(t), slog.New(slog.DiscardHandler), WithClock(func() time.Time { return now }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	change(t, db, "ALTER TABLE sessions RENAME TO gone")
	run, log := listed(t, db)
	for range 2 * maxTries {
		if err := db.FinishRun(t.Context(), run, log, nil); err == nil || engine.KindOf(err) == engine.ErrNotFound {
			t.Fatalf("its end: %v", err)
		}
		now = now.Add(tryTime)
	}
	change(t, db, "ALTER TABLE gone RENAME TO sessions")
	if err := db.FinishRun(t.Context(), run, log, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Run(t.Context(), "ada", run.ID); err != nil || got.Status != engine.StatusOK {
		t.Errorf("%+v, %v", got, err)
	}
}
