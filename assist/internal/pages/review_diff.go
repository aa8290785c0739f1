package pages

import (
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// Bounds of the changes on a page. The page says what is cut off, does not preselect it, and
// links to the file's own page.
const (
	pageLines = 6000 // of all files of a reply
	fileLines = 1200 // of one of them
	soloLines = 20_000
	lineBytes = 2000
	soloBytes = 50_000
	mostHunks = 200 // that can be chosen one by one
	mostLost  = 10  // lines that a file can lose without a warning
)

// changeView is one file of a proposal.
type changeView struct {
	ID, Op         string
	Path, From     []page.Stretch
	Raw, RawFrom   string // the exact paths, for scripts
	Label          string // the path, for attributes
	Added, Removed int
	Findings       []workspace.Finding
	Conflict       bool
	Refused        bool
	Same           bool // the file has this content already
	Checked        bool
	ByHunk         bool // its hunks can be chosen one by one
	Editable       bool
	Text, Content  bool
	Hunks          []hunkView
	Left           int // hunks that are not shown
	Mode           string
	Binary         *binaryView
}

// Open reports whether the change can be accepted.
func (c *changeView) Open() bool { return !c.Conflict && !c.Refused }

type binaryView struct {
	Type, OldType string
	Width, Height int
	Old, New      int64
	Picture       bool
	Hash          string
}

type hunkView struct {
	ID     string // "f1:h2"
	Title  string
	Blocks []blockView
}

// blockView is a run of unchanged lines, or of lines in place of others.
type blockView struct {
	Same     []lineView
	Old, New []lineView
}

type lineView struct {
	Old, New  int // numbers; 0: not there
	Text      []page.Stretch
	raw       string // as in the file
	NoNewline bool
	Differs   bool // from the other version, in a sideView
}

// opWords has the operations on files in words.
var opWords = map[workspace.Op]string{
	workspace.OpCreate: "new", workspace.OpUpdate: "changed", workspace.OpDelete: "deleted", workspace.OpRename: "renamed",
	workspace.OpUnchanged: "unchanged",
}

// opOf returns the operation on a file in words, "" if it is refused.
func opOf(f *workspace.FileChange) string {
	if f.Op == workspace.OpUnchanged && (f.Verdict() == workspace.Refuse || f.Verdict() == workspace.Conflict) {
		return ""
	}
	return opWords[f.Op]
}

// summary describes a file of a proposal in one line.
func summary(f *workspace.FileChange) string {
	switch f.Verdict() {
	case workspace.Refuse:
		return "refused: " + page.Named(f.Path)
	case workspace.Conflict:
		return "conflict: " + page.Named(f.Path)
	}
	return page.Named(f.Summary())
}

// budget counts the lines that may still be shown.
type budget struct {
	page, file, line int
	palette          *page.Palette // nil: code has no colours
}

func newBudget() *budget {
	return &budget{page: pageLines, file: fileLines, line: lineBytes, palette: page.NewPalette()}
}

func soloBudget() *budget {
	return &budget{page: soloLines, file: soloLines, line: soloBytes, palette: page.NewPalette()}
}

// changesOf returns views of the files of a proposal.
func changesOf(p *workspace.Proposal, b *budget) []changeView {
	views := make([]changeView, 0, len(p.Files))
	for i := range p.Files {
		views = append(views, changeOf(&p.Files[i], b))
	}
	return views
}

func changeOf(f *workspace.FileChange, b *budget) changeView {
	verdict := f.Verdict()
	c := changeView{
		ID: f.ID, Op: opOf(f), Path: page.Shown(f.Path), Raw: f.Path, RawFrom: f.From,
		Label: page.Named(f.Path), Added: f.Added, Removed: f.Removed,
		Findings: f.Findings,
		Conflict: verdict == workspace.Conflict, Refused: verdict == workspace.Refuse, Same: f.Op == workspace.OpUnchanged,
		Checked: f.Checked, Text: f.Text != nil, Content: f.After() != nil,
		Editable: f.Text != nil && f.After() != nil && f.Text.Encoding != "unknown" && verdict != workspace.Refuse,
	}
	if f.From != "" {
		c.From = page.Shown(f.From)
		c.Label = page.Named(f.From) + " to " + c.Label
	}
	if f.Pre.Exists && f.Post.Exists && f.Pre.Mode != f.Post.Mode {
		c.Mode = f.Pre.Mode.String() + " to " + f.Post.Mode.String()
	}
	if b := f.Binary; b != nil {
		c.Binary = &binaryView{Type: b.Type, OldType: b.OldType, Width: b.Width, Height: b.Height, Old: f.Pre.Size,
			New:     f.Post.Size,
			Picture: f.Preview() == "image" && f.After() != nil, Hash: f.Post.Hash.String()}
	}
	left := min(b.page, b.file)
	for i := range f.Hunks {
		h := &f.Hunks[i]
		if len(h.Lines) > left {
			c.Left = len(f.Hunks) - i
			break
		}
		left -= len(h.Lines)
		b.page -= len(h.Lines)
		hunk := hunkOf(f.ID, h, b.line)
		hunk.colour(f.Path, b.palette)
		c.Hunks = append(c.Hunks, hunk)
	}
	if c.Left > 0 || slices.ContainsFunc(f.Hunks, func(h workspace.Hunk) bool { return longLine(&h, b.line) }) {
		c.Checked = false
	}
	if f.Pre.Exists && f.Post.Exists && f.Removed >= mostLost && f.Post.Size*2 < f.Pre.Size {
		c.Checked = false
		c.Findings = append(slices.Clip(c.Findings), workspace.Finding{Severity: workspace.Ask,
			Message: "Most of this file would be gone: " + page.ByteCount(f.Pre.Size) + " now, " + page.ByteCount(f.Post.Size) +
				" afterwards",
			Hint: "If the reply left parts out to be brief, edit it or ask again. It is not marked by itself"})
	}
	c.ByHunk = c.Left == 0 && len(c.Hunks) > 1 && len(c.Hunks) <= mostHunks && c.Open() && f.After() != nil &&
		f.Text.Encoding != "unknown"
	return c
}

func longLine(h *workspace.Hunk, most int) bool {
	return slices.ContainsFunc(h.Lines, func(l workspace.Line) bool { return len(l.Text) > most && l.Op != " " })
}

func hunkOf(file string, h *workspace.Hunk, most int) hunkView {
	v := hunkView{ID: file + ":" + h.ID, Title: h.Header()}
	before, after := h.OldStart, h.NewStart
	for i := range h.Lines {
		l := &h.Lines[i]
		line := lineView{raw: l.Text, NoNewline: l.NoNewline}
		last := len(v.Blocks) - 1
		same := l.Op == " "
		if last < 0 || same != (v.Blocks[last].Same != nil) {
			v.Blocks = append(v.Blocks, blockView{})
			last++
		}
		block := &v.Blocks[last]
		switch l.Op {
		case "-":
			line.Old, before = before, before+1
			line.Text = page.ShownLine(l.Text, spansOf(l), most)
			block.Old = append(block.Old, line)
		case "+":
			line.New, after = after, after+1
			line.Text = page.ShownLine(l.Text, spansOf(l), most)
			block.New = append(block.New, line)
		default:
			line.Old, line.New = before, after
			before, after = before+1, after+1
			text := l.Text
			if n := len(text); n > 0 && text[n-1] == '\r' {
				text = text[:n-1] // the line end is unchanged
			}
			line.Text = page.ShownLine(text, nil, most)
			block.Same = append(block.Same, line)
		}
	}
	return v
}

// sideView is one whole version of a file.
type sideView struct {
	Title string
	Lines []lineView
	None  string // why there are no lines
	Cut   int    // lines that are not shown
}

// differing returns the numbers of the lines that only one version has: with "-" the
// folder's, with "+" the proposed one.
func differing(hunks []workspace.Hunk, op string) map[int]bool {
	numbers := map[int]bool{}
	for i := range hunks {
		number := hunks[i].OldStart
		if op == "+" {
			number = hunks[i].NewStart
		}
		for _, l := range hunks[i].Lines {
			switch l.Op {
			case op:
				numbers[number] = true
				number++
			case " ":
				number++
			}
		}
	}
	return numbers
}

// sideOf returns a view of a text.
func sideOf(title, text string, differs map[int]bool, b *budget) sideView {
	v := sideView{Title: title}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if number > b.file {
			v.Cut++
			continue
		}
		v.Lines = append(v.Lines, lineView{New: number, Text: page.ShownLine(line, nil, b.line), Differs: differs[number]})
	}
	if number == 0 {
		v.None = "It is empty."
	}
	return v
}

func spansOf(l *workspace.Line) []page.Span {
	spans := make([]page.Span, len(l.Spans))
	for i, s := range l.Spans {
		spans[i] = page.Span(s)
	}
	return spans
}

// severityWords has the severities of findings in words.
var severityWords = map[workspace.Severity]string{workspace.Note: "Note", workspace.Ask: "Look twice",
	workspace.Conflict: "Conflict", workspace.Refuse: "Refused"}

// colour gives the code of a hunk its colours. A lexer sees each side by itself, from the
// beginning of the hunk, so that it may take the end of a long string for code.
func (v *hunkView) colour(file string, p *page.Palette) {
	language := strings.TrimPrefix(path.Ext(file), ".")
	if p == nil || page.Grammars[strings.ToLower(language)] == nil {
		return
	}
	var before, after []page.CodeLine
	for i := range v.Blocks {
		b := &v.Blocks[i]
		for j := range b.Same {
			before = append(before, page.CodeLine{Raw: b.Same[j].raw})
			after = append(after, page.CodeLine{Raw: b.Same[j].raw, Shown: &b.Same[j].Text})
		}
		for j := range b.Old {
			before = append(before, page.CodeLine{Raw: b.Old[j].raw, Shown: &b.Old[j].Text})
		}
		for j := range b.New {
			after = append(after, page.CodeLine{Raw: b.New[j].raw, Shown: &b.New[j].Text})
		}
	}
	p.Lines(language, before)
	p.Lines(language, after)
}
