package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
)

// reportView is a report of a reply to the project.
type reportView struct {
	ID, Kind   string // "p1", "Progress"
	Assignment string
	State      string // after the approval
	Class      string
	Moving     bool // it is being sent
	Problem    string
	Holds      []assignment.Hold

	Progress   *assignment.ProgressBody
	Submission *submissionView
	Question   *questionView
}

type submissionView struct {
	Summary  string
	Evidence []evidenceView
}

// evidenceView is a checked piece of evidence.
type evidenceView struct{ Text, State, Class string }

// questionView is an escalation, which can be answered once it was sent.
type questionView struct {
	changes.Question
	Project string
	Back    string // the path to show after an answer
	Asked   bool
	Answer  *assignment.Answer
}

var kindTitles = map[assignment.Kind]string{
	assignment.Progress: "Progress", assignment.Submission: "Submission", assignment.Question: "Question",
	assignment.Decision: "Decision",
}

// postWords has the states of reports in words, with their CSS classes.
var postWords = map[assignment.State]wording{
	assignment.Held:       {"held back", "weaker"},
	assignment.Pending:    {"waits to be sent", "queued"},
	assignment.Sending:    {"is being sent", "running"},
	assignment.DeadLetter: {"was refused", "error"},
	assignment.Sent:       {"sent", "ok"},
	assignment.Merged:     {"went into a later report", "ok"},
	assignment.Dropped:    {"dropped", ""},
}

// reportsOf returns the reports of a reply.
func (p *reviewPage) reportsOf(
	ctx context.Context, h *changes.ReplyRecord, proposal *workspace.Proposal,
) ([]reportView, error) {
	if len(h.Batch.Posts) == 0 {
		return nil, nil
	}
	lanes, err := p.Outbox.Lanes(ctx, assignment.Query{API: h.API, Project: h.Project})
	if err != nil {
		return nil, err
	}
	var reports []reportView
	for i := range h.Batch.Posts {
		post := &h.Batch.Posts[i]
		r := reportView{ID: fmt.Sprintf("p%d", i+1), Kind: kindTitles[post.Kind], Assignment: post.Assignment,
			Holds: post.Holds}
		if h.Result.State == changes.Applied {
			r.state(h.Result, lanes, post)
		}
		switch post.Kind {
		case assignment.Progress:
			r.Progress = &assignment.ProgressBody{}
			err = json.Unmarshal(post.Body, r.Progress)
		case assignment.Submission:
			r.Submission, err = p.submission(h, proposal, post)
		case assignment.Question:
			r.Question, err = question(h, lanes, post)
		}
		if err != nil {
			return nil, fmt.Errorf("a report of %s: %w", h.ID, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// state fills in the state of a report.
func (r *reportView) state(result *changes.Result, lanes []assignment.Lane, post *assignment.Post) {
	r.State, r.Holds = "not reported", nil
	at := slices.IndexFunc(result.Posts, func(s changes.PostState) bool { return s.ID == post.ID })
	if at < 0 { // the same was reported before, by another reply
		same := func(s changes.PostState) bool { return s.Kind == post.Kind && s.Assignment == post.Assignment }
		if at = slices.IndexFunc(result.Posts, same); at < 0 {
			return
		}
	}
	s := result.Posts[at]
	for i := range lanes {
		if now := lanes[i].Post(s.ID); now != nil {
			s = changes.StateOf(now)
		}
	}
	words := postWords[s.State]
	r.State, r.Class, r.Problem, r.Holds = words.words, words.class, s.Problem, s.Holds
	r.Moving = s.State == assignment.Pending || s.State == assignment.Sending
}

func (p *reviewPage) submission(
	h *changes.ReplyRecord, proposal *workspace.Proposal, post *assignment.Post,
) (*submissionView, error) {
	var body assignment.SubmissionBody
	if err := json.Unmarshal(post.Body, &body); err != nil {
		return nil, err
	}
	s := &submissionView{Summary: body.Summary}
	for _, text := range body.Evidence {
		e := evidenceView{Text: text}
		switch p.Evidence(h, proposal, text) {
		case assignment.Present:
			e.State, e.Class = "in the folder", "ok"
			if proposal != nil && slices.ContainsFunc(proposal.Files,
				func(f workspace.FileChange) bool { return f.Path == text && f.Op != workspace.OpUnchanged }) {
				e.State, e.Class = "comes with this reply", "running"
			}
		case assignment.Missing:
			e.State, e.Class = "missing", "error"
		case assignment.Left:
			e.State, e.Class = "would not be written", "error"
		default:
			e.State = "not a file"
		}
		s.Evidence = append(s.Evidence, e)
	}
	return s, nil
}

func question(h *changes.ReplyRecord, lanes []assignment.Lane, post *assignment.Post) (*questionView, error) {
	var body assignment.QuestionBody
	if err := json.Unmarshal(post.Body, &body); err != nil {
		return nil, err
	}
	q := &questionView{Project: h.Project, Back: "/review/" + h.ID, Question: changes.Question{ID: post.Escalation,
		Assignment: post.Assignment, Question: body.Question, Options: body.Options,
		Recommendation: body.Recommendation, Rationale: body.Rationale}}
	for i := range lanes {
		if e := lanes[i].Escalation(post.Escalation); e != nil {
			q.Asked, q.Answer = true, e.Answer
		}
	}
	return q, nil
}
