package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Error is a failure that a person can mend.
type Error struct {
	Problem string // what is wrong
	Cure    string // what to do about it
	Err     error  // the cause, if there is one to tell
}

func (e *Error) Error() string {
	s := e.Problem
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "\n" + e.Cure
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// inDirectory says what stops us from writing below dir.
func inDirectory(dir string, err error) error {
	_, known := errors.AsType[*Error](err)
	switch {
	case known, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskFull(dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &Error{
			Problem: "no permission to write in " + dir,
			Cure:    "run setup as the directory's owner, or choose another one with --data",
			Err:     err,
		}
	}
	return fmt.Errorf("setting up %s: %w", dir, err)
}

func diskFull(dir string) error {
	return &Error{
		Problem: "the disk that holds " + dir + " is full",
		Cure:    "free about 2 GB there or choose another place with --data, then run setup again: it continues",
	}
}
