package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	hintSpace = "The service's disk has no room or no inode left: delete files that are no longer needed, or have the " +
		"operator free space in the data directory."
	hintQuota = "The disk quota of the service's user is used up: delete files that are no longer needed, or have the " +
		"operator raise the quota."
	hintFiles = "The service has too many open files: try again later, or have the operator raise its limit (LimitNOFILE)."
)

// failed returns the *engine.Error of an error of the file system.
func failed(op, id string, err error) error {
	e := &engine.Error{Op: op, Kind: engine.ErrInternal, ID: id, Err: err}
	switch {
	case op == opOpen && damaged(err):
		// Elsewhere a name that is missing means that another process removed parts
		// of the store.
		e.Kind = engine.ErrNotFound
	case errors.Is(err, syscall.ENOSPC):
		e.Kind, e.Hint = engine.ErrFull, hintSpace
	case errors.Is(err, syscall.EDQUOT):
		e.Kind, e.Hint = engine.ErrFull, hintQuota
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Kind, e.Hint = engine.ErrUnavailable, hintFiles
	}
	return e
}

// damaged reports whether an error concerns a single blob: it is missing, it
// cannot be read, or its name belongs to something else than a regular file.
func damaged(err error) bool {
	for _, cause := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.EIO, syscall.ELOOP, syscall.EISDIR,
		syscall.ENOTDIR} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// brokenOff returns the error of an upload whose source failed. If the error of
// the source has a kind, brokenOff keeps the kind.
func brokenOff(ctx context.Context, err error) error {
	e := &engine.Error{Op: opPut, Kind: engine.ErrInternal, Err: err}
	if own, ok := errors.AsType[*engine.Error](err); ok {
		e.Kind, e.Hint = own.Kind, own.Hint
	} else if kind, ok := errors.AsType[engine.Kind](err); ok {
		e.Kind = kind
	} else if ctx.Err() != nil {
		e.Kind = engine.ErrCanceled
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		e.Kind, e.Hint = engine.ErrInvalid, "The upload ended before its end: send it again."
	}
	return e
}
