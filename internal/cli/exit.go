package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// The exit codes of airlock run, beside the program's own. Those that docker
// and timeout have too mean the same there.
const (
	exitLost        = 123 // a file that the program left was not kept
	exitRunTimeout  = 124
	exitAirlock     = 125 // Airlock could not run the program
	exitSignal      = 128 // plus the signal's number
	exitInterrupted = exitSignal + int(syscall.SIGINT)
)

// coded gives an error another exit code.
type coded struct {
	code int
	error
}

func (c *coded) Unwrap() error { return c.error }

// ranError is the exit code of a program that ran. All was said already.
type ranError struct{ code int }

func (e *ranError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

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
func usage(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*config.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	hint := "`airlock --help` lists the commands, and each has its own --help"
	if cmd != nil && cmd.HasParent() {
		hint = "`" + cmd.CommandPath() + " --help` says more"
	}
	if meant := nearestWord(cmd, err.Error()); meant != "" {
		hint = "did you mean " + meant + "? " + hint
	}
	return &failure{code: exitUsage, err: err, hint: hint}
}

// nearestWord is what a mistyped command or flag most likely meant.
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

// exitOf returns the exit code that an error means, and whether it is to be
// left unsaid.
func exitOf(err error) (code int, quiet bool) {
	if err == nil {
		return exitDone, false
	}
	p := explain(err)
	f, ok := errors.AsType[*failure](err)
	_, ran := errors.AsType[*ranError](err)
	return p.exit, ran || ok && f.quiet
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
	if e, ok := errors.AsType[*ranError](err); ok {
		p.exit, p.Code = e.code, "program_failed"
	}
	if p.exit == exitDone { // a code that we do not know
		p.exit = exitFailed
	}
	if p.Code == "" && p.exit < len(words) {
		p.Code = words[p.exit]
	}
	if e, ok := errors.AsType[*coded](err); ok {
		p.exit = e.code
	}
	if p.exit == exitLost {
		p.Code = "output_lost"
	}
	return p
}
