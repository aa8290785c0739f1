package index

import (
	"context"
	"errors"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sqlite"
)

const hintFull = "The service's disk is full: delete files that are no longer needed, or have the operator free " +
	"space in the data directory."

var errClosed = &engine.Error{Op: "index", Kind: engine.ErrUnavailable, Err: errors.New("the index is closed")}

// failed returns the *engine.Error of an error, and nil for nil. The message of the
// database is the cause, for the log alone.
func failed(op, id string, err error) error {
	if err == nil {
		return nil
	}
	e := &engine.Error{Op: op, ID: id, Err: err}
	if own, ok := errors.AsType[*engine.Error](err); ok {
		e.Kind, e.Hint = own.Kind, own.Hint
	} else if kind, ok := errors.AsType[engine.Kind](err); ok {
		e.Kind, e.Err = kind, nil
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e.Kind = engine.ErrCanceled
	} else {
		e.Kind, e.Hint = meaning(err)
	}
	return e
}

// meaning returns the kind of an error of the database, and its hint.
func meaning(err error) (engine.Kind, string) {
	if kind, hint := postgresMeaning(err); kind != "" {
		return kind, hint
	}
	code := sqlite.Code(err)
	switch code {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return engine.ErrConflict, ""
	}
	if sqlite.IsFull(err) {
		return engine.ErrFull, hintFull
	}
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return engine.ErrUnavailable, "The index is busy: try again."
	case sqlite3.SQLITE_INTERRUPT:
		return engine.ErrCanceled, ""
	}
	return engine.ErrInternal, ""
}
