package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/sqlite"
)

// Name is the file's name in the data directory.
const Name = "state.db"

// applicationID marks a SQLite database as Airlock's: "AirS".
const applicationID = 0x41697253

// busyTimeout is how long a connection waits for another process.
const busyTimeout = "busy_timeout(20000)"

//go:embed migrations/*.sql
var released embed.FS

// DB is the open database. Its methods may be called at once from many
// goroutines.
type DB struct {
	dir      string  // the data directory
	writer   *sql.DB // one connection
	reader   *sql.DB
	contents *workspace.ContentDir
	pack     *zstd.Encoder
	borrow   func() (giveBack func()) // see Options.Reserve
}

// Options configure Open.
type Options struct {
	// Reserve frees space on a full disk while a deletion needs it; nil: there is none.
	Reserve func() (giveBack func())
}

// Open opens state.db in the directory dir, makes both if they are missing, and
// brings an older database up to date. The directory must be on a local disk and
// outside of every workspace that the journal serves. The caller closes the database.
func Open(ctx context.Context, dir string, o Options) (*DB, error) {
	db, err := open(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Join(dir, Name), err)
	}
	return db, nil
}

func open(ctx context.Context, dir string, o Options) (_ *DB, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "locks"), 0o700); err != nil {
		return nil, err
	}
	db := &DB{dir: dir, borrow: o.Reserve}
	if db.borrow == nil {
		db.borrow = func() func() { return func() {} }
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if db.pack, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true)); err != nil {
		return nil, err
	}
	if db.contents, err = workspace.OpenContentDir(filepath.Join(dir, "contents")); err != nil {
		return nil, err
	}
	// One process at a time makes or upgrades the schema.
	unlock, err := workspace.LockFile(ctx, filepath.Join(dir, "locks", Name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := db.upgrade(ctx, filepath.Join(dir, Name)); err != nil {
		return nil, err
	}
	db.reader, err = sqlite.Open(filepath.Join(dir, Name), 4, busyTimeout, "query_only(1)")
	return db, err
}

// Close waits for calls in progress and closes the database. A second Close does nothing.
func (db *DB) Close() error {
	var errs []error
	for _, pool := range []*sql.DB{db.reader, db.writer} {
		if pool != nil {
			errs = append(errs, pool.Close())
		}
	}
	if db.contents != nil {
		errs = append(errs, db.contents.Close())
	}
	return errors.Join(errs...)
}

func readSchema() (sqlite.Schema, error) {
	steps, err := sqlite.ReadSteps(released, "migrations")
	return sqlite.Schema{Application: applicationID, Steps: steps, Loss: "undo and what waits to be sent"}, err
}

// Check returns an error unless the database at path, which nothing else uses, can be opened.
func Check(ctx context.Context, path string) error {
	schema, err := readSchema()
	if err != nil {
		return err
	}
	return schema.Check(ctx, path)
}

// upgrade makes the file if it is missing and brings it to the newest version.
func (db *DB) upgrade(ctx context.Context, path string) error {
	schema, err := readSchema()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would ask the umask
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if db.writer, err = sqlite.Open(path, 1, busyTimeout, "synchronous(FULL)",
		"journal_size_limit(67108864)"); err != nil {
		return err
	}
	if err := schema.WriteAhead(ctx, db.writer, path); err != nil {
		return err
	}
	version, err := schema.Version(ctx, db.writer, path)
	if err != nil {
		return err
	}
	return schema.Upgrade(version, func(_ int, script string) error { return db.exec(ctx, script) })
}

// write runs do in a transaction that has the right to write from its start.
// Once it has begun it is not interrupted, so that the caller knows how it
// ended.
func (db *DB) write(ctx context.Context, do func(*sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return full(within(context.WithoutCancel(ctx), db.writer, do))
}

// read runs do on a snapshot of the database.
func (db *DB) read(ctx context.Context, do func(*sql.Tx) error) error {
	return within(ctx, db.reader, do)
}

func within(ctx context.Context, pool *sql.DB, do func(*sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
