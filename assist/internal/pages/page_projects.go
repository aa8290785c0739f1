package pages

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// projectsView lists the projects of an owner with their folders, as `airlock workspace
// list` does.
type projectsView struct {
	Projects []projectView
	Folders  []string // that the service was given
}

type projectView struct {
	Project, Folder, API string
	Created              time.Time
	Permission           permission
	Outside              bool // the service was not given this folder
	Local                bool // it is on the visitor's computer
	Open                 int  // open questions
}

// permission is the service's access to a folder.
type permission struct{ Words, Class, Cure string }

// permissionOf returns the access of the service's user to a folder. Changes replace files,
// so that the folder must be writable.
func permissionOf(folder string) permission {
	may := func(mode uint32) error { return unix.Faccessat(unix.AT_FDCWD, folder, mode, unix.AT_EACCESS) }
	switch err := may(unix.R_OK | unix.X_OK); {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return permission{"not there", "error", "Put the folder back, or unlink the project."}
	case err != nil:
		return permission{"not readable", "error", "Give the user that the service runs as access to it."}
	}
	if may(unix.W_OK|unix.X_OK) != nil {
		return permission{"readable, not writable", "weaker",
			"Give the user that the service runs as write access, or take files as an archive."}
	}
	return permission{"readable and writable", "ok", ""}
}

func (p *reviewPage) projectView(l changes.Link) projectView {
	view := projectView{Project: l.Project, Folder: p.folderName(l.Root), API: l.API, Created: l.Created,
		Local: p.Mirrored(l.Root)}
	switch {
	case view.Local:
		view.Permission.Words = "in the browser"
	case p.Allows(l.Root):
		view.Permission = permissionOf(l.Root)
	default:
		view.Outside = true
		view.Permission = permission{"out of reach", "weaker",
			"Start the service with --workspace and this folder, or one above it."}
	}
	return view
}

func (p *reviewPage) projects(w http.ResponseWriter, v *page.Request) error {
	links, err := p.Store.Links(v.Context(), v.Owner())
	if err != nil {
		return err
	}
	body := projectsView{Folders: p.Folders}
	for _, l := range links {
		view := p.projectView(l)
		lanes, err := p.lanes(v, l)
		if err != nil {
			return err
		}
		for i := range lanes {
			for _, e := range lanes[i].Escalations {
				if e.Answer == nil {
					view.Open++
				}
			}
		}
		body.Projects = append(body.Projects, view)
	}
	p.Render(w, v, http.StatusOK, "projects", "Projects", body)
	return nil
}

// lanes returns the lanes of a project's assignments.
func (p *reviewPage) lanes(v *page.Request, l changes.Link) ([]assignment.Lane, error) {
	if l.API == "" || !p.Allows(l.Root) {
		return nil, nil
	}
	return p.Outbox.Lanes(v.Context(), assignment.Query{API: l.API, Project: l.Project})
}

func (p *reviewPage) link(w http.ResponseWriter, v *page.Request) error {
	l := changes.Link{Owner: v.Owner(), Project: strings.TrimSpace(v.PostForm.Get("project")),
		Root: strings.TrimSpace(v.PostForm.Get("folder")), API: strings.TrimSpace(v.PostForm.Get("api"))}
	if l.Project == "" || l.Root == "" {
		return page.Refuse(http.StatusBadRequest, "A link needs the id of a project and a folder.",
			"Go back and fill in both.")
	}
	if _, err := p.LinkFolder(v.Context(), l); err != nil {
		return err
	}
	return p.Redirect(w, v, "/projects")
}

// unlink removes a link, even to a folder that this service was not given.
func (p *reviewPage) unlink(w http.ResponseWriter, v *page.Request) error {
	if err := p.Unlink(v.Context(), v.Owner(), v.PathValue("project")); err != nil {
		return err
	}
	return p.Redirect(w, v, "/projects")
}

// answer resolves an escalation of a project.
func (p *reviewPage) answer(w http.ResponseWriter, v *page.Request, l changes.Link) error {
	a := assignment.Answer{Verdict: assignment.Chosen, Note: strings.TrimSpace(v.PostForm.Get("note")), By: v.Owner()}
	switch v.PostForm.Get("choice") {
	case "reject":
		a.Verdict = assignment.Rejected
	case "other":
		a.Choice = strings.TrimSpace(v.PostForm.Get("other"))
	default:
		a.Choice = v.PostForm.Get("choice")
	}
	if a.Verdict == assignment.Chosen && a.Choice == "" {
		return page.Refuse(http.StatusBadRequest, "There is no answer yet.",
			"Go back and choose one of the options, or write your own.")
	}
	e, err := p.Outbox.Escalation(v.Context(), v.PathValue("escalation"))
	if err != nil {
		return err
	}
	if e.Project != l.Project || e.API != l.API {
		return assignment.ErrNotFound
	}
	if _, err := p.Outbox.Answer(v.Context(), e.ID, a); err != nil {
		return err
	}
	p.Wake()
	return p.Redirect(w, v, page.OwnPath(v.PostForm.Get("back")))
}

// timelineView is a project with its assignments and the history of its folder.
type timelineView struct {
	projectView
	Assignments []assignmentView
	Questions   []*questionView
	Entries     []timelineEntry
	CanRedo     bool
}

type assignmentView struct {
	Assignment string
	Percent    int
	Accepted   int
	State      string
	Class      string
	Updated    time.Time
}

// timelineEntry is one transaction.
type timelineEntry struct {
	ID, What, Note  string
	Created         time.Time
	Files           []string
	More            int
	Waiting         bool
	Reverted        bool
	CanUndo         bool
	CanGoBack       bool // to the state after it: there are later ones
	Skipped, Errors int
}

var workWords = map[assignment.Work]wording{
	assignment.Open:      {"in work", "running"},
	assignment.Submitted: {"submitted", "queued"},
	assignment.Complete:  {"complete", "ok"},
}

func (p *reviewPage) timeline(w http.ResponseWriter, v *page.Request, l changes.Link) error {
	body := timelineView{projectView: p.projectView(l)}
	lanes, err := p.lanes(v, l)
	if err != nil {
		return err
	}
	for i := range lanes {
		lane := &lanes[i]
		if lane.Assignment != "" {
			words := workWords[lane.Status.Work]
			if words.words == "" {
				words = workWords[assignment.Open]
			}
			body.Assignments = append(body.Assignments, assignmentView{
				lane.Assignment, lane.Status.Percent, lane.Status.Accepted, words.words, words.class, lane.Status.Updated})
		}
		for j := range lane.Escalations {
			e := &lane.Escalations[j]
			body.Questions = append(body.Questions, &questionView{Question: changes.QuestionOf(e), Project: l.Project,
				Back: "/projects/" + l.Project, Asked: true, Answer: e.Answer})
		}
	}
	if err := p.history(v, l, &body); err != nil {
		return err
	}
	p.Render(w, v, http.StatusOK, "timeline", l.Project, body)
	return nil
}

const mostHistory = 100

// history fills in the transactions and proposals of a project's folder.
func (p *reviewPage) history(v *page.Request, l changes.Link, body *timelineView) error {
	ws, err := p.Workspace(v.Context(), l.Root)
	if err != nil {
		return err
	}
	found, err := ws.History(v.Context(), mostHistory, workspace.Committed, workspace.Proposed)
	if err != nil {
		return err
	}
	done := 0
	for _, t := range found {
		e := entryOfHistory(t)
		if t.AppliedBy != "" {
			continue // by an entry of this list
		}
		if e.Waiting {
			_, err := p.Store.ReplyRecord(v.Context(), v.Owner(), t.ID)
			e.Waiting = err == nil // other records belong to other visitors, or have no page
			if !e.Waiting {
				continue
			}
		} else {
			e.CanGoBack = done > 0
			done++
			body.CanRedo = body.CanRedo || t.Origin.Kind == "undo" && t.Reverted == ""
		}
		body.Entries = append(body.Entries, e)
	}
	return nil
}

func entryOfHistory(t workspace.Transaction) timelineEntry {
	const most = 6
	e := timelineEntry{ID: t.ID, Created: t.Created, Waiting: t.State == workspace.Proposed, Reverted: t.Reverted != "",
		Note: page.Prose(t.Origin.Note)}
	kinds := map[string]string{"reply": "Reply", "undo": "Undo", "redo": "Redo", "outputs": "Files of a run"}
	e.What = cmp.Or(kinds[t.Origin.Kind], page.Named(t.Origin.Kind))
	for i := range t.Files {
		e.Files = append(e.Files, page.Named(t.Files[i].Summary()))
	}
	if r := t.Receipt; r != nil {
		if len(t.Files) == 0 { // each file was a transaction
			e.Files = resultFiles(changes.ResultOf(r))
		}
		e.CanUndo = !e.Waiting && !e.Reverted && r.Changed()
		e.Skipped, e.Errors = len(r.FilesSkipped), len(r.Errors)+len(r.Conflicts)
	}
	if len(e.Files) > most {
		e.Files, e.More = e.Files[:most], len(e.Files)-most
	}
	return e
}

// transactionView is a transaction with its changes.
type transactionView struct {
	timelineEntry
	Project string
	Local   bool // the folder is on the visitor's computer
	Changes []changeView
	Skipped []workspace.Skipped
	Kept    []workspace.KeptBytes
}

// transaction shows the changes of a transaction.
func (p *reviewPage) transaction(w http.ResponseWriter, v *page.Request, l changes.Link) error {
	ws, err := p.Workspace(v.Context(), l.Root)
	if err != nil {
		return err
	}
	proposal, record, err := ws.Transaction(v.Context(), v.PathValue("txn"))
	if err != nil {
		return err
	}
	if record.State != workspace.Committed {
		return page.ErrNotFound
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
		body.Changes[i].Findings = nil // they were about the file before
	}
	if r := record.Receipt; r != nil {
		body.Kept = r.Kept
		for _, s := range r.FilesSkipped {
			body.Skipped = append(body.Skipped, workspace.Skipped{Path: page.Named(s.Path), Reason: page.Prose(s.Reason)})
		}
	}
	p.Render(w, v, http.StatusOK, "transaction", body.What, body)
	return nil
}

// undo proposes to revert a transaction, its marked files and hunks, or all later
// transactions. The proposal is approved like any other.
func (p *reviewPage) undo(w http.ResponseWriter, v *page.Request, l changes.Link) error {
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
			return nil, page.Refuse(http.StatusBadRequest, "Nothing is marked, so there is nothing to revert.",
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

func (p *reviewPage) redo(w http.ResponseWriter, v *page.Request, l changes.Link) error {
	return p.proposeRevert(w, v, l, func(ws *workspace.Workspace) (*workspace.Proposal, error) {
		return ws.Redo(v.Context())
	})
}

// proposeRevert saves the proposal of an undo or a redo, unless it changes nothing.
func (p *reviewPage) proposeRevert(
	w http.ResponseWriter, v *page.Request, l changes.Link,
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
	return p.Redirect(w, v, "/review/"+h.ID)
}
