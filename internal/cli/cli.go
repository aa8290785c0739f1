// Package cli is the command line of Airlock. Each file has one command or a few related
// ones.
//
// A command reads its settings from package config, does its work with the packages
// below it, and returns a report or an error. output.go prints reports and errors, as
// text or as JSON, and exit.go maps errors to exit codes. wiring.go puts the parts of
// the service together.
//
// All code runs through the public client, over HTTP: in a remote service, in the
// service that holds the data directory, or in an engine in this process. See
// connect.go.
package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/provider"
)

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is one invocation of the command line.
type app struct {
	streams Streams
	release Release        // its empty fields are filled from what the Go tool recorded
	input   config.Input   // sources of the settings
	cfg     *config.Config // nil until a command runs
	json    bool
	out     printer
	log     *slog.Logger
	redact  *provider.Redactor
	web     *http.Client // for the addresses of providers, and public ones

	modelKeys *modelKeys               // entered in the page of a service; nil: none
	split     bool                     // another process keeps root's rights: see serve_root.go
	borrow    func() (giveBack func()) // lends the reserve on the service's disk; nil in other commands
}

// Run executes a command line, without the program's name, and returns the
// exit code of the process.
func Run(ctx context.Context, release Release, args []string, streams Streams) int {
	a := &app{streams: streams, release: release, input: config.FromProcess(), log: slog.New(slog.DiscardHandler)}
	// A command line that cannot be parsed fails in the format that it asks for.
	a.json = slices.Contains(args, "--json")
	a.out = printer{streams: streams, json: a.json}
	if a.input.Program == config.OnyxProgram && (len(args) == 0 || strings.HasPrefix(args[0], "-")) {
		args = append([]string{"serve"}, args...) // it has no other command
	}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	used, err := root.ExecuteContextC(ctx)
	if a.web != nil {
		a.web.CloseIdleConnections()
	}
	if err != nil && a.cfg == nil {
		err = usage(used, err)
	}
	code, quiet := exitOf(err)
	if err != nil && !quiet {
		a.out.fail(err)
	}
	return code
}

// Command returns the tree of commands, from which the manual and the shell
// completions are made. Run executes them.
func Command() *cobra.Command { return (&app{}).command() }

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "airlock",
		Short: "Runs untrusted code in a sandbox: files in, files out",
		Long: `Airlock runs untrusted code in a sandbox on this machine: files in, files out,
no network, nothing of the host in sight.

  airlock setup                                   once: languages and packages
  airlock run -f sales.csv -o out plot.py         run a program on a file
  airlock repl -f sales.csv                       code as you type it, in the sandbox
  airlock ask -f sales.csv 'Plot the sales'       a model that runs code on files
  airlock apply reply.md                          apply an AI reply to this folder
  airlock serve                                   the same over HTTP`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: a.prepare,
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	v := readVersion(a.release)
	root.Version = v.Version
	root.SetVersionTemplate("airlock {{.Version}}\n")
	addOptions(root.PersistentFlags(), config.Global)
	root.PersistentFlags().String("config", "", "`FILE` with settings, instead of the usual ones; \"none\" for no file")
	root.AddCommand(a.serve(), a.run(), a.repl(), a.shell(), a.mcp(), a.netCommand(), a.doctor(), a.health(), a.setup(),
		a.keys(), a.backup(), a.restore(), a.migrate(), a.nodes(), a.config(), a.version())
	root.AddCommand(a.askCommand(), a.chat(), a.files())
	root.AddCommand(a.apply(), a.undo(), a.redo(), a.history(), a.outbox(), a.workspace())
	groupHelp(root)
	addCompletion(root)
	return root
}

// prepare reads the settings. It runs before every command.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	flags, file := givenFlags(cmd.Flags())
	a.input.Flags = flags
	if file != "" {
		a.input.File = file
	}
	cfg, err := config.Load(a.input)
	if err != nil {
		return err
	}
	a.cfg = cfg
	a.redact = provider.NewRedactor(cfg.Secrets()...)
	a.out = printer{a.streams, a.json, a.pageOn(a.streams.Out).colour, a.redact}
	options := &slog.HandlerOptions{Level: a.logLevel(cmd), ReplaceAttr: redactLog(a.redact)}
	var handler slog.Handler = slog.NewTextHandler(a.streams.Err, options)
	if a.cfg.LogFormat == config.LogJSON {
		handler = slog.NewJSONHandler(a.streams.Err, options)
	}
	a.log = slog.New(httpd.LogRequests(handler))
	a.web = a.webClient(a.providerAddresses()...)
	return nil
}

// logLevel returns the level that the settings ask for. By default only the service
// logs everything: other commands print a report, and log errors alone.
func (a *app) logLevel(cmd *cobra.Command) slog.Level {
	if cmd.Name() == "serve" || a.cfg.LogLevel != slog.LevelInfo {
		return a.cfg.LogLevel
	}
	return slog.LevelError
}

// interactive reports whether a user can answer questions at a terminal.
func (a *app) interactive() bool {
	return !a.json && isTerminal(a.streams.In) && isTerminal(a.streams.Err)
}

// say writes a line to standard error, beside the result.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.streams.Err, format+"\n", args...)
}

// print prints the report of a command that succeeded.
func (a *app) print(r report) error {
	a.out.result(r)
	return nil
}

// printLine prints the result of a command as a line, or as a JSON document.
func (a *app) printLine(document any, format string, args ...any) error {
	if a.json {
		a.out.document(document)
		return nil
	}
	fmt.Fprintf(a.streams.Out, format+"\n", args...)
	return nil
}

// printTable prints a list as a table, whose first row is the header, or as a JSON document.
// An empty list is the line none.
func (a *app) printTable(document any, none string, rows [][]string) error {
	if a.json || len(rows) == 1 {
		return a.printLine(document, "%s", none)
	}
	a.pageOn(a.streams.Out).table(rows)
	return nil
}

// withFlags adds the options of scopes and --json to a command, and returns it.
func (a *app) withFlags(cmd *cobra.Command, scopes ...config.Scope) *cobra.Command {
	for _, scope := range scopes {
		addOptions(cmd.Flags(), scope)
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "print one JSON document, errors too")
	return cmd
}

// groupOf returns a command that only holds others.
func groupOf(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
