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

// A shared notebook is a copy of it as it was then, a file of its owner with an origin of
// its own. Whoever has the link sees it, and nothing else: the link holds the file's id,
// which has 122 random bits, and whose it is. It ends when the file does: at its time, or
// when its owner deletes it.

const (
	originShare engine.Origin = "share"
	maxShare                  = 32 << 20 // bytes of a copy
	maxDays                   = 30
	maxShares                 = 100 // links of the list
)

// sharePage is where notebooks are shared, and shared ones are read.
type sharePage struct{ *Site }

func (s *Site) sharePages() {
	if s.API == nil {
		return
	}
	p := &sharePage{s}
	s.mux.HandleFunc("POST /shares", s.change(p.share))
	s.mux.HandleFunc("POST /runs/{id}/share", s.change(p.shareRun))
	s.mux.HandleFunc("POST /shares/{id}/delete", s.change(p.remove))
	s.mux.HandleFunc("GET /share/{link}", p.public(p.show))
	s.mux.HandleFunc("GET /share/{link}/notebook", p.public(p.notebook))
}

// shared is a copy of a notebook, as it is stored.
type shared struct {
	Title    string          `json:"title"`
	Until    time.Time       `json:"until"` // a use of the file does not put this off
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

// store keeps a copy of a notebook for as many days as the visitor has chosen.
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
func (p *sharePage) remove(w http.ResponseWriter, v *webRequest) error {
	id, err := engine.ParseID(v.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	file, err := p.Engine.GetFile(v.Context(), v.caller, id)
	if err != nil {
		return err
	}
	if file.Origin != originShare {
		return engine.ErrNotFound
	}
	if err := p.Engine.DeleteFile(v.Context(), v.caller, id); err != nil {
		return err
	}
	http.Redirect(w, v.Request, p.address("/notebooks"), http.StatusSeeOther)
	return nil
}

// shareEntry is a link that is good still.
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

// public makes a handler of what everybody may see who has a link. Every link that is
// not good is answered alike.
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
	v.caller = engine.Caller{} // the page is the same for everybody
	p.renderUnder(w, v, http.StatusOK, "share", title,
		shareView{title, p.address("/share/" + v.PathValue("link")), found.Until}, notebookPolicy(v.Host, p.Prefix))
	return nil
}

// notebook is the copy itself, with its text cells rendered.
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
