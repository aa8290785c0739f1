package web

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// filesPage shows, serves and deletes files and sessions.
type filesPage struct{ *site }

func (s *site) filesPage() {
	p := &filesPage{s}
	s.Nav = append(s.Nav, page.Entry{Name: "files", Title: "Files", Path: "/files", More: true})
	s.Mux.HandleFunc("GET /files", s.Handle(p.list))
	s.Mux.HandleFunc("POST /files", s.Change(p.upload))
	s.Mux.HandleFunc("POST /files/look", s.Change(p.look))
	s.Mux.HandleFunc("GET /files/{id}", s.Handle(page.With(s.findFile, p.show)))
	s.Mux.HandleFunc("GET /files/{id}/content", s.Handle(p.content))
	s.Mux.HandleFunc("GET /files/{id}/preview", s.Handle(page.With(s.findFile, p.preview)))
	s.Mux.HandleFunc("GET /files/{id}/pages/{number}", s.Handle(page.With(s.findFile, p.pagePicture)))
	s.Mux.HandleFunc("POST /files/{id}/frame", s.Change(page.With(s.findFile, p.openFrame)))
	s.Mux.HandleFunc("POST /files/{id}/delete", s.Change(page.With(s.findFile, p.remove)))
	s.Mux.HandleFunc("GET /runs/{id}/files.zip", s.Handle(page.With(s.findRun, p.runArchive)))
	s.Mux.HandleFunc("GET /sessions/{id}", s.Handle(page.With(p.findSession, p.session)))
	s.Mux.HandleFunc("GET /sessions/{id}/files.zip", s.Handle(page.With(p.findSession, p.sessionArchive)))
	s.Mux.HandleFunc("POST /sessions/{id}/rename", s.Change(p.renameSession))
	s.Mux.HandleFunc("POST /sessions/{id}/delete", s.Change(p.removeSession))
}

// fileView is a file in a page.
type fileView struct {
	engine.File
	Label string // its path, or its name, for display
	Kind  string // of its preview: "image", "table", "markdown", "json", "text", or "" for none

	Inline template.URL // a picture itself; empty: it is fetched
}

func (s *site) fileView(f engine.File) fileView {
	return fileView{File: f, Label: page.Named(fileName(f)), Kind: page.PreviewKind(infoOf(f))}
}

// filesView is the list of sessions and files.
type filesView struct {
	Sessions []sessionRow
	Groups   []fileGroup // of the list of all files
	Files    []fileView  // of a session
	Next     string
	Kept     string      // the visitor's usage and quota
	Session  *sessionRow // that the files belong to; nil: all files
	MaxSize  int64
}

const filesPerPage = 50

func (p *filesPage) list(w http.ResponseWriter, v *page.Request) error {
	body := filesView{MaxSize: p.MaxUpload}
	after, err := v.After()
	if err != nil {
		return err
	}
	query := engine.FileQuery{Origin: engine.OriginNative, Page: engine.Page{Limit: filesPerPage, After: after}}
	files, err := p.Engine.ListFiles(v.Context(), v.Caller, query)
	if err != nil {
		return err
	}
	usage, quota, err := p.Engine.Kept(v.Context(), v.Caller)
	if err != nil {
		return err
	}
	body.Kept = keptWords(usage, quota)
	if len(files) == filesPerPage {
		body.Next = files[len(files)-1].ID.String()
	}
	sessions, err := p.Engine.ListSessions(v.Context(), v.Caller, engine.SessionQuery{Origin: engine.OriginNative})
	if err != nil {
		return err
	}
	rows := p.sessionRows(v, sessions)
	if after.IsZero() {
		body.Sessions = rows
	}
	body.Groups = p.groups(v, files, rows)
	p.Render(w, v, http.StatusOK, "files", "Files", body)
	return nil
}

// upload stores the request's body, as it comes, under the name in the address.
func (p *filesPage) upload(w http.ResponseWriter, v *page.Request) error {
	if v.Header.Get(page.TokenHeader) == "" {
		return page.ErrToken
	}
	file, err := p.Engine.PutFile(v.Context(), v.Caller, engine.Upload{
		Name: v.URL.Query().Get("name"), Origin: engine.OriginNative}, v.Body)
	if err != nil {
		return err
	}
	page.WriteJSON(w, http.StatusCreated, input{file.ID.String(), file.Name, file.Size})
	return nil
}

// show shows a file.
func (p *filesPage) show(w http.ResponseWriter, v *page.Request, file engine.File) error {
	body := p.storedPreview(v, file)
	body.Whole = true
	p.Render(w, v, http.StatusOK, "file", body.File.Label, body)
	return nil
}

// preview answers with the part of a page that shows a file.
func (p *filesPage) preview(w http.ResponseWriter, v *page.Request, file engine.File) error {
	return p.Fragment(w, v, "file", "preview", p.storedPreview(v, file))
}

// look stores the request's body for a while, and shows it as preview does, since the
// outputs of a cell are not files of the session.
func (p *filesPage) look(w http.ResponseWriter, v *page.Request) error {
	file, err := p.Engine.PutFile(v.Context(), v.Caller, engine.Upload{
		Name: v.URL.Query().Get("name"), Origin: originPage, TTL: lookTime}, v.Body)
	if err != nil {
		return err
	}
	return p.Fragment(w, v, "file", "preview", p.storedPreview(v, file))
}

func (p *filesPage) remove(w http.ResponseWriter, v *page.Request, file engine.File) error {
	if err := p.Engine.DeleteFile(v.Context(), v.Caller, file.ID); err != nil {
		return err
	}
	return p.deleted(w, v)
}

func (p *filesPage) deleted(w http.ResponseWriter, v *page.Request) error {
	return p.Done(w, v, "/files", http.StatusOK, map[string]bool{"deleted": true})
}

func (p *filesPage) runArchive(w http.ResponseWriter, v *page.Request, run *engine.Run) error {
	return p.archive(w, v, "run-"+run.ID.String()+".zip", run.Files)
}

// sessionFiles is a session with its files, each under its path there.
type sessionFiles struct {
	engine.Session
	files []engine.File
}

// findSession returns the session that a request is about.
func (p *filesPage) findSession(v *page.Request) (s sessionFiles, err error) {
	id, err := v.ID()
	if err != nil {
		return s, err
	}
	if s.Session, err = p.Engine.GetSession(v.Context(), v.Caller, id); err != nil {
		return s, err
	}
	files, places, err := p.Engine.SessionFiles(v.Context(), v.Caller, id)
	for i := range files {
		files[i].Path = places[i].Path
	}
	s.files = files
	return s, err
}

func (p *filesPage) session(w http.ResponseWriter, v *page.Request, s sessionFiles) error {
	row := rowOf(s.Session, s.files)
	body := filesView{Session: &row}
	for _, f := range s.files {
		body.Files = append(body.Files, p.fileView(f))
	}
	p.Render(w, v, http.StatusOK, "files", row.Title, body)
	return nil
}

func (p *filesPage) sessionArchive(w http.ResponseWriter, v *page.Request, s sessionFiles) error {
	return p.archive(w, v, "session-"+s.ID.String()+".zip", s.files)
}

func (p *filesPage) removeSession(w http.ResponseWriter, v *page.Request) error {
	id, err := v.ID()
	if err != nil {
		return err
	}
	if err := p.Engine.DeleteSession(v.Context(), v.Caller, id); err != nil && !errors.Is(err, engine.ErrCanceled) {
		return err
	}
	return p.deleted(w, v)
}

func (p *filesPage) renameSession(w http.ResponseWriter, v *page.Request) error {
	id, err := v.ID()
	if err != nil {
		return err
	}
	if err := p.Engine.NameSession(v.Context(), v.Caller, id, givenName(v.PostForm.Get("name"))); err != nil {
		return err
	}
	return p.Done(w, v, "/sessions/"+id.String(), http.StatusOK, map[string]bool{"renamed": true})
}

// keptWords returns usage and quota in words.
func keptWords(u engine.Usage, q engine.Quota) string {
	files, size := page.Count(u.Files, "file"), page.ByteCount(u.Bytes)
	if q.Files > 0 {
		files = fmt.Sprintf("%d of at most %s", u.Files, page.Count(q.Files, "file"))
	}
	if q.Bytes > 0 {
		size += " of " + page.ByteCount(q.Bytes)
	}
	words := "You keep " + files + ", " + size
	if q.Sessions > 0 {
		words += fmt.Sprintf(", and %d of at most %s", u.Sessions, page.Count(q.Sessions, "session"))
	}
	return words + "."
}
