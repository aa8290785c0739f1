package index

import (
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A row in memory tells no more than the database would.
func TestRowInMemory(t *testing.T) {
	clk := &clock{now: start}
	db := openAt(t, newPath(t), WithClock(clk.Now))
	b := bench{T: t, Index: db, clock: clk}
	file := b.addFile(nil)
	look := func(owner engine.Owner, want engine.Kind) engine.File {
		t.Helper()
		got, err := db.File(t.Context(), owner, file.ID)
		b.want(err, want)
		return got
	}
	b.same("file", look("ada", ""), file)
	if _, ok, _ := db.files.get("ada", file.ID, clk.Now()); !ok {
		t.Fatal("the row is not in memory: this test shows nothing")
	}
	look("bob", engine.ErrNotFound)
	b.same("file", look("ada", ""), file)

	later := clk.move(30 * time.Minute)
	b.want(db.Touch(t.Context(), map[engine.ID]time.Time{file.ID: later}), "")
	touched := file
	touched.ExpiresAt = later.Add(file.TTL)
	b.same("after a touch", look("ada", ""), touched)

	run := b.start(nil)
	run.Inputs = []engine.InputState{{ID: file.ID, Path: "a"}}
	end(run, engine.StatusOK)
	run.FinishedAt = clk.move(10 * time.Minute)
	b.want(db.FinishRun(t.Context(), run, nil, nil), "")
	touched.ExpiresAt = run.FinishedAt.Add(file.TTL)
	b.same("after a run", look("ada", ""), touched)

	clk.move(file.TTL)
	look("ada", engine.ErrNotFound)
	if _, err := db.ExpireFiles(t.Context(), clk.Now(), 10); err != nil {
		t.Fatal(err)
	}
	look("ada", engine.ErrNotFound)

	file = b.addFile(nil)
	look("ada", "")
	b.want(db.DeleteFile(t.Context(), "ada", file.ID), "")
	look("ada", engine.ErrNotFound)
}

// What was read before a change is not kept after it.
func TestOverlappedRow(t *testing.T) {
	c := newFileCache()
	file := newFile("ada")
	for what, change := range map[string]func(){
		"delete": func() { c.forget(file.ID) },
		"expiry": c.clear,
	} {
		_, _, generation := c.get("ada", file.ID, start)
		change()
		c.keep(file, generation)
		if _, ok, _ := c.get("ada", file.ID, start); ok {
			t.Errorf("%s: a row came back", what)
		}
	}
}

func TestRowsAreBounded(t *testing.T) {
	c := newFileCache()
	for range maxCached + 10 {
		file := newFile("ada")
		_, _, generation := c.get("ada", file.ID, start)
		c.keep(file, generation)
		c.keep(file, generation)
	}
	if len(c.rows) != maxCached {
		t.Errorf("%d rows are kept, not %d", len(c.rows), maxCached)
	}
}
