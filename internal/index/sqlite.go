package index

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sqlite"
)

// readerCount is how many reads can continue at once.
const readerCount = 4

//go:embed migrations-sqlite/*.sql
var released embed.FS

// applicationID marks a SQLite database as an index: "AirL".
const applicationID = 0x4169724c

// local is the store in a SQLite database, which this process alone holds.
type local struct {
	path   string
	schema sqlite.Schema
	log    *slog.Logger
	borrow func() (giveBack func())
	ifNew  func(context.Context) error // nil: nothing is checked

	held    *os.File // lock of the file
	all     []*conn
	ready   bool       // the connections are in the channels
	writer  chan *conn // holds the connection that writes, unless one is writing
	noSync  *conn      // writes in its place, without waiting for the disk
	readers chan *conn
	one     sync.Mutex // one lock for all: few are taken
	closing sync.Once
	closed  chan struct{}

	atStart   int64                 // checkedAtStart, or less for tests
	checked   chan struct{}         // closed when the database has been read as a whole
	damage    atomic.Pointer[error] // that was found after the start
	stopCheck context.CancelFunc
}

// checkedAtStart is how many bytes of a database are read before it is used. A larger one
// is read beside the first requests: a million runs take ten seconds. Meanwhile nothing
// is taken for waste, see whole.
const checkedAtStart = 64 << 20

// WithReserve sets a function that frees space on a full disk while a deletion
// needs it.
func WithReserve(borrow func() (giveBack func())) Option {
	return func(o *options) { o.borrow = borrow }
}

// sqliteClock is the time in microseconds.
const sqliteClock = "CAST(unixepoch('subsec') * 1000000 AS BIGINT)"

// Open opens the index at path, makes it if it is missing, and brings an
// older one up to date. It refuses, with an error that names the cure, one
// that another process holds (ErrLocked), that a newer version has written
// (sqlite.ErrNewer), or that is damaged (sqlite.ErrDamaged).
func Open(ctx context.Context, path string, log *slog.Logger, changes ...Option) (*DB, error) {
	steps, err := sqlite.ReadSteps(released, "migrations-sqlite")
	if err != nil {
		return nil, err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	o := options{now: engine.SteadyClock(time.Now), steps: steps, borrow: func() func() { return func() {} },
		atStart: checkedAtStart}
	db := newDB(log, &o, changes)
	db.files, db.words, db.clock = newFileCache(), fts5{}, sqliteClock
	schema := schemaOf(o.steps)
	l := &local{path: path, schema: schema, log: log, borrow: o.borrow, atStart: o.atStart, ifNew: o.ifNew,
		writer: make(chan *conn, 1), readers: make(chan *conn, readerCount),
		closed: make(chan struct{}), checked: make(chan struct{}), stopCheck: func() {}}
	if err := l.expect(ctx); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	if l.held, err = acquire(path); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open index: %w", err), l.close())
	}
	db.store = l
	return db, nil
}

// schemaOf returns the schema of an index with these migrations. A damaged index is never
// replaced by an empty one: the clean-up would take every stored file for waste.
func schemaOf(steps []string) sqlite.Schema {
	return sqlite.Schema{Application: applicationID, Steps: steps, Loss: "every stored file and run"}
}

// Check returns an error unless the index at path, which nothing else uses, can be opened.
func Check(ctx context.Context, path string) error {
	steps, err := sqlite.ReadSteps(released, "migrations-sqlite")
	if err != nil {
		return err
	}
	return schemaOf(steps).Check(ctx, path)
}

// open connects to the database, once the lock is held.
func (l *local) open(ctx context.Context) error {
	if err := l.create(ctx); err != nil {
		return err
	}
	writer, err := connect(ctx, l.path, "synchronous(FULL)", "journal_size_limit(67108864)")
	if err != nil {
		return l.schema.Unreadable(l.path, err)
	}
	l.all = append(l.all, writer)
	before, err := l.version(ctx, writer)
	if err != nil {
		return err
	}
	info, err := os.Stat(l.path)
	if err != nil {
		return err
	}
	large := info.Size() > l.atStart && before == len(l.schema.Steps)
	if !large {
		if err := withProgress(ctx, l.log, "the index is being read, to find damage", func() error {
			return l.quickCheck(ctx, writer)
		}); err != nil {
			return err
		}
		close(l.checked)
	}
	if err := l.schema.WriteAhead(ctx, writer.conn, l.path); err != nil {
		return err
	}
	if err := writer.upgrade(ctx, before, l.schema, l.log); err != nil {
		return err
	}
	if !large {
		l.letShrink(ctx, writer)
	}
	if l.noSync, err = connect(ctx, l.path, "synchronous(NORMAL)", "journal_size_limit(67108864)"); err != nil {
		return err
	}
	l.all = append(l.all, l.noSync)
	for range readerCount {
		reader, err := connect(ctx, l.path, "query_only(1)")
		if err != nil {
			return err
		}
		l.all = append(l.all, reader)
		l.readers <- reader
	}
	l.writer <- writer
	l.ready = true
	if large {
		return l.checkLater(ctx)
	}
	return nil
}

// checkLater reads the whole database, on a connection of its own. A damaged database is
// not used any more.
func (l *local) checkLater(ctx context.Context) error {
	ctx, l.stopCheck = context.WithCancel(context.WithoutCancel(ctx))
	c, err := connect(ctx, l.path, "query_only(1)")
	if err != nil {
		return err
	}
	go func() {
		defer close(l.checked)
		defer c.close()
		if err := l.quickCheck(ctx, c); errors.Is(err, sqlite.ErrDamaged) && ctx.Err() == nil {
			l.log.ErrorContext(ctx, "the index is damaged", "error", err)
			l.damage.Store(&err)
		}
	}()
	return nil
}

// whole waits until it is known that the database is not damaged: nothing that is
// missing from it may be taken for waste before.
func (l *local) whole(ctx context.Context) error {
	select {
	case <-l.checked:
		return l.usable()
	case <-l.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends after the transactions that are in progress, and releases the lock.
func (l *local) close() (err error) {
	l.closing.Do(func() {
		close(l.closed)
		l.stopCheck()
		if l.ready {
			// Transactions in progress put their connections back.
			<-l.writer
			for range readerCount {
				<-l.readers
			}
			<-l.checked
		}
		var errs []error
		for _, c := range l.all {
			errs = append(errs, c.close())
		}
		err = errors.Join(append(errs, l.held.Close())...)
	})
	return err
}

// write writes on the connection that waits for the disk, or on the other one.
func (l *local) write(ctx context.Context, how syncing, do transaction) error {
	select {
	case writer := <-l.writer:
		defer func() { l.writer <- writer }()
		c := writer
		if how == noSync {
			c = l.noSync
		}
		if err := cmp.Or(ctx.Err(), l.usable()); err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
		return c.within(ctx, "BEGIN IMMEDIATE", func() error { return do(ctx, c) })
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closed:
		return errClosed
	}
}

// erase writes, on a full disk in the reserve, and then truncates the log, which it
// has lengthened.
func (l *local) erase(ctx context.Context, do transaction) error {
	err := l.write(ctx, synced, do)
	if err == nil {
		l.shrink(ctx)
	}
	if engine.KindOf(failed("", "", err)) != engine.ErrFull {
		return err
	}
	defer l.borrow()()
	l.shorten(ctx)
	defer l.shorten(ctx)
	return l.write(ctx, synced, do)
}

// shorten checkpoints the log and truncates it. If it fails, the next one succeeds.
func (l *local) shorten(ctx context.Context) {
	select {
	case writer := <-l.writer:
		defer func() { l.writer <- writer }()
		_, _ = writer.exec(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(TRUNCATE)")
	case <-ctx.Done():
	case <-l.closed:
	}
}

func (l *local) read(ctx context.Context, do func(*conn) error) error {
	return l.look(ctx, func(c *conn) error {
		return c.within(ctx, "BEGIN", func() error { return do(c) })
	})
}

func (l *local) look(ctx context.Context, do func(*conn) error) error {
	select {
	case c := <-l.readers:
		defer func() { l.readers <- c }()
		if err := cmp.Or(ctx.Err(), l.usable()); err != nil {
			return err
		}
		return do(c)
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closed:
		return errClosed
	}
}

func (l *local) lock(_ context.Context, _ engine.Digest, do func() error) error {
	l.one.Lock()
	defer l.one.Unlock()
	return do()
}

func (l *local) sweeping(_ context.Context, do func() error) error { return do() }

func (l *local) usable() error {
	select {
	case <-l.closed:
		return errClosed
	default:
	}
	if damage := l.damage.Load(); damage != nil {
		return *damage
	}
	return nil
}

// ErrLocked reports that another process holds the index.
var ErrLocked = errors.New("index is locked")

// acquire takes the lock of the index at path: an flock, which the kernel
// releases however its holder ends. The file stays, with the pid of its last
// holder in it; removing it would let two processes lock two files.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is in use by %s: stop that process, or use another data directory", ErrLocked, path,
				holder(f))
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// holder names the process that has written its pid into the lock file.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	pid, parsed := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || parsed != nil || pid <= 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}
