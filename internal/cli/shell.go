package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
)

func (a *app) shell() *cobra.Command {
	o := liveOptions{language: "bash"}
	cmd := &cobra.Command{
		Use:   "shell [-- COMMAND ARG...]",
		Short: "Opens a shell in the sandbox, or runs a command there, on this terminal",
		Long: `Opens a shell in the sandbox, or runs a command there, on this terminal.

What runs there has a terminal of its own of the same size: keys go to it as they
are typed, Ctrl-C too, and what it shows is shown as it is, as with ssh. A hostile
program can therefore do to this terminal what any program that prints can do: for
code that you do not trust, airlock run and airlock repl show such things harmless.

Without a terminal, commands are read from standard input. The exit code is that of
the shell or the command. The session and its files are deleted at the end, unless
--keep; --session ID joins one that is there, as next to airlock repl.`,
		Example: `  airlock shell -f project
  airlock shell -- python3 -m pdb main.py`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
				return command.Fail(command.ExitUsage, "put it after --", "a command is expected after --, not %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"bash"}
			}
			return command.ForProgram(a.runShell(cmd.Context(), o, args))
		},
	}
	addLive(cmd.Flags(), &o)
	return cmd
}

func (a *app) runShell(ctx context.Context, o liveOptions, argv []string) error {
	s, err := a.openLive(ctx, o)
	if err != nil {
		return err
	}
	defer s.leave(ctx)
	req := client.ProcessRequest{Argv: argv}
	in, out := command.FileOf(a.Streams.In), command.FileOf(a.Streams.Out)
	raw := command.IsTerminal(in) && command.IsTerminal(out)
	sizes := make(chan os.Signal, 1)
	if raw {
		signal.Notify(sizes, syscall.SIGWINCH) // first: it may change from here on
		defer signal.Stop(sizes)
		req.Terminal = terminalSize(out)
		req.Env = map[string]string{"TERM": a.terminalName()}
	}
	process, err := s.client.StartProcess(ctx, s.id, req)
	if err != nil {
		return command.Interrupted(ctx, err)
	}
	p := &shellProcess{liveSession: s, id: process.ID}
	if !raw {
		return p.attend(ctx)
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.Fd()), before) }()
	defer command.InBackground(ctx, func(ctx context.Context) {
		for {
			select {
			case <-sizes:
				_ = s.client.ResizeProcess(ctx, s.id, process.ID, *terminalSize(out)) // the process may have ended
			case <-ctx.Done():
				return
			}
		}
	})()
	return p.attend(ctx)
}

func terminalSize(f *os.File) *client.TerminalSize {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return &client.TerminalSize{Columns: 80, Rows: 24}
	}
	return &client.TerminalSize{Columns: columns, Rows: rows}
}

// shellProcess is a process attached to the streams of the command.
type shellProcess struct {
	*liveSession
	id string
}

// attend copies the streams until the process has ended.
func (p *shellProcess) attend(ctx context.Context) error {
	defer command.InBackground(ctx, p.typed)()
	for e, err := range p.client.ProcessEvents(ctx, p.liveSession.id, p.id, 0) {
		if err != nil {
			return command.Interrupted(ctx, severed(err))
		}
		to := p.Streams.Out
		switch e.Type {
		case client.ProcessExit:
			return processCode(e.Process)
		case client.ProcessDropped:
			if e.Offset == 0 {
				continue // it joins a shell
			}
			to = p.Streams.Err
		case client.ProcessStderr:
			to = p.Streams.Err
		}
		if _, err := to.Write(e.Data); err != nil {
			return command.Fail(command.ExitFailed, "", "the output cannot be written: %w", err)
		}
		p.Shown(to, string(e.Data))
	}
	return severed(io.ErrUnexpectedEOF)
}

// typed copies the input of the command to the process, whose input it closes at the end.
func (p *shellProcess) typed(ctx context.Context) {
	buffer := make([]byte, 32<<10)
	for {
		if command.Readable(ctx, p.Streams.In) != nil {
			return
		}
		n, err := p.Streams.In.Read(buffer)
		if failed := p.client.WriteProcess(ctx, p.liveSession.id, p.id, buffer[:n], err != nil); err != nil || failed != nil {
			return // the process or the input has ended
		}
	}
}

// processCode returns the exit code of a process as an error, or nil for 0.
func processCode(process *client.Process) error {
	switch {
	case process.ExitCode == nil:
		return command.Fail(command.ExitAirlock, "", "the process was lost with its sandbox")
	case *process.ExitCode == 0:
		return nil
	}
	return command.ProgramExit(*process.ExitCode)
}

// terminalName returns the value of TERM for a process.
func (a *app) terminalName() string {
	if a.Config.Dumb {
		return "dumb"
	}
	return "xterm-256color"
}
