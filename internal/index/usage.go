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
	err = c.row(ctx, []any{&u.Files, &u.Bytes, &u.Sessions, &u.Results, &u.Users},
		"SELECT files, bytes, sessions, results, users FROM usage WHERE owner = $1", owner)
	if errors.Is(err, engine.ErrNotFound) {
		err = nil // nothing was ever kept
	}
	return u, err
}

// checkFiles refuses, at its end, a transaction that has taken an owner over
// a quota of files.
func (db *DB) checkFiles(ctx context.Context, c *conn, op string, owner engine.Owner) error {
	return checkQuota(ctx, c, op, owner, engine.Quota{Files: db.quota.Files, Bytes: db.quota.Bytes})
}

// checkQuota refuses, at its end, a transaction that has taken an owner over the quota, or
// its account over that of all users.
func checkQuota(ctx context.Context, c *conn, op string, owner engine.Owner, quota engine.Quota) error {
	if quota == (engine.Quota{}) {
		return nil
	}
	for _, each := range owner.Accounts() {
		u, err := usage(ctx, c, each)
		if err != nil {
			return err
		}
		if u.Users == 0 && quota.Check(op, u) == nil {
			continue // whatever its keys say
		}
		allowed, err := allowance(ctx, c, each)
		if err != nil {
			return err
		}
		if err := quota.For(each, owner, allowed).Check(op, u); err != nil {
			return err
		}
	}
	return nil
}

// allowance returns what the keys of an account say of its users.
func allowance(ctx context.Context, c *conn, account engine.Owner) (a engine.Allowance, err error) {
	err = c.row(ctx, []any{&a.Users, &a.Shares}, "SELECT coalesce(max(users), 0), coalesce(max(shares), 0) FROM keys "+
		"WHERE owner = $1 AND revoked_us IS NULL AND shares > 0", account)
	return a, err
}

// trimResults deletes the oldest runs with large outputs of an owner, and those of all users
// of its account, until the rest is within their quotas. The run that has just ended stays,
// however large.
func (db *DB) trimResults(ctx context.Context, c *conn, owner engine.Owner, newest engine.ID) error {
	if db.quota.Results <= 0 {
		return nil
	}
	for _, each := range owner.Accounts() {
		allowed, err := allowance(ctx, c, each)
		if err != nil {
			return err
		}
		if err := trim(ctx, c, each, newest, db.quota.For(each, owner, allowed).Results); err != nil {
			return err
		}
	}
	return nil
}

func trim(ctx context.Context, c *conn, owner engine.Owner, newest engine.ID, most int64) error {
	for {
		u, err := usage(ctx, c, owner)
		if err != nil || u.Results <= most {
			return err
		}
		// Those of the users of an account are between these two names.
		n, err := c.exec(ctx, `DELETE FROM runs WHERE id = (SELECT run FROM run_logs
			WHERE (owner = $1 OR owner > $2 AND owner < $3) AND counted > 0 AND run <> $4 ORDER BY rowid LIMIT 1)`,
			owner, owner+"/user/", owner+"/user0", newest[:])
		if err != nil || n == 0 {
			return err
		}
	}
}
