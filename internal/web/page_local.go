package web

import (
	"io"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/reply"
	"github.com/airlock-run/airlock/workspace"
)

// Folders on the visitor's own computer: the page brings the files that a reply is about
// into a mirror, where the reply is reviewed as in any folder, and carries out in the
// folder what was committed there. See conversation.LinkMirror and static/local.js.

// localRoutes registers what the script asks for. The answers are JSON.
func (p *reviewPage) localRoutes() {
	const project = "/projects/{project}/local"
	p.mux.HandleFunc("POST /projects/local", p.change(p.worded(p.linkLocal)))
	p.mux.HandleFunc("GET "+project, p.handle(p.worded(p.localFiles)))
	p.mux.HandleFunc("POST "+project+"/paths", p.change(p.worded(p.localPaths)))
	p.mux.HandleFunc("PUT "+project+"/files", p.change(p.worded(p.putLocal)))
	p.mux.HandleFunc("DELETE "+project+"/files", p.change(p.worded(p.dropLocal)))
	p.mux.HandleFunc("GET "+project+"/changes/{txn}", p.handle(p.worded(p.localChanges)))
	p.mux.HandleFunc("GET "+project+"/changes/{txn}/{file}", p.handle(p.worded(p.localContent)))
	p.mux.HandleFunc("POST "+project+"/changes/{txn}/undo", p.change(p.worded(p.undoLocal)))
}

// localFolder is how a mirror is named to people.
const localFolder = "a folder on your computer"

// folderName names a folder as a page shows it.
func (p *reviewPage) folderName(root string) string {
	if p.Mirrored(root) {
		return localFolder
	}
	return named(root)
}

func (p *reviewPage) linkLocal(w http.ResponseWriter, v *webRequest) error {
	if err := v.ParseForm(); err != nil {
		return err
	}
	l, err := p.LinkMirror(v.Context(), p.owner(v), strings.TrimSpace(v.PostForm.Get("project")))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, map[string]string{"project": l.Project})
	return nil
}

func (p *reviewPage) mirror(v *webRequest) (conversation.Link, error) {
	return p.Mirror(v.Context(), p.owner(v), v.PathValue("project"))
}

func (p *reviewPage) localFiles(w http.ResponseWriter, v *webRequest) error {
	l, err := p.mirror(v)
	if err != nil {
		return err
	}
	files, err := conversation.MirrorFiles(l.Root)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"files": files, "most": conversation.MirrorFileBytes})
	return nil
}

// localPaths names the files that a reply is about, which the page then brings.
func (p *reviewPage) localPaths(w http.ResponseWriter, v *webRequest) error {
	if _, err := p.mirror(v); err != nil {
		return err
	}
	v.Body = http.MaxBytesReader(w, v.Body, maxForm)
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
	writeJSON(w, http.StatusOK, map[string][]string{"paths": paths})
	return nil
}

func (p *reviewPage) putLocal(w http.ResponseWriter, v *webRequest) error {
	l, err := p.mirror(v)
	if err != nil {
		return err
	}
	if err := conversation.PutMirrorFile(l.Root, v.URL.Query().Get("path"), v.Body); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (p *reviewPage) dropLocal(w http.ResponseWriter, v *webRequest) error {
	l, err := p.mirror(v)
	if err != nil {
		return err
	}
	if err := conversation.DropMirrorFile(l.Root, v.URL.Query().Get("path")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// localChange is a file of a transaction, as the page carries it out.
type localChange struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	From   string `json:"from,omitempty"` // of a renamed file
	Before string `json:"before"`         // SHA-256; "": there was none
	After  string `json:"after"`          // "": there is none
}

// committed returns a transaction of a mirror.
func (p *reviewPage) committed(v *webRequest) (conversation.Link, *workspace.Proposal, error) {
	l, err := p.mirror(v)
	if err != nil {
		return l, nil, err
	}
	ws, err := p.Workspace(v.Context(), l.Root)
	if err != nil {
		return l, nil, err
	}
	proposal, record, err := ws.Transaction(v.Context(), v.PathValue("txn"))
	if err == nil && (record.State != workspace.Committed || record.Workspace != ws.ID()) {
		err = engine.ErrNotFound
	}
	return l, proposal, err
}

func (p *reviewPage) localChanges(w http.ResponseWriter, v *webRequest) error {
	_, proposal, err := p.committed(v)
	if err != nil {
		return err
	}
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
	writeJSON(w, http.StatusOK, map[string][]localChange{"files": changes})
	return nil
}

// localContent serves the bytes that a file has after a transaction.
func (p *reviewPage) localContent(w http.ResponseWriter, v *webRequest) error {
	_, proposal, err := p.committed(v)
	if err != nil {
		return err
	}
	f := proposal.File(v.PathValue("file"))
	if f == nil || f.After() == nil {
		return engine.ErrNotFound
	}
	content, err := f.After().Open(v.Context())
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	if _, err := io.Copy(w, content); err != nil {
		panic(http.ErrAbortHandler) // the status is out: a cut connection says that this is not the whole
	}
	return nil
}

// undoLocal undoes a transaction that did not get into the folder.
func (p *reviewPage) undoLocal(w http.ResponseWriter, v *webRequest) error {
	l, proposal, err := p.committed(v)
	if err != nil {
		return err
	}
	if err := p.UndoUnwritten(v.Context(), l, proposal.ID); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
