package index

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// What may be the only copy waits for the disk, and what costs every
// program time does not: docs/decisions/0012.
func TestWhichWritesWait(t *testing.T) {
	folder, err := os.MkdirTemp("/var/tmp", "airlock-index-") // on a disk, also where other temporary files are in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) }) // after the database is closed
	path := filepath.Join(folder, "index.db")
	db := openAt(t, path)
	log, err := os.Open(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// What the kernel has and the disk has not.
	dirty := func() uint64 {
		t.Helper()
		var all unix.CachestatRange
		var pages unix.Cachestat_t
		if err := unix.Cachestat(uint(log.Fd()), &all, &pages, 0); err != nil {
			t.Skipf("this kernel does not tell what waits for the disk (since Linux 6.5): %v", err)
		}
		return pages.Dirty + pages.Writeback
	}
	ctx := t.Context()
	run := func(key string) *engine.Run {
		r := newRun("alice")
		r.Keyed = key != ""
		if _, err := db.StartRun(ctx, r, nil, key, engine.Digest{}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	finish := func(r *engine.Run, files ...engine.File) {
		end(r, engine.StatusOK)
		r.Files = files
		if err := db.FinishRun(ctx, r, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name  string
		do    func()
		waits bool
	}{
		{"a run with a key starts", func() { run("key") }, true},
		{"a run starts", func() { run("") }, false},
		{"a run with a key ends", func() { finish(run("other")) }, true},
		{"a run ends", func() { finish(run("")) }, false},
		{"a run ends with a file", func() { finish(run(""), newFile("alice")) }, true},
		{"another run starts", func() { run("") }, false},
		{"a file comes", func() {
			if err := db.AddFile(ctx, newFile("alice")); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		step.do()
		if waiting := dirty(); (waiting == 0) != step.waits {
			t.Errorf("%s: %d pages wait for the disk", step.name, waiting)
		}
	}
}
