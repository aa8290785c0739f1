package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sqlite"
)

func tryOpen(t *testing.T, path string, options ...Option) error {
	t.Helper()
	db, err := Open(t.Context(), path, slog.New(slog.DiscardHandler), options...)
	if err == nil {
		err = db.Close()
	}
	return err
}

// withMigrations replaces the released scripts.
func withMigrations(scripts ...string) Option {
	return func(o *options) { o.steps = scripts }
}

func releasedScripts(t *testing.T) []string {
	t.Helper()
	var scripts []string
	entries, err := released.ReadDir("migrations-sqlite")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		script, err := released.ReadFile("migrations-sqlite/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, string(script))
	}
	return scripts
}

func TestOpenMakesAndKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c=d#e%20f", "index.db") // all of it is the name
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	file := newFile("ada")
	db := openAt(t, path, WithClock((&clock{now: start}).Now))
	if err := db.AddFile(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	checkPrivate(t, filepath.Dir(path), "index.db", "index.db-shm", "index.db-wal", "index.db.lock")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	checkPrivate(t, filepath.Dir(path), "index.db", "index.db.lock")
	db = openAt(t, path, WithClock((&clock{now: start}).Now))
	if got, err := db.File(t.Context(), "ada", file.ID); err != nil || !cmp.Equal(got, file) {
		t.Errorf("after a restart: %v, %v", got, err)
	}
}

// checkPrivate checks which files a directory holds, and that they are the
// user's alone.
func checkPrivate(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", entry.Name(), info.Mode().Perm())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestSettings(t *testing.T) {
	db := openAt(t, newPath(t))
	for setting, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1",
		"busy_timeout": "5000"} {
		var got string
		err := db.write(t.Context(), "test", "", func(ctx context.Context, c *conn) error {
			return c.row(ctx, []any{&got}, "PRAGMA "+setting)
		})
		if err != nil || got != want {
			t.Errorf("%s = %q, %v, want %q", setting, got, err, want)
		}
	}
	err := db.read(t.Context(), "test", "", func(c *conn) error {
		_, err := c.exec(t.Context(), "DELETE FROM files")
		return err
	})
	if err == nil {
		t.Error("a reader could write")
	}
	for _, table := range []string{"files", "sessions", "session_files", "runs", "run_logs", "keys"} {
		var strict bool
		err := db.read(t.Context(), "test", "", func(c *conn) error {
			return c.row(t.Context(), []any{&strict}, "SELECT strict FROM pragma_table_list WHERE name = $1", table)
		})
		if err != nil || !strict {
			t.Errorf("table %s: strict %v, %v", table, strict, err)
		}
	}
}

// A long step is logged while it takes place, a short one is not.
func TestProgressOfLongSteps(t *testing.T) {
	for took, lines := range map[time.Duration]int{time.Second: 0, 5 * time.Second: 2} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			cause := errors.New("it ended")
			err := withProgress(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), "it goes on", func() error {
				time.Sleep(took)
				return cause
			})
			if got := strings.Count(said.String(), "it goes on"); !errors.Is(err, cause) || got != lines {
				t.Errorf("%v: %v, and %d lines, want %d:\n%s", took, err, got, lines, said.String())
			}
		})
	}
}

func TestMigration(t *testing.T) {
	path, c := newPath(t), &clock{now: start}
	file := newFile("ada")
	old := openAt(t, path, WithClock(c.Now))
	if err := old.AddFile(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	scripts := releasedScripts(t)
	known := len(scripts)

	broken := append(slices.Clone(scripts),
		"ALTER TABLE files ADD COLUMN colour TEXT; UPDATE files SET colour = 'red'; INSERT INTO nowhere VALUES (1);")
	if err := tryOpen(t, path, withMigrations(broken...)); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprint("version ", known+1)) {
		t.Fatalf("a broken migration: %v", err)
	}
	if err := tryOpen(t, path); err != nil {
		t.Fatalf("after a broken migration the old program: %v", err)
	}

	good := append(slices.Clone(scripts), "ALTER TABLE files ADD COLUMN colour TEXT; UPDATE files SET colour = 'red';",
		"CREATE TABLE third (id BLOB) STRICT;")
	db := openAt(t, path, WithClock(c.Now), withMigrations(good...))
	if got, err := db.File(t.Context(), "ada", file.ID); err != nil || !cmp.Equal(got, file) {
		t.Errorf("after the migration: %v, %v", got, err)
	}
	var colour string
	var version, third int
	err := db.read(t.Context(), "test", "", func(c *conn) error {
		return errors.Join(
			c.row(t.Context(), []any{&colour}, "SELECT colour FROM files"),
			c.row(t.Context(), []any{&third}, "SELECT count(*) FROM third"),
			c.row(t.Context(), []any{&version}, "PRAGMA user_version"))
	})
	if err != nil || colour != "red" || version != known+2 {
		t.Errorf("colour %q, version %d, %v", colour, version, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	err = tryOpen(t, path) // the old program again
	if !errors.Is(err, sqlite.ErrNewer) {
		t.Fatalf("a newer index: %v", err)
	}
	for _, part := range []string{fmt.Sprint("has version ", known+2), fmt.Sprint("up to ", known),
		"install the newer program", path} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestMigrationNumbers(t *testing.T) {
	dir := fstest.MapFS{"steps/0001_a.sql": {}, "steps/0003_b.sql": {}}
	if _, err := sqlite.ReadSteps(dir, "steps"); err == nil {
		t.Error("a gap in the numbers was accepted")
	}
}

// What is damaged is refused, with the cure, and left as it is.
func testDamage(t *testing.T) {
	original := newPath(t)
	db := openAt(t, original)
	for range 200 {
		if err := db.AddFile(t.Context(), newFile("ada")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	whole := func(t *testing.T) string {
		path := newPath(t)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	overwrite := func(at int64, data string) func(string) error {
		return func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte(data), at)
			return errors.Join(err, f.Close())
		}
	}
	for name, damage := range map[string]func(path string) error{
		"header":          overwrite(0, "garbage garbage garbage"),
		"header's fields": overwrite(16, strings.Repeat("\xff", 40)),
		"a page":          overwrite(2*4096, strings.Repeat("\xa5", 4096)),
		"empty":           func(path string) error { return os.Truncate(path, 0) },
		"cut short":       func(path string) error { return os.Truncate(path, 3*4096) },
		"only the log": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path+"-wal", []byte("x"), 0o600))
		},
		"another application's": func(path string) error {
			c, err := connect(context.Background(), path, "application_id(42)")
			if err != nil {
				return err
			}
			return c.close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := whole(t)
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			for range 2 {
				err := tryOpen(t, path)
				if !errors.Is(err, sqlite.ErrDamaged) || !strings.Contains(err.Error(), "put back a backup") {
					t.Fatalf("Open = %v", err)
				}
			}
			if after, _ := os.ReadFile(path); string(before) != string(after) {
				t.Error("Open changed the damaged file")
			}
		})
	}
}

// A large database is read beside the first requests. Nothing is waste before it is known
// to be whole, and nothing is used once it is not.
func TestDamagedLater(t *testing.T) {
	path := newPath(t)
	if err := tryOpen(t, path); err != nil {
		t.Fatal(err)
	}
	c, err := connect(t.Context(), path, "query_only(1)")
	if err != nil {
		t.Fatal(err)
	}
	var page int64
	if err := errors.Join(c.row(t.Context(), []any{&page},
		"SELECT rootpage FROM sqlite_schema WHERE name = 'contacts_at'"), c.close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xff}, 4096), (page-1)*4096); err != nil {
		t.Fatal(err)
	}
	f.Close()
	at := func(o *options) { o.atStart = 0 }
	db, err := Open(t.Context(), path, slog.New(slog.DiscardHandler), at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Digests(t.Context()); !errors.Is(err, sqlite.ErrDamaged) {
		t.Errorf("Digests = %v", err)
	}
	if _, err := db.Files(t.Context(), engine.FileQuery{Owner: "ada"}); !errors.Is(err, sqlite.ErrDamaged) {
		t.Errorf("Files = %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// What cannot be opened is not called damaged.
func testNoFile(t *testing.T) {
	path := newPath(t)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(path, "absent", "index.db")} {
		if err := tryOpen(t, path); err == nil || errors.Is(err, sqlite.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("Open = %v", err)
		}
	}
}

// A first start that was cut off leaves a draft, which the next start throws
// away.
func testUnfinishedDraft(t *testing.T) {
	path := newPath(t)
	if err := os.WriteFile(path+".new", []byte("half a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(t, path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the draft: %v", err)
	}
}

func testLock(t *testing.T) {
	path := newPath(t)
	p := startSecond(t, "hold", path)
	err := tryOpen(t, path)
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("Open beside another process = %v", err)
	}
	for _, part := range []string{fmt.Sprint("process ", p.Process.Pid), path, "stop that process"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	p.kill() // its lock goes with it
	db := openAt(t, path)
	if err := tryOpen(t, path); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("Open beside this process = %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(t, path); err != nil {
		t.Errorf("Open after Close = %v", err)
	}
}

// A failed Open gives the lock back.
func testLockAfterFailure(t *testing.T) {
	path := newPath(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tryOpen(t, path); !errors.Is(err, sqlite.ErrDamaged) {
			t.Fatalf("Open = %v", err)
		}
	}
	good := newPath(t)
	if err := tryOpen(t, good); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(good, path); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(t, path); err != nil {
		t.Errorf("Open = %v", err)
	}
}

// What was acknowledged before kill -9 is there afterwards.
func testKill(t *testing.T) {
	path := newPath(t)
	acked := map[string]string{} // the last word on each run
	for _, lines := range []int{1, 2, 3, 50, 75} {
		p := startSecond(t, "write", path)
		for range lines {
			if !p.lines.Scan() {
				t.Fatalf("the writer ended: %v", p.lines.Err())
			}
			word, id, _ := strings.Cut(p.lines.Text(), " ")
			acked[id] = word
		}
		p.kill()
	}
	c := &clock{now: start}
	db := openAt(t, path, WithClock(c.Now))
	for text, word := range acked {
		id, err := engine.ParseID(text)
		if err != nil {
			t.Fatal(err)
		}
		run, err := db.Run(t.Context(), "ada", id)
		if err != nil {
			t.Fatalf("%s run %s: %v", word, text, err)
		}
		if word == "finished" && (run.Status != engine.StatusOK || run.Stdout != "hello\n" || len(run.Files) != 1) {
			t.Errorf("finished run %s is %s with %q and %d files", text, run.Status, run.Stdout, len(run.Files))
		}
		if run.Status.Final() != (len(run.Files) == 1) {
			t.Errorf("run %s is half recorded: %s with %d files", text, run.Status, len(run.Files))
		}
	}
	if _, err := db.InterruptRuns(t.Context(), start); err != nil {
		t.Fatal(err)
	}
}

// On a full disk writes fail with the cure, reads continue, and all is well
// again once there is room.
func testFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=1m"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	db, err := Open(t.Context(), filepath.Join(dir, "index.db"), slog.New(slog.DiscardHandler),
		WithClock((&clock{now: start}).Now))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var acked []engine.ID
	var full error
	for full == nil {
		file := newFile("ada")
		if full = db.AddFile(t.Context(), file); full == nil {
			acked = append(acked, file.ID)
		}
	}
	if e, ok := errors.AsType[*engine.Error](full); !ok || e.Kind != engine.ErrFull || e.Hint == "" {
		t.Fatalf("AddFile on a full disk = %#v", full)
	}
	check := func() {
		t.Helper()
		for _, id := range acked {
			if _, err := db.File(t.Context(), "ada", id); err != nil {
				t.Fatalf("acknowledged file %v: %v", id, err)
			}
		}
	}
	check()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	file := newFile("ada")
	if err := db.AddFile(t.Context(), file); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	acked = append(acked, file.ID)
	check()
}

// An index that was there and is missing is not made anew: what it knew would be taken for waste, and no key would
// be needed any more. A first start that was cut off begins again.
func TestMissingIndexIsNotMade(t *testing.T) {
	path := newPath(t)
	if err := tryOpen(t, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tryOpen(t, path); !errors.Is(err, ErrMissing) {
			t.Errorf("without the index: %v", err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an index was made: %v", err)
	}

	cutOff := newPath(t)
	for _, name := range []string{".new", ".lock"} { // what a first start leaves that ends before it has made the index
		if err := os.WriteFile(cutOff+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := tryOpen(t, cutOff); err != nil {
		t.Errorf("after a first start that was cut off: %v", err)
	}

	refused := newPath(t)
	check := WithNew(func(context.Context) error { return ErrMissing })
	if err := tryOpen(t, refused, check); !errors.Is(err, ErrMissing) {
		t.Errorf("with files beside it: %v", err)
	}
	if err := tryOpen(t, refused); err != nil {
		t.Fatal(err)
	}
	if err := tryOpen(t, refused, check); err != nil {
		t.Errorf("an index that is there: %v", err)
	}
}

// An index is young in its first hour.
func TestYoungIndex(t *testing.T) {
	for after, want := range map[time.Duration]bool{0: true, 59 * time.Minute: true, 61 * time.Minute: false} {
		db := openAt(t, newPath(t), WithClock((&clock{now: time.Now().Add(after)}).Now))
		if young, err := db.Young(t.Context()); err != nil || young != want {
			t.Errorf("after %v: young %v, %v", after, young, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
