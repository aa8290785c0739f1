package commands

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
)

// applyReport is what apply prints: the proposal, until it is applied, and the receipt.
type applyReport struct {
	Proposal *workspace.Proposal `json:"proposal,omitempty"`
	Reports  []reportView        `json:"reports,omitempty"`
	Metadata struct {
		ExecutionResult *changes.Result `json:"executionResult"`
	} `json:"metadata"`
	Outcome string `json:"outcome"` // the last sentence of the text
	command.Ended

	root string // the folder
}

// reportView is a report to a project, as it is shown.
type reportView struct {
	ID         string            `json:"id"` // "p1", "p2", ...
	Kind       assignment.Kind   `json:"kind"`
	Assignment string            `json:"assignment,omitempty"`
	Summary    string            `json:"summary"`
	Holds      []assignment.Hold `json:"holds,omitempty"`
}

func reportsOf(h *changes.ReplyRecord) []reportView {
	var list []reportView
	for i := range h.Batch.Posts {
		p := &h.Batch.Posts[i]
		list = append(list, reportView{ID: fmt.Sprintf("p%d", i+1), Kind: p.Kind, Assignment: p.Assignment,
			Summary: p.Summary(), Holds: p.Holds})
	}
	return list
}

func (r applyReport) WriteText(p *command.Page) {
	if r.Proposal != nil {
		for i := range r.Proposal.Files {
			showFile(p, &r.Proposal.Files[i], command.PageWidth)
		}
		showFindings(p, r.Proposal.Findings)
	}
	if r.Metadata.ExecutionResult.State != changes.Applied {
		showReports(p, r.Reports)
	}
	receipt{r.Metadata.ExecutionResult, r.root, r.Proposal}.show(p)
}

func showReports(p *command.Page, reports []reportView) {
	for _, report := range reports {
		p.Line("%s  would be reported: %s %s: %s", p.Paint(command.Bold, report.ID), report.Kind,
			command.Printable(report.Assignment),
			command.Printable(report.Summary))
		for _, h := range report.Holds {
			p.Line("    %s", p.Paint(command.Yellow, "waits for a person: "+command.Printable(h.Detail)))
		}
	}
}

// receipt is what was done, and what the commands that it names need.
type receipt struct {
	*changes.Result
	root     string              // the folder; empty: it is the current one
	proposal *workspace.Proposal // nil: its files do not matter any more
}

// undo returns the command that reverts what was done.
func (r receipt) undo() string {
	line := "airlock undo " + r.Undo
	if here, err := os.Getwd(); r.root == "" || err == nil && here == r.root {
		return line
	}
	return line + " --root " + command.QuoteForShell(r.root)
}

// approve returns what carries out a kept proposal, as far as it can be.
func (r receipt) approve() string {
	partly := r.proposal != nil && slices.ContainsFunc(r.proposal.Files, func(f workspace.FileChange) bool {
		return f.Verdict() == workspace.Refuse || f.Verdict() == workspace.Conflict
	})
	if partly && !slices.ContainsFunc(r.proposal.Files, func(f workspace.FileChange) bool {
		return f.Verdict() != workspace.Refuse && f.Verdict() != workspace.Conflict && f.Op != workspace.OpUnchanged
	}) {
		return "Of the rest there is nothing to do"
	}
	if partly {
		return "`airlock apply --approve " + r.TxnID + " --best-effort` carries out the rest"
	}
	return "`airlock apply --approve " + r.TxnID + "` carries it out"
}

// show is never empty.
func (r receipt) show(p *command.Page) {
	list := func(look, word string, names []string) {
		for _, name := range names {
			p.Line("%s %s", p.Paint(look, command.Pad(word, 10)), command.PrintableName(name))
		}
	}
	list(command.Green, "created", r.FilesCreated)
	list(command.Green, "updated", r.FilesUpdated)
	list(command.Green, "deleted", r.FilesDeleted)
	for _, f := range r.FilesRenamed {
		list(command.Green, "renamed", []string{f.From + " to " + f.To})
	}
	list(command.Faint, "unchanged", r.FilesUnchanged)
	skipped := func(look, word string, files []workspace.Skipped) {
		for _, f := range files {
			list(look, word, []string{f.Path + ": " + f.Reason})
		}
	}
	skipped(command.Yellow, "skipped", r.FilesSkipped)
	skipped(command.Red, "conflict", r.Conflicts)
	for _, s := range r.Posts {
		showPost(p, s)
	}
	showQuestions(p, r.Result)
	for _, w := range r.Warnings {
		p.Line("%s %s", p.Paint(command.Yellow, command.Pad("note", 10)), command.Printable(w.Message))
	}
	list(command.Red, "error", r.Errors)
	p.Line("%s", r.outcome())
}

// outcome returns the sentence that says what was done.
func (r receipt) outcome() string {
	switch {
	case r.Reason == changes.AllThere && len(r.Posts) == 0:
		return "Nothing to do: " + r.Reason + "."
	case r.State == changes.Applied && r.Undo != "":
		return fmt.Sprintf("Done: %s. `%s` reverts it.", summary(r.Result), r.undo())
	case r.State == changes.Applied:
		return "Done: " + summary(r.Result) + "."
	case r.State == changes.Proposed:
		return "Nothing was changed. " + r.approve() + "."
	case r.Reason != "":
		return "Nothing was changed: " + command.Printable(r.Reason) + "."
	}
	return "Nothing was changed."
}

// unanswered returns the error about questions of a reply that were not sent, or nil.
func unanswered(r *changes.Result) error {
	n := 0
	for _, q := range r.Questions {
		if q.Unsent {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return command.Fail(command.ExitApproval, "answer in your next prompt; `airlock workspace link PROJECT DIR --api URL` links a "+
		"project whose API takes such questions", "%s of the reply was not sent, and waits for you",
		english.Plural(n, "question", ""))
}

// showQuestions writes the open questions.
func showQuestions(p *command.Page, r *changes.Result) {
	for _, q := range r.Questions {
		p.Line("%s %s", p.Paint(command.Yellow, command.Pad("question", 10)), command.Printable(q.Question))
		for i, option := range q.Options {
			p.Line("%s %d. %s", command.Pad("", 10), i+1, command.Printable(option))
		}
		if q.Recommendation != "" {
			p.Line("%s recommended: %s", command.Pad("", 10), command.Printable(q.Recommendation))
		}
		if q.Unsent {
			p.Line("%s it was not sent: answer the model in your next prompt, "+
				"or link the project's API and apply the reply again", command.Pad("", 10))
			continue
		}
		p.Line("%s answer with `airlock outbox answer %s CHOICE`", command.Pad("", 10), q.ID)
	}
}

func showPost(p *command.Page, s changes.PostState) {
	what := string(s.Kind)
	if s.Percent != nil {
		what += fmt.Sprintf(" %d %%", *s.Percent)
	}
	look, state, why := command.Green, string(s.State), s.Problem
	switch s.State {
	case assignment.Sent:
	case assignment.Held, assignment.DeadLetter:
		look = command.Yellow
		for _, h := range s.Holds {
			why = h.Detail
		}
	default:
		look = command.Yellow
		if s.State == assignment.Pending || s.State == assignment.Sending {
			state = "waiting"
		}
	}
	if why != "" {
		why = ": " + why
	}
	p.Line("%s %s of %s%s", p.Paint(look, command.Pad(state, 10)), what, command.Printable(s.Assignment),
		command.Printable(why))
}

// summary counts the entries of a receipt in one line.
func summary(r *changes.Result) string {
	var parts []string
	count := func(n int, noun, verb string) {
		if n > 0 {
			parts = append(parts, english.Plural(n, noun, "")+verb)
		}
	}
	count(len(r.FilesCreated), "file", " created")
	count(len(r.FilesUpdated), "file", " updated")
	count(len(r.FilesDeleted), "file", " deleted")
	count(len(r.FilesRenamed), "file", " renamed")
	count(r.ProgressUpdates, "progress report", "")
	count(r.Submissions, "submission", "")
	count(r.Escalations, "escalation", "")
	count(len(r.Errors), "error", "")
	count(len(r.FilesUnchanged), "change", " already there")
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

// wide is the width from which a diff is shown side by side.
const wide = 140

// The styles of changes within a line.
const (
	redMark   = "31;7"
	greenMark = "32;7"
	cyan      = "36"
)

// showFile writes the change of a file: a summary, the findings, and the diff.
func showFile(p *command.Page, f *workspace.FileChange, width int) {
	look := cmp.Or(map[workspace.Op]string{workspace.OpCreate: command.Green, workspace.OpDelete: command.Red,
		workspace.OpUnchanged: command.Faint}[f.Op], command.Yellow)
	summary := f.Summary()
	if f.Verdict() == workspace.Refuse {
		look, summary = command.Red, "refused "+f.Path
	}
	p.Line("%s  %s", p.Paint(command.Bold, f.ID), p.Paint(look, command.PrintableName(summary)))
	showFindings(p, f.Findings)
	for _, r := range f.Readings {
		shown := ""
		if r.Post.Hash == f.Post.Hash {
			shown = ", which is shown"
		}
		p.Line("    %s", p.Paint(command.Yellow, fmt.Sprintf("reading %s: %s, %s%s", r.ID, r.What,
			humanize.IBytes(uint64(max(r.Post.Size, 0))), shown)))
	}
	if b := f.Binary; b != nil {
		size := ""
		if b.Width > 0 {
			size = fmt.Sprintf(", %d x %d pixels", b.Width, b.Height)
		}
		p.Line("    %s%s, %s, sha256 %.16s", command.Printable(b.Type), size, humanize.IBytes(uint64(max(f.Post.Size, 0))),
			f.Post.Hash)
		return
	}
	for i := range f.Hunks {
		showHunk(p, &f.Hunks[i], width)
	}
}

func showFindings(p *command.Page, findings []workspace.Finding) {
	for _, f := range findings {
		look := map[workspace.Severity]string{workspace.Ask: command.Yellow, workspace.Conflict: command.Red,
			workspace.Refuse: command.Red}[f.Severity]
		text := fmt.Sprintf("    %s: %s (%s)", f.Severity, f.Message, f.Rule)
		if f.Hint != "" {
			text += "; " + f.Hint
		}
		for line := range strings.Lines(text) {
			p.Line("%s", p.Paint(cmp.Or(look, command.Faint), command.Printable(strings.TrimRight(line, "\n"))))
		}
	}
}

func showHunk(p *command.Page, h *workspace.Hunk, width int) {
	p.Line("    %s", p.Paint(cyan, command.Printable(h.Header())+"  "+h.ID))
	if width >= wide {
		showSides(p, h, width)
		return
	}
	for i := range h.Lines {
		l := &h.Lines[i]
		p.Line("    %s", paintLine(p, l, l.Op, 0))
		if l.NoNewline {
			p.Line("    %s", p.Paint(command.Faint, `\ no newline at the end`))
		}
	}
}

// showSides writes a hunk side by side, with the old lines on the left.
func showSides(p *command.Page, h *workspace.Hunk, width int) {
	column := (width - 4 - 3) / 2
	var removed, added []*workspace.Line
	flush := func() {
		for i := range max(len(removed), len(added)) {
			left, right := "", ""
			leftWidth := 0
			if i < len(removed) {
				left, leftWidth = paintLine(p, removed[i], "-", column), lineWidth(removed[i], column)
			}
			if i < len(added) {
				right = paintLine(p, added[i], "+", column)
			}
			p.Line("    %s%s | %s", left, strings.Repeat(" ", column-leftWidth), right)
		}
		removed, added = nil, nil
	}
	for i := range h.Lines {
		switch l := &h.Lines[i]; l.Op {
		case "-":
			removed = append(removed, l)
		case "+":
			added = append(added, l)
		default:
			flush()
			text := paintLine(p, l, " ", column)
			p.Line("    %s%s | %s", text, strings.Repeat(" ", column-lineWidth(l, column)), text)
		}
	}
	flush()
}

func lineWidth(l *workspace.Line, most int) int {
	return command.Columns(command.Cut(visible(l.Text), most-1)) + 1
}

// paintLine returns a line in the colour of its change, with the changed parts marked.
// It cuts the line off after most columns, unless most is 0.
func paintLine(p *command.Page, l *workspace.Line, op string, most int) string {
	look := map[string]string{"-": command.Red, "+": command.Green}[op]
	mark := map[string]string{"-": redMark, "+": greenMark}[op]
	room := most - 1
	var b strings.Builder
	piece := func(look, text string) {
		text = visible(text)
		if most > 0 {
			whole := text
			text = command.Cut(text, max(room, 0))
			if room -= command.Columns(text); text != whole {
				room = 0
			}
		}
		b.WriteString(p.Paint(look, text))
	}
	at := 0
	for _, s := range l.Spans {
		if s.Start < at || s.End > len(l.Text) {
			continue
		}
		piece(look, l.Text[at:s.Start])
		piece(mark, l.Text[s.Start:s.End])
		at = s.End
	}
	piece(look, l.Text[at:])
	return p.Paint(look, op) + b.String()
}

// visible makes a line of a file safe for a terminal, with tabs as spaces.
func visible(text string) string {
	return command.PrintableName(strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\t", "    "))
}
