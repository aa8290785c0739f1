package changes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
)

// Result is the outcome of a reply, which applications keep and show as
// metadata.executionResult of the message.
type Result struct {
	FilesCreated    []string `json:"filesCreated"`
	FilesUpdated    []string `json:"filesUpdated"`
	ProgressUpdates int      `json:"progressUpdates"`
	Submissions     int      `json:"submissions"`
	Escalations     int      `json:"escalations"`
	Errors          []string `json:"errors"`

	State          State               `json:"state"`
	Reason         string              `json:"reason,omitempty"` // why nothing was changed
	FilesUnchanged []string            `json:"filesUnchanged"`
	FilesDeleted   []string            `json:"filesDeleted"`
	FilesRenamed   []workspace.Renamed `json:"filesRenamed"`
	FilesSkipped   []workspace.Skipped `json:"filesSkipped"`
	Conflicts      []workspace.Skipped `json:"conflicts"`
	TxnID          string              `json:"txnId"`
	Undo           string              `json:"undo,omitempty"`
	Posts          []PostState         `json:"posts"`
	Questions      []Question          `json:"questions"` // escalations that are open
	Warnings       []reply.Warning     `json:"warnings"`
}

// AllThere is the Reason of a Result if there was nothing to do.
const AllThere = "the folder already has all of it"

// State is the state of a reply.
type State string

// The states of a reply.
const (
	Proposed  State = "proposed" // awaits an approval
	Applied   State = "applied"
	ShownOnly State = "shown" // nothing may be applied: see ReplyRecord.Gate
	Declined  State = "declined"
	Failed    State = "failed" // nothing was changed: see Errors
)

// PostState is the state of a report, without its text.
type PostState struct {
	ID         string            `json:"id,omitempty"`
	Kind       assignment.Kind   `json:"kind"`
	Assignment string            `json:"assignment,omitempty"`
	State      assignment.State  `json:"state"`
	Percent    *int              `json:"percent,omitempty"` // of a progress
	Holds      []assignment.Hold `json:"holds,omitempty"`
	Problem    string            `json:"problem,omitempty"`
	Done       time.Time         `json:"done,omitzero"`
}

// Question is an escalation as it is put to a person.
type Question struct {
	ID             string   `json:"id"`
	Assignment     string   `json:"assignment,omitempty"`
	Question       string   `json:"question"`
	Options        []string `json:"options"`
	Recommendation string   `json:"recommendation,omitempty"`
	Rationale      string   `json:"rationale,omitempty"`
	// Unsent reports that it was not sent to a project: the user answers the model.
	Unsent bool `json:"unsent,omitempty"`
}

// newResult returns the result of a message before anything was done.
func newResult(h *ReplyRecord) *Result {
	r := &Result{State: Proposed, TxnID: h.ID}
	for _, p := range h.Batch.Problems {
		r.Errors = append(r.Errors, fmt.Sprintf("%s (at byte %d): %s", p.Block, p.Offset, p.Reason))
	}
	r.Warnings = slices.Clone(h.Notes)
	for _, w := range h.Batch.Warnings {
		r.Warnings = append(r.Warnings, reply.Warning{Code: "report", Message: w})
	}
	for _, s := range h.Shown {
		what := cmp.Or(s.Path, s.Block)
		r.Warnings = append(r.Warnings, reply.Warning{Code: "shown." + string(s.Verdict), Message: what + ": " + s.Reason,
			Offset: s.Offset})
	}
	r.Questions, r.Escalations = slices.Clone(h.Questions), len(h.Questions)
	for _, q := range h.Questions {
		r.Warnings = append(r.Warnings, reply.Warning{Code: "question.unsent",
			Message: strings.TrimSpace("not sent: the question "+q.Assignment) + ": " + q.Question})
	}
	r.fill()
	return r
}

// notReported begins an error about a report.
const notReported = "not reported: "

// Failed reports whether there are errors other than those about reports, which the outbox
// sends again.
func (r *Result) Failed() bool {
	return slices.ContainsFunc(r.Errors, func(e string) bool { return !strings.HasPrefix(e, notReported) })
}

// reported replaces the errors about reports with the present ones.
func (r *Result) reported() {
	r.Errors = slices.DeleteFunc(r.Errors, func(e string) bool { return strings.HasPrefix(e, notReported) })
	for _, p := range r.Posts {
		if p.State == assignment.DeadLetter { // the others are tried again
			r.Errors = append(r.Errors, fmt.Sprintf("%s%s: %s", notReported, strings.TrimSpace(string(p.Kind)+" "+p.Assignment),
				p.Problem))
		}
	}
}

// fill makes empty lists encode as [].
func (r *Result) fill() {
	for _, list := range []*[]string{&r.FilesCreated, &r.FilesUpdated, &r.Errors, &r.FilesUnchanged, &r.FilesDeleted} {
		*list = append([]string{}, *list...)
	}
	r.FilesRenamed = append([]workspace.Renamed{}, r.FilesRenamed...)
	r.FilesSkipped = append([]workspace.Skipped{}, r.FilesSkipped...)
	r.Conflicts = append([]workspace.Skipped{}, r.Conflicts...)
	r.Posts = append([]PostState{}, r.Posts...)
	r.Questions = append([]Question{}, r.Questions...)
	r.Warnings = append([]reply.Warning{}, r.Warnings...)
}

// ResultOf returns the result of a commit that belongs to no reply, such as an undo.
func ResultOf(receipt *workspace.Receipt) *Result {
	r := &Result{State: Applied}
	r.files(receipt)
	return r
}

// Files describes the files that were changed, one by one.
func (r *Result) Files() (list []string) {
	for _, changed := range []struct {
		verb  string
		names []string
	}{{"create ", r.FilesCreated}, {"update ", r.FilesUpdated}, {"delete ", r.FilesDeleted}} {
		for _, name := range changed.names {
			list = append(list, changed.verb+name)
		}
	}
	for _, f := range r.FilesRenamed {
		list = append(list, "rename "+f.From+" to "+f.To)
	}
	return list
}

// files fills in the receipt of a commit.
func (r *Result) files(receipt *workspace.Receipt) {
	r.FilesCreated, r.FilesUpdated, r.FilesUnchanged = receipt.FilesCreated, receipt.FilesUpdated, receipt.FilesUnchanged
	r.FilesDeleted, r.FilesRenamed, r.FilesSkipped = receipt.FilesDeleted, receipt.FilesRenamed, receipt.FilesSkipped
	r.Conflicts, r.TxnID, r.Undo = receipt.Conflicts, receipt.TxnID, receipt.Undo
	if !receipt.Changed() && len(r.FilesSkipped)+len(r.Conflicts)+len(receipt.Errors) == 0 {
		r.Reason = AllThere
	}
	for _, e := range receipt.Errors {
		r.Errors = append(r.Errors, e.Path+": "+e.Reason)
	}
	for _, k := range receipt.Kept {
		r.Errors = append(r.Errors, fmt.Sprintf(
			"%s was written by another program in the moment of the commit: its bytes are kept under %s", k.Path, k.Hash))
	}
	r.fill()
}

// posts fills in the states of the reports of a batch.
func (r *Result) posts(batch assignment.Batch, lanes []assignment.Lane) {
	r.Posts, r.Questions = nil, nil
	r.ProgressUpdates, r.Submissions, r.Escalations = 0, 0, 0
	for i := range batch.Posts {
		p := &batch.Posts[i]
		at := slices.IndexFunc(lanes, func(l assignment.Lane) bool { return l.LaneID == p.LaneID })
		if at < 0 {
			continue
		}
		lane := &lanes[at]
		if at = slices.IndexFunc(lane.Posts, func(q assignment.Post) bool { return sameReport(&q, p) }); at < 0 {
			continue
		}
		r.Posts = append(r.Posts, StateOf(&lane.Posts[at]))
		switch p.Kind {
		case assignment.Progress:
			r.ProgressUpdates++
		case assignment.Submission:
			r.Submissions++
		case assignment.Question:
			r.Escalations++
			if e := lane.Escalation(p.Escalation); e != nil && e.Answer == nil {
				r.Questions = append(r.Questions, QuestionOf(e))
			}
		}
	}
	r.reported()
	r.fill()
}

// sameReport reports whether a post of a lane says what p says.
func sameReport(q, p *assignment.Post) bool {
	return q.Key == p.Key || p.Kind == assignment.Question && q.Kind == p.Kind && q.Escalation == p.Escalation
}

// StateOf returns the state of a post.
func StateOf(p *assignment.Post) PostState {
	s := PostState{ID: p.ID, Kind: p.Kind, Assignment: p.Assignment, State: p.State, Holds: p.Holds, Problem: p.Problem,
		Done: p.Done}
	if percent, ok := p.Percent(); ok {
		s.Percent = &percent
	}
	return s
}

// QuestionOf returns an escalation as a Question.
func QuestionOf(e *assignment.Escalation) Question {
	return Question{ID: e.ID, Assignment: e.Assignment, Question: e.Question, Options: append([]string{}, e.Options...),
		Recommendation: e.Recommendation, Rationale: e.Rationale}
}
