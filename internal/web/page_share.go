package web

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
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
	Until    time.Time       `json:"until"`              // using the file does not extend this
	Language string          `json:"language,omitempty"` // of its code, for its colours
	Notebook json.RawMessage `json:"notebook"`
}

// share makes a link to the notebook that is the request's body.
func (p *sharePage) share(w http.ResponseWriter, v *page.Request) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, v.Body, maxShare))
	if err != nil {
		return page.FormError(err)
	}
	var notebook struct {
		Cells    []json.RawMessage
		Metadata struct {
			Language struct{ Name string } `json:"language_info"`
		}
	}
	if json.Unmarshal(text, &notebook) != nil {
		return page.Refuse(http.StatusBadRequest, "This is not a notebook.", "")
	}
	file, err := p.store(v, v.URL.Query().Get("days"), v.URL.Query().Get("title"), notebook.Metadata.Language.Name,
		text)
	if err != nil {
		return err
	}
	p.shared(w, file)
	return nil
}

// shared tells a script the link that was made.
func (p *sharePage) shared(w http.ResponseWriter, file engine.File) {
	page.WriteJSON(w, http.StatusCreated, map[string]string{
		"id": file.ID.String(), "url": p.URL("/share/" + shareLink(file))})
}

// store stores a copy of a notebook for some days.
func (p *sharePage) store(v *page.Request, days, title, language string, notebook []byte) (engine.File, error) {
	n, err := strconv.Atoi(days)
	if err != nil || n < 1 || n > maxDays {
		return engine.File{}, page.Refuse(http.StatusBadRequest, "A link works for 1 to 30 days.", "Choose how many.")
	}
	life := time.Duration(n) * 24 * time.Hour
	copied, err := json.Marshal(shared{title, p.Now().Add(life), language, notebook})
	if err != nil {
		return engine.File{}, err
	}
	file, err := p.Engine.PutFile(v.Context(), v.Caller, engine.Upload{
		Name: "shared.json", Origin: originShare, MIME: "application/json", TTL: life}, bytes.NewReader(copied))
	p.Engine.RecordAct(v.Context(), v.Caller, engine.ActShared, shareName(file), "for "+days+" days", err)
	return file, err
}

// shareName is what the audit log calls a share: its id opens it.
func shareName(f engine.File) string {
	if f.ID.IsZero() {
		return ""
	}
	sum := sha256.Sum256(f.ID[:])
	return "share " + hex.EncodeToString(sum[:6])
}

func shareLink(f engine.File) string {
	return f.ID.String()
}

// remove revokes a link.
func (p *sharePage) remove(w http.ResponseWriter, v *page.Request, file engine.File) error {
	if file.Origin != originShare {
		return engine.ErrNotFound
	}
	err := p.Engine.DeleteFile(v.Context(), v.Caller, file.ID)
	p.Engine.RecordAct(v.Context(), v.Caller, engine.ActUnshared, shareName(file), "", err)
	if err != nil {
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
	language string
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
		case name == "language":
			err = c.notebook.Decode(&c.language)
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
	if err := copyNotebook(to, found.notebook, cellRenderer{found.language, maxSharedText, maxSharedText}); err != nil {
		if v.Context().Err() == nil { // else the visitor has left
			p.Log.ErrorContext(v.Context(), "a shared notebook was not sent whole", "error", err)
		}
		panic(http.ErrAbortHandler) // the visitor must not take the beginning for the whole
	}
	return nil
}

func copyNotebook(to *bufio.Writer, from *json.Decoder, cells cellRenderer) error {
	if _, err := from.Token(); err != nil { // the brace
		return err
	}
	_ = to.WriteByte('{') // Flush returns the error of any
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
			err = copyCells(to, from, &cells)
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

func copyCells(to *bufio.Writer, from *json.Decoder, cells *cellRenderer) error {
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
		writeValue(to, cells.render(raw))
		_ = to.WriteByte('}')
	}
	_, err := from.Token()
	_ = to.WriteByte(']')
	return errors.Join(err, to.Flush())
}

// cellRenderer renders cells as long as there is room for their text and for what it becomes.
type cellRenderer struct {
	language   string
	text, html int // bytes of room
}

// render returns a text cell as HTML, and the code of a code cell in its colours; nothing if there is no room.
func (c *cellRenderer) render(raw json.RawMessage) string {
	var cell struct {
		Type   string          `json:"cell_type"`
		Source json.RawMessage `json:"source"`
	}
	if json.Unmarshal(raw, &cell) != nil {
		return ""
	}
	var source string
	var lines []string
	if json.Unmarshal(cell.Source, &source) != nil && json.Unmarshal(cell.Source, &lines) == nil {
		source = strings.Join(lines, "")
	}
	if c.text -= len(source); c.text < 0 || c.html < 0 {
		return ""
	}
	var made template.HTML
	ok := true
	switch cell.Type {
	case "markdown":
		made, ok = page.RenderMarkdown(source)
	case "code":
		made = page.Highlight(c.language, source)
	}
	if c.html -= len(made); !ok || c.html < 0 {
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
