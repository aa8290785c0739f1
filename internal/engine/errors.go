package engine

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Kind says what an error means for the caller. Every edge holds one table
// from Kind to its protocol's status. A Kind is itself an error, so that
// callers branch with errors.Is(err, engine.ErrNotFound).
type Kind string

func (k Kind) Error() string { return string(k) }

// The kinds of failure the engine knows. A program that fails, times out or
// is killed is not among them: that is a Run with its Status.
const (
	ErrInvalid      Kind = "invalid"        // the request can never succeed as it stands
	ErrUnauthorized Kind = "unauthorized"   // no valid key
	ErrForbidden    Kind = "forbidden"      // a valid key that may not do this
	ErrNotFound     Kind = "not_found"      // no such object, or another owner's: the answers are alike
	ErrConflict     Kind = "conflict"       // the object's state does not allow it
	ErrTooLarge     Kind = "too_large"      // over a size limit
	ErrBusy         Kind = "busy"           // queue full; see Error.RetryAfter
	ErrFull         Kind = "full"           // disk or quota full
	ErrSpent        Kind = "quota_exceeded" // used up for this month; see CheckMonth
	ErrNoLanguage   Kind = "no_language"    // the language is in the table and not on this host
	ErrUnavailable  Kind = "unavailable"    // this host or moment cannot: sandbox gone, shutting down
	ErrCanceled     Kind = "canceled"       // the caller left
	ErrNetwork      Kind = "network_denied" // the network that was asked for is not allowed
	ErrInternal     Kind = "internal"       // our fault; details go to the log, never to the client
)

// ErrNoProgram is the cause of the ErrConflict of a request about a sandbox without a program.
var ErrNoProgram = errors.New("no program runs in this workspace")

// Error is the one error type that leaves the engine.
type Error struct {
	Op         string        // what was being done: "run", "put file"
	Kind       Kind          // of the error
	ID         string        // the object or the field it is about, if any
	Hint       string        // what the caller can do about it, a sentence
	Doctor     bool          // Hint refers to `airlock doctor`, which examines the cause
	RetryAfter time.Duration // with ErrBusy and ErrSpent: a guess at when to come back
	Err        error         // the cause
	Cause      string        // what a run's owner may know of it: no path, nothing of others
	Refusal    Refusal       // why a run was refused, for its count; empty: Kind says it
}

// Refusal is a reason for which runs are refused. There are a few, so that they can be counted.
type Refusal string

// Why a run was refused, where its kind of error does not tell. Metrics have these words.
const (
	RefusedQueue    Refusal = "queue_full"      // too many runs of all owners wait
	RefusedOwner    Refusal = "owner_queue"     // too many runs of its owner wait
	RefusedWait     Refusal = "queue_wait"      // it would have waited for too long, or has
	RefusedInFlight Refusal = "large_requests"  // too many large programs and inputs wait
	RefusedDisk     Refusal = "disk_low"        // below min_free
	RefusedQuota    Refusal = "quota"           // its owner has as much as one may keep
	RefusedDrain    Refusal = "draining"        // this node takes nothing new
	RefusedDatabase Refusal = "database_silent" // the database does not hear this node
)

// refusalOf returns the reason of a refused run.
func refusalOf(err error) Refusal {
	e, ok := errors.AsType[*Error](err)
	switch {
	case ok && e.Refusal != "":
		return e.Refusal
	case errors.Is(err, ErrQuota):
		return RefusedQuota
	}
	return Refusal(KindOf(err))
}

func (e *Error) Error() string {
	s := e.Op
	if e.ID != "" {
		s += " " + e.ID
	}
	if e.Err != nil {
		return s + ": " + e.Err.Error()
	}
	return s + ": " + string(e.Kind)
}

// Unwrap exposes both the kind and the cause to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// NotFound returns the error of an object that does not exist, by the name or id that the caller gave.
func NotFound(op, asked string) error { return &Error{Op: op, Kind: ErrNotFound, ID: Echo(asked)} }

// Invalid returns the error of a field of a request that is not acceptable.
func Invalid(field, format string, args ...any) error {
	return &Error{Op: "check", Kind: ErrInvalid, ID: field, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of err, ErrInternal if it has none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if k, ok := errors.AsType[Kind](err); ok {
		return k
	}
	return ErrInternal
}

// RetrySeconds returns after how many whole seconds, at least one, a request that
// failed with err may be tried again, as Retry-After has it. It is otherwise if err
// does not say; "" if that is zero, too.
func RetrySeconds(err error, otherwise time.Duration) string {
	wait := otherwise
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	if wait <= 0 {
		return ""
	}
	return strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
}
