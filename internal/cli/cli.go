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
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/assist"
	"github.com/airlock-run/airlock/internal/bucket"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/telemetry"
)

// Streams are the standard streams of a command.
type Streams = command.Streams

// app is one invocation of the command line.
type app struct {
	*command.App
	release   Release // its empty fields are filled from what the Go tool recorded
	assistant *assist.Assistant

	split  bool                     // another process keeps root's rights: see serve_root.go
	borrow func() (giveBack func()) // lends the reserve on the service's disk; nil in other commands
	shared *bucket.Images           // see sharedImages

	telemetry *telemetry.Telemetry // of a service; nil: it sends nothing
}

func newApp(kit *command.App, release Release) *app {
	a := &app{App: kit, release: release}
	a.assistant = assist.New(kit, assist.Service{Connect: a.connectAssistant, Reserve: a.reserveOf})
	return a
}

// Main runs the command line of this process. The first signal cancels its context. A second one ends the process,
// unless the command handles it, as the service does.
func Main(release Release) int {
	ctx, stop := signal.NotifyContext(context.Background(), command.EndSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop)
	// A closed pipe is an error of the write, so that the command can still clean up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return Run(ctx, release, os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// Run executes a command line, without the program's name, and returns the
// exit code of the process.
func Run(ctx context.Context, release Release, args []string, streams Streams) int {
	a := newApp(command.New(streams, httpd.LogRequests), release)
	// A command line that cannot be parsed fails in the format that it asks for.
	a.JSON = slices.Contains(args, "--json")
	a.Out = command.Printer{Streams: streams, JSON: a.JSON}
	if a.Input.Program == config.OnyxProgram && (len(args) == 0 || strings.HasPrefix(args[0], "-")) {
		args = append([]string{"serve"}, args...) // it has no other command
	}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	used, err := root.ExecuteContextC(ctx)
	for _, end := range a.AtEnd {
		end()
	}
	if err != nil && a.Config == nil {
		err = command.Usage(used, err)
	}
	code, quiet := command.ExitOf(err)
	if err != nil && !quiet {
		a.Out.Fail(err)
	}
	return code
}

// Command returns the tree of commands, from which the manual and the shell
// completions are made. Run executes them.
func Command() *cobra.Command { return newApp(&command.App{}, Release{}).command() }

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
		PersistentPreRunE: a.Prepare,
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	v := readVersion(a.release)
	root.Version = v.Version
	root.SetVersionTemplate("airlock {{.Version}}\n")
	command.AddOptions(root.PersistentFlags(), config.Global)
	root.PersistentFlags().String("config", "", "`FILE` with settings, instead of the usual ones; \"none\" for no file")
	a.addGroups(root)
	command.GroupHelp(root)
	addCompletion(root)
	return root
}

// commandGroups are the headings of the help, with the names of their commands.
var commandGroups = []struct {
	title    string
	commands []string
}{
	{"Run code:", []string{"run", "repl", "shell", "files"}},
	{"Ask a model, change a folder:",
		[]string{"ask", "chat", "apply", "undo", "redo", "log", "workspace", "outbox", "provider"}},
	{"Serve others:", []string{"serve", "mcp", "keys", "usage", "audit", "net", "volumes", "images"}},
	{"Set up and look after this machine:", []string{"setup", "doctor", "health", "config", "version"}},
	{"Keep and move data:", []string{"backup", "restore", "migrate", "nodes"}},
}

// addGroups adds the commands, in the order of the help.
func (a *app) addGroups(root *cobra.Command) {
	all := []*cobra.Command{
		a.serve(), a.run(), a.repl(), a.shell(), a.files(), a.mcp(), a.netCommand(), a.doctor(), a.health(), a.setup(),
		a.imagesCommand(), a.volumes(), a.keys(), a.usage(), a.audit(), a.backup(), a.restore(), a.migrate(), a.nodes(),
		a.config(), a.version(),
	}
	all = append(all, a.assistant.Commands()...)
	for _, group := range commandGroups {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, name := range group.commands {
			at := slices.IndexFunc(all, func(c *cobra.Command) bool { return c.Name() == name })
			all[at].GroupID = group.title
			root.AddCommand(all[at])
			all = slices.Delete(all, at, at+1)
		}
	}
	root.AddCommand(all...)
	root.SetHelpCommandGroupID(commandGroups[3].title)
}
