package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

// Ledger is the provider.LedgerStore in the database. Who holds entries is told by
// a lock on a file, which ends with its process however that ends.
type Ledger struct {
	db *DB
}

var _ provider.LedgerStore = (*Ledger)(nil)

// Ledger returns the store of what is ours at providers.
func (db *DB) Ledger() *Ledger { return &Ledger{db} }

// Put implements provider.LedgerStore.
func (l *Ledger) Put(ctx context.Context, e provider.Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return l.db.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO ledger (key, holder, entry) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, entry = excluded.entry`, e.Key, e.Holder, string(text))
		return err
	})
}

// Remove implements provider.LedgerStore.
func (l *Ledger) Remove(ctx context.Context, key string) error {
	return l.db.remove(ctx, nil, "DELETE FROM ledger WHERE key = ?", key)
}

// Entries implements provider.LedgerStore.
func (l *Ledger) Entries(ctx context.Context) ([]provider.Entry, error) {
	return values(documents[provider.Entry](ctx, l.db.reader, "an entry of the ledger",
		"SELECT entry FROM ledger ORDER BY key"))
}

// holderPath is the file that stands for a holder. Its name is the base of what
// an entry says, so that no entry leads out of the folder.
func (l *Ledger) holderPath(holder string) string {
	return filepath.Join(l.db.dir, "locks", "holder-"+filepath.Base(holder))
}

// MarkAlive implements provider.LedgerStore.
func (l *Ledger) MarkAlive(ctx context.Context, holder string) (func() error, error) {
	path := l.holderPath(holder)
	unlock, err := workspace.LockFile(ctx, path)
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(os.Remove(path), unlock()) }, nil
}

// lookedAt is how long a lock is tried for to see whether it is held.
const lookedAt = 20 * time.Millisecond

// Alive implements provider.LedgerStore.
func (l *Ledger) Alive(ctx context.Context, holder string) (bool, error) {
	path := l.holderPath(holder)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	look, cancel := context.WithTimeout(ctx, lookedAt)
	defer cancel()
	unlock, err := workspace.LockFile(look, path)
	switch {
	case err == nil: // nobody's any more; its entries are dealt with by who asks
		return false, errors.Join(os.Remove(path), unlock())
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, workspace.ErrBusy):
		return true, nil
	}
	return false, err
}
