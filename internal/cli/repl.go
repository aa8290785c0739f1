package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/language"
)

// liveOptions are the flags of the commands with a live session.
type liveOptions struct {
	language string
	inputs   []string
	timeout  time.Duration
	memory   string
	packages string
	image    string
	session  string // existing session to join
	keep     bool
	request  client.SessionRequest // what else the session is to have
	forget   bool                  // what is typed is not kept for the next session
	command.SaveFlags
}

func (a *app) repl() *cobra.Command {
	var o liveOptions
	cmd := &cobra.Command{
		Use:   "repl",
		Short: "Runs code in the sandbox as you type it, with variables that stay",
		Long: `Runs code in the sandbox as you type it, with variables that stay.

Python is IPython inside, with its magics, top-level await and figures; JavaScript
and bash keep their state too. Each input is a cell. These lines are for airlock:

` + replCommands + `

Tab completes names, the arrow keys move within an input of several lines and to
earlier inputs, and text that is pasted is one input however many lines it has.
Inputs are kept for the next session, and Ctrl-R searches them; one that begins
with a blank is not kept, and none with --no-history. Ctrl-C interrupts what runs;
what does not react within 2 s is killed, and its variables with it.

With -o pictures (figure-1.png) and files that the code makes are saved into that
folder after each cell. A file that this session saved before is replaced, any
other one keeps its name and the new file gets another. Without -o they are
listed, and :save DIR saves them, and those of later cells.

Without a terminal the code is read from standard input, and the first cell that
fails ends it with exit code 1, as a line for airlock that fails ends it with the
exit code of what went wrong. The session and what is in it are deleted at the
end, unless --keep.`,
		Example: `  airlock repl -f sales.csv -o out
  airlock repl -l javascript`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runREPL(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.language, "language", "l", "python",
		"`LANG` of the session: python, javascript, typescript, bash or r")
	o.Add(flags, "`DIR` to save pictures and files into", "")
	flags.Var((*seconds)(&o.timeout), "timeout", "`TIME` that a cell may take, as 90s or 2m; a plain number is seconds")
	flags.BoolVar(&o.forget, "no-history", false, "neither read nor keep what is typed in other sessions")
	addLive(flags, &o)
	completeLanguage(cmd, "python", "javascript", "typescript", "bash", "r")
	return cmd
}

const wallHelp = "`WALL` between the program and this machine: gvisor is a kernel of its own, shared the machine's; runs it " +
	"in this process"

// addLive adds the flags of every command with a live session.
func addLive(flags *pflag.FlagSet, o *liveOptions) {
	flags.StringArrayVarP(&o.inputs, "file", "f", nil, "`INPUT` file or folder to put into the session; may be repeated")
	flags.StringVar(&o.memory, "memory", "", "`SIZE` of memory that the session may use, as 512MiB")
	flags.StringVar(&o.packages, "packages", "", "`SET` of Python packages, as onyx; GET /languages and doctor list them")
	flags.StringVar(&o.image, "image", "", imageHelp)
	flags.StringVar((*string)(&o.request.Wall), "wall", "", wallHelp)
	flags.StringVar(&o.session, "session", "", "join the session of this `ID`, as another --keep shows it")
	flags.BoolVar(&o.keep, "keep", false, "leave the session to the service at the end, and say its id")
	command.AddOptions(flags, config.Client)
}

// liveSession is a session of a service.
type liveSession struct {
	*app
	*connection
	options liveOptions
	id      string
	lang    string
	count   int // of the last cell
}

// openLive creates a session, or joins one.
func (a *app) openLive(ctx context.Context, o liveOptions) (_ *liveSession, err error) {
	inputs, err := findInputs(o.inputs)
	if err != nil {
		return nil, err
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	req := o.request
	req.Kind, req.Language, req.Packages, req.Image = client.KindLive, o.language, o.packages, o.image
	if req.Limits, err = memoryLimit(o.memory); err != nil {
		return nil, err
	}
	s := &liveSession{app: a, options: o}
	if s.connection, err = a.connectFor(ctx, string(req.Wall)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.service != nil && (o.keep || o.session != "") {
		return nil, command.Fail(command.ExitUsage, "start one with `airlock serve`, or name one with --server",
			"--keep and --session need a service that outlives the command")
	}
	if o.session != "" {
		found, err := s.client.GetSession(ctx, o.session)
		if err != nil {
			return nil, command.Interrupted(ctx, err)
		}
		if o.request.Wall == client.WallGVisor && found.Wall != client.WallGVisor {
			return nil, command.Fail(command.ExitUsage, "begin one with --wall gvisor and without --session",
				"programs of this session share the machine's kernel")
		}
		s.id, s.lang = found.ID, found.Language
		if found.Live != nil {
			s.count = found.Live.ExecutionCount
		}
		return s, s.put(ctx, inputs)
	}
	if req.Files, err = s.upload(ctx, inputs, a.sending(false)); err != nil {
		return nil, command.Interrupted(ctx, err)
	}
	made, err := s.client.CreateSession(ctx, req)
	if err != nil {
		return nil, command.Interrupted(ctx, flagNames(err))
	}
	s.id, s.lang = made.ID, made.Language
	return s, nil
}

// put writes files into the folder of a session.
func (s *liveSession) put(ctx context.Context, inputs []input) error {
	err := eachInput(inputs, func(in input, f *os.File) error {
		_, err := s.client.WriteLiveFile(ctx, s.id, in.path, f)
		return err
	})
	if err != nil {
		return command.Interrupted(ctx, err)
	}
	return nil
}

// deleteTimeout bounds how long the service may take to delete a session.
const deleteTimeout = 10 * time.Second

// leave deletes the session, unless it was joined or is kept.
func (s *liveSession) leave(ctx context.Context) {
	switch {
	case s.options.session != "":
	case s.options.keep:
		s.Say("the session stays: airlock repl --session %s", s.id)
	default:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		defer cancel()
		_ = s.client.DeleteSession(ctx, s.id) // else it expires
	}
	s.close()
}

func (a *app) runREPL(ctx context.Context, o liveOptions) error {
	ctx, cells, stop := a.Interruptible(ctx)
	defer stop()
	s, err := a.openLive(ctx, o)
	if err != nil {
		return err
	}
	defer s.leave(ctx)
	r := &repl{liveSession: s, interrupts: cells, editor: a.LineEditor(), drawn: a.Pictures(),
		saving: &replFiles{liveSession: s, folder: o.Folder, shown: map[string]string{}, own: map[string]bool{}}}
	defer r.saving.close()
	r.done = r.saving.save
	if r.editor != nil {
		r.editor.Completer = func(before, after string) (string, []string) { return r.complete(ctx, before, after) }
		r.editor.More = func(text string) (string, bool) { return r.more(ctx, text) }
		_, r.editor.Continuation = r.prompts()
		if !o.forget && a.Config.State != "" {
			r.editor.History = command.OpenHistory(filepath.Join(a.Config.State, "history-"+s.lang))
		}
	}
	if a.Interactive() {
		l, _ := language.Find(s.lang)
		a.Say("%s in the sandbox. :help says what there is, Ctrl-D ends.", l.Title)
	}
	err = r.converse(ctx)
	if ctx.Err() != nil {
		return command.Interrupted(ctx, ctx.Err())
	}
	return err
}

// repl reads cells, runs them, and shows their outputs.
type repl struct {
	*liveSession
	interrupts *command.Interrupts
	editor     *command.LineEditor // nil: lines are not edited
	saving     *replFiles
	code       string // incomplete cell

	silent bool                // outputs are not shown
	told   bool                // the caller of runCell tells of a cell that was lost
	drawn  *command.Pictures   // nil: pictures are not drawn
	seen   func(client.Output) // gets each output of a cell; nil: nobody does
	done   func(context.Context, *client.Cell, []picture) error
}

// converse runs cells until the user quits. A script ends with the first cell that fails.
func (r *repl) converse(ctx context.Context) error {
	for {
		ended, err := r.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ended != client.CellOK && !r.Interactive():
			return command.Exit(command.ExitFailed)
		}
	}
}

// turn reads a cell and runs it. Ctrl-C drops what was typed, or interrupts the cell.
func (r *repl) turn(ctx context.Context) (client.CellStatus, error) {
	during, over := r.interrupts.Turn(ctx)
	defer over()
	code, err := r.nextCell(during)
	if ctx.Err() == nil && during.Err() != nil {
		r.Say("")
		return client.CellOK, nil
	}
	if err != nil {
		return "", err
	}
	ended, err := r.runCell(ctx, during, code)
	if err != nil && ctx.Err() == nil && r.Interactive() {
		r.Out.Fail(err)
		return client.CellOK, nil
	}
	return ended, err
}

// nextCell reads lines until they are a complete cell.
func (r *repl) nextCell(ctx context.Context) (string, error) {
	r.code = ""
	for {
		line, err := r.readInput(ctx)
		switch {
		case errors.Is(err, command.ErrInterrupted): // as in a shell, what was typed is dropped
			r.code = ""
			continue
		case errors.Is(err, io.EOF) && line == "" && strings.TrimSpace(r.code) != "":
			return r.code, nil
		case err != nil && (line == "" || !errors.Is(err, io.EOF)):
			return "", err
		}
		if r.code == "" && r.command(ctx, line, &err) {
			if err != nil {
				return "", err
			}
			continue
		}
		if r.code != "" {
			line = strings.TrimRight(line, " \t")
		}
		r.code += line + "\n"
		if strings.TrimSpace(r.code) == "" {
			r.code = ""
			continue
		}
		if r.editor != nil { // it has asked more
			return r.code, nil
		}
		// A last line that is empty ends a block.
		status, _, err := r.client.IsComplete(ctx, r.id, strings.TrimSuffix(r.code, "\n"))
		if err != nil {
			return "", command.Interrupted(ctx, err)
		}
		if status != "incomplete" {
			return r.code, nil
		}
	}
}

// more reports whether an input goes on after Enter, and how far its next line is indented.
func (r *repl) more(ctx context.Context, text string) (indent string, more bool) {
	if isCommand(text) {
		return "", false
	}
	start := strings.LastIndexByte(text, '\n') + 1
	if strings.TrimSpace(text[start:]) == "" {
		text = text[:start] // an empty line ends a block
	}
	if strings.TrimSpace(text) == "" {
		return "", false
	}
	status, indent, err := r.client.IsComplete(ctx, r.id, text)
	return indent, err == nil && status == "incomplete"
}

// readInput reads a line. It shows a prompt at a terminal.
func (r *repl) readInput(ctx context.Context) (string, error) {
	prompt := ""
	if r.Interactive() {
		prompt = r.prompt()
	}
	if r.editor != nil {
		return r.editor.ReadLine(ctx, prompt)
	}
	return r.ReadLine(ctx, prompt)
}

func (r *repl) prompt() string {
	first, more := r.prompts()
	if r.code != "" {
		return more
	}
	return first
}

// prompts returns the prompt of an input, and that of its further lines.
func (r *repl) prompts() (first, more string) {
	switch r.lang {
	case "bash":
		return "$ ", "> "
	case "javascript", "typescript", "r":
		return "> ", "... "
	}
	return fmt.Sprintf("In [%d]: ", r.count+1), "   ...: "
}

const (
	replCommands = `  :file PATH    put a file or a folder into the session
  :vars         list the variables
  :save DIR     save the pictures and files that there are, and those of later cells
  :restart      start over with a new interpreter; the files stay
  :help         say what there is
  :quit         end, as Ctrl-D does`
	replHelp = "these lines are for airlock:\n" + replCommands + "\nAll others are code."
)

// commands are the first words of lines for airlock.
var commands = []string{":quit", ":exit", ":q", ":help", ":vars", ":restart", ":file", ":save"}

// isCommand reports whether an input is a line for airlock, if of a command that there is not: in no language code
// begins with a colon and a letter.
func isCommand(text string) bool {
	rest, colon := strings.CutPrefix(strings.TrimSpace(text), ":")
	first, _ := utf8.DecodeRuneInString(rest)
	return colon && unicode.IsLetter(first)
}

// command executes a line for airlock, and reports whether the line is one. It sets end to io.EOF if the line quits,
// and in a script to the error of one that fails.
func (r *repl) command(ctx context.Context, line string, end *error) bool {
	if !isCommand(line) {
		return false
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	var err error
	switch word {
	case ":quit", ":exit", ":q":
		*end = io.EOF
		return true
	case ":help":
		r.Say("%s", replHelp)
	case ":vars":
		err = r.showVariables(ctx)
	case ":restart":
		err = r.client.Restart(ctx, r.id)
	case ":save":
		err = r.saving.saveInto(ctx, strings.TrimSpace(rest))
	case ":file":
		var inputs []input
		if inputs, err = findInputs([]string{strings.TrimSpace(rest)}); err == nil {
			err = r.put(ctx, inputs)
		}
	default:
		hint := ":help lists them"
		if meant := config.Nearest(word, commands); meant != "" {
			hint = "did you mean " + meant + "? " + hint
		}
		err = command.Fail(command.ExitUsage, hint, "there is no command %s", command.PrintableName(word))
	}
	if err != nil && r.Interactive() {
		r.Out.Fail(err)
	} else if err != nil {
		*end = err
	}
	return true
}

func (r *repl) showVariables(ctx context.Context) error {
	variables, err := r.client.Variables(ctx, r.id)
	if err != nil {
		return err
	}
	p := r.PageOn(r.Streams.Out)
	for _, v := range variables {
		kind := v.Type
		if v.Shape != "" {
			kind += " " + v.Shape
		}
		p.Line("%s  %s  %s", command.Pad(command.PrintableName(v.Name), 16), command.Pad(command.Printable(kind), 20),
			command.Printable(v.Repr))
	}
	return nil
}

// completeTimeout bounds a completion.
const completeTimeout = 2 * time.Second

// complete completes the text before the cursor through the interpreter. Without text
// a Tab is an indent.
func (r *repl) complete(ctx context.Context, before, after string) (string, []string) {
	line := strings.LastIndexByte(before, '\n') + 1
	if strings.TrimSpace(before[line:]) == "" {
		return before + "    ", nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	found, err := r.client.Complete(ctx, r.id, before+after, utf8.RuneCountInString(before))
	runes := []rune(before)
	if err != nil || len(found.Matches) == 0 || found.Start < 0 || found.Start > len(runes) {
		return before, nil
	}
	start := found.Start
	if start < utf8.RuneCountInString(before[:line]) {
		return before, nil // it would change earlier lines
	}
	common := found.Matches[0]
	for _, match := range found.Matches {
		common = commonPrefix(common, match)
	}
	becomes := string(runes[:start]) + command.Printable(common)
	if len(found.Matches) == 1 || utf8.RuneCountInString(becomes) > utf8.RuneCountInString(before) {
		return becomes, nil
	}
	const most = 60
	choices := make([]string, 0, most+1)
	for i, match := range found.Matches {
		if i == most {
			choices = append(choices, fmt.Sprintf("and %d more", len(found.Matches)-most))
			break
		}
		choices = append(choices, command.PrintableName(match))
	}
	return before, choices
}

func commonPrefix(a, b string) string {
	for i, c := range a {
		if !strings.HasPrefix(b[min(i, len(b)):], string(c)) {
			return a[:i]
		}
	}
	return a
}
