package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/conversation"
)

func (a *app) chat() *cobra.Command {
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
arrow. Text that is pasted is one prompt however many lines it has. Ctrl-C empties
a line. The history is not kept after the chat.

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

func (a *app) chatWithModel(ctx context.Context, o askOptions) error {
	ctx, turns, stop := a.interruptible(ctx)
	defer stop()
	return a.withHost(ctx, func(h *modelHost) error {
		t := &talk{app: a, options: o, host: h, interrupts: turns, editor: a.lineEditor()}
		if err := t.prepare(ctx); err != nil {
			return err
		}
		if err := t.open(ctx); err != nil {
			return t.explain(ctx, err)
		}
		if t.interactive() {
			where := cmp.Or(t.chat.Destination, "this machine")
			t.say("%s, code runs at %s. /file PATH gives a file, /exit or Ctrl-D ends.", printable(t.chat.Settings().Model),
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
		during, over := t.interrupts.turn(ctx)
		turn, err := t.chat.Turn(during, t.prompt(line), t.asker(), t.show().tell)
		turns, t.files = append(turns, turn), nil
		problem = t.verdict(ctx, turn, errors.Join(err, t.report(ctx, turn)))
		if during.Err() != nil && ctx.Err() == nil {
			problem = &failure{code: exitFailed, word: "interrupted", err: errors.New("the turn was interrupted"),
				hint: "the chat goes on; /exit, Ctrl-D, or Ctrl-C at its prompt ends it"}
		}
		over()
		if problem == nil && ctx.Err() != nil {
			problem = t.explain(ctx, ctx.Err())
		}
		if ctx.Err() != nil || problem != nil && !t.interactive() {
			return turns, problem
		}
		if problem != nil {
			t.shown.clear()
			t.out.fail(problem)
			problem = nil
		}
	}
}

// nextPrompt reads a line for the model, and keeps the session alive meanwhile.
func (t *talk) nextPrompt(ctx context.Context) (string, error) {
	defer inBackground(ctx, t.chat.KeepAlive)()
	question := ""
	if t.interactive() {
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
			t.say("%s", chatHelp)
		case t.interactive() && unknownCommand.MatchString(line):
			t.say("there is no %s; %s", printable(line), chatHelp)
		case isFile:
			more, err := openInputs([]string{strings.TrimSpace(name)}, t.root, t.options.see, nil)
			if err != nil && !t.interactive() {
				return "", err
			}
			if err != nil {
				t.out.fail(err)
				continue
			}
			t.files = append(t.files, more...)
			for _, f := range more {
				t.say("with the next prompt: %s (%s)", printableName(f.Path), sizeText(f.Size))
			}
		case line != "":
			return line, nil
		}
	}
}

// readPrompt reads a line, with the editor on a terminal.
func (t *talk) readPrompt(ctx context.Context, question string) (string, error) {
	if t.editor == nil {
		return t.readLine(ctx, question)
	}
	line, err := t.editor.readLine(ctx, question)
	if errors.Is(err, errInterrupted) {
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
