package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"syscall"

	"github.com/airlock-run/airlock/internal/sqlite"
)

// ErrFull reports that the disk has no space for a change.
var ErrFull = fmt.Errorf("the disk of the data directory is full: %w", syscall.ENOSPC)

// full marks the error of a full disk as ErrFull.
func full(err error) error {
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	if sqlite.IsFull(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// erase does what write does, for changes that free space or complete a commit: on a
// full disk it uses the reserve, and then truncates the log. It may call do twice.
func (db *DB) erase(ctx context.Context, do func(*sql.Tx) error) error {
	return db.makeRoom(ctx, func() error { return db.write(ctx, do) })
}

// makeRoom calls do, and again with the reserve if the disk was full.
func (db *DB) makeRoom(ctx context.Context, do func() error) error {
	err := do()
	if !errors.Is(err, ErrFull) {
		return err
	}
	defer db.borrow()()
	db.shorten(ctx)
	defer db.shorten(ctx)
	return do()
}

// shorten checkpoints the log and truncates it. If it fails, a later one succeeds.
func (db *DB) shorten(ctx context.Context) {
	_, _ = db.writer.ExecContext(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(TRUNCATE)")
}
