package commands

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
)

// turnView shows a turn as it happens: the answer on standard output, everything else
// on standard error. Transfers are bars on a terminal, and plain lines in a pipe.
type turnView struct {
	*Assistant
	page               *command.Page        // standard error
	*command.Transfers                      // on standard error; with --json nothing is shown
	root               string               // the project's folder
	hold               bool                 // the answer is shown at its end
	terminal           bool                 // standard error is one
	midLine            bool                 // the answer has not ended its line
	steps              map[string]*stepView // running steps, by id
	begun              int                  // steps of this turn
	model              string
	provider           string
	block              string // kind of the last lines: on a terminal an empty line separates kinds
	asked              conversation.AskKind
	held               []string          // files of the turn that were not approved
	rendered           *command.Markdown // renders the answer on a terminal; nil: it is plain text
}

func (a *Assistant) showTurns(hold bool) *turnView {
	s := &turnView{Assistant: a, hold: hold, terminal: command.IsTerminal(a.Streams.Err), steps: map[string]*stepView{}}
	s.Transfers = a.Transfers(s.clear)
	s.page = s.Page
	if a.PageOn(a.Streams.Out).Colour {
		s.rendered = command.NewMarkdown(a.Streams.Out, command.WidthOf(a.Streams.Err))
	}
	return s
}

// tell implements conversation.Sink.
func (s *turnView) tell(e conversation.Event) {
	if s.Quiet {
		return
	}
	switch e := e.(type) {
	case provider.TextDelta:
		s.text(e.Text)
		return
	case conversation.Uploading:
		s.Show("sending", e.Name, e.Sent, e.Size)
		return
	case conversation.Downloading:
		s.Show("fetching", e.Name, e.Done, e.Size)
		return
	}
	s.clear()
	s.show(e)
	s.wait(e)
}

// show shows an event that stays on the screen.
func (s *turnView) show(e conversation.Event) {
	switch e := e.(type) {
	case conversation.Uploaded:
		s.uploaded(e)
	case provider.StepStarted:
		s.showCode(e.Step)
	case provider.OutputDelta:
		s.output(e)
	case provider.StepDone:
		s.ended(e.Step)
	case conversation.Collected:
		s.collected(e)
	case conversation.Saved:
		s.saved(e.Outputs)
	case conversation.Notice:
		s.page.Line("%s", s.page.Paint(command.Yellow, "note: "+command.Printable(e.Text)))
		if e.Hint != "" {
			s.page.Line("      %s", command.Printable(e.Hint))
		}
	case conversation.ReplyProposed:
		if e.Result.State == changes.ShownOnly {
			receipt{Result: e.Result, root: s.root}.show(s.page)
			return
		}
		s.page.Line("The reply is a proposal for the project: %s", e.Reply)
	case conversation.ReplySettled:
		receipt{Result: e.Result, root: s.root}.show(s.page)
	case conversation.Ended:
		if s.hold && len(e.Turn.Answer) > 0 {
			fmt.Fprintln(s.Streams.Out, string(e.Turn.Answer))
		}
	case conversation.CleanedUp:
		s.cleaned(e.Cleaned)
	}
}

// wait shows on a terminal what the turn waits for.
func (s *turnView) wait(e conversation.Event) {
	what := "waiting for " + command.Printable(s.model) + " ..."
	switch e := e.(type) {
	case conversation.Begun:
		s.model, s.provider, s.block = e.Model, e.Provider, ""
		s.steps, s.begun = map[string]*stepView{}, 0
		what = "waiting for " + command.Printable(s.model) + " ..."
	case provider.StepStarted:
		what = "running ..."
	case conversation.Asked:
		s.asked = e.Ask.Kind
		return
	case conversation.Answered:
		if s.asked == conversation.AskSave || s.asked == conversation.AskApply {
			return // the model is not asked again
		}
	case conversation.Uploaded, provider.StepDone:
	default:
		return
	}
	if s.Bars {
		s.Write(s.page.Paint(command.Faint, what))
	}
}

// begin starts a block of lines of one kind.
func (s *turnView) begin(block string) {
	if s.terminal && s.block != "" && s.block != block {
		s.page.Line("")
	}
	s.block = block
}

// text shows more of the answer.
func (s *turnView) text(text string) {
	if s.hold || text == "" {
		return
	}
	s.ClearBar()
	s.begin("answer")
	if s.rendered != nil {
		s.rendered.Write(text)
		return
	}
	fmt.Fprint(s.Streams.Out, command.PlainText(text))
	s.midLine = !strings.HasSuffix(text, "\n")
}

// clear begins a new line.
func (s *turnView) clear() {
	if s.Quiet {
		return
	}
	s.ClearBar()
	if s.rendered != nil {
		s.rendered.Flush()
	}
	if s.midLine {
		fmt.Fprintln(s.Streams.Out)
		s.midLine = false
	}
}

func (s *turnView) uploaded(e conversation.Uploaded) {
	how := "sent"
	switch {
	case e.Upload.Remote.Provider == provider.Local:
		how = "staged" // it stays on this machine
	case e.Cached:
		how = "there already:"
	case e.Inline:
		how = "in the request:"
	}
	s.begin("files")
	s.page.Line("%s %s (%s)", how, command.PrintableName(e.Upload.Path), command.SizeText(e.Upload.Size))
}

// collected lists the outputs of the turn.
func (s *turnView) collected(e conversation.Collected) {
	if len(e.Outputs) == 0 {
		return
	}
	s.begin("made")
	s.page.Line("%s", s.page.Paint(command.Bold, english.Plural(len(e.Outputs), "file", "")+" made:"))
	width, kinds := 0, 0
	for _, o := range e.Outputs {
		width, kinds = max(width, len([]rune(o.Name))), max(kinds, len(o.MIME))
	}
	for _, o := range e.Outputs {
		state := "sha256 " + o.SHA256
		if o.Problem != nil {
			state = s.page.Paint(command.Red, "not fetched: "+command.Printable(o.Problem.Message))
		}
		s.page.Line("  %s  %s  %s  %s", command.Pad(command.PrintableName(o.Name), min(width, 40)),
			command.Pad(command.SizeText(o.Size), 8),
			command.Pad(command.Printable(o.MIME), min(kinds, 40)), state)
	}
}

// saved shows the state of each output.
func (s *turnView) saved(outputs []conversation.Output) {
	for _, o := range outputs {
		switch o.State {
		case conversation.OutputSaved:
			s.page.Line("saved %s", command.PrintableName(s.short(o.Saved)))
		case conversation.OutputUnchanged:
			s.page.Line("unchanged %s", command.PrintableName(s.short(o.Saved)))
		case conversation.OutputExists:
			s.page.Line("not saved: %s", command.Printable(o.Problem.Message))
		case conversation.OutputDeclined:
			s.page.Line("not saved: %s", command.PrintableName(o.Name))
		case conversation.OutputRefused:
			s.page.Line("not saved: %s: %s", command.PrintableName(o.Name), command.Printable(o.Problem.Message))
		}
	}
}

// short returns a path relative to the current folder if it is inside.
func (s *turnView) short(name string) string {
	here, err := filepath.Abs(".")
	if err != nil {
		return name
	}
	if real, err := filepath.EvalSymlinks(here); err == nil {
		here = real
	}
	if rel, err := filepath.Rel(here, name); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return name
}

func (s *turnView) cleaned(c conversation.Cleaned) {
	s.begin("end")
	switch {
	case c.Kept > 0:
		s.page.Line("%s kept at the provider; `airlock provider ls` lists them", english.Plural(c.Kept, "object", ""))
	case c.Deleted > 0:
		where := " at the provider deleted"
		if s.provider == provider.Local {
			where = " of this conversation deleted from the service"
		}
		s.page.Line("%s", s.page.Paint(command.Faint, english.Plural(c.Deleted, "object", "")+where))
	}
	for _, left := range c.Left {
		s.page.Line("%s", s.page.Paint(command.Yellow, "left at the provider: "+command.Printable(left)))
	}
	showOthers(s.page, othersOf(c.Others))
	if len(c.Left) > 0 && c.Deleted == 0 && c.Kept == 0 {
		s.page.Line("      `airlock provider gc` deletes what is left")
	}
}

// stepView is a running step.
type stepView struct {
	number  int // in its turn
	code    bool
	printed bool            // output was streamed
	beside  bool            // other code ran at the same time
	line    strings.Builder // incomplete line of output
}

// step returns the state of a step. Steps that run at the same time have their lines
// marked with their numbers.
func (s *turnView) step(id string) *stepView {
	if found, ok := s.steps[id]; ok {
		return found
	}
	s.begun++
	step := &stepView{number: s.begun}
	s.steps[id] = step
	if len(s.steps) > 1 {
		for _, other := range s.steps {
			other.beside = true
		}
	}
	return step
}

// mark returns the prefix of lines of a step that ran beside others.
func (p *stepView) mark() string {
	if !p.beside {
		return ""
	}
	return fmt.Sprintf("[%d] ", p.number)
}

// showCode shows code before it runs.
func (s *turnView) showCode(is provider.Step) {
	step := s.step(is.ID)
	if step.code || is.Code == "" {
		return
	}
	step.code = true
	language := cmp.Or(is.Language, "code")
	s.begin("code " + is.ID)
	s.page.Line("%s", s.page.Paint(command.Bold, step.mark()+"runs "+command.Printable(language)+":"))
	for line := range strings.Lines(command.PlainText(strings.TrimRight(is.Code, "\n"))) {
		s.page.Line("%s", strings.TrimRight("  | "+line, " \n"))
	}
}

// output shows the complete lines of a step's output.
func (s *turnView) output(e provider.OutputDelta) {
	step := s.step(e.StepID)
	step.printed = true
	step.line.WriteString(e.Data)
	text := step.line.String()
	end := strings.LastIndexByte(text, '\n') + 1
	s.outputLines(step, text[:end])
	step.line.Reset()
	step.line.WriteString(text[end:])
}

func (s *turnView) outputLines(step *stepView, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(command.PlainText(text), "\n"), "\n") {
		s.page.Line("  %s", s.page.Paint(command.Faint, step.mark()+line))
	}
}

// ended shows the outcome of a step.
func (s *turnView) ended(is provider.Step) {
	s.showCode(is)
	step := s.step(is.ID)
	delete(s.steps, is.ID) // ids may repeat
	s.outputLines(step, step.line.String())
	if !step.printed {
		s.outputLines(step, is.Stdout)
		s.outputLines(step, is.Stderr)
	}
	look, line := command.Green, string(is.Outcome)
	switch is.Outcome {
	case provider.OutcomeOK:
	case provider.OutcomeCancelled:
		look, line = command.Yellow, "stopped"
	default:
		look = command.Red
	}
	if is.ExitCode != nil && *is.ExitCode != 0 {
		line += fmt.Sprintf(" (exit code %d)", *is.ExitCode)
	}
	if took := is.Ended.Sub(is.Started); !is.Started.IsZero() && took >= 10*time.Millisecond {
		line += " after " + command.DurationText(took)
	}
	if is.Detail != "" && is.Detail != "completed" && !strings.HasSuffix(is.Detail, string(is.Outcome)) {
		line += ": " + command.Printable(is.Detail)
	}
	s.page.Line("  %s%s", step.mark(), s.page.Paint(look, line))
}

// maxDiffLines are shown of a file before a person is asked about it.
const maxDiffLines = 60

// overwrite shows the diff of replacing a file.
func (s *turnView) overwrite(f *workspace.FileChange) {
	if f == nil {
		return
	}
	whole, cut := *f, 0
	lines := 0
	for i := range f.Hunks {
		if lines += len(f.Hunks[i].Lines); i > 0 && lines > maxDiffLines {
			whole.Hunks, cut = f.Hunks[:i], len(f.Hunks)-i
			break
		}
	}
	if len(whole.Hunks) > 0 && len(whole.Hunks[0].Lines) > maxDiffLines {
		first := whole.Hunks[0]
		first.Lines = first.Lines[:maxDiffLines]
		whole.Hunks, cut = []workspace.Hunk{first}, len(f.Hunks)
	}
	whole.ID, whole.Findings = "  ", nil // the finding is that it exists, which the question says
	showFile(s.page, &whole, command.WidthOf(s.Streams.Err))
	if cut > 0 {
		s.page.Line("    %s", s.page.Paint(command.Faint, "... and more: in all "+
			english.Plural(f.Added, "line", "")+" more and "+
			english.Plural(f.Removed, "line", "")+" less"))
	}
}
