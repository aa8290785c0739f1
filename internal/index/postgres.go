package index

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/sqlite"
)

//go:embed migrations-postgres/*.sql
var releasedPostgres embed.FS

const (
	// maxConnections is how many one process opens. A database allows 100 by default.
	maxConnections = 16
	// migrationLock is held while the tables are made or changed.
	migrationLock = applicationID
	// maxRepeats bounds how often a conflicting transaction is repeated.
	maxRepeats = 8

	// sweepLock is held by the replica that looks for unreferenced blobs.
	sweepLock = migrationLock + 3

	// onlyLock is held by a process that expects no other one, and shared by replicas.
	onlyLock = migrationLock + 2

	uniqueViolation = "23505"
)

// shared is the store in a PostgreSQL database, which other processes have open, too.
type shared struct {
	pool   *sql.DB
	only   *sql.Conn // holds onlyLock, shared where replicas may have the database open
	held   *os.File  // lock of the data directory; nil: there is none
	closed atomic.Bool
}

// OpenPostgres opens the index in a database, with a URL or a list of settings as
// libpq knows them, makes its tables if there are none, and brings older ones up to
// date. It refuses a database of a newer version (sqlite.ErrNewer), with an error that
// names the remedy. If path is not empty, it locks path as Open does, for the files
// that this process keeps beside it.
func OpenPostgres(ctx context.Context, database, path string, log *slog.Logger, changes ...Option) (*DB, error) {
	settings, err := pgx.ParseConfig(database)
	if err != nil {
		return nil, fmt.Errorf("the address of the database: %w", err) // pgx hides the password
	}
	if settings.RuntimeParams["application_name"] == "" {
		settings.RuntimeParams["application_name"] = "airlock"
	}
	settings.DialFunc = outbound.Dialer(dialTime, lostAfter).DialContext
	if settings.ValidateConnect == nil { // of two servers the standby is to be passed over
		settings.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	o := options{}
	db := newDB(log, &o, changes)
	db.words, db.clock = lexemes{}, postgresClock
	settings.Tracer = o.tracer
	s := &shared{pool: stdlib.OpenDB(*settings)}
	s.pool.SetMaxOpenConns(maxConnections)
	s.pool.SetMaxIdleConns(maxConnections)
	s.pool.SetConnMaxLifetime(time.Hour)
	if path != "" {
		if s.held, err = acquire(path); err != nil {
			return nil, errors.Join(fmt.Errorf("open index: %w", err), s.close())
		}
	}
	err = s.migrate(ctx, log, o.ifNew)
	if err == nil {
		err = s.guard(ctx, o.replicas)
	}
	if err == nil && db.now == nil {
		db.now, err = s.clock(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database at %s: %w", settings.Host, err), s.close())
	}
	db.store, db.pool = s, s.pool
	return db, nil
}

// A server that is cut off, or whose machine has failed, does not close its connections.
// They end after lostAfter, and a new one is made, to the same or the next server.
const (
	dialTime  = 2 * time.Second
	lostAfter = 5 * time.Second
)

// ErrInUse reports that another service has the database open.
var ErrInUse = errors.New("another service has this database open, and one at a time may: stop it, or name another one")

// guard checks whether this process may have the database open: alone, or with
// replicas only. It is a guard against mistakes, not a fence: a server that restarts
// forgets it.
func (s *shared) guard(ctx context.Context, replicas bool) (err error) {
	if s.only, err = s.pool.Conn(ctx); err != nil {
		return err
	}
	query := "SELECT pg_try_advisory_lock($1)"
	if replicas {
		query = "SELECT pg_try_advisory_lock_shared($1)"
	}
	var ours bool
	err = (&conn{conn: s.only}).row(ctx, []any{&ours}, query, onlyLock)
	if err == nil && !ours {
		err = ErrInUse
	}
	return err
}

// postgresClock is the database's clock in microseconds.
const postgresClock = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"

// clock returns the database's clock, as far as it can be known from here: the answer
// was made between two instants of this machine.
func (s *shared) clock(ctx context.Context) (func() time.Time, error) {
	var us int64
	var asked, answered time.Time
	err := s.look(ctx, func(c *conn) error {
		asked = time.Now()
		defer func() { answered = time.Now() }()
		return c.row(ctx, []any{&us}, "SELECT "+postgresClock)
	})
	between := asked.Add(answered.Sub(asked) / 2)
	return engine.SteadyClock(func() time.Time { return time.UnixMicro(us).Add(time.Since(between)) }), err
}

// migrate brings the tables to the newest version, each step in a transaction of its own.
// Of several processes that start at once one at a time does one.
func (s *shared) migrate(ctx context.Context, log *slog.Logger, ifNew func(context.Context) error) error {
	steps, err := sqlite.ReadSteps(releasedPostgres, "migrations-postgres")
	if err != nil {
		return err
	}
	return s.on(ctx, func(c *conn) error {
		version, err := 0, error(nil)
		for version < len(steps) && err == nil {
			version, err = migrateOne(ctx, c, steps, log, ifNew)
		}
		return err
	})
}

// migrateOne makes the next version, if there is one. Before the first it calls ifNew, unless that is nil.
func migrateOne(
	ctx context.Context, c *conn, steps []string, log *slog.Logger, ifNew func(context.Context) error,
) (version int, err error) {
	err = c.within(ctx, "BEGIN", func() error {
		if err := withProgress(ctx, log, "another process may be bringing the database up to date", func() error {
			_, err := c.conn.ExecContext(ctx, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d);
				CREATE TABLE IF NOT EXISTS airlock_schema (version BIGINT NOT NULL)`, migrationLock))
			return err
		}); err != nil {
			return err
		}
		if err := c.row(ctx, []any{&version}, "SELECT coalesce(max(version), 0) FROM airlock_schema"); err != nil {
			return err
		}
		if version > len(steps) {
			return fmt.Errorf("%w: it has version %d, this program knows versions up to %d: install the newer program "+
				"again, or put back a backup from before the upgrade", sqlite.ErrNewer, version, len(steps))
		}
		if version == len(steps) {
			return nil
		}
		if version == 0 && ifNew != nil {
			if err := ifNew(ctx); err != nil {
				return err
			}
		}
		version++
		if err := upgradeStep(ctx, log, version, len(steps), func() error {
			_, err := c.conn.ExecContext(ctx, steps[version-1])
			return err
		}); err != nil {
			return fmt.Errorf("bring the database to version %d: %w", version, err)
		}
		_, err := c.exec(ctx, "INSERT INTO airlock_schema (version) VALUES ($1)", version)
		return err
	})
	return version, err
}

// on runs do on a separate connection.
func (s *shared) on(ctx context.Context, do func(*conn) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	c, err := s.pool.Conn(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(&conn{conn: c}), c.Close())
}

func (s *shared) write(ctx context.Context, how syncing, do transaction) error {
	begin := "BEGIN"
	if how == noSync {
		begin = "BEGIN; SET LOCAL synchronous_commit TO off"
	}
	for repeats := 0; ; repeats++ {
		err := s.on(ctx, func(c *conn) error {
			ctx := context.WithoutCancel(ctx)
			return c.within(ctx, begin, func() error { return do(ctx, c) })
		})
		if repeats == maxRepeats || !isConflict(err) {
			return err
		}
	}
}

func (s *shared) erase(ctx context.Context, do transaction) error {
	return s.write(ctx, synced, do)
}

func (s *shared) read(ctx context.Context, do func(*conn) error) error {
	return s.on(ctx, func(c *conn) error {
		return c.within(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", func() error { return do(c) })
	})
}

func (s *shared) look(ctx context.Context, do func(*conn) error) error { return s.on(ctx, do) }

func (s *shared) lock(ctx context.Context, d engine.Digest, do func() error) error {
	number := int64(binary.BigEndian.Uint64(d[:]))
	return s.on(ctx, func(c *conn) error {
		return c.within(ctx, "BEGIN", func() error {
			if _, err := c.exec(ctx, "SELECT pg_advisory_xact_lock($1)", number); err != nil {
				return err
			}
			return do()
		})
	})
}

func (s *shared) sweeping(ctx context.Context, do func() error) error {
	return s.on(ctx, func(c *conn) error {
		return c.within(ctx, "BEGIN", func() error {
			var mine bool
			err := c.row(ctx, []any{&mine}, "SELECT pg_try_advisory_xact_lock($1)", sweepLock)
			if err != nil || !mine {
				return err
			}
			return do()
		})
	})
}

func (s *shared) usable() error {
	if s.closed.Load() {
		return errClosed
	}
	return nil
}

func (s *shared) whole(context.Context) error { return s.usable() }

func (s *shared) close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var err error
	if s.only != nil {
		// The server notices the end of a connection a moment later, when the next service may have asked.
		ctx, cancel := context.WithTimeout(context.Background(), dialTime)
		_, _ = s.only.ExecContext(ctx, "SELECT pg_advisory_unlock_all()") // it may have gone
		cancel()
		err = s.only.Close()
	}
	err = errors.Join(err, s.pool.Close())
	if s.held != nil {
		err = errors.Join(err, s.held.Close())
	}
	return err
}

// postgresArgs converts arguments to what PostgreSQL's columns hold: a flag is a number,
// as in SQLite, and a text is valid and without NUL.
func postgresArgs(args []any) []any {
	for i, arg := range args {
		switch v := reflect.ValueOf(arg); v.Kind() {
		case reflect.Bool:
			args[i] = int64(0)
			if v.Bool() {
				args[i] = int64(1)
			}
		case reflect.String:
			args[i] = strings.ReplaceAll(strings.ToValidUTF8(v.String(), "\ufffd"), "\x00", "\ufffd")
		}
	}
	return args
}

// isConflict reports whether a transaction conflicted with another and should be repeated.
func isConflict(err error) bool {
	switch code(err) {
	case "40001", "40P01": // serialization failure, deadlock
		return true
	case uniqueViolation: // another transaction added the row meanwhile
		return errors.Is(err, errRepeat)
	}
	return false
}

// errRepeat marks a duplicate that the transaction looks for first: repeated, it finds it.
var errRepeat = errors.New("it was added meanwhile")

// code returns PostgreSQL's code of an error, empty if it has none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

const hintDatabase = "The service cannot use its database at the moment: try again in some seconds."

// postgresMeaning finds the kind of an error of PostgreSQL, empty for another's.
func postgresMeaning(err error) (engine.Kind, string) {
	known := code(err)
	switch {
	case known == uniqueViolation:
		return engine.ErrConflict, ""
	case known == "23503": // the referenced row was deleted meanwhile
		return engine.ErrNotFound, ""
	case known == "53100":
		return engine.ErrFull, "The database's disk is full: delete files that are no longer needed, or have the operator " +
			"make room."
	case known == "57014":
		return engine.ErrCanceled, ""
	case strings.HasPrefix(known, "53"), strings.HasPrefix(known, "57"), strings.HasPrefix(known, "08"),
		known == "40001", known == "40P01", known == "25006": // a standby takes no writes
		return engine.ErrUnavailable, hintDatabase
	case known != "":
		return engine.ErrInternal, ""
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	broken := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn)
	if connecting || network || broken || pgconn.SafeToRetry(err) {
		return engine.ErrUnavailable, hintDatabase
	}
	return "", ""
}
