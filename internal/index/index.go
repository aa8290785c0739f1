package index

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/airlock-run/airlock/internal/engine"
)

var _ engine.Index = (*DB)(nil)

// DB is the index. Its methods may be called at once from many goroutines.
type DB struct {
	store store
	words words
	clock string // expression for the time in microseconds, by the database's clock
	log   *slog.Logger
	now   func() time.Time
	quota engine.Quota
	files *fileCache // nil: others write, too

	pool    *sql.DB // of PostgreSQL
	observe Observer
}

// An Observer is told of each transaction and each read, with the time that it took.
type Observer func(operation string, took time.Duration, err error)

// The operations of an Observer.
const (
	Read  = "read"
	Write = "write"
)

// store is a database with the tables of the index.
type store interface {
	// write runs do in a transaction that writes. Once it has begun it is not
	// interrupted, so that the caller knows how it ended.
	write(ctx context.Context, how syncing, do transaction) error
	// erase is write for changes that free space, or that must succeed on a full disk too.
	erase(ctx context.Context, do transaction) error
	// read runs do on a snapshot of the database.
	read(ctx context.Context, do func(*conn) error) error
	// look is read for a single statement, which is a snapshot by itself.
	look(ctx context.Context, do func(*conn) error) error
	// lock runs do under a lock on the digest, exclusive among all callers.
	lock(ctx context.Context, d engine.Digest, do func() error) error
	// sweeping runs do, unless another replica is in sweeping.
	sweeping(ctx context.Context, do func() error) error
	// usable returns an error once the store is closed, or was found to be damaged.
	usable() error
	// whole returns an error, or waits, as long as rows may be missing that were there.
	whole(ctx context.Context) error
	close() error
}

// transaction is the body of a transaction. With PostgreSQL it may run again.
type transaction func(context.Context, *conn) error

// syncing selects when a write returns.
type syncing bool

const (
	synced syncing = true  // returns when the write is on disk
	noSync syncing = false // returns earlier: a killed service loses nothing, a failed machine loses the last writes
)

// Option changes how an index is opened.
type Option func(*options)

type options struct {
	now      func() time.Time
	quota    engine.Quota
	borrow   func() (giveBack func())
	steps    []string // of the schema, in place of the released ones
	replicas bool
	atStart  int64
	ifNew    func(context.Context) error
	tracer   pgx.QueryTracer
	observe  Observer
}

// WithReplicas declares that other processes have the database open, too.
func WithReplicas() Option { return func(o *options) { o.replicas = true } }

// WithTracer sets what is told of each query of a PostgreSQL database; nil: nothing is.
func WithTracer(t pgx.QueryTracer) Option { return func(o *options) { o.tracer = t } }

// WithObserver sets what is told of each transaction and read.
func WithObserver(observe Observer) Option { return func(o *options) { o.observe = observe } }

// WithNew sets a function that is called before an index is made because there is none. Its error
// prevents that.
func WithNew(check func(context.Context) error) Option { return func(o *options) { o.ifNew = check } }

// WithClock sets the clock by which files and sessions expire, in place of Now's.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithQuota bounds the objects of one owner. A write above it is refused
// with engine.ErrFull, in its transaction.
func WithQuota(q engine.Quota) Option { return func(o *options) { o.quota = q } }

func newDB(log *slog.Logger, o *options, changes []Option) *DB {
	for _, change := range changes {
		change(o)
	}
	db := &DB{log: log, now: o.now, quota: o.quota, observe: o.observe}
	if db.observe == nil {
		db.observe = func(string, time.Duration, error) {}
	}
	return db
}

// Pool returns the connections to PostgreSQL, for their statistics; nil: the index is in SQLite.
func (db *DB) Pool() *sql.DB { return db.pool }

// Close ends the index after the transactions that are in progress. A second Close
// does nothing.
func (db *DB) Close() error { return db.store.close() }

// Now returns the time by which files and sessions expire: of this machine for SQLite,
// of the database for PostgreSQL, so that the clocks of nodes may differ. It is steady,
// see engine.SteadyClock.
func (db *DB) Now() time.Time { return db.now() }

// Lock runs do while no other caller, in any replica, is in Lock with that digest.
func (db *DB) Lock(ctx context.Context, digest engine.Digest, do func() error) error {
	return failed("lock file", digest.String(), db.store.lock(ctx, digest, do))
}

// Sweeping runs do, unless another replica is in Sweeping.
func (db *DB) Sweeping(ctx context.Context, do func() error) error {
	return failed("sweep", "", db.store.sweeping(ctx, do))
}

// Young reports whether the index was made within the last hour: a person who has started a service with the
// wrong index, or none, has so long to notice.
func (db *DB) Young(ctx context.Context) (bool, error) {
	var made int64
	err := db.look(ctx, "sweep", "", func(c *conn) error {
		return c.row(ctx, []any{&made}, "SELECT max(at_us) FROM made")
	})
	return err == nil && db.micros()-made < time.Hour.Microseconds(), err
}

// ErrMissing reports that there is no index where there must have been one.
var ErrMissing = errors.New("the index is missing")

// micros returns the present instant as the database counts.
func (db *DB) micros() int64 { return db.now().UnixMicro() }

func (db *DB) write(ctx context.Context, op, id string, do transaction) error {
	return db.done(Write, op, id, time.Now(), db.store.write(ctx, synced, do))
}

func (db *DB) writeNoSync(ctx context.Context, op, id string, do transaction) error {
	return db.done(Write, op, id, time.Now(), db.store.write(ctx, noSync, do))
}

func (db *DB) erase(ctx context.Context, op, id string, do transaction) error {
	return db.done(Write, op, id, time.Now(), db.store.erase(ctx, do))
}

func (db *DB) read(ctx context.Context, op, id string, do func(*conn) error) error {
	return db.done(Read, op, id, time.Now(), db.store.read(ctx, do))
}

func (db *DB) look(ctx context.Context, op, id string, do func(*conn) error) error {
	return db.done(Read, op, id, time.Now(), db.store.look(ctx, do))
}

// done tells the observer of an operation, and returns its error. Go evaluates arguments in order: began is from before
// the operation.
func (db *DB) done(operation, op, id string, began time.Time, err error) error {
	took := time.Since(began)
	err = failed(op, id, err)
	db.observe(operation, took, err)
	return err
}
