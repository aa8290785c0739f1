package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/redact"
	"github.com/airlock-run/airlock/internal/setup"
)

// The exit codes, which scripts rely on.
const (
	ExitDone        = 0
	ExitFailed      = 1 // also a program that failed or was interrupted
	ExitUsage       = 2 // the command line or a setting is wrong
	ExitApproval    = 3 // the user has to agree first
	ExitConflict    = 4 // the current state does not allow it
	ExitRefused     = 5 // a path or a policy forbids it
	ExitTimeout     = 6 // the program took too long
	ExitUnavailable = 7 // this host or the service cannot do it now
)

// The exit codes of airlock run, beside the program's own. They agree with those of
// docker and timeout.
const (
	ExitLost        = 123 // a file that the program left, or a part of its output, was not kept
	ExitRunTimeout  = 124
	ExitAirlock     = 125 // Airlock could not run the program
	ExitSignal      = 128 // plus the signal's number
	ExitInterrupted = ExitSignal + int(syscall.SIGINT)
	exitUnread      = ExitSignal + int(syscall.SIGPIPE)
)

// Coded is an error with another exit code.
type Coded struct {
	Code int
	Err  error
}

func (c *Coded) Error() string { return c.Err.Error() }
func (c *Coded) Unwrap() error { return c.Err }

// Failure is an error with an exit code and a hint.
type Failure struct {
	Code int
	Word string // code in JSON, such as "no_service_user"; empty: that of the exit code
	Err  error
	Hint string

	quiet bool // the user was told already
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Fail returns a failure. The hint is one sentence that names a remedy.
func Fail(code int, hint, format string, args ...any) error {
	return &Failure{Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Exit ends the command with a code. It prints nothing.
func Exit(code int) error {
	return &Failure{Code: code, Err: fmt.Errorf("exit code %d", code), quiet: true}
}

// programFailed is the word of an error that is the exit code of a program.
const programFailed = "program_failed"

// ProgramExit ends the command with the exit code of a program that ran.
func ProgramExit(code int) error {
	return &Failure{Code: code, Word: programFailed, Err: fmt.Errorf("exit code %d", code), quiet: true}
}

// ForProgram turns the failures of Airlock itself into the exit code that tells
// them from those of the program.
func ForProgram(err error) error {
	if f, ok := errors.AsType[*Failure](err); err == nil || ok && f.Word == programFailed || unread(err) {
		return err
	}
	code, _ := ExitOf(err)
	if code != ExitUsage && code != ExitConflict {
		code = ExitAirlock
	}
	return &Coded{code, err}
}

// unread reports whether nobody reads what a command writes, as in `airlock run | head`. Tools
// then end without a word.
func unread(err error) bool {
	e, ok := errors.AsType[*os.PathError](err)
	return ok && e.Op == "write" && errors.Is(e.Err, syscall.EPIPE)
}

// Usage returns err as a usage error, unless it has an exit code already.
func Usage(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*config.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*Failure](err); ok {
		return err
	}
	hint := "`airlock --help` lists the commands, and each has its own --help"
	if cmd != nil && strings.Contains(err.Error(), "arg(s)") { // Cobra's words
		err = fmt.Errorf("these are not the arguments of this command, which is used as: %s", cmd.UseLine())
	}
	if cmd != nil && cmd.HasParent() {
		hint = "`" + cmd.CommandPath() + " --help` says more"
	}
	if meant := nearestWord(cmd, err); meant != "" {
		hint = "did you mean " + meant + "? " + hint
	}
	return &Failure{Code: ExitUsage, Err: err, Hint: hint}
}

// nearestWord returns the command or flag that a mistyped one most likely meant, or "".
func nearestWord(cmd *cobra.Command, err error) string {
	if cmd == nil {
		return ""
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				flags = append(flags, f.Name)
			}
		})
		if meant := config.Nearest(unknown.GetSpecifiedName(), flags); meant != "" {
			return "--" + meant
		}
	}
	if _, rest, ok := strings.Cut(err.Error(), `unknown command "`); ok { // Cobra has no type for it
		var commands []string
		word, _, _ := strings.Cut(rest, `"`)
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				commands = append(commands, c.Name())
			}
			if slices.Contains(c.SuggestFor, word) {
				return c.Name() // by its meaning
			}
		}
		return config.Nearest(word, commands)
	}
	return ""
}

// ExitOf returns the exit code of an error, and whether the error is not to be printed.
func ExitOf(err error) (code int, quiet bool) {
	if err == nil {
		return ExitDone, false
	}
	if unread(err) {
		return exitUnread, true
	}
	f, ok := errors.AsType[*Failure](err)
	return Explain(err).Exit, ok && f.quiet
}

// Problem is an error as it is shown.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Request string `json:"request_id,omitempty"`

	Exit int `json:"-"`
}

// words are the codes in JSON, by exit code.
var words = [...]string{"done", "failed", "usage", "approval_needed", "conflict", "refused", "timeout", "unavailable"}

// Kinds maps the engine's kinds of errors, which the API passes on, to exit codes.
var Kinds = map[engine.Kind]int{
	engine.ErrInvalid:      ExitUsage,
	engine.ErrUnauthorized: ExitRefused,
	engine.ErrForbidden:    ExitRefused,
	engine.ErrNetwork:      ExitRefused,
	engine.ErrNotFound:     ExitFailed,
	engine.ErrConflict:     ExitConflict,
	engine.ErrTooLarge:     ExitRefused,
	engine.ErrBusy:         ExitUnavailable,
	engine.ErrFull:         ExitUnavailable,
	engine.ErrSpent:        ExitRefused,
	engine.ErrNoLanguage:   ExitUnavailable,
	engine.ErrUnavailable:  ExitUnavailable,
	engine.ErrCanceled:     ExitFailed,
	engine.ErrInternal:     ExitFailed,
}

// Explain returns an error as it is shown, with the hint of the first type in its
// chain that has one.
func Explain(err error) Problem {
	p := Problem{Exit: ExitFailed, Message: err.Error()}
	if f, ok := errors.AsType[*Failure](err); ok {
		p.Exit, p.Code, p.Hint = f.Code, f.Word, f.Hint
	} else if e, ok := errors.AsType[*config.Error](err); ok {
		p.Exit, p.Hint = ExitUsage, e.Hint
	} else if e, ok := errors.AsType[*setup.Error](err); ok {
		p.Message, p.Hint = strings.TrimSuffix(e.Error(), "\n"+e.Cure), e.Cure
	} else if e, ok := errors.AsType[*client.Error](err); ok {
		p.Exit, p.Code = Kinds[engine.Kind(e.Code)], string(e.Code)
		p.Message = strings.Replace(p.Message, e.Error(), e.Message, 1) // what it was about stays
		p.Hint, p.Request = e.Hint, e.RequestID
	} else if e, ok := errors.AsType[*engine.Error](err); ok {
		p.Exit, p.Code, p.Hint = Kinds[e.Kind], string(e.Kind), e.Hint
	} else if errors.Is(err, context.Canceled) {
		p.Code, p.Message = "interrupted", "interrupted"
	} else if e, ok := errors.AsType[*outbound.RedirectError](err); ok {
		p.Exit, p.Message = ExitUnavailable, e.Error()
	} else if e, ok := errors.AsType[*url.Error](err); ok {
		p.Exit, p.Message = ExitUnavailable, "the service cannot be reached: "+e.Err.Error()
		p.Hint = "check the address, and that `airlock serve` runs there"
	}
	p.Message, p.Hint = redact.Keys(p.Message), redact.Keys(p.Hint)
	p.Exit = cmp.Or(p.Exit, ExitFailed) // of a kind that this version does not know
	if p.Code == "" && p.Exit < len(words) {
		p.Code = words[p.Exit]
	}
	if e, ok := errors.AsType[*Coded](err); ok {
		p.Exit = e.Code
	}
	return p
}
