package commands

import (
	"cmp"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/internal/command"
)

func (a *Assistant) chat() *cobra.Command {
	var o askOptions
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talks with a model that runs code on your files, over many turns",
		Long: `Talks with a model that runs code on your files, over many turns.

Each line is a prompt. The session at the provider stays alive between turns, so
that later turns find the files of earlier ones. These lines are for airlock:

` + chatCommands + `

On a terminal the answer's Markdown is rendered, and a prompt can be edited: arrow
keys, Home, End, Ctrl-A, -E, -K, -U and -W, and the prompts before it with the up
arrow or Ctrl-R and a part of their text. Text that is pasted is one prompt however
many lines it has. Ctrl-C empties a line. The history is not kept after the chat.

Ctrl-C in the middle of a turn ends the turn, whose files are not fetched then.
On an empty prompt, a second time, or without a terminal it ends the conversation; the
exit code is 1. However it ends, what was made at the provider is deleted unless
--keep, and --resume ID goes on with the conversation.`,
		Example: `  airlock chat --provider anthropic --model claude-opus-4-5 -f sales.csv -o out`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.chatWithModel(cmd.Context(), o) },
	}
	return a.addAskFlags(cmd, &o)
}

func (a *Assistant) chatWithModel(ctx context.Context, o askOptions) error {
	ctx, turns, stop := a.Interruptible(ctx)
	defer stop()
	return a.withHost(ctx, func(h *modelHost) error {
		t := &talk{Assistant: a, options: o, host: h, interrupts: turns, editor: a.LineEditor()}
		if err := t.prepare(ctx); err != nil {
			return err
		}
		if err := t.open(ctx); err != nil {
			return t.explain(ctx, err)
		}
		if t.Interactive() {
			where := cmp.Or(t.chat.Destination, "this machine")
			t.Say("%s, code runs at %s. /file PATH gives a file, /exit or Ctrl-D ends.",
				command.Printable(t.chat.Settings().Model),
				where)
		}
		turns, problem := t.converse(ctx)
		return t.end(ctx, turns, problem)
	})
}

// converse has turns until the user quits. On a terminal an error does not end the
// conversation; a script ends with it.
func (t *talk) converse(ctx context.Context) (turns []*conversation.Turn, problem error) {
	for {
		line, err := t.nextPrompt(ctx)
		if errors.Is(err, io.EOF) {
			return turns, problem
		}
		if err != nil {
			return turns, t.explain(ctx, err)
		}
		during, over := t.interrupts.Turn(ctx)
		turn, err := t.chat.Turn(during, t.prompt(line), t.asker(), t.show().tell)
		turns, t.files = append(turns, turn), nil
		problem = t.verdict(ctx, turn, errors.Join(err, t.report(ctx, turn)))
		if during.Err() != nil && ctx.Err() == nil {
			problem = &command.Failure{Code: command.ExitFailed, Word: "interrupted",
				Err:  errors.New("the turn was interrupted"),
				Hint: "the chat continues; /exit, Ctrl-D, or Ctrl-C at its prompt ends it"}
		}
		over()
		if problem == nil && ctx.Err() != nil {
			problem = t.explain(ctx, ctx.Err())
		}
		if ctx.Err() != nil || problem != nil && !t.Interactive() {
			return turns, problem
		}
		if problem != nil {
			t.shown.clear()
			t.Out.Fail(problem)
			problem = nil
		}
	}
}

// nextPrompt reads a line for the model, and keeps the session alive meanwhile.
func (t *talk) nextPrompt(ctx context.Context) (string, error) {
	defer command.InBackground(ctx, t.chat.KeepAlive)()
	question := ""
	if t.Interactive() {
		question = "> "
	}
	for {
		t.show().clear()
		line, err := t.readPrompt(ctx, question)
		line = strings.TrimSpace(line)
		if line == "" && err != nil {
			return "", err
		}
		name, isFile := strings.CutPrefix(line, "/file ")
		switch {
		case line == "/exit", line == "/quit":
			return "", io.EOF
		case line == "/help", line == "/?":
			t.Say("%s", chatHelp)
		case t.Interactive() && unknownCommand.MatchString(line):
			t.Say("there is no %s; %s", command.Printable(line), chatHelp)
		case isFile:
			more, err := openInputs([]string{strings.TrimSpace(name)}, t.root, t.options.see, nil)
			if err != nil && !t.Interactive() {
				return "", err
			}
			if err != nil {
				t.Out.Fail(err)
				continue
			}
			t.files = append(t.files, more...)
			for _, f := range more {
				t.Say("with the next prompt: %s (%s)", command.PrintableName(f.Path), command.SizeText(f.Size))
			}
		case line != "":
			return line, nil
		}
	}
}

// readPrompt reads a line, with the editor on a terminal.
func (t *talk) readPrompt(ctx context.Context, question string) (string, error) {
	if t.editor == nil {
		return t.ReadLine(ctx, question)
	}
	line, err := t.editor.ReadLine(ctx, question)
	if errors.Is(err, command.ErrInterrupted) {
		// The key acts as the signal that it is in cooked mode.
		if err := unix.Kill(unix.Getpid(), unix.SIGINT); err != nil {
			return "", err
		}
		<-ctx.Done()
		err = ctx.Err()
	}
	return line, err
}

const (
	chatCommands = `  /file PATH    give a file to the next prompt; a pattern gives all that match
  /help         say what there is
  /exit         end the conversation, as Ctrl-D does`
	chatHelp = "these lines are for airlock:\n" + chatCommands + "\nAll others are for the model."
)

// unknownCommand matches a line that is one word after a slash: probably a mistyped
// command.
var unknownCommand = regexp.MustCompile(`^/[A-Za-z?]+$`)
