package web

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the program that reads tables
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

//go:embed preview.py
var tableProgram string

// shownText is how many bytes of a text a preview shows.
const shownText = 128 << 10

// previewView is a file with its preview.
type previewView struct {
	File    fileView
	Problem string
	Table   *table
	HTML    template.HTML // of Markdown: made by goldmark, which lets no HTML through
	Text    string
	Cut     bool // there is more text than that
	Pages   int  // of a PDF; each is a picture at an address of its own
	Frame   bool // its table can be opened with all rows
	Whole   bool // which the page does at once
}

// table is the head of a table.
type table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Count   int64      `json:"count"` // rows in all
	Width   int        `json:"width"` // columns in all
	Sheet   string     `json:"sheet"` // name of the displayed sheet of a workbook
	Sheets  int        `json:"sheets"`
	Problem string     `json:"problem"`
	Unread  bool       `json:"-"` // the program did not end normally
}

// storedPreview returns a stored file with its content, as far as it can be shown.
func (s *site) storedPreview(v *page.Request, file engine.File) previewView {
	body := previewView{File: s.fileView(file), Frame: s.frames.sessions != nil}
	s.makePreview(v, &body, func() (io.ReadCloser, error) {
		_, content, err := s.Engine.OpenFile(v.Context(), v.Caller, file.ID)
		return content, err
	})
	return body
}

// lookTime is how long a file for a preview is stored, from where the sandbox reads it.
const lookTime = time.Hour

// preview implements Site.Preview. A program in the sandbox reads tables and PDFs, from the store.
func (s *site) preview(w http.ResponseWriter, v *page.Request, f page.File, content io.ReadSeeker) error {
	body := previewView{File: s.fileView(engine.File{Name: f.Name, MIME: f.MIME, Size: f.Size})}
	if kind := body.File.Kind; kind == "pages" || kind == "table" {
		stored, err := s.Engine.PutFile(v.Context(), v.Caller, engine.Upload{
			Name: f.Name, Origin: originPage, MIME: f.MIME, TTL: lookTime}, content)
		if err != nil {
			body.Problem = page.Describe(err).Message
			return s.Fragment(w, v, "file", "preview", body)
		}
		body.File.File = stored // the browser fetches its pages
		if kind == "table" {
			defer func() { _ = s.Engine.DeleteFile(v.Context(), v.Caller, stored.ID) }() // else it expires
		}
	}
	s.makePreview(v, &body, func() (io.ReadCloser, error) {
		_, err := content.Seek(0, io.SeekStart)
		return io.NopCloser(content), err
	})
	return s.Fragment(w, v, "file", "preview", body)
}

// makePreview fills in what can be shown of a file. A program in the sandbox reads tables
// and PDFs from the store; text comes from open.
func (s *site) makePreview(v *page.Request, body *previewView, open func() (io.ReadCloser, error)) {
	kind, err := body.File.Kind, error(nil)
	switch kind {
	case "table":
		body.Table, err = s.previews.table(v.Context(), v.Caller, body.File.File)
		if err == nil && body.Table.Problem != "" {
			body.Problem, body.Table = "This cannot be read as a table: "+body.Table.Problem+".", nil
			if tableKind(body.File.File) != "xlsx" { // an xlsx file is an archive; its raw bytes are not readable
				body.Problem, kind = body.Problem+" Its text, as it is:", "text"
			}
		}
	case "pages":
		body.Pages, body.Problem, err = s.previews.pages(v.Context(), v.Caller, body.File.File)
	}
	if err == nil && (kind == "markdown" || kind == "json" || kind == "text") {
		var content io.ReadCloser
		if content, err = open(); err == nil {
			err = errors.Join(readText(content, body), content.Close())
		}
	}
	if err != nil {
		said := page.Describe(err)
		body.Problem = strings.TrimSpace(said.Message + " " + said.Cure)
	}
}

// readText fills in the beginning of a text in the way of the file's kind.
func readText(content io.Reader, body *previewView) error {
	raw, err := io.ReadAll(io.LimitReader(content, shownText+1))
	if err != nil {
		return err
	}
	if len(raw) > shownText {
		raw, body.Cut = raw[:shownText], true
		for len(raw) > 0 && !utf8.Valid(raw[max(0, len(raw)-utf8.UTFMax):]) && !utf8.RuneStart(raw[len(raw)-1]) {
			raw = raw[:len(raw)-1]
		}
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		body.Problem, body.Text = strings.TrimSpace(body.Problem+" This is not text: it can only be downloaded."), ""
		return nil
	}
	text := strings.ToValidUTF8(string(raw), "\uFFFD")
	switch {
	case body.File.Kind == "markdown" && !body.Cut:
		html, ok := page.RenderMarkdown(text)
		if ok {
			body.HTML = html
			return nil
		}
		body.Problem = "This is too large or too deeply nested to show as Markdown. Its text, as it is:"
	case body.File.Kind == "json" && !body.Cut:
		text = indented(text, body)
	}
	body.Text = page.PlainText(text)
	return nil
}

// indented returns a JSON text with indents. If it cannot, it returns the text as it is and
// sets the problem.
func indented(text string, body *previewView) string {
	if indentedSize(text) > 4*shownText {
		body.Problem = "This is too deeply nested to show with indents. Its text, as it is:"
		return text
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		body.Problem = "This is not valid JSON: " + err.Error() + ". Its text, as it is:"
		return text
	}
	return out.String()
}

// indentedSize returns an upper bound of json.Indent's result, which grows with the square
// of the depth.
func indentedSize(text string) int {
	size, depth, quoted := len(text), 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			size += 2*depth + 1
		case c == ',':
			size += 2*depth + 1
		case c == '}', c == ']':
			depth--
			size += 2*max(depth, 0) + 1
		}
	}
	return size
}

// previews reads tables and PDFs with a program in the sandbox, as a run of the visitor. It
// caches the beginnings of tables.
type previews struct {
	engine *engine.Service

	mu     sync.Mutex
	tables map[previewKey]*table
}

type previewKey struct {
	owner   engine.Owner
	content engine.Digest
	kind    string
}

const (
	keptTables  = 128
	previewTime = 20 * time.Second
)

// tableKind returns the format of a table.
func tableKind(f engine.File) string {
	switch ext := strings.ToLower(path.Ext(fileName(f))); {
	case ext == ".parquet" || f.MIME == "application/vnd.apache.parquet":
		return "parquet"
	case ext == ".xlsx" || f.MIME == page.XlsxType:
		return "xlsx"
	case ext == ".jsonl" || ext == ".ndjson" || strings.HasPrefix(f.MIME, "application/x-ndjson"):
		return "jsonl"
	case ext == ".tsv" || strings.HasPrefix(f.MIME, "text/tab-separated-values"):
		return "tsv"
	}
	return "csv"
}

// extent bounds how much of a table is read.
type extent struct {
	rows, columns int
	text          int // bytes, as JSON
}

var headOfTable = extent{20, 30, 256 << 10}

func (p *previews) table(ctx context.Context, caller engine.Caller, f engine.File) (*table, error) {
	kind := tableKind(f)
	key := previewKey{caller.Owner, f.SHA256, kind}
	p.mu.Lock()
	known := p.tables[key]
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	made, err := p.rows(ctx, caller, f, headOfTable)
	if err != nil || made.Unread { // a later attempt may succeed
		return made, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tables) >= keptTables {
		clear(p.tables) // others are read again when they are needed
	}
	p.tables[key] = made
	return made, nil
}

// rows reads a table up to an extent.
func (p *previews) rows(ctx context.Context, caller engine.Caller, f engine.File, most extent) (*table, error) {
	run, err := p.read(ctx, caller, f, most.text, tableKind(f), strconv.Itoa(most.rows), strconv.Itoa(most.columns))
	if err != nil {
		return nil, err
	}
	return tableOf(run, most), nil
}

// read runs the program in the sandbox on a file.
func (p *previews) read(
	ctx context.Context, caller engine.Caller, f engine.File, output int, kind string, args ...string,
) (*engine.Run, error) {
	const at = "input"
	run, err := p.engine.Start(ctx, caller, engine.RunRequest{
		Language: "python", Code: tableProgram, Args: append([]string{kind, at}, args...),
		Files: []engine.FileRef{{ID: f.ID, Path: at, ReadOnly: true}},
		Profile: engine.Profile{
			Origin: engine.OriginPreview, Files: engine.FileRules{Discard: true},
			Limits: engine.Limits{Timeout: previewTime, Output: engine.OutputLimit{Bytes: output}},
		},
	})
	if err != nil {
		return nil, err
	}
	events, err := p.engine.Watch(ctx, caller, run.ID, 0)
	if err != nil {
		return nil, err
	}
	for e := range events {
		if e.Type == engine.EventResult {
			return e.Run, nil
		}
	}
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), previewTime)
	defer cancel()
	if err := p.engine.CancelRun(left, caller, run.ID); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return nil, err
	}
	return nil, &engine.Error{Op: "preview", Kind: engine.ErrCanceled, Err: context.Cause(ctx)}
}

// tableOf parses the output of the program in the sandbox, which is as untrusted as the
// file.
func tableOf(run *engine.Run, most extent) *table {
	t := &table{}
	switch {
	case run.Status != engine.StatusOK:
		t.Problem, t.Unread = unread(run), true
	case run.Truncated || json.Unmarshal([]byte(run.Stdout), t) != nil:
		*t = table{Problem: "its head is too large"}
	}
	if len(t.Columns) > most.columns || len(t.Rows) > most.rows {
		*t = table{Problem: "its head is too large"}
	}
	return t
}

// unread returns why the program in the sandbox did not read a file.
func unread(run *engine.Run) string {
	if run.Status == engine.StatusTimeout {
		return "reading it took too long"
	}
	return "reading it failed"
}

const (
	shownPages  = 20      // of a PDF
	pagePicture = 1 << 20 // bytes of one page's picture, as base64
)

// pageLook is the program's answer about a PDF: the number of pages, or one of them.
type pageLook struct {
	Pages   int    `json:"pages"`
	Picture []byte `json:"picture"`
	Problem string `json:"problem"`
}

// page returns one page of a PDF; 0: their number. It is drawn in the sandbox: browsers get
// pictures, and nothing of the document.
func (p *previews) page(ctx context.Context, caller engine.Caller, f engine.File, number int) (pageLook, error) {
	run, err := p.read(ctx, caller, f, pagePicture, "pdf", strconv.Itoa(number))
	if err != nil {
		return pageLook{}, err
	}
	var made pageLook
	switch {
	case run.Status != engine.StatusOK:
		made.Problem = unread(run)
	case run.Truncated || json.Unmarshal([]byte(run.Stdout), &made) != nil:
		made = pageLook{Problem: "its picture is too large"}
	}
	return made, nil
}

// numbers returns 1 to n.
func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// pages returns the number of pages of a PDF, or why it is not known.
func (p *previews) pages(ctx context.Context, caller engine.Caller, f engine.File) (int, string, error) {
	made, err := p.page(ctx, caller, f, 0)
	if err != nil || made.Problem == "" && made.Pages > 0 {
		return made.Pages, "", err
	}
	made.Problem = cmp.Or(made.Problem, "it has no pages")
	return 0, "This cannot be read as a PDF: " + made.Problem + ".", nil
}

// pagePicture serves the picture of one page.
func (p *filesPage) pagePicture(w http.ResponseWriter, v *page.Request, file engine.File) error {
	number, err := strconv.Atoi(v.PathValue("number"))
	if err != nil || number < 1 || number > shownPages || page.PreviewKind(infoOf(file)) != "pages" {
		return engine.ErrNotFound
	}
	made, err := p.previews.page(v.Context(), v.Caller, file, number)
	if err != nil {
		return err
	}
	// The program's picture is untrusted: it is served only if it begins like WebP.
	if !bytes.HasPrefix(made.Picture, []byte("RIFF")) {
		return engine.ErrNotFound
	}
	page.Untrusted(w, "image/webp", "")
	w.Header().Set("Cache-Control", "private, max-age=3600") // the file behind an id does not change
	_, _ = w.Write(made.Picture)
	return nil
}
