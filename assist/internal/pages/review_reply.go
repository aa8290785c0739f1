package pages

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// replyView is a reply with its proposal or its result.
type replyView struct {
	*changes.ReplyRecord
	What, Folder   string
	State, Class   string
	Revision       string // what was shown; empty: nothing can be approved
	Notice         string // why it was not applied just now
	Findings       []workspace.Finding
	Changes        []changeView
	Added, Removed int
	Reports        []reportView
	Warnings       []string
	Receipt        *changes.Result // the outcome
	CanUndo        bool
	Files          bool // there is something for an archive
	Local          bool // the folder is on the visitor's computer
	Sending        bool // reports are being sent: poll
}

func (p *reviewPage) reply(w http.ResponseWriter, v *page.Request, h waiting) error {
	return p.showReply(w, v, http.StatusOK, h, "")
}

func (p *reviewPage) showReply(w http.ResponseWriter, v *page.Request, status int, h waiting, notice string) error {
	proposal := h.proposal
	body := replyView{
		ReplyRecord: h.ReplyRecord, What: kindWords(h.Kind), Folder: p.folderName(h.Root), Notice: notice,
		Local: h.Root != "" && p.Mirrored(h.Root), Revision: changes.Token(h.ReplyRecord, proposal),
		CanUndo: h.Result.State == changes.Applied && h.Result.Undo != "",
	}
	body.State, body.Class = stateWords(h.ReplyRecord)
	if proposal != nil {
		body.Findings, body.Changes = proposal.Findings, changesOf(proposal, newBudget())
		for i := range body.Changes {
			c := &body.Changes[i]
			body.Added, body.Removed = body.Added+c.Added, body.Removed+c.Removed
			body.Files = body.Files || c.Open() && c.Content
		}
	}
	for _, note := range h.Notes {
		body.Warnings = append(body.Warnings, note.Message)
	}
	for _, q := range h.Questions {
		body.Warnings = append(body.Warnings, unsentText(q))
	}
	body.Warnings = append(body.Warnings, h.Batch.Warnings...)
	var err error
	if body.Reports, err = p.reportsOf(v.Context(), h.ReplyRecord, proposal); err != nil {
		return err
	}
	body.Sending = slices.ContainsFunc(body.Reports, func(r reportView) bool { return r.Moving })
	if h.Done || h.Result.State == changes.Failed && notice == "" {
		body.Receipt = h.Result
	}
	p.Render(w, v, status, "review_reply", body.What+" "+h.Project, body)
	return nil
}

// unsentText returns a question that was not sent to a project.
func unsentText(q changes.Question) string {
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
	return text + " It is not sent to a project: answer it in your next prompt."
}

// chosen returns the ids of the files that a form marks or, of files whose hunks can be
// chosen, those of the marked hunks.
func chosen(v *page.Request, proposal *workspace.Proposal) []string {
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

// apply applies the marked files, if the proposal is still the one shown.
func (p *reviewPage) apply(w http.ResponseWriter, v *page.Request, h waiting) error {
	if h.Done {
		return p.showReply(w, v, http.StatusConflict, h, "It was decided before, so nothing was done now.")
	}
	revision := v.PostForm.Get("revision")
	if h.Gate == "" && revision != changes.Token(h.ReplyRecord, h.proposal) {
		return p.showReply(w, v, http.StatusConflict, h, staleNotice)
	}
	ids := append(chosen(v, h.proposal), v.PostForm["post"]...)
	if len(ids) == 0 {
		return p.showReply(w, v, http.StatusBadRequest, h,
			"Nothing is marked, so nothing was applied. Mark what you agree to, or decline the reply.")
	}
	consent, err := changes.ConsentTo(h.ReplyRecord, h.proposal, ids)
	if err != nil {
		return err
	}
	consent.Approval.By = v.Owner()
	_, err = p.Apply(v.Context(), h.ReplyRecord, h.proposal, revision, consent)
	if errors.Is(err, workspace.ErrConflict) || errors.Is(err, workspace.ErrStale) {
		if h, err = p.find(v); err != nil {
			return err
		}
		return p.showReply(w, v, http.StatusConflict, h, "Files in the folder have changed since the proposal "+
			"was made, so nothing was applied. This is the proposal on the files as they are now: look at it, and apply again.")
	}
	if err != nil {
		return err
	}
	return p.Redirect(w, v, "/review/"+h.ID)
}

func (p *reviewPage) decline(w http.ResponseWriter, v *page.Request, h waiting) error {
	if err := p.Decline(v.Context(), h.ReplyRecord, "it was turned down"); err != nil {
		return err
	}
	return p.Redirect(w, v, "/review/"+h.ID)
}

// rebase makes a new proposal on the present files.
func (p *reviewPage) rebase(w http.ResponseWriter, v *page.Request, h waiting) error {
	if _, err := p.Rebase(v.Context(), h.ReplyRecord, h.proposal); err != nil {
		return err
	}
	return p.Redirect(w, v, "/review/"+h.ID)
}

// openToChange finds a proposal to edit, if the proposal is still the one shown.
func (p *reviewPage) openToChange(v *page.Request) (waiting, error) {
	h, err := p.find(v)
	switch {
	case err != nil:
	case h.Gate != "":
		err = changes.ErrClosed
	case h.Done:
		err = changes.ErrDone
	case h.proposal == nil:
		err = workspace.ErrNotFound
	case v.PostForm.Get("revision") != h.proposal.Token:
		err = workspace.ErrStale
	}
	return h, err
}

func (p *reviewPage) undoReply(w http.ResponseWriter, v *page.Request, h waiting) error {
	if h.Result.State != changes.Applied || h.Result.Undo == "" {
		return workspace.ErrNothing
	}
	l := changes.Link{Owner: h.Owner, Project: h.Project, API: h.API, Root: h.Root}
	return p.proposeRevert(w, v, l, func(ws *workspace.Workspace) (*workspace.Proposal, error) {
		return ws.Undo(v.Context(), h.Result.Undo)
	})
}
