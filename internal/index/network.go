package index

import (
	"context"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const contactColumns = "run, owner, at_us, host, port, address, sent, received, took_us, verdict, reason, more"

func scanContact(row scanner) (n engine.Contact, err error) {
	err = row.Scan(idColumn{&n.Run}, &n.Owner, timeColumn{&n.At}, &n.Host, &n.Port, &n.Address, &n.Sent, &n.Received,
		durationColumn{&n.Took}, &n.Verdict, &n.Reason, &n.More)
	return n, err
}

// AddContacts records contacts of programs. It does not wait for the disk.
func (db *DB) AddContacts(ctx context.Context, list []engine.Contact) error {
	return db.writeNoSync(ctx, "add contacts", "", func(ctx context.Context, c *conn) error {
		for _, n := range list {
			if _, err := c.exec(ctx, "INSERT INTO contacts ("+contactColumns+
				") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
				n.Run[:], n.Owner, n.At.UnixMicro(), n.Host, n.Port, n.Address, n.Sent, n.Received, n.Took.Microseconds(),
				n.Verdict, n.Reason, n.More); err != nil {
				return err
			}
		}
		return nil
	})
}

// Contacts returns contacts of programs, newest first.
func (db *DB) Contacts(ctx context.Context, q engine.ContactQuery) ([]engine.Contact, error) {
	where, args := "($1 = '' OR owner = $1)", arguments{q.Owner}
	if !q.Run.IsZero() {
		where += " AND run = " + args.add(q.Run[:])
	}
	limit := args.add(q.Limit)
	return list(ctx, db, "list contacts", scanContact, "SELECT "+contactColumns+" FROM contacts WHERE "+where+
		" ORDER BY at_us DESC, rowid DESC LIMIT "+limit, args...)
}

// runContacts returns the contacts of one run, in order of their ends.
func runContacts(ctx context.Context, c *conn, run *engine.Run) ([]engine.Contact, error) {
	return rows(ctx, c, scanContact, "SELECT "+contactColumns+
		" FROM contacts WHERE run = $1 AND owner = $2 ORDER BY rowid LIMIT 1000", run.ID[:], run.Owner)
}

// ExpireContacts deletes up to limit contacts from before a time.
func (db *DB) ExpireContacts(ctx context.Context, before time.Time, limit int) (int, error) {
	return writing(db.erase).exec(ctx, "expire contacts", "",
		"DELETE FROM contacts WHERE rowid IN (SELECT rowid FROM contacts WHERE at_us < $1 LIMIT $2)",
		before.UnixMicro(), limit)
}
