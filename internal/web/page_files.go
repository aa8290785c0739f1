package web

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// filesPage shows, serves and deletes files and sessions.
type filesPage struct{ *Site }

func (s *Site) filesPage() {
	p := &filesPage{s}
	s.nav = append(s.nav, navEntry{Name: "files", Title: "Sessions & files", Path: "/files"})
	s.mux.HandleFunc("GET /files", s.handle(p.list))
	s.mux.HandleFunc("POST /files", s.change(p.upload))
	s.mux.HandleFunc("POST /files/look", s.change(p.look))
	s.mux.HandleFunc("GET /files/{id}", s.handle(with(s.findFile, p.show)))
	s.mux.HandleFunc("GET /files/{id}/content", s.handle(p.content))
	s.mux.HandleFunc("GET /files/{id}/preview", s.handle(with(s.findFile, p.preview)))
	s.mux.HandleFunc("GET /files/{id}/pages/{number}", s.handle(with(s.findFile, p.pagePicture)))
	s.mux.HandleFunc("GET /files/{id}/rows", s.handle(with(s.findFile, p.rows)))
	s.mux.HandleFunc("POST /files/{id}/delete", s.change(with(s.findFile, p.remove)))
	s.mux.HandleFunc("GET /runs/{id}/files.zip", s.handle(with(s.findRun, p.runArchive)))
	s.mux.HandleFunc("GET /sessions/{id}", s.handle(with(p.findSession, p.session)))
	s.mux.HandleFunc("GET /sessions/{id}/files.zip", s.handle(with(p.findSession, p.sessionArchive)))
	s.mux.HandleFunc("POST /sessions/{id}/delete", s.change(p.removeSession))
}

// fileView is a file in a page.
type fileView struct {
	engine.File
	Label string // its path, or its name, for display
	Kind  string // of its preview: "image", "table", "markdown", "json", "text", or "" for none

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
	Kept     string          // the visitor's usage and quota
	Session  *engine.Session // the session that the files belong to; nil: all files
	MaxSize  int64
}

const filesPerPage = 50

func (p *filesPage) list(w http.ResponseWriter, v *webRequest) error {
	body := filesView{MaxSize: p.MaxUpload}
	after, err := v.after()
	if err != nil {
		return err
	}
	query := engine.FileQuery{Origin: engine.OriginNative, Page: engine.Page{Limit: filesPerPage, After: after}}
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
	if after.IsZero() {
		sessions, err := p.Engine.ListSessions(v.Context(), v.caller, engine.SessionQuery{Origin: engine.OriginNative})
		if err != nil {
			return err
		}
		body.Sessions = p.sessionRows(v, sessions)
	}
	p.render(w, v, http.StatusOK, "files", "Sessions & files", body)
	return nil
}

// upload stores the request's body, as it comes, under the name in the address.
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

// show shows a file.
func (p *filesPage) show(w http.ResponseWriter, v *webRequest, file engine.File) error {
	body := p.storedPreview(v, file)
	p.render(w, v, http.StatusOK, "file", body.File.Label, body)
	return nil
}

// preview answers with the part of a page that shows a file.
func (p *filesPage) preview(w http.ResponseWriter, v *webRequest, file engine.File) error {
	return p.fragment(w, v, "file", "preview", p.storedPreview(v, file))
}

// look stores the request's body for a while, and shows it as preview does, since the
// outputs of a cell are not files of the session.
func (p *filesPage) look(w http.ResponseWriter, v *webRequest) error {
	file, err := p.Engine.PutFile(v.Context(), v.caller, engine.Upload{
		Name: v.URL.Query().Get("name"), Origin: originPage, TTL: lookTime}, v.Body)
	if err != nil {
		return err
	}
	return p.fragment(w, v, "file", "preview", p.storedPreview(v, file))
}

func (p *filesPage) remove(w http.ResponseWriter, v *webRequest, file engine.File) error {
	if err := p.Engine.DeleteFile(v.Context(), v.caller, file.ID); err != nil {
		return err
	}
	return p.deleted(w, v)
}

func (p *filesPage) deleted(w http.ResponseWriter, v *webRequest) error {
	return p.at(w, v, "/files", http.StatusOK, map[string]bool{"deleted": true})
}

func (p *filesPage) runArchive(w http.ResponseWriter, v *webRequest, run *engine.Run) error {
	return p.archive(w, v, "run-"+run.ID.String()+".zip", run.Files)
}

// sessionFiles is a session with its files, each under its path there.
type sessionFiles struct {
	engine.Session
	files []engine.File
}

// findSession returns the session that a request is about.
func (p *filesPage) findSession(v *webRequest) (s sessionFiles, err error) {
	id, err := v.id()
	if err != nil {
		return s, err
	}
	if s.Session, err = p.Engine.GetSession(v.Context(), v.caller, id); err != nil {
		return s, err
	}
	files, places, err := p.Engine.SessionFiles(v.Context(), v.caller, id)
	for i := range files {
		files[i].Path = places[i].Path
	}
	s.files = files
	return s, err
}

func (p *filesPage) session(w http.ResponseWriter, v *webRequest, s sessionFiles) error {
	body := filesView{Session: &s.Session}
	for _, f := range s.files {
		body.Files = append(body.Files, p.fileView(f))
	}
	p.render(w, v, http.StatusOK, "files", "Session", body)
	return nil
}

func (p *filesPage) sessionArchive(w http.ResponseWriter, v *webRequest, s sessionFiles) error {
	return p.archive(w, v, "session-"+s.ID.String()+".zip", s.files)
}

func (p *filesPage) removeSession(w http.ResponseWriter, v *webRequest) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	if err := p.Engine.DeleteSession(v.Context(), v.caller, id); err != nil && !errors.Is(err, engine.ErrCanceled) {
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
func (p *filesPage) groups(v *webRequest, files []engine.File) []fileGroup {
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

func (p *filesPage) groupTitle(v *webRequest, id engine.ID) string {
	if id.IsZero() {
		return "Uploaded"
	}
	run, err := p.Engine.GetRun(v.Context(), v.caller, id)
	switch {
	case err != nil:
		return "A run that is not kept any more"
	case run.Source == nil:
		return "A run whose code is not kept"
	}
	return (&runPage{Site: p.Site}).past(run).Title
}

// sessionRow is a session in the list.
type sessionRow struct {
	engine.Session
	Files int // -1: not counted
	Bytes int64
}

const countedSessions = 30

func (p *filesPage) sessionRows(v *webRequest, sessions []engine.Session) []sessionRow {
	rows := make([]sessionRow, len(sessions))
	for i, s := range sessions {
		rows[i] = sessionRow{Session: s, Files: -1}
		if i >= countedSessions {
			continue
		}
		// A session that ends meanwhile, or whose workspace is in use, is listed without.
		if files, _, err := p.Engine.SessionFiles(v.Context(), v.caller, s.ID); err == nil {
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
	files, size := count(u.Files, "file"), byteCount(u.Bytes)
	if q.Files > 0 {
		files = fmt.Sprintf("%d of at most %s", u.Files, count(q.Files, "file"))
	}
	if q.Bytes > 0 {
		size += " of " + byteCount(q.Bytes)
	}
	words := "You keep " + files + ", " + size
	if q.Sessions > 0 {
		words += fmt.Sprintf(", and %d of at most %s", u.Sessions, count(q.Sessions, "session"))
	}
	return words + "."
}
