package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrNewer says that a newer version of the program has written the index.
var ErrNewer = errors.New("index is newer than this program")

// ErrDamaged says that the index cannot be read as one. It is never replaced
// by an empty one: that would make the clean-up take every stored file for
// waste.
var ErrDamaged = errors.New("index is damaged")

// applicationID marks a SQLite database as ours: "AirL".
const applicationID = 0x4169724c

// damaged says what is wrong with the index, and the cure.
func damaged(path string, cause error) error {
	return fmt.Errorf("%w: %s: %w: put back a backup of it; or, to start empty and lose every stored file and run, move it away together with %s-wal",
		ErrDamaged, path, cause, filepath.Base(path))
}

// unreadable tells damage from the rest that can go wrong with a file, such
// as its permissions.
func unreadable(path string, err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return damaged(path, err)
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// readMigrations returns the scripts 0001_*.sql, 0002_*.sql, ... in order.
// Script n makes version n out of version n-1.
func readMigrations(dir fs.FS) ([]string, error) {
	names, err := fs.Glob(dir, "*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var steps []string
	for i, name := range names {
		number, _, _ := strings.Cut(name, "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s: number %d is expected", name, i+1)
		}
		script, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(script))
	}
	return steps, nil
}

// create makes the index if it is missing: whole, or not at all. It grows
// under another name, so that an empty or unfinished file under the right one
// is always damage and never a first start that was cut off.
func create(ctx context.Context, path string, steps []string) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(path + "-wal"); err == nil {
		return damaged(path, errors.New("the file is missing but its log is there"))
	}
	draft := path + ".new"
	for _, name := range []string{draft, draft + "-journal"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	c, err := connect(ctx, draft, "synchronous(FULL)", fmt.Sprintf("application_id(%d)", applicationID))
	if err != nil {
		return err
	}
	if err := errors.Join(migrate(ctx, c, 0, steps), c.close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// check returns the version of the index, and refuses one that is newer than
// newest, not ours, or damaged.
func check(ctx context.Context, c *conn, path string, newest int) (version int, err error) {
	var application int
	var verdict string
	if err := c.row(ctx, []any{&application}, "PRAGMA application_id"); err != nil {
		return 0, unreadable(path, err)
	}
	if err := c.row(ctx, []any{&version}, "PRAGMA user_version"); err != nil {
		return 0, unreadable(path, err)
	}
	switch {
	case application != applicationID || version < 1:
		return 0, damaged(path, errors.New("it is empty, or a database of something else"))
	case version > newest:
		return 0, fmt.Errorf("%w: %s has version %d, this program knows versions up to %d: install the newer program again, or put back a backup from before the upgrade",
			ErrNewer, path, version, newest)
	}
	if err := c.row(ctx, []any{&verdict}, "PRAGMA quick_check(1)"); err != nil {
		return 0, unreadable(path, err)
	}
	if verdict != "ok" {
		return 0, damaged(path, errors.New(verdict))
	}
	return version, nil
}

// migrate brings the database from a version to the newest, each step in a
// transaction of its own.
func migrate(ctx context.Context, c *conn, from int, steps []string) error {
	for version := from + 1; version <= len(steps); version++ {
		err := c.within(ctx, "BEGIN IMMEDIATE", func() error {
			script := steps[version-1] + fmt.Sprintf("\n;PRAGMA user_version = %d;", version)
			_, err := c.conn.ExecContext(ctx, script)
			return err
		})
		if err != nil {
			return fmt.Errorf("bring the index to version %d: %w", version, err)
		}
	}
	return nil
}
