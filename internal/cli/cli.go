// Package cli is the command line of Airlock: one file per command, and one
// small interface through which each of them shows its result, to a person or
// to a program.
//
// A command reads its settings from package config, does its work with the
// packages below it, and returns a report or an error. What they look like,
// and which exit code they mean, is decided in one place each: output.go and
// exit.go. The parts of the service are put together in wiring.go.
//
// Running code goes one way only: through the public client, over HTTP. What
// differs is who answers: a service elsewhere, the service that holds the
// data directory, or an engine in this very process. See connect.go.
package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/provider"
)

// Streams are what a command reads from and writes to.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is one invocation of the command line.
type app struct {
	streams Streams
	release Release        // what it lacks, the Go tool wrote into the binary
	input   config.Input   // where settings come from
	cfg     *config.Config // once a command runs
	json    bool
	out     printer
	log     *slog.Logger
	redact  *provider.Redactor

	modelKeys *modelKeys               // of the page of a service; nil: there are none
	split     bool                     // root's half is another process: see serve_root.go
	borrow    func() (giveBack func()) // the reserve on the service's disk; nil in other commands
}

// Run executes a command line, without the program's name, and returns the
// exit code of the process.
func Run(ctx context.Context, release Release, args []string, streams Streams) int {
	a := &app{streams: streams, release: release, input: config.FromProcess(), log: slog.New(slog.DiscardHandler)}
	// A command line that cannot be read fails as it asked to.
	a.json = slices.Contains(args, "--json")
	a.out = newPrinter(streams, a.json, false, nil)
	if a.input.Program == config.OnyxProgram && (len(args) == 0 || strings.HasPrefix(args[0], "-")) {
		args = append([]string{"serve"}, args...) // it has no other command
	}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	used, err := root.ExecuteContextC(ctx)
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
	a.redact = redactor(cfg)
	a.out = newPrinter(a.streams, a.json, isTerminal(a.streams.Out) && !cfg.Plain, a.redact)
	options := &slog.HandlerOptions{Level: a.logLevel(cmd), ReplaceAttr: redactLog(a.redact)}
	var handler slog.Handler = slog.NewTextHandler(a.streams.Err, options)
	if a.cfg.LogFormat == config.LogJSON {
		handler = slog.NewJSONHandler(a.streams.Err, options)
	}
	a.log = slog.New(httpd.LogRequests(handler))
	return nil
}

// logLevel is the one that was asked for. Only the service speaks up by
// itself: what other commands have to say is their report, and what lies
// behind an internal error.
func (a *app) logLevel(cmd *cobra.Command) slog.Level {
	if cmd.Name() == "serve" || a.cfg.LogLevel != slog.LevelInfo {
		return a.cfg.LogLevel
	}
	return slog.LevelError
}

// interactive reports whether a person is there to answer a question.
func (a *app) interactive() bool {
	return !a.json && isTerminal(a.streams.In) && isTerminal(a.streams.Err)
}

// say writes a line for the person at the terminal, beside the result.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.streams.Err, format+"\n", args...)
}

func (a *app) addJSON(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.json, "json", false, "print one JSON document, errors too")
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
