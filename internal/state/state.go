package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/airlock-run/airlock/internal/sqlite"
	"github.com/airlock-run/airlock/workspace"
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
	dir      string // the data directory
	log      *slog.Logger
	writer   *sql.DB // one connection
	reader   *sql.DB
	contents *workspace.ContentDir
	pack     *zstd.Encoder
	borrow   func() (giveBack func()) // see WithReserve
}

// Option changes how a database is opened.
type Option func(*DB)

// WithReserve sets a function that frees space on a full disk while a deletion
// needs it.
func WithReserve(borrow func() (giveBack func())) Option {
	return func(db *DB) { db.borrow = borrow }
}

// Open opens state.db in the data directory, makes it if it is missing, and
// brings an older one up to date.
func Open(ctx context.Context, dir string, log *slog.Logger, options ...Option) (*DB, error) {
	db, err := open(ctx, dir, log, options)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Join(dir, Name), err)
	}
	return db, nil
}

func open(ctx context.Context, dir string, log *slog.Logger, options []Option) (_ *DB, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "locks"), 0o700); err != nil {
		return nil, err
	}
	db := &DB{dir: dir, log: log, borrow: func() func() { return func() {} }}
	for _, set := range options {
		set(db)
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
