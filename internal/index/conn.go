package index

import (
	"context"
	"database/sql"
	"errors"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sqlite"
)

// conn is one connection with the statements that it has compiled so far.
// The texts are constants of this package, so their number is bounded.
type conn struct {
	pool       *sql.DB // of this one connection
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

// connect opens a connection to an existing database.
func connect(ctx context.Context, path string, settings ...string) (*conn, error) {
	// A checkpoint may meet a reader.
	pool, err := sqlite.Open(path, 1, append([]string{"busy_timeout(5000)"}, settings...)...)
	if err != nil {
		return nil, err
	}
	c, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return &conn{pool: pool, conn: c, statements: map[string]*sql.Stmt{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.conn.Close(), c.pool.Close())...)
}

func (c *conn) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	if s, ok := c.statements[text]; ok {
		return s, nil
	}
	s, err := c.conn.PrepareContext(ctx, text)
	if err == nil {
		c.statements[text] = s
	}
	return s, err
}

// exec runs a statement and returns how many rows it changed.
func (c *conn) exec(ctx context.Context, text string, args ...any) (int, error) {
	s, err := c.statement(ctx, text) //nolint:sqlclosecheck // cached: close does it
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// changed turns a change of no row into engine.ErrNotFound.
func changed(n int, err error) error {
	if err == nil && n == 0 {
		return engine.ErrNotFound
	}
	return err
}

// row reads one row, engine.ErrNotFound when there is none.
func (c *conn) row(ctx context.Context, into []any, text string, args ...any) error {
	s, err := c.statement(ctx, text) //nolint:sqlclosecheck // cached: close does it
	if err != nil {
		return err
	}
	err = s.QueryRowContext(ctx, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return engine.ErrNotFound
	}
	return err
}

// one reads one row of a query, scanned by scan, engine.ErrNotFound when
// there is none.
func one[T any](
	ctx context.Context, c *conn, scan func(scanner) (T, error), text string, args ...any,
) (item T, err error) {
	s, err := c.statement(ctx, text) //nolint:sqlclosecheck // cached: close does it
	if err != nil {
		return item, err
	}
	item, err = scan(s.QueryRowContext(ctx, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = engine.ErrNotFound
	}
	return item, err
}

// rows reads every row of a query, scanned by scan.
func rows[T any](ctx context.Context, c *conn, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	s, err := c.statement(ctx, text) //nolint:sqlclosecheck // cached: close does it
	if err != nil {
		return nil, err
	}
	r, err := s.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []T
	for r.Next() {
		item, err := scan(r)
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, r.Err()
}

// scanner is a row that is being read.
type scanner interface{ Scan(into ...any) error }

// within runs do between begin and COMMIT, and rolls back when it fails. The
// frame itself is not interrupted: a BEGIN that was done but reported as
// cancelled would leave a transaction open.
func (c *conn) within(ctx context.Context, begin string, do func() error) error {
	ctx = context.WithoutCancel(ctx)
	if _, err := c.exec(ctx, begin); err != nil {
		return err
	}
	err := do()
	if err == nil {
		_, err = c.exec(ctx, "COMMIT")
	}
	if err != nil {
		// It fails where a failed COMMIT has ended the transaction already.
		_, _ = c.exec(ctx, "ROLLBACK")
	}
	return err
}

// write runs do in a transaction, of which there is one at a time that writes.
// Once it has begun it is not interrupted, so that the caller knows how it
// ended. It returns when the disk has it.
func (db *DB) write(ctx context.Context, op, id string, do func(context.Context, *conn) error) error {
	return db.writeOn(ctx, nil, op, id, nil, do)
}

// writeNoSync is write without an fsync: a killed service loses nothing, a machine
// that stops loses what came after the last write that waited for the disk.
func (db *DB) writeNoSync(ctx context.Context, op, id string, do func(context.Context, *conn) error) error {
	return db.writeOn(ctx, db.noSync, op, id, nil, do)
}

// writeOn writes on a connection, by default the one that waits for the disk;
// buffered runs are written with it, see flushWith.
func (db *DB) writeOn(
	ctx context.Context, c *conn, op, id string, end *bufferedRun, do func(context.Context, *conn) error,
) error {
	select {
	case writer := <-db.writer:
		defer func() { db.writer <- writer }()
		if c == nil {
			c = writer
		}
		if err := ctx.Err(); err != nil {
			return failed(op, id, err)
		}
		ctx = context.WithoutCancel(ctx)
		return failed(op, id, db.flushWith(ctx, c, end, func() error { return do(ctx, c) }))
	case <-ctx.Done():
		return failed(op, id, ctx.Err())
	case <-db.closed:
		return failed(op, id, errClosed)
	}
}

// erase is write for what makes room, or must be had on a full disk too. There
// it writes in the reserve, and makes the log, which it lengthened, short again.
func (db *DB) erase(ctx context.Context, op, id string, do func(context.Context, *conn) error) error {
	err := db.write(ctx, op, id, do)
	if engine.KindOf(err) != engine.ErrFull {
		return err
	}
	defer db.borrow()()
	db.shorten(ctx)
	defer db.shorten(ctx)
	return db.write(ctx, op, id, do)
}

// shorten writes the log into the database and gives its room back. It is no
// harm if it cannot: the next one does.
func (db *DB) shorten(ctx context.Context) {
	select {
	case writer := <-db.writer:
		defer func() { db.writer <- writer }()
		_, _ = writer.exec(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(TRUNCATE)")
	case <-ctx.Done():
	case <-db.closed:
	}
}

// read runs do on a snapshot of the database.
func (db *DB) read(ctx context.Context, op, id string, do func(*conn) error) error {
	return db.look(ctx, op, id, func(c *conn) error {
		return c.within(ctx, "BEGIN", func() error { return do(c) })
	})
}

// look is read for a single statement, which is a snapshot by itself.
func (db *DB) look(ctx context.Context, op, id string, do func(*conn) error) error {
	db.catchUp()
	select {
	case c := <-db.readers:
		defer func() { db.readers <- c }()
		if err := ctx.Err(); err != nil {
			return failed(op, id, err)
		}
		return failed(op, id, do(c))
	case <-ctx.Done():
		return failed(op, id, ctx.Err())
	case <-db.closed:
		return failed(op, id, errClosed)
	}
}
