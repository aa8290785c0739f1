package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-run/airlock/internal/sqlite"
)

// expect finds out whether an index that is missing was there before. Its lock stays when it is lost; so a draft
// of the first index is there before the lock is, and tells a first start that was cut off from a loss.
func (l *local) expect(ctx context.Context) error {
	if _, err := os.Lstat(l.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	draft := l.path + ".new"
	_, unlocked := os.Lstat(l.path + ".lock")
	_, unfinished := os.Lstat(draft)
	if unlocked == nil && errors.Is(unfinished, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is not there, and its lock tells that it was", ErrMissing, l.path)
	}
	if l.ifNew != nil {
		if err := l.ifNew(ctx); err != nil {
			return err
		}
	}
	if unlocked == nil {
		return nil
	}
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// create makes the index if it is missing: whole, or not at all. It grows
// under another name, so that an empty or unfinished file under the right one
// is always damage and never a first start that was cut off.
func (l *local) create(ctx context.Context) (err error) {
	if _, err := os.Lstat(l.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(l.path + "-wal"); err == nil {
		return l.schema.Damaged(l.path, errors.New("the file is missing but its log is there"))
	}
	draft := l.path + ".new"
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
	c, err := connect(ctx, draft, "synchronous(FULL)", "auto_vacuum(incremental)")
	if err != nil {
		return err
	}
	if err := errors.Join(c.upgrade(ctx, 0, l.schema, slog.New(slog.DiscardHandler)), c.close()); err != nil {
		return err
	}
	if err := os.Rename(draft, l.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(l.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// version returns the version of the index. It refuses an index that is newer, empty, or
// of another program.
func (l *local) version(ctx context.Context, c *conn) (version int, err error) {
	if version, err = l.schema.Version(ctx, c.conn, l.path); err == nil && version == 0 {
		err = l.schema.Damaged(l.path, errors.New("it is empty"))
	}
	return version, err
}

// quickCheck reads the whole database to find out whether it is damaged.
func (l *local) quickCheck(ctx context.Context, c *conn) error {
	return l.schema.QuickCheck(ctx, c.conn, l.path)
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

// upgradeStep upgrades to the next version, which takes minutes if there are millions of
// rows.
func upgradeStep(ctx context.Context, log *slog.Logger, to, of int, do func() error) error {
	began := time.Now()
	err := withProgress(ctx, log.With("version", to, "of", of), "the index is being brought up to date", do)
	if err == nil {
		log.InfoContext(ctx, "index brought up to date", "version", to, "of", of,
			"took", time.Since(began).Round(time.Millisecond))
	}
	return err
}

// progressInterval is the time between two messages of a long step.
const progressInterval = 2 * time.Second

// withProgress calls do, and logs from time to time that it has not returned.
func withProgress(ctx context.Context, log *slog.Logger, what string, do func() error) error {
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- do() }()
	ticker := time.NewTicker(progressInterval)
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
