package pages

import (
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// Folders on the visitor's own computer: the page uploads the files that a reply is about
// into a mirror, where the reply is reviewed as in any folder, and repeats committed changes
// in the folder. See conversation.LinkMirror and static/local.js.

// localRoutes registers the routes for the script, which answer with JSON.
func (p *reviewPage) localRoutes() {
	const project = "/projects/{project}/local"
	p.Mux.HandleFunc("POST /projects/local", p.Change(p.worded(p.linkLocal)))
	p.Mux.HandleFunc("GET "+project, p.Handle(p.worded(page.With(p.mirror, p.localFiles))))
	p.Mux.HandleFunc("POST "+project+"/paths", p.Change(p.worded(page.With(p.mirror, p.localPaths))))
	p.Mux.HandleFunc("PUT "+project+"/files", p.Change(p.worded(page.With(p.mirror, p.putLocal))))
	p.Mux.HandleFunc("DELETE "+project+"/files", p.Change(p.worded(page.With(p.mirror, p.dropLocal))))
	p.Mux.HandleFunc("GET "+project+"/changes/{txn}", p.Handle(p.worded(page.With(p.committed, p.localChanges))))
	p.Mux.HandleFunc("GET "+project+"/changes/{txn}/{file}", p.Handle(p.worded(page.With(p.committed, p.localContent))))
	p.Mux.HandleFunc("POST "+project+"/changes/{txn}/undo", p.Change(p.worded(page.With(p.committed, p.undoLocal))))
}

// localFolder names a mirror for people.
const localFolder = "a folder on your computer"

// folderName returns the name of a folder for display.
func (p *reviewPage) folderName(root string) string {
	if p.Mirrored(root) {
		return localFolder
	}
	return page.Named(root)
}

func (p *reviewPage) linkLocal(w http.ResponseWriter, v *page.Request) error {
	if err := v.ParseForm(); err != nil {
		return err
	}
	l, err := p.LinkMirror(v.Context(), v.Owner(), strings.TrimSpace(v.PostForm.Get("project")))
	if err != nil {
		return err
	}
	page.WriteJSON(w, http.StatusCreated, map[string]string{"project": l.Project})
	return nil
}

func (p *reviewPage) mirror(v *page.Request) (changes.Link, error) {
	return p.Mirror(v.Context(), v.Owner(), v.PathValue("project"))
}

func (p *reviewPage) localFiles(w http.ResponseWriter, v *page.Request, l changes.Link) error {
	files, err := changes.MirrorFiles(l.Root)
	if err != nil {
		return err
	}
	page.WriteJSON(w, http.StatusOK, map[string]any{"files": files, "most": changes.MirrorFileBytes})
	return nil
}

// localPaths lists the files that a reply is about, which the page then uploads.
func (p *reviewPage) localPaths(w http.ResponseWriter, v *page.Request, _ changes.Link) error {
	v.Body = http.MaxBytesReader(w, v.Body, page.MaxForm)
	if err := v.ParseForm(); err != nil {
		return err
	}
	text := strings.ReplaceAll(v.PostForm.Get("text"), "\r\n", "\n")
	proposal, err := p.Unlinked(v.Context(), reply.Parse([]byte(text)))
	if err != nil {
		return err
	}
	paths := []string{}
	for i := range proposal.Files {
		f := &proposal.Files[i]
		paths = append(paths, f.Path)
		if f.From != "" {
			paths = append(paths, f.From)
		}
	}
	page.WriteJSON(w, http.StatusOK, map[string][]string{"paths": paths})
	return nil
}

func (p *reviewPage) putLocal(w http.ResponseWriter, v *page.Request, l changes.Link) error {
	if err := changes.PutMirrorFile(l.Root, v.URL.Query().Get("path"), v.Body); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (p *reviewPage) dropLocal(w http.ResponseWriter, v *page.Request, l changes.Link) error {
	if err := changes.DropMirrorFile(l.Root, v.URL.Query().Get("path")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// localChange is a change that the page repeats in the folder.
type localChange struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	From   string `json:"from,omitempty"` // of a renamed file
	Before string `json:"before"`         // SHA-256; "": there was none
	After  string `json:"after"`          // "": there is none
}

// committed returns a transaction of a mirror.
func (p *reviewPage) committed(v *page.Request) (*workspace.Proposal, error) {
	l, err := p.mirror(v)
	if err != nil {
		return nil, err
	}
	ws, err := p.Workspace(v.Context(), l.Root)
	if err != nil {
		return nil, err
	}
	proposal, record, err := ws.Transaction(v.Context(), v.PathValue("txn"))
	if err == nil && (record.State != workspace.Committed || record.Workspace != ws.ID()) {
		err = page.ErrNotFound
	}
	return proposal, err
}

func (p *reviewPage) localChanges(w http.ResponseWriter, v *page.Request, proposal *workspace.Proposal) error {
	changes := []localChange{}
	for i := range proposal.Files {
		f := &proposal.Files[i]
		if f.Op == workspace.OpUnchanged {
			continue
		}
		c := localChange{ID: f.ID, Path: f.Path, From: f.From}
		if f.Pre.Exists {
			c.Before = f.Pre.Hash.String()
		}
		if f.Post.Exists {
			c.After = f.Post.Hash.String()
		}
		changes = append(changes, c)
	}
	page.WriteJSON(w, http.StatusOK, map[string][]localChange{"files": changes})
	return nil
}

// localContent serves the content of a file after a transaction.
func (p *reviewPage) localContent(w http.ResponseWriter, v *page.Request, proposal *workspace.Proposal) error {
	f := proposal.File(v.PathValue("file"))
	if f == nil || f.After() == nil {
		return page.ErrNotFound
	}
	return sendContent(w, v, f.After(), f.Path, "")
}

// undoLocal undoes a transaction that could not be repeated in the folder.
func (p *reviewPage) undoLocal(w http.ResponseWriter, v *page.Request, proposal *workspace.Proposal) error {
	l := changes.Link{Owner: v.Owner(), Root: proposal.Root}
	if err := p.UndoUnwritten(v.Context(), l, proposal.ID); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
