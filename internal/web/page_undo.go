package web

import (
	"net/http"
	"slices"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/workspace"
)

// transactionView is one transaction of a timeline, with what it did.
type transactionView struct {
	timelineEntry
	Project string
	Local   bool // the folder is on the visitor's computer
	Changes []changeView
	Skipped []workspace.Skipped
	Kept    []workspace.KeptBytes
}

// transaction shows what a transaction did to the folder of a project.
func (p *reviewPage) transaction(w http.ResponseWriter, v *webRequest) error {
	l, err := p.Linked(v.Context(), p.owner(v), v.PathValue("project"))
	if err != nil {
		return err
	}
	ws, err := p.Workspace(v.Context(), l.Root)
	if err != nil {
		return err
	}
	proposal, record, err := ws.Transaction(v.Context(), v.PathValue("txn"))
	if err != nil {
		return err
	}
	if record.State != workspace.Committed {
		return engine.ErrNotFound
	}
	all, err := ws.History(v.Context(), 0)
	if err != nil {
		return err
	}
	t := workspace.Transaction{Record: record}
	for _, known := range all {
		if known.ID == record.ID {
			t.Reverted = known.Reverted
		}
	}
	body := transactionView{timelineEntry: entryOfHistory(t), Project: l.Project, Local: p.Mirrored(l.Root),
		Changes: changesOf(proposal, newBudget())}
	for i := range body.Changes {
		body.Changes[i].Findings = nil // they were about a file as it was then
	}
	if r := record.Receipt; r != nil {
		body.Kept = r.Kept
		for _, s := range r.FilesSkipped {
			body.Skipped = append(body.Skipped, workspace.Skipped{Path: named(s.Path), Reason: prose(s.Reason)})
		}
	}
	p.render(w, v, http.StatusOK, "transaction", body.What, body)
	return nil
}

// undo proposes to revert a transaction: all of it, the marked files and
// hunks, or all that came after it. It is approved like any other proposal.
func (p *reviewPage) undo(w http.ResponseWriter, v *webRequest) error {
	l, err := p.Linked(v.Context(), p.owner(v), v.PathValue("project"))
	if err != nil {
		return err
	}
	return p.proposeRevert(w, v, l, func(ws *workspace.Workspace) (*workspace.Proposal, error) {
		txn := v.PostForm.Get("txn")
		if txn == "" {
			return nil, workspace.ErrNotFound
		}
		if v.PostForm.Has("after") {
			return ws.UndoTo(v.Context(), txn)
		}
		was, _, err := ws.Transaction(v.Context(), txn)
		if err != nil {
			return nil, err
		}
		only := chosen(v, was)
		switch {
		case !v.PostForm.Has("parts"):
			only = nil
		case len(only) == 0:
			return nil, refuse(http.StatusBadRequest, "Nothing is marked, so there is nothing to revert.",
				"Go back and mark files or places.")
		case everything(was, only):
			only = nil
		}
		return ws.Undo(v.Context(), txn, only...)
	})
}

// everything reports whether ids name every file of a transaction as a whole.
func everything(p *workspace.Proposal, ids []string) bool {
	whole := map[string]bool{}
	for _, id := range ids {
		whole[id] = true
	}
	for i := range p.Files {
		if f := &p.Files[i]; f.Op != workspace.OpUnchanged && !whole[f.ID] {
			return false
		}
	}
	return true
}

func (p *reviewPage) redo(w http.ResponseWriter, v *webRequest) error {
	l, err := p.Linked(v.Context(), p.owner(v), v.PathValue("project"))
	if err != nil {
		return err
	}
	return p.proposeRevert(w, v, l, func(ws *workspace.Workspace) (*workspace.Proposal, error) {
		return ws.Redo(v.Context())
	})
}

// proposeRevert keeps an undo or a redo for an approval, if it would do anything.
func (p *reviewPage) proposeRevert(
	w http.ResponseWriter, v *webRequest, l conversation.Link,
	propose func(*workspace.Workspace) (*workspace.Proposal, error),
) error {
	ws, err := p.Workspace(v.Context(), l.Root)
	if err != nil {
		return err
	}
	proposal, err := propose(ws)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(proposal.Files, func(f workspace.FileChange) bool {
		return f.Op != workspace.OpUnchanged || f.Verdict() != workspace.Note
	}) {
		return workspace.ErrNothing
	}
	h, err := p.KeepRevert(v.Context(), l, proposal)
	if err != nil {
		return err
	}
	return p.to(w, v, "/review/"+h.ID)
}
