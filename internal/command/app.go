// Package command has what commands share, whatever they do: the settings and streams of one
// invocation, reports as text and as JSON, errors with their exit codes, questions to a
// person, and a line editor.
package command

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/redact"
)

// Owner is the owner of what commands make without a key, here and in a service.
const Owner = string(engine.Local)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// App is one invocation of the command line.
type App struct {
	Streams Streams
	Input   config.Input   // sources of the settings
	Config  *config.Config // nil until a command runs
	JSON    bool
	Out     Printer
	Log     *slog.Logger
	Redact  *redact.Redactor
	wrapLog func(slog.Handler) slog.Handler // adds what the records of requests have in common
	AtEnd   []func()                        // called at the end of the command
	midLine atomic.Bool                     // a program has not ended its line on the terminal of standard error
}

// New returns an invocation with the settings of this process.
func New(streams Streams, wrapLog func(slog.Handler) slog.Handler) *App {
	return &App{Streams: streams, Input: config.FromProcess(), Log: slog.New(slog.DiscardHandler), wrapLog: wrapLog}
}

// Prepare reads the settings. It runs before every command.
func (a *App) Prepare(cmd *cobra.Command, _ []string) error {
	flags, file := givenFlags(cmd.Flags())
	a.Input.Flags = flags
	if file != "" {
		a.Input.File = file
	}
	cfg, err := config.Load(a.Input)
	if err != nil {
		return err
	}
	a.Config = cfg
	a.Redact = redact.New(cfg.Secrets()...)
	a.Out = Printer{a.Streams, a.JSON, a.PageOn(a.Streams.Out).Colour, a.Redact, a.EndLine}
	options := &slog.HandlerOptions{Level: a.logLevel(cmd), ReplaceAttr: redactLog(a.Redact)}
	var handler slog.Handler = slog.NewTextHandler(a.Streams.Err, options)
	if a.Config.LogFormat == config.LogJSON {
		handler = slog.NewJSONHandler(a.Streams.Err, options)
	}
	a.Log = slog.New(a.wrapLog(handler))
	return nil
}

// logLevel returns the level that the settings ask for. By default only the service
// logs everything: other commands print a report, and log errors alone.
func (a *App) logLevel(cmd *cobra.Command) slog.Level {
	if cmd.Name() == "serve" || a.Config.LogLevel != slog.LevelInfo {
		return a.Config.LogLevel
	}
	return slog.LevelError
}

// Interactive reports whether a user can answer questions at a terminal.
func (a *App) Interactive() bool {
	return !a.JSON && IsTerminal(a.Streams.In) && IsTerminal(a.Streams.Err)
}

// Shown is told what a program has written to a stream. A line of Airlock's on the same terminal does not go on with
// a line of the program.
func (a *App) Shown(on io.Writer, text string) {
	if text != "" && IsTerminal(on) && SamePlace(on, a.Streams.Err) {
		a.midLine.Store(!strings.HasSuffix(text, "\n"))
	}
}

// EndLine ends a line of a program on the terminal of standard error.
func (a *App) EndLine() {
	if a.midLine.Swap(false) {
		fmt.Fprintln(a.Streams.Err)
	}
}

// Say writes a line to standard error, beside the result.
func (a *App) Say(format string, args ...any) {
	a.EndLine()
	fmt.Fprintf(a.Streams.Err, format+"\n", args...)
}

// Print prints the report of a command that succeeded.
func (a *App) Print(r report) error {
	a.Out.Result(r)
	return nil
}

// PrintLine prints the result of a command as a line, or as a JSON document.
func (a *App) PrintLine(document any, format string, args ...any) error {
	if a.JSON {
		a.Out.Document(document)
		return nil
	}
	fmt.Fprintf(a.Streams.Out, format+"\n", args...)
	return nil
}

// PrintTable prints a list as a table, whose first row is the header, or as a JSON document.
// An empty list is the line none.
func (a *App) PrintTable(document any, none string, rows [][]string) error {
	if a.JSON || len(rows) == 1 {
		return a.PrintLine(document, "%s", none)
	}
	a.PageOn(a.Streams.Out).Table(rows)
	return nil
}

// WithFlags adds the options of scopes and --json to a command, and returns it.
func (a *App) WithFlags(cmd *cobra.Command, scopes ...config.Scope) *cobra.Command {
	for _, scope := range scopes {
		AddOptions(cmd.Flags(), scope)
	}
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print one JSON document, errors too")
	return cmd
}

// GroupOf returns a command that only holds others.
func GroupOf(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// SamePlace reports whether two streams are one file, as on a terminal. The order of
// what a program writes to both then matters.
func SamePlace(a, b any) bool {
	one, other := FileOf(a), FileOf(b)
	if one == nil || other == nil {
		return false
	}
	first, err1 := one.Stat()
	second, err2 := other.Stat()
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}
