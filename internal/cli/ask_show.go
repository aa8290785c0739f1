package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/provider"
)

// turnShown shows a turn while it happens: the answer on standard output, all
// else beside it. On a terminal transfers are bars, in a pipe plain lines.
type turnShown struct {
	*app
	page     *page // beside the answer
	quiet    bool  // JSON: nothing is shown
	hold     bool  // the answer is shown at its end
	bars     bool
	bar      bool                  // one is on the line
	midLine  bool                  // the answer has not ended its line
	steps    map[string]*stepShown // that have begun and not ended
	begun    int                   // steps of this turn
	quarters map[string]int64      // that a pipe was told of, by transfer
	model    string                // that is asked
	provider string                // of the turn
	block    string                // what was shown last: on a terminal an empty line stands before another
	asked    conversation.AskKind
	held     []string  // files of the turn that nobody agreed to
	rendered *markdown // shows the answer on a terminal; nil: it is shown as it is
}

func (a *app) showTurns(hold bool) *turnShown {
	s := &turnShown{app: a, page: &page{a.streams.Err, isTerminal(a.streams.Err) && !a.cfg.Plain}, quiet: a.json,
		hold: hold,
		bars: isTerminal(a.streams.Err), steps: map[string]*stepShown{}, quarters: map[string]int64{}}
	if isTerminal(a.streams.Out) && !a.cfg.Plain {
		s.rendered = newMarkdown(a.streams.Out, widthOf(a.streams.Err))
	}
	return s
}

// tell is a conversation.Sink.
func (s *turnShown) tell(e conversation.Event) {
	if s.quiet {
		return
	}
	switch e := e.(type) {
	case provider.TextDelta:
		s.text(e.Text)
		return
	case conversation.Uploading:
		s.progress("sending", e.Name, e.Sent, e.Size)
		return
	case conversation.Downloading:
		s.progress("fetching", e.Name, e.Done, e.Size)
		return
	}
	s.clear()
	s.show(e)
	s.wait(e)
}

// show shows what stays on the screen.
func (s *turnShown) show(e conversation.Event) {
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
		s.page.line("%s", s.page.paint(yellow, "note: "+printable(e.Text)))
		if e.Hint != "" {
			s.page.line("      %s", printable(e.Hint))
		}
	case conversation.ReplyProposed:
		if e.Result.State == conversation.ShownOnly {
			showResult(s.page, e.Result)
			return
		}
		s.page.line("The reply is a proposal for the project: %s", e.Reply)
	case conversation.ReplySettled:
		showResult(s.page, e.Result)
	case conversation.Ended:
		if s.hold && len(e.Turn.Answer) > 0 {
			fmt.Fprintln(s.streams.Out, string(e.Turn.Answer))
		}
	case conversation.CleanedUp:
		s.cleaned(e.Cleaned)
	}
}

// wait says what goes on while nothing is to be seen, on a terminal.
func (s *turnShown) wait(e conversation.Event) {
	what := "waiting for " + printable(s.model) + " ..."
	switch e := e.(type) {
	case conversation.Begun:
		s.model, s.provider, s.block = e.Model, e.Provider, ""
		s.steps, s.begun = map[string]*stepShown{}, 0
		what = "waiting for " + printable(s.model) + " ..."
	case provider.StepStarted:
		what = "running ..."
	case conversation.Asked:
		s.asked = e.Ask.Kind
		return
	case conversation.Answered:
		if s.asked == conversation.AskSave || s.asked == conversation.AskApply {
			return // the model has done its part
		}
	case conversation.Uploaded, provider.StepDone:
	default:
		return
	}
	if s.bars && !s.cfg.Plain {
		fmt.Fprint(s.page, "\r\x1b[K"+s.page.paint(faint, what))
		s.bar = true
	}
}

// begin starts a block of lines.
func (s *turnShown) begin(block string) {
	if s.bars && s.block != "" && s.block != block {
		s.page.line("")
	}
	s.block = block
}

// text is more of the answer.
func (s *turnShown) text(text string) {
	if s.hold || text == "" {
		return
	}
	if s.rendered != nil {
		if s.block != "answer" {
			s.clearBar()
			s.begin("answer")
		}
		s.rendered.write(text)
		return
	}
	s.clearBar()
	s.begin("answer")
	fmt.Fprint(s.streams.Out, plainText(text))
	s.midLine = !strings.HasSuffix(text, "\n")
}

// plainText is printable for text of several lines.
func plainText(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j, cell := range cells {
			cells[j] = printable(cell)
		}
		lines[i] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

// clear makes room for a line of its own.
func (s *turnShown) clear() {
	if s.quiet {
		return
	}
	s.clearBar()
	if s.rendered != nil {
		s.rendered.flush()
	}
	if s.midLine {
		fmt.Fprintln(s.streams.Out)
		s.midLine = false
	}
}

func (s *turnShown) clearBar() {
	if s.bar {
		fmt.Fprint(s.page, "\r\x1b[K")
		s.bar = false
	}
}

const barWidth = 24

// largeTransfer is from where on a pipe is told of how far a file is.
const largeTransfer = 8 << 20

// progress draws a bar on a terminal. In a pipe a line for each quarter of a
// large file says that it goes on.
func (s *turnShown) progress(what, name string, done, size int64) {
	if s.quiet {
		return
	}
	if !s.bars || s.cfg.Plain {
		quarter := done * 4 / max(size, 1)
		if key := what + " " + name; size >= largeTransfer && quarter > s.quarters[key] && quarter < 4 {
			s.clear()
			s.quarters[key] = quarter
			s.page.line("%s %s: %d %% of %s", what, printableName(name), quarter*25, sizeText(size))
		}
		return
	}
	s.clear()
	part, percent := 0, ""
	if size > 0 {
		part = int(min(done, size) * barWidth / size)
		percent = fmt.Sprintf(" %3d %%", min(done, size)*100/size)
	}
	fmt.Fprintf(s.page, "\r\x1b[K%s %s [%s%s]%s %s", what, printableName(name), strings.Repeat("#", part),
		strings.Repeat(" ", barWidth-part), percent, sizeText(done))
	s.bar = true
}

func (s *turnShown) uploaded(e conversation.Uploaded) {
	how := "sent"
	switch {
	case e.Upload.Remote.Provider == provider.Local:
		how = "staged" // it stays where it is
	case e.Cached:
		how = "there already:"
	case e.Inline:
		how = "in the request:"
	}
	s.begin("files")
	s.page.line("%s %s (%s)", how, printableName(e.Upload.Path), sizeText(e.Upload.Size))
}

// collected lists what the turn has made.
func (s *turnShown) collected(e conversation.Collected) {
	if len(e.Outputs) == 0 {
		return
	}
	s.begin("made")
	s.page.line("%s", s.page.paint(bold, english.Plural(len(e.Outputs), "file", "")+" made:"))
	width, kinds := 0, 0
	for _, o := range e.Outputs {
		width, kinds = max(width, len([]rune(o.Name))), max(kinds, len(o.MIME))
	}
	for _, o := range e.Outputs {
		state := "sha256 " + o.SHA256
		if o.Problem != nil {
			state = s.page.paint(red, "not fetched: "+printable(o.Problem.Message))
		}
		s.page.line("  %s  %s  %s  %s", pad(printableName(o.Name), min(width, 40)), pad(sizeText(o.Size), 8),
			pad(printable(o.MIME), min(kinds, 40)), state)
	}
}

// saved says what became of each output.
func (s *turnShown) saved(outputs []conversation.Output) {
	for _, o := range outputs {
		switch o.State {
		case conversation.OutputSaved:
			s.page.line("saved %s", printableName(s.short(o.Saved)))
		case conversation.OutputUnchanged:
			s.page.line("unchanged %s", printableName(s.short(o.Saved)))
		case conversation.OutputExists:
			s.page.line("not saved: %s", printable(o.Problem.Message))
		case conversation.OutputDeclined:
			s.page.line("not saved: %s", printableName(o.Name))
		case conversation.OutputRefused:
			s.page.line("not saved: %s: %s", printableName(o.Name), printable(o.Problem.Message))
		}
	}
}

// short is a path from here on, where that is shorter.
func (s *turnShown) short(name string) string {
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

func (s *turnShown) cleaned(c conversation.Cleaned) {
	s.begin("end")
	switch {
	case c.Kept > 0:
		s.page.line("%s kept at the provider; `airlock files ls` lists them", english.Plural(c.Kept, "object", ""))
	case c.Deleted > 0:
		where := " at the provider deleted"
		if s.provider == provider.Local {
			where = " of this conversation deleted from the service"
		}
		s.page.line("%s", s.page.paint(faint, english.Plural(c.Deleted, "object", "")+where))
	}
	for _, left := range c.Left {
		s.page.line("%s", s.page.paint(yellow, "left at the provider: "+printable(left)))
	}
	showOthers(s.page, othersOf(c.Others))
	if len(c.Left) > 0 && c.Deleted == 0 && c.Kept == 0 {
		s.page.line("      `airlock files gc` deletes what is left")
	}
}
