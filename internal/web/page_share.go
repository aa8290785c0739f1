package web

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A shared notebook is a copy of a notebook, stored as a file of its owner with its own
// origin. Anyone with the link can see it, and nothing else: the link has the file's id,
// which has 122 random bits, and its owner. It is valid until the file expires or its owner
// deletes it.

const (
	originShare engine.Origin = "share"
	maxShare                  = 32 << 20 // bytes of a copy
	maxDays                   = 30
	maxShares                 = 100 // links of the list
)

// sharePage shares notebooks and shows shared ones.
type sharePage struct{ *Site }

func (s *Site) sharePages() {
	if s.API == nil {
		return
	}
	p := &sharePage{s}
	s.mux.HandleFunc("POST /shares", s.change(p.share))
	s.mux.HandleFunc("POST /runs/{id}/share", s.change(with(s.findRun, p.shareRun)))
	s.mux.HandleFunc("POST /shares/{id}/delete", s.change(with(s.findFile, p.remove)))
	s.mux.HandleFunc("GET /share/{link}", p.public(p.show))
	s.mux.HandleFunc("GET /share/{link}/notebook", p.public(p.notebook))
}

// shared is a stored copy of a notebook.
type shared struct {
	Title    string          `json:"title"`
	Until    time.Time       `json:"until"` // using the file does not extend this
	Notebook json.RawMessage `json:"notebook"`
}

// share makes a link to the notebook that is the request's body.
func (p *sharePage) share(w http.ResponseWriter, v *webRequest) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, v.Body, maxShare))
	if err != nil {
		return formError(err)
	}
	if !json.Valid(text) {
		return refuse(http.StatusBadRequest, "This is no notebook.", "")
	}
	file, err := p.store(v, v.URL.Query().Get("days"), v.URL.Query().Get("title"), text)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, map[string]string{
		"id": file.ID.String(), "url": p.address("/share/" + shareLink(file))})
	return nil
}

// store stores a copy of a notebook for some days.
func (p *sharePage) store(v *webRequest, days, title string, notebook []byte) (engine.File, error) {
	n, err := strconv.Atoi(days)
	if err != nil || n < 1 || n > maxDays {
		return engine.File{}, refuse(http.StatusBadRequest, "A link is good for 1 to 30 days.", "Choose how many.")
	}
	life := time.Duration(n) * 24 * time.Hour
	copied, err := json.Marshal(shared{title, p.Now().Add(life), notebook})
	if err != nil {
		return engine.File{}, err
	}
	return p.Engine.PutFile(v.Context(), v.caller, engine.Upload{
		Name: "shared.json", Origin: originShare, MIME: "application/json", TTL: life}, bytes.NewReader(copied))
}

func shareLink(f engine.File) string {
	return f.ID.String() + "." + base64.RawURLEncoding.EncodeToString([]byte(f.Owner))
}

// remove revokes a link.
func (p *sharePage) remove(w http.ResponseWriter, v *webRequest, file engine.File) error {
	if file.Origin != originShare {
		return engine.ErrNotFound
	}
	if err := p.Engine.DeleteFile(v.Context(), v.caller, file.ID); err != nil {
		return err
	}
	return p.to(w, v, "/notebooks")
}

// shareEntry is a valid link.
type shareEntry struct {
	engine.File
	Link string
}

// shares lists the links of an owner, newest first.
func (s *Site) shares(v *webRequest) ([]shareEntry, error) {
	files, err := s.Engine.ListFiles(v.Context(), v.caller,
		engine.FileQuery{Origin: originShare, Page: engine.Page{Limit: maxShares}})
	var list []shareEntry
	for _, f := range files {
		list = append(list, shareEntry{f, s.address("/share/" + shareLink(f))})
	}
	return list, err
}

// public returns a handler for anyone with a link. It answers all invalid links alike.
func (p *sharePage) public(serve func(http.ResponseWriter, *webRequest, *shared) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, _ := p.visit(w, r)
		found, err := p.open(v)
		if err == nil {
			err = serve(w, v, found)
		}
		if err != nil {
			p.fail(w, v, err)
		}
	}
}

func (p *sharePage) open(v *webRequest) (*shared, error) {
	text, owner, _ := strings.Cut(v.PathValue("link"), ".")
	id, err := engine.ParseID(text)
	if err != nil {
		return nil, engine.ErrNotFound
	}
	name, err := base64.RawURLEncoding.DecodeString(owner)
	if err != nil {
		return nil, engine.ErrNotFound
	}
	file, content, err := p.Engine.OpenFile(v.Context(), engine.Caller{Owner: engine.Owner(name)}, id)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if file.Origin != originShare {
		return nil, engine.ErrNotFound
	}
	var found shared
	if err := json.NewDecoder(io.LimitReader(content, maxShare+1<<20)).Decode(&found); err != nil {
		return nil, err
	}
	if !p.Now().Before(found.Until) {
		return nil, engine.ErrNotFound
	}
	return &found, nil
}

// shareView is the page of a shared notebook.
type shareView struct {
	Title string
	Link  string
	Until time.Time
}

func (p *sharePage) show(w http.ResponseWriter, v *webRequest, found *shared) error {
	title := cmp.Or(named(shorten(found.Title, 120)), "Notebook")
	v.caller = engine.Caller{} // the page is the same for all visitors
	p.renderUnder(w, v, http.StatusOK, "share", title,
		shareView{title, p.address("/share/" + v.PathValue("link")), found.Until}, notebookPolicy(v.Host, p.Prefix))
	return nil
}

// notebook serves the copy, with its text cells rendered.
func (p *sharePage) notebook(w http.ResponseWriter, _ *webRequest, found *shared) error {
	var file map[string]any
	if err := json.Unmarshal(found.Notebook, &file); err != nil {
		return refuse(http.StatusUnprocessableEntity, "This notebook cannot be read.", "")
	}
	cells, _ := file["cells"].([]any)
	for _, c := range cells {
		cell, _ := c.(map[string]any)
		if cell["cell_type"] != "markdown" {
			continue
		}
		source, _ := cell["source"].(string)
		lines, _ := cell["source"].([]any)
		for _, l := range lines {
			line, _ := l.(string)
			source += line
		}
		if html, ok := renderMarkdown(markdown, source); ok {
			cell["airlock_html"] = string(html)
		}
	}
	writeJSON(w, http.StatusOK, file)
	return nil
}

// A run is shared as a notebook of one cell: its code, its output in order, and its pictures.

const (
	sharedOutput  = 4 << 20 // bytes of a run's output
	sharedPicture = 8 << 20 // bytes of its pictures together
)

// shareRun makes a link to a copy of a run, and sends the visitor there.
func (p *sharePage) shareRun(w http.ResponseWriter, v *webRequest, run *engine.Run) error {
	if !run.Status.Final() {
		return refuse(http.StatusConflict, "This run has not ended yet.", "Share it when it has.")
	}
	text, err := p.runNotebook(v, run)
	if err != nil {
		return err
	}
	title := run.Language
	if run.Source != nil {
		title = cmp.Or(titleOf(run.Source.Code), title)
	}
	file, err := p.store(v, v.FormValue("days"), title, text)
	if err != nil {
		return err
	}
	return p.to(w, v, "/share/"+shareLink(file))
}

// runNotebook returns a run as a notebook, in nbformat 4.5.
func (p *sharePage) runNotebook(v *webRequest, run *engine.Run) ([]byte, error) {
	type object = map[string]any
	source, outputs := "", []object{}
	if run.Source != nil {
		source = run.Source.Code
	}
	events, err := p.Engine.Watch(v.Context(), v.caller, run.ID, 0)
	if err != nil {
		return nil, err
	}
	left := sharedOutput
	for e := range events {
		if e.Type != engine.EventOutput || left <= 0 {
			continue
		}
		left -= len(e.Data)
		outputs = append(outputs, object{"output_type": "stream", "name": e.Stream,
			"text": strings.ToValidUTF8(e.Data, "\uFFFD")})
	}
	room := int64(sharedPicture)
	for _, f := range run.Files {
		if !shownImages[f.MIME] || f.Size > room {
			continue
		}
		room -= f.Size
		picture, err := p.picture(v, f)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, object{"output_type": "display_data", "metadata": object{},
			"data": object{f.MIME: picture, "text/plain": named(fileName(f))}})
	}
	language := cmp.Or(map[string]string{"js": "javascript", "ts": "typescript"}[run.Language], run.Language)
	return json.Marshal(object{
		"nbformat": 4, "nbformat_minor": 5, "metadata": object{"language_info": object{"name": language}},
		"cells": []object{{"id": "run", "cell_type": "code", "source": source, "metadata": object{}, "execution_count": 1,
			"outputs": outputs}},
	})
}

func (p *sharePage) picture(v *webRequest, f engine.File) (string, error) {
	_, content, err := p.Engine.OpenFile(v.Context(), v.caller, f.ID)
	if err != nil {
		return "", err
	}
	defer content.Close()
	raw, err := io.ReadAll(io.LimitReader(content, sharedPicture))
	return base64.StdEncoding.EncodeToString(raw), err
}
