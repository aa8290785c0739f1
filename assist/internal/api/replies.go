package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/rest"
)

// errNoWork reports that the service has no folders and projects.
var errNoWork = rest.Unavailable("This service keeps no projects.", nil)

// about serves a route about projects.
func (w *Work) about(serve func(*Work, *rest.Request) (any, error)) rest.Handler {
	return func(q *rest.Request) (any, error) {
		if w.Scoped == nil {
			return nil, errNoWork
		}
		if why := w.OneMachine(); why != "" {
			return nil, rest.Conflict("%s", why)
		}
		return serve(w, q)
	}
}

func (w *Work) createReply(q *rest.Request) (any, error) {
	body := q.Object()
	policy := readPolicy(body)
	m, err := readMessage(body)
	if err != nil {
		return nil, err
	}
	if _, err := w.Linked(q.Context(), q.Owner(), m.Project); err != nil {
		return nil, workError(err)
	}
	h, p, err := w.Propose(q.Context(), q.Owner(), m, reply.Parse([]byte(m.Text)))
	if err != nil {
		return nil, workError(err)
	}
	if err := w.Keep(q.Context(), h, p); err != nil {
		return nil, workError(err)
	}
	answer := proposalOf(h, p)
	if policy != nil && h.Gate == "" && !h.Done {
		consent, held := changes.CoveredBy(*policy, p, false)
		if consent.Covers(held) {
			if _, err := w.Approve(q.Context(), h, p, consent); err != nil {
				return nil, w.approvalFailed(q, h, p, err)
			}
			w.Wake()
			answer = proposalOf(h, nil)
		}
		answer.Held = append([]workspace.Held{}, held...)
	}
	return rest.Created("/proposals/"+h.ID, answer), nil
}

// readPolicy takes the rules that approve without a question; nil: there are none.
func readPolicy(body *rest.Object) *workspace.Policy {
	rules, ok := rest.Take[map[string]any](body, "policy", "an object")
	if !ok {
		return nil
	}
	text, err := json.Marshal(rules)
	if err != nil {
		body.Fail("policy", "cannot be read: %v", err)
		return nil
	}
	policy, err := workspace.ParsePolicy(text)
	if err != nil {
		body.Fail("policy", "is not a policy: %v", err)
		return nil
	}
	return &policy
}

// readMessage reads a model's reply and what the client knows about it.
func readMessage(body *rest.Object) (changes.Message, error) {
	m := changes.Message{
		ID: body.Text("id"), Text: body.NeedText("text"), Project: body.NeedText("project"),
		Assignments: body.Texts("assignments"), Only: body.Texts("only"),
	}
	talk := body.Object("conversation")
	m.Objective = talk.Text("objective")
	capsule := talk.Object("capsule")
	m.Phase = capsule.Text("phase")
	_, _ = capsule.Done(), talk.Done() // done of the whole body reports their error
	return m, body.Done()
}

func (w *Work) getProposal(q *rest.Request, h *changes.ReplyRecord, p *workspace.Proposal) (any, error) {
	return proposalOf(h, p), nil
}

// proposal serves a route about the proposal in the path. Its reports are refreshed first.
func (w *Work) proposal(
	serve func(*Work, *rest.Request, *changes.ReplyRecord, *workspace.Proposal) (any, error),
) rest.Handler {
	return w.about(func(work *Work, q *rest.Request) (any, error) {
		h, p, err := work.Open(q.Context(), q.Owner(), q.PathValue("id"))
		if err == nil && h.Root != "" && !work.Allows(h.Root) {
			err = conversation.ErrNotFound
		}
		if err == nil && h.Done {
			err = work.Refresh(q.Context(), h)
		}
		if err == nil {
			err = work.CloseUnlinked(q.Context(), h)
		}
		if err != nil {
			return nil, workError(err)
		}
		return serve(work, q, h, p)
	})
}

func (w *Work) approveProposal(q *rest.Request, h *changes.ReplyRecord, p *workspace.Proposal) (any, error) {
	body := q.Object()
	token, only, best := body.NeedText("token"), body.Texts("only"), body.Flag("best_effort", false)
	if err := body.Done(); err != nil {
		return nil, err
	}
	switch {
	case h.Gate != "":
		return nil, rest.Conflict("%s", h.Gate)
	case h.Done:
		return nil, rest.Conflict("it is %s already", h.Result.State)
	case tokenOf(h, p) != token:
		return nil, rest.Conflict(
			"the token is not that of the proposal as it is now: look at it again")
	}
	consent, err := consentOf(h, p, only)
	if err != nil {
		return nil, err
	}
	consent.BestEffort = best
	if _, err := w.Approve(q.Context(), h, p, consent); err != nil {
		return nil, w.approvalFailed(q, h, p, err)
	}
	w.Wake()
	return proposalOf(h, nil), nil
}

// consentOf returns the consent to the ids in only, or, without ids, to the whole proposal if the
// automatic policy covers every file.
func consentOf(h *changes.ReplyRecord, p *workspace.Proposal, only []string) (c changes.Consent, err error) {
	if only == nil {
		if p == nil {
			return c, nil
		}
		var held []workspace.Held
		c.Approval, held = p.ApproveBy(workspace.Automatic())
		if len(held) > 0 {
			return c, rest.Conflict("%s: %s; name what is approved in only",
				held[0].Path, held[0].Reason)
		}
		return c, nil
	}
	c.Posts = []string{}
	var files []string
	for _, id := range only {
		if i := reportIndex(h, id); i >= 0 {
			c.Posts = append(c.Posts, h.Batch.Posts[i].ID)
		} else {
			files = append(files, id)
		}
	}
	if len(files) == 0 {
		return c, nil
	}
	if p == nil {
		return c, rest.Invalid("only names files, and the reply has none")
	}
	if c.Approval, err = p.Approve(files...); err != nil {
		if errors.Is(err, workspace.ErrNeedsDecision) {
			return c, workError(err)
		}
		return c, rest.Invalid("only: %v", err)
	}
	return c, nil
}

func reportIndex(h *changes.ReplyRecord, id string) int {
	for i := range h.Batch.Posts {
		if id == reportID(i) {
			return i
		}
	}
	return -1
}

func reportID(i int) string { return fmt.Sprintf("p%d", i+1) }

// approvalFailed stores the cause with the message. After a conflict it makes a new
// proposal on the present files.
func (w *Work) approvalFailed(q *rest.Request, h *changes.ReplyRecord, p *workspace.Proposal, cause error) error {
	ctx := context.WithoutCancel(q.Context())
	if err := w.Fail(ctx, h, cause); err != nil {
		return errors.Join(cause, err)
	}
	if errors.Is(cause, workspace.ErrConflict) {
		if _, err := w.Rebase(ctx, h, p); err != nil {
			return errors.Join(cause, err)
		}
	}
	return workError(cause)
}

func (w *Work) declineProposal(q *rest.Request, h *changes.ReplyRecord, _ *workspace.Proposal) (any, error) {
	return nil, workError(w.Decline(q.Context(), h, "it was turned down"))
}

func (w *Work) undoProposal(q *rest.Request, h *changes.ReplyRecord, _ *workspace.Proposal) (any, error) {
	body := q.Object()
	only := body.Texts("only")
	if err := body.Done(); err != nil {
		return nil, err
	}
	next, p, err := w.Undo(q.Context(), h, only...)
	if err != nil {
		return nil, workError(err)
	}
	return rest.Created("/proposals/"+next.ID, proposalOf(next, p)), nil
}

// workError translates errors of folders and projects.
func workError(err error) error {
	if err == nil {
		return nil
	}
	answered, late := errors.AsType[*assignment.AnsweredError](err)
	state, wrong := errors.AsType[*assignment.StateError](err)
	conflict := func(err error) error {
		return rest.Conflict("%s", strings.ToValidUTF8(err.Error(), "?"))
	}
	switch {
	case late:
		return conflict(answered)
	case wrong:
		return conflict(state)
	case errors.Is(err, workspace.ErrRefused):
		return rest.Forbidden("%v", err)
	case errors.Is(err, workspace.ErrConflict), errors.Is(err, workspace.ErrStale),
		errors.Is(err, workspace.ErrNeedsDecision),
		errors.Is(err, workspace.ErrNothing), errors.Is(err, changes.ErrDone), errors.Is(err, changes.ErrClosed):
		return conflict(err)
	case errors.Is(err, workspace.ErrBusy):
		return rest.Unavailable("Another commit into the folder is going on: try again.", err)
	case errors.Is(err, conversation.ErrInvalid):
		return rest.Invalid("%v", err)
	case errors.Is(err, workspace.ErrNotFound), errors.Is(err, conversation.ErrNotFound),
		errors.Is(err, assignment.ErrNotFound):
		return rest.ErrNotFound
	case errors.Is(err, fs.ErrPermission):
		return rest.Conflict("the service may not write to the folder")
	}
	return err
}

// proposalBody is a reply with its planned and applied changes.
type proposalBody struct {
	ID        string                 `json:"id"`
	Message   string                 `json:"message"`
	Project   string                 `json:"project"`
	Root      string                 `json:"root"`
	Phase     string                 `json:"phase,omitempty"`
	CreatedAt string                 `json:"created_at"`
	State     changes.State          `json:"state"`
	Token     string                 `json:"token"` // empty: it cannot be approved
	Files     []workspace.FileChange `json:"files"`
	Findings  []workspace.Finding    `json:"findings"`
	Reports   []reportBody           `json:"reports"`
	Held      []workspace.Held       `json:"held,omitzero"` // files that the request's policy does not cover
	Metadata  metadataBody           `json:"metadata"`
}

type metadataBody struct {
	ExecutionResult *changes.Result `json:"executionResult"`
}

// reportBody is a report that approval sends to the project.
type reportBody struct {
	ID         string            `json:"id"`
	Kind       assignment.Kind   `json:"kind"`
	Assignment string            `json:"assignment"`
	Summary    string            `json:"summary"`
	Holds      []assignment.Hold `json:"holds"`
}

func proposalOf(h *changes.ReplyRecord, p *workspace.Proposal) proposalBody {
	b := proposalBody{ID: h.ID, Message: h.Message, Project: h.Project, Root: h.Root, Phase: h.Phase,
		CreatedAt: rest.TimeOf(h.Created),
		State:     h.Result.State, Token: tokenOf(h, p), Files: []workspace.FileChange{}, Findings: []workspace.Finding{},
		Reports: []reportBody{}, Metadata: metadataBody{h.Result}}
	if p != nil {
		b.Files, b.Findings = append(b.Files, p.Files...), append(b.Findings, p.Findings...)
	}
	for i := range h.Batch.Posts {
		post := &h.Batch.Posts[i]
		b.Reports = append(b.Reports, reportBody{reportID(i), post.Kind, post.Assignment, post.Summary(),
			append([]assignment.Hold{}, post.Holds...)})
	}
	return b
}

// tokenOf returns the token of a proposal as it was shown; "": it cannot be approved.
func tokenOf(h *changes.ReplyRecord, p *workspace.Proposal) string {
	switch {
	case h.Done || h.Gate != "":
		return ""
	case p == nil:
		return h.ID
	}
	return p.Token
}
