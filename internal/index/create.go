package index

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-run/airlock/internal/sqlite"
)

// schemaOf returns the schema whose scripts are in a directory. A damaged index is
// never replaced by an empty one: the clean-up would take every stored file for
// waste.
func schemaOf(migrations fs.FS) (sqlite.Schema, error) {
	steps, err := sqlite.ReadSteps(migrations)
	return sqlite.Schema{Application: 0x4169724c, Steps: steps, Loss: "every stored file and run"}, err // "AirL"
}

// create makes the index if it is missing: whole, or not at all. It grows
// under another name, so that an empty or unfinished file under the right one
// is always damage and never a first start that was cut off.
func create(ctx context.Context, path string, schema sqlite.Schema) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(path + "-wal"); err == nil {
		return schema.Damaged(path, errors.New("the file is missing but its log is there"))
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
	c, err := connect(ctx, draft, "synchronous(FULL)")
	if err != nil {
		return err
	}
	if err := errors.Join(c.upgrade(ctx, 0, schema, slog.New(slog.DiscardHandler)), c.close()); err != nil {
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

// check returns the version of the index, and refuses one that is newer, not ours, or
// empty.
func check(ctx context.Context, c *conn, path string, schema sqlite.Schema) (version int, err error) {
	if version, err = schema.Version(ctx, c.conn, path); err != nil {
		return 0, err
	}
	if version == 0 {
		return 0, schema.Damaged(path, errors.New("it is empty"))
	}
	return version, nil
}

// quickCheck reads the whole database to find out whether it is damaged.
func quickCheck(ctx context.Context, c *conn, path string, schema sqlite.Schema) error {
	var verdict string
	if err := c.row(ctx, []any{&verdict}, "PRAGMA quick_check(1)"); err != nil {
		return schema.Unreadable(path, err)
	}
	if verdict != "ok" {
		return schema.Damaged(path, errors.New(verdict))
	}
	return nil
}

func (c *conn) upgrade(ctx context.Context, from int, schema sqlite.Schema, log *slog.Logger) error {
	return schema.Upgrade(from, func(to int, script string) error {
		return upgradeStep(ctx, log, to, len(schema.Steps), func() error {
			return c.within(ctx, "BEGIN IMMEDIATE", func() error {
				_, err := c.conn.ExecContext(ctx, script)
				return err
			})
		})
	})
}

// upgradeStep makes one version out of the one before, which takes minutes where there
// are millions of rows.
func upgradeStep(ctx context.Context, log *slog.Logger, to, of int, do func() error) error {
	began := time.Now()
	err := aloud(ctx, log.With("version", to, "of", of), "the index is being brought up to date", do)
	if err == nil {
		log.InfoContext(ctx, "index brought up to date", "version", to, "of", of,
			"took", time.Since(began).Round(time.Millisecond))
	}
	return err
}

// patience is how long the log is silent about what a start waits for.
const patience = 2 * time.Second

// aloud does something that may take long, and logs now and then that it goes on.
func aloud(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }()
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			log.InfoContext(ctx, what, "for", time.Since(began).Round(time.Second))
		}
	}
}
