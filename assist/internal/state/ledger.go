package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
)

// Ledger is the provider.LedgerStore in the database. A holder of entries is alive while
// its process holds the lock of a file.
type Ledger struct {
	db *DB
}

var _ provider.LedgerStore = (*Ledger)(nil)

// Ledger returns the store of the remote objects that Airlock has created at providers.
func (db *DB) Ledger() *Ledger { return &Ledger{db} }

// Put implements provider.LedgerStore.
func (l *Ledger) Put(ctx context.Context, e provider.Entry) error {
	return l.db.put(ctx, e, `INSERT INTO ledger (key, holder, entry) VALUES (?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET holder = excluded.holder, entry = excluded.entry`, e.Key, e.Holder)
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

// holderPath returns the file of a holder. Its name is the base of the name in an
// entry, so that no entry leads out of the folder.
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

// aliveTimeout is how long Alive tries to take a lock.
const aliveTimeout = 20 * time.Millisecond

// Alive implements provider.LedgerStore.
func (l *Ledger) Alive(ctx context.Context, holder string) (bool, error) {
	path := l.holderPath(holder)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	look, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	unlock, err := workspace.LockFile(look, path)
	switch {
	case err == nil: // its process has ended; the caller takes over its entries
		return false, errors.Join(os.Remove(path), unlock())
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, workspace.ErrBusy):
		return true, nil
	}
	return false, err
}
