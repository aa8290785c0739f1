package index

import (
	"context"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const keyColumns = "id, owner, admin, hash, created_us, revoked_us, packages, network, users, shares, protocols, " +
	"images, mounts, wall, month"

func scanKey(row scanner) (k engine.Key, err error) {
	err = row.Scan(&k.ID, &k.Owner, &k.Admin, digestColumn{&k.Hash}, timeColumn{&k.CreatedAt}, timeColumn{&k.RevokedAt},
		&k.Packages, &k.Network, &k.Allowance.Users, &k.Allowance.Shares,
		&k.Only, &k.Images, &k.Mounts, &k.Wall, &k.Month)
	return k, err
}

// AddKey records a key with the entries of the audit log. If the id is taken, it returns engine.ErrConflict.
func (db *DB) AddKey(ctx context.Context, key engine.Key, audit ...engine.AuditEntry) error {
	return db.write(ctx, "add key", key.ID, func(ctx context.Context, c *conn) error {
		if _, err := c.exec(ctx, "INSERT INTO keys ("+keyColumns+
			") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)", key.ID, key.Owner, key.Admin,
			key.Hash[:], key.CreatedAt.UnixMicro(), timeOrNull(key.RevokedAt), key.Packages, key.Network, key.Allowance.Users,
			key.Allowance.Shares, key.Only, key.Images, key.Mounts, key.Wall, key.Month); err != nil {
			return err
		}
		return addAudit(ctx, c, audit...)
	})
}

// Key returns a key, also if it was revoked.
func (db *DB) Key(ctx context.Context, id string) (engine.Key, error) {
	return find(ctx, db, "get key", id, scanKey, "SELECT "+keyColumns+" FROM keys WHERE id = $1", id)
}

// Keys returns every key, the oldest first.
func (db *DB) Keys(ctx context.Context) ([]engine.Key, error) {
	return list(ctx, db, "list keys", scanKey, "SELECT "+keyColumns+" FROM keys ORDER BY created_us, id")
}

// RevokeKey ends a key, and records that in the audit log. One that was revoked before keeps its time.
func (db *DB) RevokeKey(ctx context.Context, id string, now time.Time, audit ...engine.AuditEntry) error {
	return db.erase(ctx, "revoke key", id, func(ctx context.Context, c *conn) error {
		if err := changed(c.exec(ctx, "UPDATE keys SET revoked_us = coalesce(revoked_us, $1) WHERE id = $2",
			now.UnixMicro(), id)); err != nil {
			return err
		}
		return addAudit(ctx, c, audit...)
	})
}
