package web

import (
	"bytes"
	"container/list"
	"context"
	_ "embed" // the program that reads tables
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"github.com/airlock-run/airlock/internal/engine"
)

//go:embed preview.py
var tableProgram string

// shownText is how much of a text a preview shows.
const shownText = 128 << 10

const xlsxType = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

// previewKind says how a file can be looked at.
func previewKind(f engine.File) string {
	base, _, _ := strings.Cut(f.MIME, ";")
	ext := strings.ToLower(path.Ext(fileName(f)))
	switch {
	case shownImages[base]:
		return "image"
	case base == "text/csv", base == "text/tab-separated-values", base == "application/vnd.apache.parquet",
		base == xlsxType, ext == ".csv", ext == ".tsv", ext == ".parquet", ext == ".xlsx":
		return "table"
	case base == "application/pdf", ext == ".pdf":
		return "pages"
	case base == "text/markdown":
		return "markdown"
	case base == "application/json":
		return "json"
	case strings.HasPrefix(base, "text/"), base == "image/svg+xml", base == "application/xml",
		base == "application/x-ndjson", base == "application/sql", base == "application/x-ipynb+json":
		return "text"
	}
	return ""
}

// previewView is a file and its content, as far as it can be shown.
type previewView struct {
	File    fileView
	Problem string
	Table   *table
	HTML    template.HTML // of Markdown: made by goldmark, which lets no HTML through
	Text    string
	Cut     bool // there is more text than that
	Pages   int  // of a PDF; each is a picture at an address of its own
}

// table is the head of a table.
type table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
	Count   int64      `json:"count"` // rows in all
	Width   int        `json:"width"` // columns in all
	Sheet   string     `json:"sheet"` // of a workbook, the one that is shown
	Sheets  int        `json:"sheets"`
	Problem string     `json:"problem"`
	Unread  bool       `json:"-"` // the program did not come to its end
}

func (p *filesPage) makePreview(v *webRequest, body *previewView) {
	var err error
	switch body.File.Kind {
	case "table":
		err = p.tablePreview(v, body)
	case "pages":
		body.Pages, body.Problem, err = p.previews.pages(v.Context(), v.caller, body.File.File)
	case "markdown", "json", "text":
		err = p.textPreview(v, body)
	}
	if err != nil {
		said := describe(err)
		body.Problem = strings.TrimSpace(said.Message + " " + said.Cure)
	}
}

func (p *filesPage) tablePreview(v *webRequest, body *previewView) error {
	t, err := p.previews.table(v.Context(), v.caller, body.File.File)
	if err != nil {
		return err
	}
	if t.Problem == "" {
		body.Table = t
		return nil
	}
	if tableKind(body.File.File) == "xlsx" { // an archive: its bytes say nothing
		body.Problem = "This cannot be read as a table: " + t.Problem + "."
		return nil
	}
	body.Problem = "This cannot be read as a table: " + t.Problem + ". Its text, as it is:"
	return p.textPreview(v, body)
}

// textPreview reads the beginning of a file. Markdown and JSON are rendered
// only if that was all of it.
func (p *filesPage) textPreview(v *webRequest, body *previewView) error {
	_, content, err := p.Engine.OpenFile(v.Context(), v.caller, body.File.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	return readText(content, body)
}

// readText is the beginning of a content as the kind of its file wants it.
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
		html, ok := renderMarkdown(markdown, text)
		if ok {
			body.HTML = html
			return nil
		}
		body.Problem = "This is too large or too deeply nested to show as Markdown. Its text, as it is:"
	case body.File.Kind == "json" && !body.Cut:
		text = indented(text, body)
	}
	body.Text = plainText(text)
	return nil
}

// indented returns a JSON text with indents, or as it is with the reason.
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

// indentedSize returns the size that json.Indent needs at most, which grows
// with the square of the depth.
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

// markdown renders a file that a run left.
var markdown = newMarkdown(lowerHeadings{})

// noPictures shows what is said of a picture in its place: a file that is
// looked at loads nothing from elsewhere.
type noPictures struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (noPictures) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindImage, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := "</em>"
		if entering {
			tag = "<em>picture: "
		}
		_, err := w.WriteString(tag)
		return ast.WalkContinue, err
	})
}

// lowerHeadings puts a file's headings below those of the page that shows it:
// the page's own name stays its only first one.
type lowerHeadings struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (lowerHeadings) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := "</h%d>\n"
		if entering {
			tag = "<h%d>"
		}
		_, err := fmt.Fprintf(w, tag, min(node.(*ast.Heading).Level+2, 6))
		return ast.WalkContinue, err
	})
}

// previews makes the heads of tables: in the sandbox, as a run of the visitor
// who asks. What was made is remembered for a while.
type previews struct {
	engine *engine.Service
	now    func() time.Time

	mu     sync.Mutex
	tables map[previewKey]*list.Element
	recent *list.List // of *madeTable, last used first
}

type previewKey struct {
	owner   engine.Owner
	content engine.Digest
	kind    string
}

type madeTable struct {
	key   previewKey
	table *table
}

const (
	keptTables  = 128
	previewTime = 20 * time.Second
)

func newPreviews(e *engine.Service, now func() time.Time) *previews {
	return &previews{engine: e, now: now, tables: map[previewKey]*list.Element{}, recent: list.New()}
}

// tableKind is how a table is read.
func tableKind(f engine.File) string {
	switch ext := strings.ToLower(path.Ext(fileName(f))); {
	case ext == ".parquet" || f.MIME == "application/vnd.apache.parquet":
		return "parquet"
	case ext == ".xlsx" || f.MIME == xlsxType:
		return "xlsx"
	case ext == ".tsv" || strings.HasPrefix(f.MIME, "text/tab-separated-values"):
		return "tsv"
	}
	return "csv"
}

// extent is how much of a table is read.
type extent struct {
	rows, columns int
	text          int // bytes, as JSON
}

var headOfTable = extent{20, 30, 256 << 10}

func (p *previews) table(ctx context.Context, caller engine.Caller, f engine.File) (*table, error) {
	kind := tableKind(f)
	key := previewKey{caller.Owner, f.SHA256, kind}
	p.mu.Lock()
	if e, ok := p.tables[key]; ok {
		p.recent.MoveToFront(e)
		p.mu.Unlock()
		return e.Value.(*madeTable).table, nil
	}
	p.mu.Unlock()
	made, err := p.rows(ctx, caller, f, headOfTable)
	if err != nil || made.Unread { // another time there may be time for it
		return made, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tables[key] == nil {
		if p.recent.Len() >= keptTables {
			delete(p.tables, p.recent.Remove(p.recent.Back()).(*madeTable).key)
		}
		p.tables[key] = p.recent.PushFront(&madeTable{key, made})
	}
	return made, nil
}

// rows reads a table as far as most says.
func (p *previews) rows(ctx context.Context, caller engine.Caller, f engine.File, most extent) (*table, error) {
	run, err := p.read(ctx, caller, f, most.text, tableKind(f), strconv.Itoa(most.rows), strconv.Itoa(most.columns))
	if err != nil {
		return nil, err
	}
	return tableOf(run, most), nil
}

// read has the program in the sandbox look into a file.
func (p *previews) read(
	ctx context.Context, caller engine.Caller, f engine.File, output int, kind string, args ...string,
) (*engine.Run, error) {
	const at = "input"
	run, err := p.engine.Start(ctx, caller, engine.RunRequest{
		Language: "python", Code: tableProgram, Args: append([]string{kind, at}, args...),
		Files: []engine.FileRef{{ID: f.ID, Path: at, ReadOnly: true}},
		Profile: engine.Profile{
			Origin: engine.OriginPreview, Discard: true,
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

// tableOf reads what the program in the sandbox says. That is no more to be
// trusted than the file itself.
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
