package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/workspace"
)

// replyView is one reply: what it would do, or what it did.
type replyView struct {
	ID, What       string
	Project, Root  string
	Created        time.Time
	State, Class   string
	Revision       string // what was shown; empty: nothing can be approved
	Notice         string // why it was not applied just now
	Gate           string
	Findings       []findingView
	Changes        []changeView
	Added, Removed int
	Reports        []reportView
	Problems       []string // blocks that cannot be reported, and why
	Warnings       []string
	Shown          []shownItem
	Receipt        *receiptView
	Done           bool
	CanUndo        bool
	Files          bool // there is something for an archive
	Local          bool // the folder is on the visitor's computer
	Txn            string
	Sending        bool // reports are on their way: look again
}

// shownItem is something in a reply that changes nothing.
type shownItem struct{ What, Why string }

// receiptView is what became of a reply.
type receiptView struct {
	Created, Updated, Deleted, Unchanged []string
	Renamed                              []workspace.Renamed
	Skipped, Conflicts                   []workspace.Skipped
	Errors                               []string
	Reason                               string
	TxnID                                string
}

// Nothing reports whether no file is different now.
func (r *receiptView) Nothing() bool {
	return len(r.Created)+len(r.Updated)+len(r.Deleted)+len(r.Renamed) == 0
}

func (p *reviewPage) reply(w http.ResponseWriter, v *webRequest) error {
	h, proposal, err := p.OpenReply(v.Context(), p.owner(v), v.PathValue("id"))
	if err != nil {
		return err
	}
	return p.showReply(w, v, http.StatusOK, h, proposal, "")
}

func (p *reviewPage) showReply(
	w http.ResponseWriter, v *webRequest, status int, h *conversation.ReplyRecord, proposal *workspace.Proposal,
	notice string,
) error {
	body := replyView{
		ID: h.ID, What: kindWords(h.Kind), Project: h.Project, Root: p.folderName(h.Root), Created: h.Created, Done: h.Done,
		Local: h.Root != "" && p.Mirrored(h.Root), Txn: h.Result.TxnID,
		Gate: h.Gate, Notice: notice,
		Revision: conversation.Token(h, proposal), CanUndo: h.Result.State == conversation.Applied && h.Result.Undo != "",
	}
	body.State, body.Class = stateWords(h)
	if proposal != nil {
		body.Findings, body.Changes = findings(proposal.Findings), changesOf(proposal, newBudget())
		for i := range body.Changes {
			c := &body.Changes[i]
			body.Added, body.Removed = body.Added+c.Added, body.Removed+c.Removed
			body.Files = body.Files || c.Open() && c.Content
		}
	}
	for _, problem := range h.Batch.Problems {
		body.Problems = append(body.Problems, prose(problem.Block+": "+problem.Reason))
	}
	for _, note := range h.Notes {
		body.Warnings = append(body.Warnings, prose(note.Message))
	}
	for _, q := range h.Questions {
		body.Warnings = append(body.Warnings, prose(unsentText(q)))
	}
	for _, warning := range h.Batch.Warnings {
		body.Warnings = append(body.Warnings, prose(warning))
	}
	for _, s := range h.Shown {
		what := cmp.Or(s.Path, s.Block)
		body.Shown = append(body.Shown, shownItem{named(what), prose(s.Reason)})
	}
	var err error
	if body.Reports, err = p.reportsOf(v.Context(), h, proposal); err != nil {
		return err
	}
	body.Sending = slices.ContainsFunc(body.Reports, func(r reportView) bool { return r.Moving })
	if h.Done || h.Result.State == conversation.Failed && notice == "" {
		body.Receipt = receiptOf(h.Result)
	}
	p.render(w, v, status, "review_reply", body.What+" "+h.Project, body)
	return nil
}

// unsentText says a question that no project knows of.
func unsentText(q conversation.Question) string {
	text := "The model asks"
	if q.Assignment != "" {
		text += " about " + q.Assignment
	}
	text += ": " + q.Question
	if len(q.Options) > 0 {
		text += " Options: " + strings.Join(q.Options, "; ") + "."
	}
	if q.Recommendation != "" {
		text += " It recommends: " + q.Recommendation + "."
	}
	return text + " No project is told of it: answer in the next prompt."
}

func receiptOf(r *conversation.Result) *receiptView {
	names := func(list []string) []string {
		var all []string
		for _, name := range list {
			all = append(all, named(name))
		}
		return all
	}
	skipped := func(list []workspace.Skipped) []workspace.Skipped {
		var all []workspace.Skipped
		for _, s := range list {
			all = append(all, workspace.Skipped{Path: named(s.Path), Reason: prose(s.Reason), Rule: s.Rule})
		}
		return all
	}
	v := &receiptView{Created: names(r.FilesCreated), Updated: names(r.FilesUpdated), Deleted: names(r.FilesDeleted),
		Unchanged: names(r.FilesUnchanged),
		Skipped:   skipped(r.FilesSkipped), Conflicts: skipped(r.Conflicts), Reason: prose(r.Reason), TxnID: r.TxnID}
	for _, e := range r.Errors {
		v.Errors = append(v.Errors, prose(e))
	}
	for _, f := range r.FilesRenamed {
		v.Renamed = append(v.Renamed, workspace.Renamed{From: named(f.From), To: named(f.To)})
	}
	return v
}

// chosen are the ids that a form names: of a file whose hunks were shown one
// by one, all of it, or the hunks that were left marked.
func chosen(v *webRequest, proposal *workspace.Proposal) []string {
	if proposal == nil {
		return nil
	}
	var ids []string
	for _, id := range v.PostForm["file"] {
		f := proposal.File(id)
		if f == nil || !slices.Contains(v.PostForm["byhunk"], id) {
			ids = append(ids, id)
			continue
		}
		var hunks []string
		for _, hunk := range v.PostForm["hunk"] {
			if file, _, _ := strings.Cut(hunk, ":"); file == id {
				hunks = append(hunks, hunk)
			}
		}
		if len(hunks) == len(f.Hunks) {
			hunks = []string{id}
		}
		ids = append(ids, hunks...)
	}
	return ids
}

const staleNotice = "The proposal has changed since you looked at it, so nothing was applied. This is how it is now."

// apply carries out what was marked, if it is what was shown.
func (p *reviewPage) apply(w http.ResponseWriter, v *webRequest) error {
	h, proposal, err := p.OpenReply(v.Context(), p.owner(v), v.PathValue("id"))
	if err != nil {
		return err
	}
	if h.Done {
		return p.showReply(w, v, http.StatusConflict, h, nil, "It was settled before, so nothing was done now.")
	}
	revision := v.PostForm.Get("revision")
	if h.Gate == "" && revision != conversation.Token(h, proposal) {
		return p.showReply(w, v, http.StatusConflict, h, proposal, staleNotice)
	}
	ids := append(chosen(v, proposal), v.PostForm["post"]...)
	if len(ids) == 0 {
		return p.showReply(w, v, http.StatusBadRequest, h, proposal,
			"Nothing is marked, so nothing was applied. Mark what you agree to, or decline the reply.")
	}
	consent, err := conversation.ConsentTo(h, proposal, ids)
	if err != nil {
		return err
	}
	consent.Approval.By = p.owner(v)
	_, err = p.Apply(v.Context(), h, proposal, revision, consent)
	if errors.Is(err, workspace.ErrConflict) || errors.Is(err, workspace.ErrStale) {
		if h, proposal, err = p.OpenReply(v.Context(), p.owner(v), h.ID); err != nil {
			return err
		}
		return p.showReply(w, v, http.StatusConflict, h, proposal, "Files in the folder have changed since the proposal "+
			"was made, so nothing was applied. This is the proposal on the files as they are now: look at it, and apply again.")
	}
	if err != nil {
		return err
	}
	return p.to(w, v, "/review/"+h.ID)
}

func (p *reviewPage) decline(w http.ResponseWriter, v *webRequest) error {
	h, _, err := p.OpenReply(v.Context(), p.owner(v), v.PathValue("id"))
	if err != nil {
		return err
	}
	if err := p.Decline(v.Context(), h, "it was turned down"); err != nil {
		return err
	}
	return p.to(w, v, "/review/"+h.ID)
}

// rebase makes the proposal anew on the files as they are now.
func (p *reviewPage) rebase(w http.ResponseWriter, v *webRequest) error {
	h, proposal, err := p.openToChange(v)
	if err != nil {
		return err
	}
	if _, err := p.Rebase(v.Context(), h, proposal); err != nil {
		return err
	}
	return p.to(w, v, "/review/"+h.ID)
}

// openToChange opens a proposal that the user edits, who was shown it as it is.
func (p *reviewPage) openToChange(v *webRequest) (*conversation.ReplyRecord, *workspace.Proposal, error) {
	h, proposal, err := p.OpenReply(v.Context(), p.owner(v), v.PathValue("id"))
	switch {
	case err != nil:
		return nil, nil, err
	case h.Gate != "":
		return nil, nil, conversation.ErrClosed
	case h.Done:
		return nil, nil, conversation.ErrDone
	case proposal == nil:
		return nil, nil, workspace.ErrNotFound
	case v.PostForm.Get("revision") != proposal.Token:
		return nil, nil, workspace.ErrStale
	}
	return h, proposal, nil
}

func (p *reviewPage) undoReply(w http.ResponseWriter, v *webRequest) error {
	h, _, err := p.OpenReply(v.Context(), p.owner(v), v.PathValue("id"))
	if err != nil {
		return err
	}
	if h.Result.State != conversation.Applied || h.Result.Undo == "" {
		return workspace.ErrNothing
	}
	l := conversation.Link{Owner: h.Owner, Project: h.Project, API: h.API, Root: h.Root}
	return p.proposeRevert(w, v, l, func(ws *workspace.Workspace) (
		*workspace.Proposal, error) {
		return ws.Undo(v.Context(), h.Result.Undo)
	})
}
