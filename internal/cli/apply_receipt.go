package cli

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/workspace"
)

// applyReport is what apply prints: the proposal, as long as it is one, and
// the receipt.
type applyReport struct {
	Proposal *workspace.Proposal `json:"proposal,omitempty"`
	Reports  []reportShown       `json:"reports,omitempty"`
	Metadata struct {
		ExecutionResult *conversation.Result `json:"executionResult"`
	} `json:"metadata"`
	ended
}

// reportShown is what would be told to a project.
type reportShown struct {
	ID         string            `json:"id"` // "p1", "p2", ...
	Kind       assignment.Kind   `json:"kind"`
	Assignment string            `json:"assignment,omitempty"`
	Summary    string            `json:"summary"`
	Holds      []assignment.Hold `json:"holds,omitempty"`
}

func reportsOf(h *conversation.ReplyRecord) []reportShown {
	var list []reportShown
	for i := range h.Batch.Posts {
		p := &h.Batch.Posts[i]
		list = append(list, reportShown{ID: fmt.Sprintf("p%d", i+1), Kind: p.Kind, Assignment: p.Assignment,
			Summary: p.Summary(), Holds: p.Holds})
	}
	return list
}

func (r applyReport) text(p *page) {
	if r.Proposal != nil {
		for i := range r.Proposal.Files {
			showFile(p, &r.Proposal.Files[i], pageWidth)
		}
		showFindings(p, r.Proposal.Findings)
	}
	if r.Metadata.ExecutionResult.State != conversation.Applied {
		showReports(p, r.Reports)
	}
	showResult(p, r.Metadata.ExecutionResult)
}

func showReports(p *page, reports []reportShown) {
	for _, report := range reports {
		p.line("%s  would be reported: %s %s: %s", p.paint(bold, report.ID), report.Kind, printable(report.Assignment),
			printable(report.Summary))
		for _, h := range report.Holds {
			p.line("    %s", p.paint(yellow, "waits for a person: "+printable(h.Detail)))
		}
	}
}

// showResult writes a receipt for a person. It is never empty.
func showResult(p *page, r *conversation.Result) {
	list := func(look, word string, names []string) {
		for _, name := range names {
			p.line("%s %s", p.paint(look, pad(word, 10)), printableName(name))
		}
	}
	list(green, "created", r.FilesCreated)
	list(green, "updated", r.FilesUpdated)
	list(green, "deleted", r.FilesDeleted)
	for _, f := range r.FilesRenamed {
		list(green, "renamed", []string{f.From + " to " + f.To})
	}
	list(faint, "unchanged", r.FilesUnchanged)
	skipped := func(look, word string, files []workspace.Skipped) {
		for _, f := range files {
			list(look, word, []string{f.Path + ": " + f.Reason})
		}
	}
	skipped(yellow, "skipped", r.FilesSkipped)
	skipped(red, "conflict", r.Conflicts)
	for _, s := range r.Posts {
		showPost(p, s)
	}
	showQuestions(p, r)
	for _, w := range r.Warnings {
		p.line("%s %s", p.paint(yellow, pad("note", 10)), printable(w.Message))
	}
	list(red, "error", r.Errors)
	switch {
	case r.State == conversation.Applied && r.Undo != "":
		p.line("Done: %s. `airlock undo %s` reverts it.", summary(r), r.Undo)
	case r.State == conversation.Applied:
		p.line("Done: %s.", summary(r))
	case r.State == conversation.Proposed:
		p.line("Nothing was changed. `airlock apply --approve %s` carries it out.", r.TxnID)
	case r.Reason != "":
		p.line("Nothing was changed: %s.", printable(r.Reason))
	default:
		p.line("Nothing was changed.")
	}
}

// unanswered says that questions of a reply reached nobody but the person here.
func unanswered(r *conversation.Result) error {
	n := 0
	for _, q := range r.Questions {
		if q.Unsent {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fail(exitApproval, "answer in your next prompt; `airlock workspace link PROJECT DIR --api URL` links a "+
		"project whose API takes such questions", "%s of the reply was not sent, and waits for you",
		english.Plural(n, "question", ""))
}

// showQuestions writes escalations that are open.
func showQuestions(p *page, r *conversation.Result) {
	for _, q := range r.Questions {
		p.line("%s %s", p.paint(yellow, pad("question", 10)), printable(q.Question))
		for i, option := range q.Options {
			p.line("%s %d. %s", pad("", 10), i+1, printable(option))
		}
		if q.Recommendation != "" {
			p.line("%s recommended: %s", pad("", 10), printable(q.Recommendation))
		}
		if q.Unsent {
			p.line("%s it was not sent: answer the model in your next prompt, "+
				"or link the project's API and apply the reply again", pad("", 10))
			continue
		}
		p.line("%s answer with `airlock outbox answer %s CHOICE`", pad("", 10), q.ID)
	}
}

func showPost(p *page, s conversation.PostState) {
	what := string(s.Kind)
	if s.Percent != nil {
		what += fmt.Sprintf(" %d %%", *s.Percent)
	}
	look, state, why := green, string(s.State), s.Problem
	switch s.State {
	case assignment.Sent:
	case assignment.Held, assignment.DeadLetter:
		look = yellow
		for _, h := range s.Holds {
			why = h.Detail
		}
	default:
		look = yellow
		if s.State == assignment.Pending || s.State == assignment.Sending {
			state = "waiting"
		}
	}
	if why != "" {
		why = ": " + why
	}
	p.line("%s %s of %s%s", p.paint(look, pad(state, 10)), what, printable(s.Assignment), printable(why))
}

// summary counts in one line what a receipt lists.
func summary(r *conversation.Result) string {
	var parts []string
	count := func(n int, one, many string) {
		if n == 1 {
			parts = append(parts, "1 "+one)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	count(len(r.FilesCreated), "file created", "files created")
	count(len(r.FilesUpdated), "file updated", "files updated")
	count(len(r.FilesDeleted), "file deleted", "files deleted")
	count(len(r.FilesRenamed), "file renamed", "files renamed")
	count(r.ProgressUpdates, "progress report", "progress reports")
	count(r.Submissions, "submission", "submissions")
	count(r.Escalations, "escalation", "escalations")
	count(len(r.Errors), "error", "errors")
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}
