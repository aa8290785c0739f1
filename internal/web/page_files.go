package web

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// filesPage shows, serves and deletes files and sessions.
type filesPage struct{ *site }

func (s *site) filesPage() {
	p := &filesPage{s}
	s.Nav = append(s.Nav, page.Entry{Name: "files", Title: "Sessions & files", Path: "/files"})
	s.Mux.HandleFunc("GET /files", s.Handle(p.list))
	s.Mux.HandleFunc("POST /files", s.Change(p.upload))
	s.Mux.HandleFunc("POST /files/look", s.Change(p.look))
	s.Mux.HandleFunc("GET /files/{id}", s.Handle(page.With(s.findFile, p.show)))
	s.Mux.HandleFunc("GET /files/{id}/content", s.Handle(p.content))
	s.Mux.HandleFunc("GET /files/{id}/preview", s.Handle(page.With(s.findFile, p.preview)))
	s.Mux.HandleFunc("GET /files/{id}/pages/{number}", s.Handle(page.With(s.findFile, p.pagePicture)))
	s.Mux.HandleFunc("GET /files/{id}/rows", s.Handle(page.With(s.findFile, p.rows)))
	s.Mux.HandleFunc("POST /files/{id}/delete", s.Change(page.With(s.findFile, p.remove)))
	s.Mux.HandleFunc("GET /runs/{id}/files.zip", s.Handle(page.With(s.findRun, p.runArchive)))
	s.Mux.HandleFunc("GET /sessions/{id}", s.Handle(page.With(p.findSession, p.session)))
	s.Mux.HandleFunc("GET /sessions/{id}/files.zip", s.Handle(page.With(p.findSession, p.sessionArchive)))
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
	Kept     string          // the visitor's usage and quota
	Session  *engine.Session // the session that the files belong to; nil: all files
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
	body.Groups = p.groups(v, files)
	usage, quota, err := p.Engine.Kept(v.Context(), v.Caller)
	if err != nil {
		return err
	}
	body.Kept = keptWords(usage, quota)
	if len(files) == filesPerPage {
		body.Next = files[len(files)-1].ID.String()
	}
	if after.IsZero() {
		sessions, err := p.Engine.ListSessions(v.Context(), v.Caller, engine.SessionQuery{Origin: engine.OriginNative})
		if err != nil {
			return err
		}
		body.Sessions = p.sessionRows(v, sessions)
	}
	p.Render(w, v, http.StatusOK, "files", "Sessions & files", body)
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
	body := filesView{Session: &s.Session}
	for _, f := range s.files {
		body.Files = append(body.Files, p.fileView(f))
	}
	p.Render(w, v, http.StatusOK, "files", "Session", body)
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

// fileGroup has the files of one run, or those uploaded between two runs.
type fileGroup struct {
	Run   string // its id; empty: uploaded
	Title string
	When  time.Time
	Files []fileRow
}

// fileRow is a file, with the others of the list that have the same content.
type fileRow struct {
	fileView
	Same []fileView
}

// groups groups a list of files, the newest first. Of files with the same content, the
// newest stands for all.
func (p *filesPage) groups(v *page.Request, files []engine.File) []fileGroup {
	var groups []fileGroup
	type place struct{ group, row int }
	first := map[engine.Digest]place{}
	for _, f := range files {
		if at, ok := first[f.SHA256]; ok {
			row := &groups[at.group].Files[at.row]
			row.Same = append(row.Same, p.fileView(f))
			continue
		}
		run := ""
		if !f.Run.IsZero() {
			run = f.Run.String()
		}
		if n := len(groups); n == 0 || groups[n-1].Run != run {
			groups = append(groups, fileGroup{Run: run, Title: p.groupTitle(v, f.Run), When: f.CreatedAt})
		}
		g := &groups[len(groups)-1]
		first[f.SHA256] = place{len(groups) - 1, len(g.Files)}
		g.Files = append(g.Files, fileRow{fileView: p.fileView(f)})
	}
	return groups
}

func (p *filesPage) groupTitle(v *page.Request, id engine.ID) string {
	if id.IsZero() {
		return "Uploaded"
	}
	run, err := p.Engine.GetRun(v.Context(), v.Caller, id)
	switch {
	case err != nil:
		return "A run that is not kept any more"
	case run.Source == nil:
		return "A run whose code is not kept"
	}
	return (&runPage{site: p.site}).past(run).Title
}

// sessionRow is a session in the list.
type sessionRow struct {
	engine.Session
	Files int // -1: not counted
	Bytes int64
}

const countedSessions = 30

func (p *filesPage) sessionRows(v *page.Request, sessions []engine.Session) []sessionRow {
	rows := make([]sessionRow, len(sessions))
	for i, s := range sessions {
		rows[i] = sessionRow{Session: s, Files: -1}
		if i >= countedSessions {
			continue
		}
		// A session that ends meanwhile, or whose workspace is in use, is listed without.
		if files, _, err := p.Engine.SessionFiles(v.Context(), v.Caller, s.ID); err == nil {
			rows[i].Files = len(files)
			for _, f := range files {
				rows[i].Bytes += f.Size
			}
		}
	}
	return rows
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
