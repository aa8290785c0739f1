package web

import (
	"errors"
	"html/template"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

// filesPage is where files and sessions are looked at, fetched and deleted.
type filesPage struct {
	*Site
	previews *previews
}

func (s *Site) filesPage() {
	p := &filesPage{Site: s, previews: newPreviews(s.Engine, s.Now)}
	s.nav = append(s.nav, navEntry{Name: "files", Title: "Sessions & files", Path: "/files"})
	s.mux.HandleFunc("GET /files", s.handle(p.list))
	s.mux.HandleFunc("POST /files", s.change(p.upload))
	s.mux.HandleFunc("POST /files/look", s.change(p.look))
	s.mux.HandleFunc("GET /files/{id}", s.handle(p.show))
	s.mux.HandleFunc("GET /files/{id}/content", s.handle(p.content))
	s.mux.HandleFunc("GET /files/{id}/preview", s.handle(p.preview))
	s.mux.HandleFunc("GET /files/{id}/pages/{number}", s.handle(p.pagePicture))
	s.mux.HandleFunc("GET /files/{id}/rows", s.handle(p.rows))
	s.mux.HandleFunc("POST /files/{id}/delete", s.change(p.remove))
	s.mux.HandleFunc("GET /runs/{id}/files.zip", s.handle(p.runArchive))
	s.mux.HandleFunc("GET /sessions/{id}", s.handle(p.session))
	s.mux.HandleFunc("GET /sessions/{id}/files.zip", s.handle(p.sessionArchive))
	s.mux.HandleFunc("POST /sessions/{id}/delete", s.change(p.removeSession))
}

// fileView is a file in a page.
type fileView struct {
	engine.File
	Label string // its path, or its name, as it is shown
	Kind  string // how it can be looked at: "image", "table", "markdown", "json", "text", or "" for not at all

	Inline template.URL // a picture itself; empty: it is fetched
}

func (s *Site) fileView(f engine.File) fileView {
	return fileView{File: f, Label: named(fileName(f)), Kind: previewKind(f)}
}

// filesView is the list of sessions and files.
type filesView struct {
	Sessions []sessionRow
	Groups   []fileGroup // of the list of all files
	Files    []fileView  // of a session
	Next     string
	Kept     string          // what the visitor keeps, and how much they may
	Session  *engine.Session // the one whose files these are; nil: all files
	MaxSize  int64
}

const filesPerPage = 50

func (p *filesPage) list(w http.ResponseWriter, v *webRequest) error {
	body := filesView{MaxSize: p.MaxUpload}
	query := engine.FileQuery{Origin: engine.OriginNative, Page: engine.Page{Limit: filesPerPage}}
	if a := v.URL.Query().Get("after"); a != "" {
		var err error
		if query.Page.After, err = engine.ParseID(a); err != nil {
			return engine.ErrNotFound
		}
	}
	files, err := p.Engine.ListFiles(v.Context(), v.caller, query)
	if err != nil {
		return err
	}
	body.Groups = p.groups(v, files)
	usage, quota, err := p.Engine.Kept(v.Context(), v.caller)
	if err != nil {
		return err
	}
	body.Kept = keptWords(usage, quota)
	if len(files) == filesPerPage {
		body.Next = files[len(files)-1].ID.String()
	}
	if query.Page.After.IsZero() {
		sessions, err := p.Engine.ListSessions(v.Context(), v.caller, engine.SessionQuery{Origin: engine.OriginNative})
		if err != nil {
			return err
		}
		body.Sessions = p.sessionRows(v, sessions)
	}
	p.render(w, v, http.StatusOK, "files", "Sessions & files", body)
	return nil
}

// upload stores the request's body under the name in the address. Its bytes go
// to the store as they come.
func (p *filesPage) upload(w http.ResponseWriter, v *webRequest) error {
	if v.Header.Get(tokenHeader) == "" {
		return errToken
	}
	file, err := p.Engine.PutFile(v.Context(), v.caller, engine.Upload{
		Name: v.URL.Query().Get("name"), Origin: engine.OriginNative}, v.Body)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, input{file.ID.String(), file.Name, file.Size})
	return nil
}

func (p *filesPage) find(v *webRequest) (engine.File, error) {
	id, err := engine.ParseID(v.PathValue("id"))
	if err != nil {
		return engine.File{}, engine.ErrNotFound
	}
	return p.Engine.GetFile(v.Context(), v.caller, id)
}

// show is a file's own page.
func (p *filesPage) show(w http.ResponseWriter, v *webRequest) error {
	file, err := p.find(v)
	if err != nil {
		return err
	}
	body := previewView{File: p.fileView(file)}
	p.makePreview(v, &body)
	p.render(w, v, http.StatusOK, "file", body.File.Label, body)
	return nil
}

// preview is the part of a page that shows a file's content.
func (p *filesPage) preview(w http.ResponseWriter, v *webRequest) error {
	file, err := p.find(v)
	if err != nil {
		return err
	}
	body := previewView{File: p.fileView(file)}
	p.makePreview(v, &body)
	return p.fragment(w, v, "file", "preview", body)
}

// look stores the request's body for a while, and shows it as preview does: what a cell put
// out is no file of the session.
func (p *filesPage) look(w http.ResponseWriter, v *webRequest) error {
	file, err := p.Engine.PutFile(v.Context(), v.caller, engine.Upload{
		Name: v.URL.Query().Get("name"), Origin: originPage, TTL: lookTime}, v.Body)
	if err != nil {
		return err
	}
	body := previewView{File: p.fileView(file)}
	p.makePreview(v, &body)
	return p.fragment(w, v, "file", "preview", body)
}

func (p *filesPage) remove(w http.ResponseWriter, v *webRequest) error {
	file, err := p.find(v)
	if err != nil {
		return err
	}
	if err := p.Engine.DeleteFile(v.Context(), v.caller, file.ID); err != nil {
		return err
	}
	return p.deleted(w, v)
}

func (p *filesPage) deleted(w http.ResponseWriter, v *webRequest) error {
	if v.wants("application/json") {
		writeJSON(w, http.StatusOK, map[string]bool{"deleted": true})
		return nil
	}
	http.Redirect(w, v.Request, p.address("/files"), http.StatusSeeOther)
	return nil
}

func (p *filesPage) runArchive(w http.ResponseWriter, v *webRequest) error {
	id, err := engine.ParseID(v.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	run, err := p.Engine.GetRun(v.Context(), v.caller, id)
	if err != nil {
		return err
	}
	return p.archive(w, v, "run-"+id.String()+".zip", run.Files)
}

// sessionFiles returns a session and its files, each under its path there.
func (p *filesPage) sessionFiles(v *webRequest) (engine.Session, []engine.File, error) {
	id, err := engine.ParseID(v.PathValue("id"))
	if err != nil {
		return engine.Session{}, nil, engine.ErrNotFound
	}
	session, err := p.Engine.GetSession(v.Context(), v.caller, id)
	if err != nil {
		return session, nil, err
	}
	files, places, err := p.Engine.SessionFiles(v.Context(), v.caller, id)
	if err != nil {
		return session, nil, err
	}
	for i := range files {
		files[i].Path = places[i].Path
	}
	return session, files, nil
}

func (p *filesPage) session(w http.ResponseWriter, v *webRequest) error {
	session, files, err := p.sessionFiles(v)
	if err != nil {
		return err
	}
	body := filesView{Session: &session}
	for _, f := range files {
		body.Files = append(body.Files, p.fileView(f))
	}
	p.render(w, v, http.StatusOK, "files", "Session", body)
	return nil
}

func (p *filesPage) sessionArchive(w http.ResponseWriter, v *webRequest) error {
	session, files, err := p.sessionFiles(v)
	if err != nil {
		return err
	}
	return p.archive(w, v, "session-"+session.ID.String()+".zip", files)
}

func (p *filesPage) removeSession(w http.ResponseWriter, v *webRequest) error {
	id, err := engine.ParseID(v.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	if err := p.Engine.DeleteSession(v.Context(), v.caller, id); err != nil && !errors.Is(err, engine.ErrCanceled) {
		return err
	}
	return p.deleted(w, v)
}
