package conversation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/reply"
	"github.com/airlock-run/airlock/workspace"
)

// Result is the receipt of a reply: what applications keep and show as
// metadata.executionResult of the message.
type Result struct {
	FilesCreated    []string `json:"filesCreated"`
	FilesUpdated    []string `json:"filesUpdated"`
	ProgressUpdates int      `json:"progressUpdates"`
	Submissions     int      `json:"submissions"`
	Escalations     int      `json:"escalations"`
	Errors          []string `json:"errors"`

	State          State               `json:"state"`
	Reason         string              `json:"reason,omitempty"` // why the state is not applied
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

// State is what became of a reply.
type State string

// What can become of a reply.
const (
	Proposed  State = "proposed" // it waits for an approval
	Applied   State = "applied"
	ShownOnly State = "shown" // a gate is closed: it was read and shown
	Declined  State = "declined"
	Failed    State = "failed" // nothing was changed: see Errors
)

// PostState is a report and how far it has come, without its words.
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

// Question is an escalation as a person is asked.
type Question struct {
	ID             string   `json:"id"`
	Assignment     string   `json:"assignment,omitempty"`
	Question       string   `json:"question"`
	Options        []string `json:"options"`
	Recommendation string   `json:"recommendation,omitempty"`
	Rationale      string   `json:"rationale,omitempty"`
	// Unsent says that no project knows of it: the person answers the model.
	Unsent bool `json:"unsent,omitempty"`
}

// newResult begins the result of a message with what its reply says by itself.
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

// notReported begins an error that is about a report.
const notReported = "not reported: "

// Failed reports whether anything else went wrong than a report: those are in the
// outbox, and leave from there.
func (r *Result) Failed() bool {
	return slices.ContainsFunc(r.Errors, func(e string) bool { return !strings.HasPrefix(e, notReported) })
}

// reported takes what went wrong with reports into the errors, in the place of what
// was known before.
func (r *Result) reported() {
	r.Errors = slices.DeleteFunc(r.Errors, func(e string) bool { return strings.HasPrefix(e, notReported) })
	for _, p := range r.Posts {
		if p.State == assignment.DeadLetter { // the others are tried again
			r.Errors = append(r.Errors, fmt.Sprintf("%s%s: %s", notReported, strings.TrimSpace(string(p.Kind)+" "+p.Assignment),
				p.Problem))
		}
	}
}

// fill makes every list one that is written as [].
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

// files takes over what a commit did.
func (r *Result) files(receipt *workspace.Receipt) {
	r.FilesCreated, r.FilesUpdated, r.FilesUnchanged = receipt.FilesCreated, receipt.FilesUpdated, receipt.FilesUnchanged
	r.FilesDeleted, r.FilesRenamed, r.FilesSkipped = receipt.FilesDeleted, receipt.FilesRenamed, receipt.FilesSkipped
	r.Conflicts, r.TxnID, r.Undo = receipt.Conflicts, receipt.TxnID, receipt.Undo
	for _, e := range receipt.Errors {
		r.Errors = append(r.Errors, e.Path+": "+e.Reason)
	}
	for _, k := range receipt.Kept {
		r.Errors = append(r.Errors, fmt.Sprintf(
			"%s was written by another program in the moment of the commit: its bytes are kept under %s", k.Path, k.Hash))
	}
	r.fill()
}

// posts takes over how far the reports of a batch have come.
func (r *Result) posts(batch assignment.Batch, lanes []assignment.Lane) {
	r.Posts, r.Questions = nil, nil
	r.ProgressUpdates, r.Submissions, r.Escalations = 0, 0, 0
	for i := range batch.Posts {
		p := &batch.Posts[i]
		lane := laneOf(lanes, p.LaneID)
		now := find(lane, p)
		if now == nil {
			continue
		}
		r.Posts = append(r.Posts, StateOf(now))
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

func laneOf(lanes []assignment.Lane, id assignment.LaneID) *assignment.Lane {
	for i := range lanes {
		if lanes[i].LaneID == id {
			return &lanes[i]
		}
	}
	return nil
}

// find returns the post of a lane that says what p says.
func find(lane *assignment.Lane, p *assignment.Post) *assignment.Post {
	if lane == nil {
		return nil
	}
	for i := range lane.Posts {
		q := &lane.Posts[i]
		if q.Key == p.Key || p.Kind == assignment.Question && q.Kind == p.Kind && q.Escalation == p.Escalation {
			return q
		}
	}
	return nil
}

// StateOf describes a post.
func StateOf(p *assignment.Post) PostState {
	s := PostState{ID: p.ID, Kind: p.Kind, Assignment: p.Assignment, State: p.State, Holds: p.Holds, Problem: p.Problem,
		Done: p.Done}
	if percent, ok := p.Percent(); ok {
		s.Percent = &percent
	}
	return s
}

// QuestionOf describes an escalation.
func QuestionOf(e *assignment.Escalation) Question {
	return Question{ID: e.ID, Assignment: e.Assignment, Question: e.Question, Options: append([]string{}, e.Options...),
		Recommendation: e.Recommendation, Rationale: e.Rationale}
}
