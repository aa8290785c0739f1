package index

import (
	"context"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const auditColumns = "at_us, owner, key, origin, action, object, outcome, detail, more"

func scanAudit(row scanner) (e engine.AuditEntry, err error) {
	err = row.Scan(timeColumn{&e.At}, &e.Owner, &e.Key, &e.From, &e.Action, &e.Object, &e.Outcome, &e.Detail, &e.More)
	return e, err
}

// AddAudit records an act of administration.
func (db *DB) AddAudit(ctx context.Context, entry engine.AuditEntry) error {
	return db.erase(ctx, "add to the audit log", "", func(ctx context.Context, c *conn) error {
		return addAudit(ctx, c, entry)
	})
}

func addAudit(ctx context.Context, c *conn, entries ...engine.AuditEntry) error {
	for i := range entries {
		e := &entries[i]
		if _, err := c.exec(ctx, "INSERT INTO audit ("+auditColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			e.At.UnixMicro(), e.Owner, e.Key, e.From, e.Action, e.Object, e.Outcome, e.Detail, e.More); err != nil {
			return err
		}
	}
	return nil
}

// Audit returns acts of administration, newest first.
func (db *DB) Audit(ctx context.Context, q engine.AuditQuery) ([]engine.AuditEntry, error) {
	return list(ctx, db, "list the audit log", scanAudit, "SELECT "+auditColumns+
		" FROM audit WHERE at_us < $1 AND at_us >= $2 ORDER BY at_us DESC, rowid DESC LIMIT $3",
		q.Before.UnixMicro(), q.Since.UnixMicro(), q.Limit)
}

// ExpireAudit deletes up to limit acts from before a time.
func (db *DB) ExpireAudit(ctx context.Context, before time.Time, limit int) (int, error) {
	return writing(db.erase).exec(ctx, "expire the audit log", "",
		"DELETE FROM audit WHERE rowid IN (SELECT rowid FROM audit WHERE at_us < $1 ORDER BY at_us LIMIT $2)",
		before.UnixMicro(), limit)
}
