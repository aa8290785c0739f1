package index

import (
	"context"
	"errors"

	"github.com/airlock-run/airlock/internal/engine"
)

// countedOutput is the size in bytes from which the output of a run counts. A
// smaller one is hardly more than the run's own row.
const countedOutput = 16 << 10

// Usage returns the usage of an owner.
func (db *DB) Usage(ctx context.Context, owner engine.Owner) (u engine.Usage, err error) {
	err = db.look(ctx, "get usage", "", func(c *conn) error {
		u, err = usage(ctx, c, owner)
		return err
	})
	return u, err
}

func usage(ctx context.Context, c *conn, owner engine.Owner) (u engine.Usage, err error) {
	err = c.row(ctx, []any{&u.Files, &u.Bytes, &u.Sessions, &u.Results},
		"SELECT files, bytes, sessions, results FROM usage WHERE owner = ?", owner)
	if errors.Is(err, engine.ErrNotFound) {
		err = nil // nothing was ever kept
	}
	return u, err
}

// checkFiles refuses, at its end, a transaction that has taken an owner over
// the quota of files.
func (db *DB) checkFiles(ctx context.Context, c *conn, op string, owner engine.Owner) error {
	return checkQuota(ctx, c, op, owner, engine.Quota{Files: db.quota.Files, Bytes: db.quota.Bytes})
}

func checkQuota(ctx context.Context, c *conn, op string, owner engine.Owner, quota engine.Quota) error {
	if quota == (engine.Quota{}) {
		return nil
	}
	u, err := usage(ctx, c, owner)
	if err != nil {
		return err
	}
	return quota.Check(op, u)
}

// trimResults deletes an owner's oldest runs with large outputs until the rest
// is within the quota. The run that has just ended stays, however large.
func (db *DB) trimResults(ctx context.Context, c *conn, owner engine.Owner, newest engine.ID) error {
	if db.quota.Results <= 0 {
		return nil
	}
	for {
		u, err := usage(ctx, c, owner)
		if err != nil || u.Results <= db.quota.Results {
			return err
		}
		n, err := c.exec(ctx, `DELETE FROM runs WHERE id = (SELECT run FROM run_logs
			WHERE owner = ? AND counted > 0 AND run <> ? ORDER BY rowid LIMIT 1)`, owner, newest[:])
		if err != nil || n == 0 {
			return err
		}
	}
}
