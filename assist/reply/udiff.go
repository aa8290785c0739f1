package reply

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// rawDiff is a unified diff outside of any fence.
type rawDiff struct {
	start int
	// old and new are how many lines the hunk at hand still has.
	old, new int
	hunks    bool
	// signature is where a line stands that may end the mail of the diff, else 0.
	signature int
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
	// old and new are how many lines the hunk still has by its own count.
	old, new int
	// mail: the lines of a mail around a diff, up to the next file's, are no part of it.
	mail bool
}

func parseDiff(lines []bodyLine) []fileDiff {
	next := func(i int) string {
		if i+1 < len(lines) {
			return lines[i+1].text
		}
		return ""
	}
	d := diffReader{mail: slices.ContainsFunc(lines, func(l bodyLine) bool { return isMailHeader(l.text) })}
	for i, line := range lines {
		d.read(line, next(i))
	}
	d.endHunk()
	return d.files
}

// isMailHeader reports whether a line begins a mail that git format-patch wrote.
func isMailHeader(text string) bool {
	id, ok := strings.CutPrefix(text, "From ")
	return ok && len(id) > 40 && id[40] == ' ' && strings.Trim(id[:40], "0123456789abcdef") == ""
}

// isSignature reports whether a line and the next are a mail's signature: git's version.
func isSignature(text, next string) bool {
	return (text == "-- " || text == "--") && next != "" && isDigit(next[0]) && strings.Contains(next, ".")
}

func (d *diffReader) read(line bodyLine, next string) {
	text := line.text
	inHunk := d.hunk != nil && (d.old > 0 || d.new > 0)
	switch {
	case !inHunk && isMailHeader(text), !inHunk && d.hunk != nil && isSignature(text, next):
		d.endHunk()
		d.mail = true
	case d.mail && !strings.HasPrefix(text, "diff --git ") &&
		(!strings.HasPrefix(text, "--- ") || !strings.HasPrefix(next, "+++ ")):
	case strings.HasPrefix(text, "diff --git "), strings.HasPrefix(text, "Index: "):
		d.startFile(line)
		if a, b, ok := strings.Cut(strings.TrimPrefix(text, "diff --git "), " b/"); ok {
			d.file.from, d.file.to = a, "b/"+b
		}
	case strings.HasPrefix(text, "--- ") && strings.HasPrefix(next, "+++ "):
		if d.file == nil || d.file.hunks != nil || d.hunk != nil {
			d.startFile(line)
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

func (d *diffReader) startFile(line bodyLine) {
	d.endHunk()
	d.mail = false
	d.files = append(d.files, fileDiff{})
	d.file = &d.files[len(d.files)-1]
}

func (d *diffReader) newHunk(line bodyLine) {
	if d.file == nil {
		d.startFile(line)
	}
	d.endHunk()
	d.hunk = &Hunk{Span: Span{line.start, line.end}}
	d.old, d.new = 0, 0
	if numbers, ok := strings.CutPrefix(line.text, "@@ -"); ok {
		end := 0
		for end < len(numbers) && isDigit(numbers[end]) {
			end++
		}
		d.hunk.At, _ = strconv.Atoi(numbers[:end])
		d.old, d.new = hunkCounts([]byte(line.text))
		d.hunk.Insert = d.old == 0 && d.new > 0 && d.hunk.At > 0
	}
}

func (d *diffReader) change(line bodyLine) {
	switch {
	case line.text == "", line.text[0] == ' ':
		d.old, d.new = d.old-1, d.new-1
	case line.text[0] == '-':
		d.old--
	case line.text[0] == '+':
		d.new--
	}
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

// diffPath returns the path of a --- or +++ line, without the time behind a tab or a blank.
func diffPath(s string) string {
	s, _, _ = strings.Cut(s, "\t")
	s = strings.TrimSpace(s)
	if at := diffTime().FindStringIndex(s); at != nil {
		s = s[:at[0]]
	}
	return unwrap(s)
}

// diffTime is the time behind a path, as diff -u writes it.
var diffTime = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(` +\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d(\.\d+)?)?( [+-]\d{4})?$`)
})

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
	case bytes.HasPrefix(line, []byte("diff --git ")):
		d.hunks = false // the next file's headers follow
	case bytes.HasPrefix(line, []byte("--- ")), bytes.HasPrefix(line, []byte("+++ ")):
	case d.signature > 0:
		problem := ""
		if !isSignature("--", string(line)) {
			problem = "a hunk is longer than it says"
		}
		p.endDiff(d.signature, problem)
		p.line(start, end)
	case d.hunks && (string(line) == "-- " || string(line) == "--"):
		d.signature = start // unless the next line is none of a signature's
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
