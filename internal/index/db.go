package index

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

var _ engine.Index = (*DB)(nil)

// readerCount is how many reads can continue at once.
const readerCount = 4

//go:embed migrations/*.sql
var released embed.FS

// DB is the index. Its methods may be called at once from many goroutines.
type DB struct {
	path       string
	log        *slog.Logger
	now        func() time.Time
	quota      engine.Quota
	borrow     func() (giveBack func())
	migrations fs.FS

	lock    *os.File
	all     []*conn
	ready   bool       // the connections are in the channels
	writer  chan *conn // holds the connection that writes, unless one is writing
	noSync  *conn      // writes in its place, without waiting for the disk
	readers chan *conn
	backlog backlog
	files   *fileCache
	closing sync.Once
	closed  chan struct{}
}

// Option changes how an index is opened.
type Option func(*DB)

// WithClock sets the clock by which files and sessions expire; time.Now is
// the default.
func WithClock(now func() time.Time) Option { return func(db *DB) { db.now = now } }

// WithReserve sets what gives up room on a full disk for as long as a deletion
// needs it.
func WithReserve(borrow func() (giveBack func())) Option {
	return func(db *DB) { db.borrow = borrow }
}

// Open opens the index at path, makes it if it is missing, and brings an
// older one up to date. It refuses, with an error that names the cure, one
// that another process holds (ErrLocked), that a newer version has written
// (sqlite.ErrNewer), or that is damaged (sqlite.ErrDamaged).
func Open(ctx context.Context, path string, log *slog.Logger, options ...Option) (*DB, error) {
	migrations, err := fs.Sub(released, "migrations")
	if err != nil {
		return nil, err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	db := &DB{path: path, log: log, now: time.Now, migrations: migrations, borrow: func() func() { return func() {} },
		writer: make(chan *conn, 1), readers: make(chan *conn, readerCount),
		files: newFileCache(), closed: make(chan struct{})}
	for _, option := range options {
		option(db)
	}
	if db.lock, err = acquire(path); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	if err := db.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open index: %w", err), db.Close())
	}
	return db, nil
}

// open connects to the database, once the lock is held.
func (db *DB) open(ctx context.Context) error {
	schema, err := schemaOf(db.migrations)
	if err != nil {
		return err
	}
	if err := create(ctx, db.path, schema); err != nil {
		return err
	}
	writer, err := connect(ctx, db.path, "synchronous(FULL)", "journal_size_limit(67108864)")
	if err != nil {
		return schema.Unreadable(db.path, err)
	}
	db.all = append(db.all, writer)
	before, err := check(ctx, writer, db.path, schema)
	if err != nil {
		return err
	}
	if err := schema.WriteAhead(ctx, writer.conn, db.path); err != nil {
		return err
	}
	if err := writer.upgrade(ctx, before, schema); err != nil {
		return err
	}
	if before < len(schema.Steps) {
		db.log.InfoContext(ctx, "index brought up to date", "from", before, "to", len(schema.Steps))
	}
	if db.noSync, err = connect(ctx, db.path, "synchronous(NORMAL)", "journal_size_limit(67108864)"); err != nil {
		return err
	}
	db.all = append(db.all, db.noSync)
	for range readerCount {
		reader, err := connect(ctx, db.path, "query_only(1)")
		if err != nil {
			return err
		}
		db.all = append(db.all, reader)
		db.readers <- reader
	}
	db.writer <- writer
	db.ready = true
	return nil
}

// micros is the present instant as the database counts.
func (db *DB) micros() int64 { return db.now().UnixMicro() }

// Close ends the index after the transactions that are in progress, and gives
// up the lock. A second Close does nothing.
func (db *DB) Close() (err error) {
	db.closing.Do(func() {
		close(db.closed)
		if db.ready {
			// Whoever is at work puts its connection back.
			<-db.writer
			db.flushLast()
			for range readerCount {
				<-db.readers
			}
		}
		var errs []error
		for _, c := range db.all {
			errs = append(errs, c.close())
		}
		err = errors.Join(append(errs, db.lock.Close())...)
	})
	return err
}
