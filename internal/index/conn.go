package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"strconv"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sqlite"
)

// conn is one connection. The texts of its statements are constants of this package,
// so the number of compiled statements is bounded.
type conn struct {
	conn *sql.Conn
	pool *sql.DB // SQLite: of this one connection

	// SQLite: the statements compiled so far. With PostgreSQL the driver compiles
	// them, and arguments are converted to its types.
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

func (c *conn) query(ctx context.Context, text string, args []any) (*sql.Rows, error) {
	if c.statements == nil {
		return c.conn.QueryContext(ctx, text, postgresArgs(args)...)
	}
	s, err := c.statement(ctx, text) //nolint:sqlclosecheck // cached: close does it
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// exec runs a statement and returns how many rows it changed.
func (c *conn) exec(ctx context.Context, text string, args ...any) (int, error) {
	var result sql.Result
	var err error
	if c.statements == nil {
		result, err = c.conn.ExecContext(ctx, text, postgresArgs(args)...)
	} else if s, prepared := c.statement(ctx, text); prepared != nil { //nolint:sqlclosecheck // cached: close does it
		err = prepared
	} else {
		result, err = s.ExecContext(ctx, args...)
	}
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// arguments are those of a statement that is composed.
type arguments []any

// add appends an argument and returns its placeholder.
func (a *arguments) add(value any) string {
	*a = append(*a, value)
	return "$" + strconv.Itoa(len(*a))
}

// changed turns a change of no row into engine.ErrNotFound.
func changed(n int, err error) error {
	if err == nil && n == 0 {
		return engine.ErrNotFound
	}
	return err
}

// row reads one row. Without a row it returns engine.ErrNotFound.
func (c *conn) row(ctx context.Context, into []any, text string, args ...any) error {
	_, err := one(ctx, c, func(row scanner) (struct{}, error) { return struct{}{}, row.Scan(into...) }, text, args...)
	return err
}

// one reads one row of a query, scanned by scan, engine.ErrNotFound when
// there is none.
func one[T any](
	ctx context.Context, c *conn, scan func(scanner) (T, error), text string, args ...any,
) (item T, err error) {
	r, err := c.query(ctx, text, args)
	if err != nil {
		return item, err
	}
	defer r.Close()
	if !r.Next() {
		return item, cmp.Or(r.Err(), error(engine.ErrNotFound))
	}
	if item, err = scan(r); err != nil {
		return item, err
	}
	return item, r.Close()
}

// rows reads every row of a query, scanned by scan.
func rows[T any](ctx context.Context, c *conn, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	r, err := c.query(ctx, text, args)
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

// find returns the row of a query that is a snapshot by itself, engine.ErrNotFound when
// there is none; list returns every row.
func find[T any](
	ctx context.Context, db *DB, op, id string, scan func(scanner) (T, error), text string, args ...any,
) (item T, err error) {
	err = db.look(ctx, op, id, func(c *conn) error {
		item, err = one(ctx, c, scan, text, args...)
		return err
	})
	return item, err
}

func list[T any](
	ctx context.Context, db *DB, op string, scan func(scanner) (T, error), text string, args ...any,
) (all []T, err error) {
	err = db.look(ctx, op, "", func(c *conn) error {
		all, err = rows(ctx, c, scan, text, args...)
		return err
	})
	return all, err
}

// writing is one of the ways of a DB to write: write, writeNoSync and erase.
type writing func(ctx context.Context, op, id string, do transaction) error

// exec runs one statement and returns how many rows it changed.
func (w writing) exec(ctx context.Context, op, id, text string, args ...any) (n int, err error) {
	err = w(ctx, op, id, func(ctx context.Context, c *conn) error {
		n, err = c.exec(ctx, text, args...)
		return err
	})
	return n, err
}

// change runs one statement, and returns engine.ErrNotFound if it changed no row.
func (w writing) change(ctx context.Context, op, id, text string, args ...any) error {
	return w(ctx, op, id, func(ctx context.Context, c *conn) error { return changed(c.exec(ctx, text, args...)) })
}

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

// cursor is where a page of a list begins: after the item with this time and
// id, in descending order.
type cursor struct {
	created int64
	id      engine.ID
	limit   int
}

// findCursor turns the id of the last item of a page into the cursor after it;
// text looks up when an item was made, by its id and owner. An item that has
// expired still is one.
func findCursor(ctx context.Context, c *conn, text string, owner engine.Owner, page engine.Page) (cursor, error) {
	p := cursor{created: math.MaxInt64, id: page.After, limit: page.Limit}
	if p.limit <= 0 {
		p.limit = 100
	}
	if page.After.IsZero() {
		return p, nil
	}
	err := c.row(ctx, []any{&p.created}, text, page.After[:], owner)
	if errors.Is(err, engine.ErrNotFound) {
		err = &engine.Error{Op: "find page", Kind: engine.ErrNotFound, ID: page.After.String(),
			Hint: "The item after which the page should begin is gone: list from the start."}
	}
	return p, err
}
