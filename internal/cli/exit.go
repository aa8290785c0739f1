package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/setup"
	"github.com/airlock-run/airlock/provider"
)

// The exit codes, which scripts rely on.
const (
	exitDone        = 0
	exitFailed      = 1 // something failed; also a program that failed, and one that was interrupted
	exitUsage       = 2 // the command line or a setting is wrong
	exitApproval    = 3 // a person has to agree first
	exitConflict    = 4 // the state of things does not allow it
	exitRefused     = 5 // a path or a policy forbids it
	exitTimeout     = 6 // the program took too long
	exitUnavailable = 7 // this host, or the service, cannot do it now
)

// failure is an error with an exit code and a hint at what to do.
type failure struct {
	code int
	word string // for programs: "no_such_user"; empty: the exit code's
	err  error
	hint string

	quiet bool // all was said already
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail returns a failure. A hint is one sentence that names a cure.
func fail(code int, hint, format string, args ...any) error {
	return &failure{code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

// exit ends the command with a code and no further words.
func exit(code int) error {
	return &failure{code: code, err: fmt.Errorf("exit code %d", code), quiet: true}
}

// usage marks an error as the command line's, if it is not more than that.
func usage(err error) error {
	if _, ok := errors.AsType[*config.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	return &failure{code: exitUsage, err: err, hint: "`airlock --help` lists the commands, and each has its own --help"}
}

// exitOf returns the exit code that an error means, and whether it is to be
// left unsaid.
func exitOf(err error) (code int, quiet bool) {
	if err == nil {
		return exitDone, false
	}
	p := explain(err)
	f, ok := errors.AsType[*failure](err)
	return p.exit, ok && f.quiet
}

// problem is an error as it is shown.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Request string `json:"request_id,omitempty"`

	exit int
}

// words names the exit codes for programs.
var words = [...]string{"done", "failed", "usage", "approval_needed", "conflict", "refused", "timeout", "unavailable"}

// kinds is the table from what the engine, here or behind the API, says to
// an exit code.
var kinds = map[engine.Kind]int{
	engine.ErrInvalid:      exitUsage,
	engine.ErrUnauthorized: exitRefused,
	engine.ErrForbidden:    exitRefused,
	engine.ErrNotFound:     exitFailed,
	engine.ErrConflict:     exitConflict,
	engine.ErrTooLarge:     exitRefused,
	engine.ErrBusy:         exitUnavailable,
	engine.ErrFull:         exitUnavailable,
	engine.ErrNoLanguage:   exitUnavailable,
	engine.ErrUnavailable:  exitUnavailable,
	engine.ErrCanceled:     exitFailed,
	engine.ErrInternal:     exitFailed,
}

// explain finds what there is to say about an error: the innermost type that
// knows its hint.
func explain(err error) problem {
	p := problem{exit: exitFailed, Message: err.Error()}
	if f, ok := errors.AsType[*failure](err); ok {
		p.exit, p.Code, p.Hint = f.code, f.word, f.hint
	} else if e, ok := errors.AsType[*config.Error](err); ok {
		p.exit, p.Hint = exitUsage, e.Hint
	} else if e, ok := errors.AsType[*setup.Error](err); ok {
		p.Message, p.Hint = strings.TrimSuffix(e.Error(), "\n"+e.Cure), e.Cure
	} else if e, ok := errors.AsType[*client.Error](err); ok {
		p.exit, p.Code, p.Message, p.Hint, p.Request = kinds[engine.Kind(e.Code)], e.Code, e.Message, e.Hint, e.RequestID
	} else if e, ok := errors.AsType[*engine.Error](err); ok {
		p.exit, p.Code, p.Hint = kinds[e.Kind], string(e.Kind), e.Hint
	} else if errors.Is(err, context.Canceled) {
		p.Code, p.Message = "interrupted", "interrupted"
	} else if e, ok := errors.AsType[*url.Error](err); ok {
		p.exit, p.Message = exitUnavailable, "the service cannot be reached: "+e.Err.Error()
		p.Hint = "check the address, and that `airlock serve` runs there"
	}
	p.Message, p.Hint = provider.RedactKeys(p.Message), provider.RedactKeys(p.Hint)
	if p.exit == exitDone { // a code that we do not know
		p.exit = exitFailed
	}
	if p.Code == "" {
		p.Code = words[p.exit]
	}
	return p
}
