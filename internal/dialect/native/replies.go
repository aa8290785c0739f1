package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/reply"
	"github.com/airlock-run/airlock/workspace"
)

// Work is what the addresses about replies, projects and reports stand on.
type Work struct {
	*conversation.Scoped
	Outbox *assignment.Outbox
}

// errNoWork says that a service has no folders and projects.
var errNoWork = &engine.Error{Kind: engine.ErrUnavailable, Hint: "This service keeps no projects."}

// work returns what is needed, and whose requests they are.
func (a *api) work(r *http.Request) (*Work, string, error) {
	if a.Work == nil {
		return nil, "", errNoWork
	}
	return a.Work, string(a.Caller(r).Owner), nil
}

func (a *api) createReply(w http.ResponseWriter, r *http.Request) error {
	work, owner, err := a.work(r)
	if err != nil {
		return err
	}
	body, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	policy := readPolicy(body)
	m, err := readMessage(body)
	if err != nil {
		return err
	}
	if _, err := work.Linked(r.Context(), owner, m.Project); err != nil {
		return workError(err)
	}
	h, p, err := work.Propose(r.Context(), owner, m, reply.Parse([]byte(m.Text)))
	if err != nil {
		return workError(err)
	}
	if err := work.Keep(r.Context(), h, p); err != nil {
		return workError(err)
	}
	answer := proposalOf(h, p)
	if policy != nil && h.Gate == "" && !h.Done {
		consent, held := conversation.CoveredBy(*policy, p, false)
		if consent.Covers(held) {
			if _, err := work.Approve(r.Context(), h, p, consent); err != nil {
				return a.approvalFailed(work, r, h, p, err)
			}
			work.Wake()
			answer = proposalOf(h, nil)
		}
		answer.Held = append([]workspace.Held{}, held...)
	}
	w.Header().Set("Location", a.Prefix+"/proposals/"+h.ID)
	writeJSON(w, http.StatusCreated, answer)
	return nil
}

// readPolicy takes the rules that approve without asking; nil: there are none.
func readPolicy(body *object) *workspace.Policy {
	rules, ok := take[map[string]any](body, "policy", "an object")
	if !ok {
		return nil
	}
	text, err := json.Marshal(rules)
	if err != nil {
		body.fail("policy", "cannot be read: %v", err)
		return nil
	}
	policy, err := workspace.ParsePolicy(text)
	if err != nil {
		body.fail("policy", "is not a policy: %v", err)
		return nil
	}
	return &policy
}

// readMessage reads what a client has of a model's reply.
func readMessage(body *object) (conversation.Message, error) {
	m := conversation.Message{
		ID: body.text("id"), Text: body.needText("text"), Project: body.needText("project"), Assignments: body.texts("assignments"), Only: body.texts("only"),
	}
	talk := body.object("conversation")
	m.Objective = talk.text("objective")
	capsule := talk.object("capsule")
	m.Phase = capsule.text("phase")
	_, _ = capsule.done(), talk.done() // their error is the whole body's
	return m, body.done()
}

func (a *api) getProposal(w http.ResponseWriter, r *http.Request) error {
	_, h, p, err := a.openProposal(r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, proposalOf(h, p))
	return nil
}

// openProposal finds the proposal in the path, with its reports as far as they
// have come.
func (a *api) openProposal(r *http.Request) (*Work, *conversation.ReplyRecord, *workspace.Proposal, error) {
	work, owner, err := a.work(r)
	if err != nil {
		return nil, nil, nil, err
	}
	h, p, err := work.Open(r.Context(), owner, r.PathValue("id"))
	if err == nil && h.Root != "" && !work.Allows(h.Root) {
		err = conversation.ErrNotFound
	}
	if err == nil && h.Done {
		err = work.Refresh(r.Context(), h)
	}
	if err == nil {
		err = work.CloseUnlinked(r.Context(), h)
	}
	return work, h, p, workError(err)
}

func (a *api) approveProposal(w http.ResponseWriter, r *http.Request) error {
	work, h, p, err := a.openProposal(r)
	if err != nil {
		return err
	}
	body, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	token, only, best := body.needText("token"), body.texts("only"), body.flag("best_effort", false)
	if err := body.done(); err != nil {
		return err
	}
	switch {
	case h.Gate != "":
		return refuse(http.StatusConflict, string(engine.ErrConflict), "%s", h.Gate)
	case h.Done:
		return refuse(http.StatusConflict, string(engine.ErrConflict), "it is %s already", h.Result.State)
	case tokenOf(h, p) != token:
		return refuse(http.StatusConflict, string(engine.ErrConflict), "the token is not that of the proposal as it is now: look at it again")
	}
	consent, err := consentOf(h, p, only)
	if err != nil {
		return err
	}
	consent.BestEffort = best
	if _, err := work.Approve(r.Context(), h, p, consent); err != nil {
		return a.approvalFailed(work, r, h, p, err)
	}
	work.Wake()
	writeJSON(w, http.StatusOK, proposalOf(h, nil))
	return nil
}

// consentOf reads what is approved: what the ids name, or, without ids, all of
// it if nothing speaks against any file.
func consentOf(h *conversation.ReplyRecord, p *workspace.Proposal, only []string) (c conversation.Consent, err error) {
	if only == nil {
		if p == nil {
			return c, nil
		}
		var held []workspace.Held
		c.Approval, held = p.ApproveBy(workspace.Automatic())
		if len(held) > 0 {
			return c, refuse(http.StatusConflict, string(engine.ErrConflict), "%s: %s; name what is approved in only", held[0].Path, held[0].Reason)
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
		return c, invalid("only names files, and the reply has none")
	}
	if c.Approval, err = p.Approve(files...); err != nil {
		if errors.Is(err, workspace.ErrNeedsDecision) {
			return c, workError(err)
		}
		return c, invalid("only: %v", err)
	}
	return c, nil
}

func reportIndex(h *conversation.ReplyRecord, id string) int {
	for i := range h.Batch.Posts {
		if id == reportID(i) {
			return i
		}
	}
	return -1
}

func reportID(i int) string { return fmt.Sprintf("p%d", i+1) }

// approvalFailed keeps with the message what went wrong. After a conflict the
// proposal is made anew, on the files as they are now.
func (a *api) approvalFailed(work *Work, r *http.Request, h *conversation.ReplyRecord, p *workspace.Proposal, cause error) error {
	ctx := context.WithoutCancel(r.Context())
	if err := work.Fail(ctx, h, cause); err != nil {
		return errors.Join(cause, err)
	}
	if errors.Is(cause, workspace.ErrConflict) {
		if _, err := work.Rebase(ctx, h, p); err != nil {
			return errors.Join(cause, err)
		}
	}
	return workError(cause)
}

func (a *api) declineProposal(w http.ResponseWriter, r *http.Request) error {
	work, h, _, err := a.openProposal(r)
	if err != nil {
		return err
	}
	if err := work.Decline(r.Context(), h, "it was turned down"); err != nil {
		return workError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) undoProposal(w http.ResponseWriter, r *http.Request) error {
	work, h, _, err := a.openProposal(r)
	if err != nil {
		return err
	}
	body, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	only := body.texts("only")
	if err := body.done(); err != nil {
		return err
	}
	next, p, err := work.Undo(r.Context(), h, only...)
	if err != nil {
		return workError(err)
	}
	w.Header().Set("Location", a.Prefix+"/proposals/"+next.ID)
	writeJSON(w, http.StatusCreated, proposalOf(next, p))
	return nil
}

// workError says in this protocol's words what folders and projects say.
func workError(err error) error {
	if err == nil {
		return nil
	}
	answered, late := errors.AsType[*assignment.AnsweredError](err)
	state, wrong := errors.AsType[*assignment.StateError](err)
	conflict := func(err error) error {
		return refuse(http.StatusConflict, string(engine.ErrConflict), "%s", strings.ToValidUTF8(err.Error(), "?"))
	}
	switch {
	case late:
		return conflict(answered)
	case wrong:
		return conflict(state)
	case errors.Is(err, workspace.ErrRefused):
		return refuse(http.StatusForbidden, string(engine.ErrForbidden), "%v", err)
	case errors.Is(err, workspace.ErrConflict), errors.Is(err, workspace.ErrStale), errors.Is(err, workspace.ErrNeedsDecision),
		errors.Is(err, workspace.ErrNothing), errors.Is(err, conversation.ErrDone), errors.Is(err, conversation.ErrClosed):
		return conflict(err)
	case errors.Is(err, workspace.ErrBusy):
		return &engine.Error{Kind: engine.ErrUnavailable, Err: err, Hint: "Another commit into the folder is going on: try again."}
	case errors.Is(err, conversation.ErrInvalid):
		return invalid("%v", err)
	case errors.Is(err, workspace.ErrNotFound), errors.Is(err, conversation.ErrNotFound), errors.Is(err, assignment.ErrNotFound):
		return engine.ErrNotFound
	case errors.Is(err, fs.ErrPermission):
		return refuse(http.StatusConflict, string(engine.ErrConflict), "the service may not write to the folder")
	}
	return err
}
