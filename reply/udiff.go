package reply

import (
	"bytes"
	"strconv"
	"strings"
)

// rawDiff is a unified diff outside of any fence.
type rawDiff struct {
	start int
	// old and new are how many lines the hunk at hand still has.
	old, new int
	hunks    bool
}

// fileDiff is the part of a diff about one file.
type fileDiff struct {
	from, to         string
	hunks            []Hunk
	created, deleted bool
	renamed          bool
	problem          string
}

// looksLikeDiff reports whether a body begins as a unified diff does.
func looksLikeDiff(body []byte) bool {
	first, rest, _ := bytes.Cut(bytes.TrimLeft(body, "\r\n"), []byte("\n"))
	switch {
	case bytes.HasPrefix(first, []byte("diff --git ")):
		return true
	case bytes.HasPrefix(first, []byte("--- ")):
		return bytes.HasPrefix(rest, []byte("+++ "))
	case bytes.HasPrefix(first, []byte("@@ -")):
		return bytes.Count(first, []byte("@@")) == 2
	}
	return false
}

// diffReader reads a unified diff as models write it: line counts may be wrong
// or missing, the space before an empty line of context too.
type diffReader struct {
	files []fileDiff
	file  *fileDiff
	hunk  *Hunk
}

func parseDiff(lines []bodyLine) []fileDiff {
	var d diffReader
	for i, line := range lines {
		var next string
		if i+1 < len(lines) {
			next = lines[i+1].text
		}
		d.read(line, next)
	}
	d.endHunk()
	return d.files
}

func (d *diffReader) read(line bodyLine, next string) {
	text := line.text
	switch {
	case strings.HasPrefix(text, "diff --git "), strings.HasPrefix(text, "Index: "):
		d.begin(line)
		if a, b, ok := strings.Cut(strings.TrimPrefix(text, "diff --git "), " b/"); ok {
			d.file.from, d.file.to = a, "b/"+b
		}
	case strings.HasPrefix(text, "--- ") && strings.HasPrefix(next, "+++ "):
		if d.file == nil || d.file.hunks != nil || d.hunk != nil {
			d.begin(line)
		}
		d.file.from = diffPath(text[4:])
		d.file.created = d.file.from == "/dev/null"
	case strings.HasPrefix(text, "+++ ") && d.file != nil && d.hunk == nil && len(d.file.hunks) == 0:
		d.file.to = diffPath(text[4:])
		d.file.deleted = d.file.to == "/dev/null"
	case strings.HasPrefix(text, "@@"):
		d.newHunk(line)
	case d.hunk != nil:
		d.change(line)
	case d.file != nil && d.extended(text):
	case strings.TrimSpace(text) == "":
	case text[0] == '+' || text[0] == '-' || text[0] == ' ':
		d.newHunk(line)
		d.change(line)
	case d.file != nil:
		d.file.problem = "it has a line that is none of a diff's: " + text
	}
}

// extended reads git's headers between "diff --git" and the hunks.
func (d *diffReader) extended(text string) bool {
	if len(d.file.hunks) > 0 {
		return false
	}
	switch {
	case strings.HasPrefix(text, "rename from "):
		d.file.from, d.file.renamed = text[len("rename from "):], true
	case strings.HasPrefix(text, "rename to "):
		d.file.to, d.file.renamed = text[len("rename to "):], true
	case strings.HasPrefix(text, "new file mode"):
		d.file.created = true
	case strings.HasPrefix(text, "deleted file mode"):
		d.file.deleted = true
	case strings.HasPrefix(text, "index "), strings.HasPrefix(text, "similarity index"),
		strings.HasPrefix(text, "old mode"), strings.HasPrefix(text, "new mode"),
		strings.HasPrefix(text, "dissimilarity"), strings.HasPrefix(text, "===="):
	case strings.HasPrefix(text, "Binary files"), strings.HasPrefix(text, "GIT binary patch"),
		strings.HasPrefix(text, "copy "):
		d.file.problem = "it is a diff of a binary file or a copy, which cannot be applied"
	default:
		return false
	}
	return true
}

func (d *diffReader) begin(line bodyLine) {
	d.endHunk()
	d.files = append(d.files, fileDiff{})
	d.file = &d.files[len(d.files)-1]
}

func (d *diffReader) newHunk(line bodyLine) {
	if d.file == nil {
		d.begin(line)
	}
	d.endHunk()
	d.hunk = &Hunk{Span: Span{line.start, line.end}}
	if numbers, ok := strings.CutPrefix(line.text, "@@ -"); ok {
		end := 0
		for end < len(numbers) && isDigit(numbers[end]) {
			end++
		}
		d.hunk.At, _ = strconv.Atoi(numbers[:end])
	}
}

func (d *diffReader) change(line bodyLine) {
	switch n := len(d.hunk.Lines); {
	case !d.hunk.read(line):
		d.file.problem = "it has a line that begins with neither space, + nor -: " + line.text
	case strings.HasPrefix(line.text, `\`) && n > 0:
		op := d.hunk.Lines[n-1].Op
		d.hunk.OldNoEOL = d.hunk.OldNoEOL || op != '+'
		d.hunk.NewNoEOL = d.hunk.NewNoEOL || op != '-'
	}
}

func (d *diffReader) endHunk() {
	if d.hunk != nil && d.hunk.trim() {
		d.file.hunks = append(d.file.hunks, *d.hunk)
	}
	d.hunk = nil
}

// diffPath returns the path of a --- or +++ line, without the time behind a tab.
func diffPath(s string) string {
	s, _, _ = strings.Cut(s, "\t")
	return unwrap(strings.TrimSpace(s))
}

// readDiff makes items of a diff.
func (p *Parser) readDiff(lines []bodyLine, where candidate, lang string, span, body Span) []*Item {
	files := parseDiff(lines)
	group := len(p.items) + 1
	var items []*Item
	for i := range files {
		it := p.diffItem(&files[i], where, len(files), span, body)
		if it == nil {
			continue
		}
		it.Lang = lang
		if len(files) > 1 {
			it.Group = group
		}
		items = append(items, it)
	}
	return items
}

// diffItem makes one file's item; nil if no path is known.
func (p *Parser) diffItem(d *fileDiff, where candidate, files int, span, body Span) *Item {
	from, to := d.from, d.to
	if strings.HasPrefix(from, "a/") && (strings.HasPrefix(to, "b/") || d.deleted) ||
		d.created && strings.HasPrefix(to, "b/") {
		from, to = strings.TrimPrefix(from, "a/"), strings.TrimPrefix(to, "b/")
	}
	at := candidate{raw: to, from: PathHeader, conf: 0.95}
	switch {
	case d.deleted || d.renamed:
		at.raw = from
	case to == "" || to == "/dev/null":
		at.raw = from
	}
	switch {
	case (at.raw == "" || at.raw == "/dev/null") && files == 1:
		at = where
	case where.raw != "" && files == 1 && where.from != PathProse &&
		cleanPath(where.raw, 0).path != cleanPath(at.raw, 0).path:
		at.doubt(0.5, "the fence names another file than the diff: "+where.raw)
	case where.raw != "" && (where.verdict == VerdictCitation || where.verdict == VerdictExample):
		at.mark(where.verdict, where.reason)
	}
	if at.raw == "" || at.raw == "/dev/null" {
		return nil
	}
	it := p.newItem(KindEdit, FormDiff, at, span, body)
	it.Hunks = d.hunks
	if it.Verdict == VerdictPartial {
		it.Verdict, it.Reason = VerdictOK, ""
	}
	p.diffKind(it, d, from, to)
	if d.problem != "" {
		it.downgrade(VerdictInvalid, d.problem)
	}
	return it
}

// diffKind decides what the diff does: create, delete, rename or edit.
func (p *Parser) diffKind(it *Item, d *fileDiff, from, to string) {
	switch {
	case d.created:
		it.Kind, it.Create, it.Hunks = KindFile, true, nil
		for i := range d.hunks {
			for _, line := range d.hunks[i].Lines {
				if line.Op != '+' {
					it.downgrade(VerdictInvalid, "it creates a file and yet has lines of an old one")
				}
			}
			it.Content = append(it.Content, d.hunks[i].New()...)
			if d.hunks[i].NewNoEOL {
				it.Content = bytes.TrimSuffix(it.Content, []byte("\n"))
			}
		}
	case d.deleted:
		it.Kind = KindDelete
	case d.renamed, from != "" && to != "" && from != to && from != "/dev/null" && it.From == PathHeader:
		it.Kind = KindRename
		if !d.renamed {
			it.Path = cleanPath(from, it.Span.Start).path
			it.RawPath = from
			it.downgrade(VerdictAmbiguous, "the old and the new path differ, but nothing says that the file is renamed")
			if reason := refusal(it.Path); reason != "" {
				it.downgrade(VerdictRefused, reason)
			}
		}
		p.rename(it, to, it.Span.Start)
	case len(it.Hunks) == 0:
		it.downgrade(VerdictInvalid, "it has no hunk")
	}
}

// openDiff begins a diff outside of any fence.
func (p *Parser) openDiff(start int) {
	p.mode, p.diff = inDiff, rawDiff{start: start}
}

// diffLine reads a line of a diff outside of any fence. Only the hunks' counts
// tell where it ends.
func (p *Parser) diffLine(start, end int) {
	line := p.text(start, end)
	d := &p.diff
	switch {
	case bytes.HasPrefix(line, []byte("@@ -")):
		d.old, d.new = hunkCounts(line)
		d.hunks = true
	case d.old > 0 || d.new > 0:
		switch {
		case len(line) == 0 || line[0] == ' ':
			d.old--
			d.new--
		case line[0] == '-':
			d.old--
		case line[0] == '+':
			d.new--
		case line[0] == '\\':
		default:
			p.endDiff(start, "a hunk is shorter than it says")
			p.line(start, end)
		}
	case len(line) > 0 && line[0] == '\\':
	case bytes.HasPrefix(line, []byte("--- ")), bytes.HasPrefix(line, []byte("+++ ")),
		bytes.HasPrefix(line, []byte("diff --git ")):
	case !d.hunks && len(line) > 0 && isGitHeader(line):
	case d.hunks && len(line) > 0 && (line[0] == '+' || line[0] == '-' && !bytes.HasPrefix(line, []byte("- ")) ||
		line[0] == ' '):
		p.endDiff(start, "a hunk is longer than it says")
		p.line(start, end)
	default:
		p.endDiff(start, "")
		p.line(start, end)
	}
}

func isGitHeader(line []byte) bool {
	for _, prefix := range [...]string{"index ", "new file", "deleted file", "old mode", "new mode", "similarity",
		"rename ", "Binary", "dissimilarity"} {
		if bytes.HasPrefix(line, []byte(prefix)) {
			return true
		}
	}
	return false
}

// hunkCounts reads @@ -a,b +c,d @@.
func hunkCounts(line []byte) (old, new int) {
	fields := strings.Fields(string(line[:min(len(line), 80)]))
	if len(fields) < 3 {
		return 0, 0
	}
	return hunkCount(fields[1]), hunkCount(fields[2])
}

func hunkCount(s string) int {
	_, count, ok := strings.Cut(s, ",")
	if !ok {
		return 1
	}
	n, _ := strconv.Atoi(count)
	return n
}

func (p *Parser) endDiff(stop int, problem string) {
	d := p.diff
	p.mode, p.diff = inProse, rawDiff{}
	p.forget()
	span := Span{d.start, stop}
	for _, it := range p.readDiff(p.bodyLines(d.start, stop, 0), candidate{}, "", span, span) {
		if problem != "" {
			it.downgrade(VerdictAmbiguous, problem)
		}
		p.add(it)
	}
}
