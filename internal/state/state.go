package state

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"modernc.org/sqlite" // the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/airlock-run/airlock/workspace"
)

// Name is the file's name in the data directory.
const Name = "state.db"

// ErrNewer says that a newer version of the program has written the database.
var ErrNewer = errors.New("state is newer than this program")

// ErrDamaged says that the database cannot be read as one.
var ErrDamaged = errors.New("state is damaged")

// applicationID marks a SQLite database as ours: "AirS".
const applicationID = 0x41697253

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

	// committed run in the SQL transaction in which a workspace's transaction
	// becomes Committed, so that what follows from it is neither lost nor done
	// twice. Open lists them.
	committed []func(context.Context, *sql.Tx, *workspace.Record) error
}

// Option changes how a database is opened.
type Option func(*DB)

// WithReserve sets what gives up room on a full disk for as long as a deletion
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
	migrations, err := readMigrations(released)
	if err != nil {
		return nil, err
	}
	db := &DB{
		dir: dir, log: log, borrow: func() func() { return func() {} },
		committed: []func(context.Context, *sql.Tx, *workspace.Record) error{queueReports},
	}
	for _, set := range options {
		set(db)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if db.pack, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true)); err != nil {
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
	if db.writer, err = connect(filepath.Join(dir, Name), 1, "synchronous(FULL)", "journal_size_limit(67108864)"); err != nil {
		return nil, err
	}
	if err := db.upgrade(ctx, migrations); err != nil {
		return nil, err
	}
	db.reader, err = connect(filepath.Join(dir, Name), 4, "query_only(1)")
	return db, err
}

// connect opens a pool of connections. Every setting that a connection has of
// its own is here.
func connect(path string, connections int, settings ...string) (*sql.DB, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite would ask the umask
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	settings = append([]string{"busy_timeout(20000)", "foreign_keys(1)", "trusted_schema(0)", "cell_size_check(1)"}, settings...)
	name := url.URL{Scheme: "file", OmitHost: true, Path: path,
		RawQuery: url.Values{"_pragma": settings, "mode": {"rw"}, "_txlock": {"immediate"}, "_dqs": {"0"}, "_error_rc": {"1"}}.Encode()}
	if connections > 1 { // readers
		name.RawQuery = strings.Replace(name.RawQuery, "_txlock=immediate", "_txlock=deferred", 1)
	}
	pool, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// Close ends the database after what is going on. A second Close does nothing.
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

// readMigrations returns the scripts 0001_*.sql, 0002_*.sql, ... in order.
// Script n makes version n out of version n-1.
func readMigrations(dir fs.FS) ([]string, error) {
	names, err := fs.Glob(dir, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var steps []string
	for i, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s: number %d is expected", name, i+1)
		}
		script, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(script))
	}
	return steps, nil
}

// upgrade brings the database to the newest version, each step in a
// transaction of its own.
func (db *DB) upgrade(ctx context.Context, steps []string) error {
	var mode string
	if err := db.writer.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return db.unreadable(err)
	}
	if mode != "wal" {
		return fmt.Errorf("its file system cannot hold a write-ahead log (journal mode %q): use a data directory on a local disk", mode)
	}
	var version, application, tables int
	for query, into := range map[string]*int{
		"PRAGMA user_version": &version, "PRAGMA application_id": &application, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := db.writer.QueryRowContext(ctx, query).Scan(into); err != nil {
			return db.unreadable(err)
		}
	}
	switch {
	case application != applicationID && tables+version > 0:
		return fmt.Errorf("%w: it is a database of something else: move it away", ErrDamaged)
	case version > len(steps):
		return fmt.Errorf("%w: it has version %d, this program knows versions up to %d: install the newer program again", ErrNewer, version, len(steps))
	}
	for ; version < len(steps); version++ {
		err := db.write(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, steps[version]+fmt.Sprintf("\n;PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, version+1))
			return err
		})
		if err != nil {
			return fmt.Errorf("bring it to version %d: %w", version+1, err)
		}
	}
	return nil
}

// unreadable tells damage from the rest that can go wrong with a file.
func (db *DB) unreadable(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return fmt.Errorf("%w: %w: put back a backup; or, to lose undo and what waits to be sent, move it away together with %s-wal", ErrDamaged, err, Name)
		}
	}
	return err
}

// write runs do in a transaction that has the right to write from its start.
// Once it has begun it is not interrupted, so that whoever asked knows how it
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
