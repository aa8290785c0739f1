package state

import (
	"context"
	"database/sql"
	"time"

	"github.com/airlock-run/airlock/assist/workspace"
)

// Prune implements workspace.Store.
func (j *Journal) Prune(ctx context.Context, keep workspace.Keep) error {
	now := time.Now()
	var needed bool
	// Most of the time there is nothing to do, and no writer has to wait.
	err := j.db.reader.QueryRowContext(ctx, `SELECT
		(? > 0 AND EXISTS (SELECT 1 FROM transactions WHERE updated < ?
			AND state NOT IN ('staging', 'committing', 'published')))
		OR (? > 0 AND (SELECT coalesce(sum(stored), 0) FROM contents) > ?)`,
		int64(keep.Age), now.Add(-keep.Age).UnixMicro(), keep.Bytes, keep.Bytes).Scan(&needed)
	if err != nil || !needed {
		return err
	}
	return j.db.erase(ctx, func(tx *sql.Tx) error {
		if keep.Age > 0 {
			_, err := tx.ExecContext(
				ctx, "DELETE FROM transactions WHERE updated < ? AND state NOT IN ('staging', 'committing', 'published')",
				now.Add(-keep.Age).UnixMicro())
			if err != nil {
				return err
			}
		}
		if keep.Bytes > 0 {
			// From the newest on, each content is counted where it is needed first.
			_, err := tx.ExecContext(ctx, `
				WITH newest AS (
				  SELECT c.stored, max(t.created) AS created
				  FROM contents c JOIN transaction_contents n ON n.hash = c.hash JOIN transactions t ON t.id = n.txn
				  GROUP BY c.hash),
				running AS (SELECT created, sum(stored) OVER (ORDER BY created DESC RANGE UNBOUNDED PRECEDING) AS total FROM newest)
				DELETE FROM transactions WHERE state NOT IN ('staging', 'committing', 'published')
				  AND created <= (SELECT max(created) FROM running WHERE total > ?)`, keep.Bytes)
			if err != nil {
				return err
			}
		}
		return j.dropContents(ctx, tx)
	})
}

// dropContents removes the contents that no transaction needs. It removes
// their files inside of the SQL transaction, in which no Save can take one of
// them up again.
func (j *Journal) dropContents(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(
		ctx, `DELETE FROM contents WHERE NOT EXISTS (SELECT 1 FROM transaction_contents n WHERE n.hash = contents.hash)`)
	if err != nil {
		return err
	}
	return j.db.contents.List(func(h workspace.Hash, _ int64) error {
		var there bool
		err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM contents WHERE hash = ?)", h[:]).Scan(&there)
		if err != nil || there {
			return err
		}
		return j.db.contents.Remove(h)
	})
}
