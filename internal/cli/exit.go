package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/setup"
	"github.com/airlock-run/airlock/provider"
)

// The exit codes, which scripts rely on.
const (
	exitDone        = 0
	exitFailed      = 1 // also a program that failed or was interrupted
	exitUsage       = 2 // the command line or a setting is wrong
	exitApproval    = 3 // the user has to agree first
	exitConflict    = 4 // the current state does not allow it
	exitRefused     = 5 // a path or a policy forbids it
	exitTimeout     = 6 // the program took too long
	exitUnavailable = 7 // this host or the service cannot do it now
)

// The exit codes of airlock run, beside the program's own. They agree with those of
// docker and timeout.
const (
	exitLost        = 123 // a file that the program left, or a part of its output, was not kept
	exitRunTimeout  = 124
	exitAirlock     = 125 // Airlock could not run the program
	exitSignal      = 128 // plus the signal's number
	exitInterrupted = exitSignal + int(syscall.SIGINT)
	exitUnread      = exitSignal + int(syscall.SIGPIPE)
)

// coded is an error with another exit code.
type coded struct {
	code int
	error
}

func (c *coded) Unwrap() error { return c.error }

// failure is an error with an exit code and a hint.
type failure struct {
	code int
	word string // code in JSON, such as "no_service_user"; empty: that of the exit code
	err  error
	hint string

	quiet bool // the user was told already
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail returns a failure. The hint is one sentence that names a remedy.
func fail(code int, hint, format string, args ...any) error {
	return &failure{code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

// exit ends the command with a code. It prints nothing.
func exit(code int) error {
	return &failure{code: code, err: fmt.Errorf("exit code %d", code), quiet: true}
}

// programFailed is the word of an error that is the exit code of a program.
const programFailed = "program_failed"

// programExit ends the command with the exit code of a program that ran.
func programExit(code int) error {
	return &failure{code: code, word: programFailed, err: fmt.Errorf("exit code %d", code), quiet: true}
}

// forProgram turns the failures of Airlock itself into the exit code that tells
// them from those of the program.
func forProgram(err error) error {
	if f, ok := errors.AsType[*failure](err); err == nil || ok && f.word == programFailed || unread(err) {
		return err
	}
	code, _ := exitOf(err)
	if code != exitUsage && code != exitConflict {
		code = exitAirlock
	}
	return &coded{code, err}
}

// unread reports whether nobody reads what a command writes, as in `airlock run | head`. Tools
// then end without a word.
func unread(err error) bool {
	e, ok := errors.AsType[*os.PathError](err)
	return ok && e.Op == "write" && errors.Is(e.Err, syscall.EPIPE)
}

// usage returns err as a usage error, unless it has an exit code already.
func usage(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*config.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	hint := "`airlock --help` lists the commands, and each has its own --help"
	if cmd != nil && strings.Contains(err.Error(), "arg(s)") { // Cobra's words
		err = fmt.Errorf("these are not the arguments of this command, which is used as: %s", cmd.UseLine())
	}
	if cmd != nil && cmd.HasParent() {
		hint = "`" + cmd.CommandPath() + " --help` says more"
	}
	if meant := nearestWord(cmd, err.Error()); meant != "" {
		hint = "did you mean " + meant + "? " + hint
	}
	return &failure{code: exitUsage, err: err, hint: hint}
}

// nearestWord returns the command or flag that a mistyped one most likely meant, or "".
func nearestWord(cmd *cobra.Command, message string) string {
	if cmd == nil {
		return ""
	}
	if _, rest, ok := strings.Cut(message, "unknown flag: --"); ok {
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				flags = append(flags, f.Name)
			}
		})
		word, _, _ := strings.Cut(rest, " ")
		if meant := config.Nearest(word, flags); meant != "" {
			return "--" + meant
		}
	}
	if _, rest, ok := strings.Cut(message, `unknown command "`); ok {
		var commands []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				commands = append(commands, c.Name())
			}
		}
		word, _, _ := strings.Cut(rest, `"`)
		return config.Nearest(word, commands)
	}
	return ""
}

// exitOf returns the exit code of an error, and whether the error is not to be printed.
func exitOf(err error) (code int, quiet bool) {
	if err == nil {
		return exitDone, false
	}
	if unread(err) {
		return exitUnread, true
	}
	f, ok := errors.AsType[*failure](err)
	return explain(err).exit, ok && f.quiet
}

// problem is an error as it is shown.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Request string `json:"request_id,omitempty"`

	exit int
}

// words are the codes in JSON, by exit code.
var words = [...]string{"done", "failed", "usage", "approval_needed", "conflict", "refused", "timeout", "unavailable"}

// kinds maps the engine's kinds of errors, which the API passes on, to exit codes.
var kinds = map[engine.Kind]int{
	engine.ErrInvalid:      exitUsage,
	engine.ErrUnauthorized: exitRefused,
	engine.ErrForbidden:    exitRefused,
	engine.ErrNetwork:      exitRefused,
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

// explain returns an error as it is shown, with the hint of the first type in its
// chain that has one.
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
	} else if e, ok := errors.AsType[*outbound.RedirectError](err); ok {
		p.exit, p.Message = exitUnavailable, e.Error()
	} else if e, ok := errors.AsType[*url.Error](err); ok {
		p.exit, p.Message = exitUnavailable, "the service cannot be reached: "+e.Err.Error()
		p.Hint = "check the address, and that `airlock serve` runs there"
	}
	p.Message, p.Hint = provider.RedactKeys(p.Message), provider.RedactKeys(p.Hint)
	p.exit = cmp.Or(p.exit, exitFailed) // of a kind that this version does not know
	if p.Code == "" && p.exit < len(words) {
		p.Code = words[p.exit]
	}
	if e, ok := errors.AsType[*coded](err); ok {
		p.exit = e.code
	}
	return p
}
