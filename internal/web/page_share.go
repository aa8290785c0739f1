package web

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/wire"
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
type sharePage struct {
	*site
	sharing sharing
	rate    *rate.Limiter
}

// sharesPerSecond limits the requests of all visitors without a key together: each reads a file.
const sharesPerSecond = 50

func (s *site) sharePages() {
	if s.API == nil {
		return
	}
	p := &sharePage{site: s, rate: rate.NewLimiter(sharesPerSecond, 4*sharesPerSecond)}
	s.Mux.HandleFunc("POST /shares", s.Change(p.share))
	s.Mux.HandleFunc("POST /runs/{id}/share", s.Change(page.With(s.findRun, p.shareRun)))
	s.Mux.HandleFunc("POST /shares/{id}/delete", s.Change(page.With(s.findFile, p.remove)))
	s.Mux.HandleFunc("GET /share/{link}", p.public(p.show))
	s.Mux.HandleFunc("GET /share/{link}/notebook", p.public(p.notebook))
}

// shared is a stored copy of a notebook.
type shared struct {
	Title    string          `json:"title"`
	Until    time.Time       `json:"until"` // using the file does not extend this
	Notebook json.RawMessage `json:"notebook"`
}

// share makes a link to the notebook that is the request's body.
func (p *sharePage) share(w http.ResponseWriter, v *page.Request) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, v.Body, maxShare))
	if err != nil {
		return page.FormError(err)
	}
	var notebook struct{ Cells []json.RawMessage }
	if json.Unmarshal(text, &notebook) != nil {
		return page.Refuse(http.StatusBadRequest, "This is no notebook.", "")
	}
	file, err := p.store(v, v.URL.Query().Get("days"), v.URL.Query().Get("title"), text)
	if err != nil {
		return err
	}
	page.WriteJSON(w, http.StatusCreated, map[string]string{
		"id": file.ID.String(), "url": p.URL("/share/" + shareLink(file))})
	return nil
}

// store stores a copy of a notebook for some days.
func (p *sharePage) store(v *page.Request, days, title string, notebook []byte) (engine.File, error) {
	n, err := strconv.Atoi(days)
	if err != nil || n < 1 || n > maxDays {
		return engine.File{}, page.Refuse(http.StatusBadRequest, "A link is good for 1 to 30 days.", "Choose how many.")
	}
	life := time.Duration(n) * 24 * time.Hour
	copied, err := json.Marshal(shared{title, p.Now().Add(life), notebook})
	if err != nil {
		return engine.File{}, err
	}
	return p.Engine.PutFile(v.Context(), v.Caller, engine.Upload{
		Name: "shared.json", Origin: originShare, MIME: "application/json", TTL: life}, bytes.NewReader(copied))
}

func shareLink(f engine.File) string {
	return f.ID.String()
}

// remove revokes a link.
func (p *sharePage) remove(w http.ResponseWriter, v *page.Request, file engine.File) error {
	if file.Origin != originShare {
		return engine.ErrNotFound
	}
	if err := p.Engine.DeleteFile(v.Context(), v.Caller, file.ID); err != nil {
		return err
	}
	return p.Redirect(w, v, "/notebooks")
}

// shareEntry is a valid link.
type shareEntry struct {
	engine.File
	Link string
}

// shares lists the links of an owner, newest first.
func (s *site) shares(v *page.Request) ([]shareEntry, error) {
	files, err := s.Engine.ListFiles(v.Context(), v.Caller,
		engine.FileQuery{Origin: originShare, Page: engine.Page{Limit: maxShares}})
	var list []shareEntry
	for _, f := range files {
		list = append(list, shareEntry{f, s.URL("/share/" + shareLink(f))})
	}
	return list, err
}

// public returns a handler for anyone with a link. It answers all invalid links alike. The notebooks of all
// answers in progress together are bounded, since nobody who asks for one has a key.
func (p *sharePage) public(serve func(http.ResponseWriter, *page.Request, *sharedCopy) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, _ := p.Visit(w, r)
		found, err := p.open(v)
		if err == nil {
			err = serve(w, v, found)
			p.sharing.release(found.size)
			found.content.Close()
		}
		if err != nil {
			p.Fail(w, v, err)
		}
	}
}

// maxSharing bounds the bytes of the notebooks that are being answered with.
const maxSharing = 4 * maxShare

// sharing counts those bytes.
type sharing struct {
	mu    sync.Mutex
	bytes int64
}

func (s *sharing) reserve(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+n > maxSharing {
		return false
	}
	s.bytes += n
	return true
}

func (s *sharing) release(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= n
}

// sharedCopy is a stored copy that has been read up to its notebook.
type sharedCopy struct {
	title    string
	until    time.Time
	notebook *json.Decoder // what it reads next is the notebook
	content  io.Closer
	size     int64
}

func (p *sharePage) open(v *page.Request) (*sharedCopy, error) {
	if !p.rate.Allow() {
		return nil, manyShares()
	}
	text, _, _ := strings.Cut(v.PathValue("link"), ".") // links of earlier versions go on with their owner's name
	id, err := engine.ParseID(text)
	if err != nil {
		return nil, engine.ErrNotFound
	}
	file, content, err := p.Engine.OpenShared(v.Context(), originShare, id)
	if err != nil {
		return nil, err
	}
	found := &sharedCopy{notebook: json.NewDecoder(content), content: content, size: file.Size}
	switch {
	case !p.sharing.reserve(file.Size):
		err = manyShares()
	default:
		if err = found.readHead(); err == nil && !p.Now().Before(found.until) {
			err = engine.ErrNotFound
		}
		if err != nil {
			p.sharing.release(file.Size)
		}
	}
	if err != nil {
		content.Close()
		return nil, err
	}
	return found, nil
}

func manyShares() error {
	return &engine.Error{Op: "show shared notebook", Kind: engine.ErrBusy, RetryAfter: 2 * time.Second,
		Err: errors.New("many shared notebooks are being sent")}
}

// readHead reads what comes before the notebook, in the order of shared.
func (c *sharedCopy) readHead() error {
	if _, err := c.notebook.Token(); err != nil { // the brace
		return err
	}
	for {
		name, err := c.notebook.Token()
		switch {
		case err != nil:
			return err
		case name == "title":
			err = c.notebook.Decode(&c.title)
		case name == "until":
			err = c.notebook.Decode(&c.until)
		case name == "notebook":
			return nil
		default:
			return engine.ErrNotFound // not a copy of this page
		}
		if err != nil {
			return err
		}
	}
}

// shareView is the page of a shared notebook.
type shareView struct {
	Title string
	Link  string
	Until time.Time
}

func (p *sharePage) show(w http.ResponseWriter, v *page.Request, found *sharedCopy) error {
	title := cmp.Or(page.Named(shorten(found.title, 120)), "Notebook")
	v.Caller = engine.Caller{} // the page is the same for all visitors
	p.RenderUnder(w, v, http.StatusOK, "share", title,
		shareView{title, p.URL("/share/" + v.PathValue("link")), found.until}, notebookPolicy(v.Host, p.Prefix))
	return nil
}

// maxSharedText bounds the text of a shared notebook that is rendered, and what it becomes. Text cells beyond are
// shown as they are.
const maxSharedText = 4 << 20

// notebook serves the copy, with its text cells rendered. It is read and sent cell by cell, so that an answer
// takes the memory of its largest cell.
func (p *sharePage) notebook(w http.ResponseWriter, v *page.Request, found *sharedCopy) error {
	w.Header().Set("Content-Type", "application/json")
	to := bufio.NewWriter(w)
	if err := copyNotebook(to, found.notebook); err != nil {
		p.Log.ErrorContext(v.Context(), "a shared notebook was not sent whole", "error", err)
		panic(http.ErrAbortHandler) // the visitor must not take the beginning for the whole
	}
	return nil
}

func copyNotebook(to *bufio.Writer, from *json.Decoder) error {
	if _, err := from.Token(); err != nil { // the brace
		return err
	}
	_ = to.WriteByte('{') // Flush returns the error of any
	text, html := maxSharedText, maxSharedText
	for first := true; from.More(); first = false {
		name, err := from.Token()
		if err != nil {
			return err
		}
		if !first {
			_ = to.WriteByte(',')
		}
		writeValue(to, name)
		_ = to.WriteByte(':')
		if name == "cells" {
			err = copyCells(to, from, &text, &html)
		} else {
			err = copyValue(to, from)
		}
		if err != nil {
			return err
		}
	}
	_, _ = to.WriteString("}\n")
	return to.Flush()
}

func copyCells(to *bufio.Writer, from *json.Decoder, text, html *int) error {
	switch begin, err := from.Token(); {
	case err != nil:
		return err
	case begin == nil:
		_, _ = to.WriteString("null")
		return nil
	case begin != json.Delim('['):
		return errors.New("its cells are no list")
	}
	_ = to.WriteByte('[')
	for first := true; from.More(); first = false {
		if !first {
			_ = to.WriteByte(',')
		}
		var raw json.RawMessage
		if err := from.Decode(&raw); err != nil {
			return err
		}
		end := len(raw) - 1
		if raw[0] != '{' { // no cell, so nothing is shown of it
			_, _ = to.WriteString("{}")
			continue
		}
		// The last of equal names counts, so the copy cannot bring HTML of its own.
		_, _ = to.Write(raw[:end])
		if len(bytes.TrimSpace(raw[1:end])) > 0 {
			_ = to.WriteByte(',')
		}
		_, _ = to.WriteString(`"airlock_html":`)
		writeValue(to, renderCell(raw, text, html))
		_ = to.WriteByte('}')
	}
	_, err := from.Token()
	_ = to.WriteByte(']')
	return errors.Join(err, to.Flush())
}

// renderCell returns a text cell as HTML, as long as there is room for its text and for that; else nothing.
func renderCell(raw json.RawMessage, text, html *int) string {
	var cell struct {
		Type   string          `json:"cell_type"`
		Source json.RawMessage `json:"source"`
	}
	if json.Unmarshal(raw, &cell) != nil || cell.Type != "markdown" {
		return ""
	}
	var source string
	var lines []string
	if json.Unmarshal(cell.Source, &source) != nil && json.Unmarshal(cell.Source, &lines) == nil {
		source = strings.Join(lines, "")
	}
	if *text -= len(source); *text < 0 || *html < 0 {
		return ""
	}
	made, ok := page.RenderMarkdown(source)
	if *html -= len(made); !ok || *html < 0 {
		return ""
	}
	return string(made)
}

func copyValue(to *bufio.Writer, from *json.Decoder) error {
	var raw json.RawMessage
	err := from.Decode(&raw)
	_, _ = to.Write(raw)
	return err
}

func writeValue(to *bufio.Writer, value any) { _, _ = to.Write(wire.EncodePlain(value)) }

// A run is shared as a notebook of one cell: its code, its output in order, and its pictures.

const (
	sharedOutput  = 4 << 20 // bytes of a run's output
	sharedPicture = 8 << 20 // bytes of its pictures together
)

// shareRun makes a link to a copy of a run, and sends the visitor there.
func (p *sharePage) shareRun(w http.ResponseWriter, v *page.Request, run *engine.Run) error {
	if !run.Status.Final() {
		return page.Refuse(http.StatusConflict, "This run has not ended yet.", "Share it when it has.")
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
	return p.Redirect(w, v, "/share/"+shareLink(file))
}

// runNotebook returns a run as a notebook, in nbformat 4.5.
func (p *sharePage) runNotebook(v *page.Request, run *engine.Run) ([]byte, error) {
	type object = map[string]any
	source, outputs := "", []object{}
	if run.Source != nil {
		source = run.Source.Code
	}
	events, err := p.Engine.Watch(v.Context(), v.Caller, run.ID, 0)
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
		if !page.ShownImages[f.MIME] || f.Size > room {
			continue
		}
		room -= f.Size
		picture, err := p.picture(v, f)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, object{"output_type": "display_data", "metadata": object{},
			"data": object{f.MIME: picture, "text/plain": page.Named(fileName(f))}})
	}
	language := cmp.Or(map[string]string{"js": "javascript", "ts": "typescript"}[run.Language], run.Language)
	return json.Marshal(object{
		"nbformat": 4, "nbformat_minor": 5, "metadata": object{"language_info": object{"name": language}},
		"cells": []object{{"id": "run", "cell_type": "code", "source": source, "metadata": object{}, "execution_count": 1,
			"outputs": outputs}},
	})
}

func (p *sharePage) picture(v *page.Request, f engine.File) (string, error) {
	_, content, err := p.Engine.OpenFile(v.Context(), v.Caller, f.ID)
	if err != nil {
		return "", err
	}
	defer content.Close()
	raw, err := io.ReadAll(io.LimitReader(content, sharedPicture))
	return base64.StdEncoding.EncodeToString(raw), err
}
