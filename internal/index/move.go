package index

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/airlock-run/airlock/internal/engine"
)

// ErrOther reports that a database holds objects that the copied index does not have.
var ErrOther = errors.New("the database holds other data")

// movedTable is a table whose rows are copied, in an order that both databases have.
type movedTable struct{ name, order string }

// movedTables lists referenced tables first. The other tables are made from them: the
// accounts of owners, and the words of runs by IndexRuns.
var movedTables = []movedTable{
	{"files", "id"}, {"sessions", "id"}, {"session_files", "session, path"}, {"runs", "id"}, {"run_logs", "rowid"},
	{"keys", "id"}, {"contacts", "rowid"}, {"snapshots", "id"}, {"snapshot_files", "snapshot, path"},
	{"volumes", "id"}, {"audit", "rowid"}, {"worker_names", "name"},
	{"consumption", "account, day, owner, key"}, {"consumption_months", "month, subject"},
}

// notMoved are columns that the target fills by itself.
const notMoved = "'rowid', 'doc'"

// accounting are the triggers that would count each row by itself: the row of an owner
// would be changed a million times in one transaction.
var accounting = map[string]string{"files": "files_account", "sessions": "session_added", "run_logs": "output_added",
	"snapshots": "snapshot_account", "volumes": "volume_account"}

const accountAll = `INSERT INTO usage (owner, files, bytes, sessions, results)
	SELECT owner, sum(files), sum(bytes), sum(sessions), sum(results) FROM (
		SELECT owner, 1 AS files, size AS bytes, 0 AS sessions, 0 AS results FROM files
		UNION ALL SELECT owner, files, bytes, 0, 0 FROM snapshots
		UNION ALL SELECT owner, 1, bytes, 0, 0 FROM volumes
		UNION ALL SELECT owner, 0, 0, 1, 0 FROM sessions WHERE implicit = 0
		UNION ALL SELECT owner, 0, 0, 0, counted FROM run_logs WHERE counted > 0) AS kept
	GROUP BY owner`

// accounts are in both databases; an owner without objects may lack an account.
const accounts = "SELECT owner, files, bytes, sessions, results FROM usage " +
	"WHERE files + bytes + sessions + results > 0 ORDER BY owner"

// Contents returns the blobs of all files, be they expired, and of snapshots.
func (db *DB) Contents(ctx context.Context) ([]engine.Blob, error) {
	return list(ctx, db, "list contents", func(row scanner) (b engine.Blob, err error) {
		err = row.Scan(digestColumn{&b.SHA256}, &b.Size)
		return b, err
	}, "SELECT sha256, size FROM files UNION SELECT sha256, size FROM snapshot_files")
}

// Rows returns how many rows CopyTo copies.
func (db *DB) Rows(ctx context.Context) (n int, err error) {
	err = db.read(ctx, "count rows", "", func(c *conn) error {
		n, err = countRows(ctx, c)
		return err
	})
	return n, err
}

func countRows(ctx context.Context, c *conn) (total int, err error) {
	for _, t := range movedTables {
		n := 0
		if err := c.row(ctx, []any{&n}, "SELECT count(*) FROM "+t.name); err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// CopyTo copies the index from SQLite into an empty PostgreSQL database, all of it or
// nothing, and compares the copied rows. It calls progress now and then with the number
// of rows done. If the database already has exactly these rows, it copies nothing and
// returns copied false. If it has other rows, it returns ErrOther.
func (db *DB) CopyTo(ctx context.Context, to *DB, progress func(done, total int)) (total int, copied bool, err error) {
	from, lite := db.store.(*local)
	target, post := to.store.(*shared)
	if !lite || !post {
		return 0, false, errors.New("an index is copied from SQLite to PostgreSQL only")
	}
	err = from.read(ctx, func(source *conn) error {
		if total, err = countRows(ctx, source); err != nil {
			return err
		}
		return target.on(ctx, func(c *conn) error {
			return c.within(ctx, "BEGIN", func() error {
				m := &move{source: source, target: c, progress: func(done int) { progress(done, total) }}
				copied, err = m.run(ctx)
				return err
			})
		})
	})
	return total, copied, failed("copy index", "", err)
}

// move is one CopyTo, in a transaction of each database.
type move struct {
	source, target *conn
	progress       func(done int)
	done           int
}

func (m *move) run(ctx context.Context) (copied bool, err error) {
	empty := true
	for _, t := range movedTables {
		if _, err := m.target.exec(ctx, "LOCK TABLE "+t.name+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return false, err
		}
		var some bool
		if err := m.target.row(ctx, []any{&some}, "SELECT EXISTS (SELECT 1 FROM "+t.name+")"); err != nil {
			return false, err
		}
		empty = empty && !some
	}
	for _, t := range movedTables {
		if err := m.table(ctx, t, empty); err != nil {
			return false, fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	if empty {
		if _, err := m.target.exec(ctx, accountAll); err != nil {
			return false, err
		}
	}
	return empty, m.compare(ctx, empty, accounts)
}

// table copies one table, or only compares it.
func (m *move) table(ctx context.Context, t movedTable, fill bool) error {
	columns, err := rows(ctx, m.target, func(row scanner) (name string, err error) {
		err = row.Scan(&name)
		return name, err
	}, `SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1
		AND column_name NOT IN (`+notMoved+`) ORDER BY ordinal_position`, t.name)
	if err != nil {
		return err
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM " + t.name + " ORDER BY " + t.order
	if fill {
		if err := m.fill(ctx, t.name, columns, query); err != nil {
			return err
		}
	}
	return m.compare(ctx, fill, query)
}

func (m *move) fill(ctx context.Context, table string, columns []string, query string) error {
	trigger, counts := accounting[table]
	if counts {
		if _, err := m.target.exec(ctx, "ALTER TABLE "+table+" DISABLE TRIGGER "+trigger); err != nil {
			return err
		}
	}
	rows, err := m.source.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	source := &rowSource{Rows: rows, values: make([]any, len(columns)), each: func() {
		m.done++
		m.progress(m.done)
	}}
	err = m.target.conn.Raw(func(driver any) error {
		_, err := driver.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{table}, columns, source)
		return err
	})
	err = errors.Join(err, rows.Err())
	if err == nil && counts {
		_, err = m.target.exec(ctx, "ALTER TABLE "+table+" ENABLE TRIGGER "+trigger)
	}
	return err
}

// rowSource gives rows of SQLite to PostgreSQL.
type rowSource struct {
	*sql.Rows
	values []any
	each   func()
}

// Values returns the row, in what PostgreSQL's columns hold.
func (r *rowSource) Values() ([]any, error) {
	into := make([]any, len(r.values))
	for i := range r.values {
		into[i] = &r.values[i]
	}
	if err := r.Scan(into...); err != nil {
		return nil, err
	}
	for i, value := range r.values {
		if empty, ok := value.([]byte); ok {
			r.values[i] = bytesOf(empty) // SQLite's driver gives nil for one without bytes
		}
	}
	r.each()
	return postgresArgs(r.values), nil
}

// compare checks that a query has the same answer in both databases.
func (m *move) compare(ctx context.Context, filled bool, query string) error {
	there, err := digestRows(ctx, m.target.conn, query)
	if err != nil {
		return err
	}
	here, err := digestRows(ctx, m.source.conn, query)
	switch {
	case err != nil:
		return err
	case here == there:
		return nil
	case filled:
		return errors.New("what arrived in the database is not what was sent")
	}
	return ErrOther
}

// digestRows returns the digest of all rows of a query, as PostgreSQL holds them.
func digestRows(ctx context.Context, c *sql.Conn, query string) (d engine.Digest, err error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return d, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return d, err
	}
	sum := sha256.New()
	source := &rowSource{Rows: rows, values: make([]any, len(columns)), each: func() {}}
	for rows.Next() {
		values, err := source.Values()
		if err != nil {
			return d, err
		}
		for _, value := range values {
			if err := addValue(sum, value); err != nil {
				return d, err
			}
		}
	}
	return engine.Digest(sum.Sum(nil)), rows.Err()
}

// addValue adds a value to a digest so that no two lists of them look alike.
func addValue(sum hash.Hash, value any) error {
	var head [9]byte
	var body []byte
	switch v := value.(type) {
	case nil:
	case int64:
		head[0] = 'i'
		body = binary.BigEndian.AppendUint64(nil, uint64(v))
	case string:
		head[0], body = 's', []byte(v)
	case []byte:
		head[0], body = 'b', v
	default:
		return fmt.Errorf("a column holds %T", value)
	}
	binary.BigEndian.PutUint64(head[1:], uint64(len(body)))
	sum.Write(head[:])
	sum.Write(body)
	return nil
}
