package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/airlock-run/airlock/internal/sqlite"
)

// decode decodes a JSON document, which errors call what, such as "a reply".
func decode[T any](what, text string) (*T, error) {
	v := new(T)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", sqlite.ErrDamaged, what, err)
	}
	return v, nil
}

// document returns the document in the only column of a row, sql.ErrNoRows if there
// is none.
func document[T any](ctx context.Context, q sqlite.Querier, what, query string, args ...any) (*T, error) {
	var text string
	if err := q.QueryRowContext(ctx, query, args...).Scan(&text); err != nil {
		return nil, err
	}
	return decode[T](what, text)
}

// scanner is a row that is being read.
type scanner interface{ Scan(into ...any) error }

// querier is a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// rowsOf reads all rows of a query.
func rowsOf[T any](
	ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any,
) (all []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// documents returns the documents in the only column of all rows.
func documents[T any](ctx context.Context, pool *sql.DB, what, query string, args ...any) ([]*T, error) {
	return rowsOf(ctx, pool, func(row scanner) (*T, error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return nil, err
		}
		return decode[T](what, text)
	}, query, args...)
}

// values returns the values of pointers, nil for none.
func values[T any](pointers []*T, err error) ([]T, error) {
	var all []T
	for _, p := range pointers {
		all = append(all, *p)
	}
	return all, err
}

// exec runs one statement in a transaction that writes.
func (db *DB) exec(ctx context.Context, query string, args ...any) error {
	return db.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// put runs a statement that stores a document, its last argument.
func (db *DB) put(ctx context.Context, v any, query string, args ...any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return db.exec(ctx, query, append(args, string(text))...)
}

// remove deletes rows. If there are none it returns missing, which may be nil.
func (db *DB) remove(ctx context.Context, missing error, query string, args ...any) error {
	return db.erase(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return missing
	})
}
