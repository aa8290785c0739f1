package reply

import (
	"bytes"
	"strconv"
	"strings"
)

// search is an edit outside of any fence.
type search struct {
	start int
	where candidate
	// head: it begins with <<<<<<< HEAD, as a merge conflict does too. Its end
	// tells. divided: a divider was read.
	head, divided bool
}

// mark measures a run of 5 to 9 of a character at the beginning of a line and
// returns what follows it.
func mark(line []byte, char byte) (label string, ok bool) {
	n := 0
	for n < len(line) && line[n] == char {
		n++
	}
	if n < 5 || n > 9 {
		return "", false
	}
	return string(bytes.TrimSpace(line[n:])), true
}

// isSearchMark reports whether a line is <<<<<<< SEARCH, ORIGINAL or HEAD, or
// ------- SEARCH.
func isSearchMark(line []byte) bool {
	if len(line) < 9 {
		return false
	}
	if label, ok := mark(line, '<'); ok {
		word, _, _ := strings.Cut(strings.ToUpper(label), " ")
		return word == "SEARCH" || word == "ORIGINAL" || word == "HEAD" || strings.HasPrefix(word, "SEARCH>")
	}
	label, ok := mark(line, '-')
	return ok && (label == "SEARCH" || strings.HasPrefix(label, "SEARCH>"))
}

// isReplaceMark reports whether a line is >>>>>>> with any word, or +++++++ REPLACE.
func isReplaceMark(line []byte) bool {
	if len(line) < 5 {
		return false
	}
	if _, ok := mark(line, '>'); ok {
		return true
	}
	label, ok := mark(line, '+')
	return ok && strings.HasPrefix(label, "REPLACE")
}

func isDivider(line []byte) bool {
	label, ok := mark(line, '=')
	return ok && label == ""
}

// edits are the hunks of a body for one path.
type edits struct {
	path  string // as found inside the body, or empty
	hunks []Hunk
}

// parseSearches reads SEARCH/REPLACE hunks. stray: there is text outside of
// them. problem: they are malformed, in a sentence.
func parseSearches(lines []bodyLine) (groups []edits, stray bool, problem string) {
	var (
		part     byte // 0 outside, 'o' in the old text, 'n' in the new
		old, new []string
		hunk     Hunk
	)
	for i, line := range lines {
		text := []byte(strings.TrimLeft(line.text, " \t"))
		switch {
		case isSearchMark(text) && (part == 0 || len(text) == len(line.text)):
			if part != 0 {
				return groups, stray, "a second SEARCH begins before the first one ends"
			}
			part, old, new, hunk = 'o', nil, nil, Hunk{Span: Span{Start: line.start}}
		case part == 0:
			path := hunkPath(line.text)
			if path == "" && i+1 < len(lines) && isSearchMark([]byte(lines[i+1].text)) {
				path = barePath(line.text)
			}
			if path != "" && (len(groups) == 0 || groups[len(groups)-1].path != path) {
				groups = append(groups, edits{path: path})
			} else if path == "" && strings.TrimSpace(line.text) != "" && strings.Trim(line.text, "`~ ") != "" {
				stray = true
			}
		case part == 'o' && isDivider(text):
			part = 'n'
		case isDivider(text) && len(text) == len(line.text):
			return groups, stray, "there are two dividers (=======) in one hunk"
		case isReplaceMark(text) && (part == 'n' || len(text) == len(line.text)):
			if part == 'o' {
				return groups, stray, "a hunk has no divider (=======)"
			}
			if label := strings.ToUpper(strings.Trim(string(text), "<>+ ")); label != "" &&
				!strings.HasPrefix(label, "REPLACE") && !strings.HasPrefix(label, "UPDATED") {
				return groups, stray, "these are the marks of a merge conflict, not of an edit"
			}
			part = 0
			hunk.Span.End = line.end
			hunk.Lines = opsOf(old, new)
			if len(groups) == 0 {
				groups = append(groups, edits{})
			}
			last := &groups[len(groups)-1]
			last.hunks = append(last.hunks, hunk)
		case part == 'o' && bytes.HasPrefix(text, []byte("|||||||")):
			return groups, stray, "these are the marks of a merge conflict, not of an edit"
		case part == 'o' && len(old) == 0 && rooLine(line.text, &hunk, lines, i):
		case part == 'o':
			old = append(old, unescapeMark(line.text))
		default:
			new = append(new, unescapeMark(line.text))
		}
	}
	if part != 0 {
		return groups, stray, "a hunk has no end (>>>>>>> REPLACE)"
	}
	return groups, stray, ""
}

// rooLine reads a line that Roo has models write under SEARCH: :start_line:7 and a
// row of dashes.
func rooLine(text string, hunk *Hunk, lines []bodyLine, i int) bool {
	if n, ok := strings.CutPrefix(text, ":start_line:"); ok {
		hunk.At, _ = strconv.Atoi(strings.TrimSpace(n))
		return true
	}
	if strings.HasPrefix(text, ":end_line:") {
		return true
	}
	return strings.HasPrefix(text, "-------") && strings.Trim(text, "- ") == "" && i > 0 &&
		strings.HasPrefix(lines[i-1].text, ":")
}

// unescapeMark removes the backslash with which Roo has models write a mark that is the file's
// own.
func unescapeMark(text string) string {
	if line, ok := strings.CutPrefix(text, `\`); ok && len(line) >= 5 && strings.IndexByte("<=>-", line[0]) >= 0 {
		if _, ok := mark([]byte(line), line[0]); ok {
			return line
		}
	}
	return text
}

// hunkPath returns the path in a line between hunks, or "".
func hunkPath(line string) string {
	if s := strings.TrimSpace(line); s == "" || strings.HasPrefix(s, "```") || strings.HasPrefix(s, "~~~") {
		return ""
	}
	if c, ok := pathAbove([]byte(line), nil); ok && c.from == PathAbove && c.verdict == "" {
		return c.raw
	}
	if h, ok := readHeader(strings.TrimSpace(line), "", false); ok && pathShape(unwrap(h.raw)) == shapeStrong {
		return h.raw
	}
	return ""
}

// barePath returns a line right above an edit that is only a path, or "". The extension may
// be unknown, since only a path can be there.
func barePath(line string) string {
	t := readTitle(line)
	if path := unescape(t.text); !strings.ContainsAny(path, " ()") && pathShape(path) >= shapeWeak && !isLanguage(path) {
		return path
	}
	return ""
}

// opsOf makes lines of a hunk of an old and a new text. Lines at both ends that
// are the same stay, so that the file keeps its own bytes for them.
func opsOf(old, new []string) []Line {
	head := 0
	for head < len(old) && head < len(new) && old[head] == new[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(new)-head && old[len(old)-1-tail] == new[len(new)-1-tail] {
		tail++
	}
	lines := make([]Line, 0, len(old)+len(new)-head-tail)
	for _, text := range old[:head] {
		lines = append(lines, Line{' ', text})
	}
	for _, text := range old[head : len(old)-tail] {
		lines = append(lines, Line{'-', text})
	}
	for _, text := range new[head : len(new)-tail] {
		lines = append(lines, Line{'+', text})
	}
	for _, text := range old[len(old)-tail:] {
		lines = append(lines, Line{' ', text})
	}
	return lines
}

// readSearches makes items of a fence with edits in it.
func (p *Parser) readSearches(lines []bodyLine, where candidate, f *fence, span, body Span) []*Item {
	groups, stray, problem := parseSearches(lines)
	if where.raw == "" && f.above.Len() > 0 {
		if path := barePath(string(p.text(f.above.Start, f.above.End))); path != "" {
			where = candidate{raw: path, from: PathAbove, conf: 0.85}
		}
	}
	if problem != "" || stray {
		if where.raw == "" && len(groups) > 0 && groups[0].path != "" {
			where = candidate{raw: groups[0].path, from: PathHeader, conf: 0.9}
		}
		if where.raw == "" {
			return nil
		}
		it := p.newItem(KindEdit, FormSearch, where, span, body)
		for _, g := range groups {
			it.Hunks = append(it.Hunks, g.hunks...)
		}
		if problem != "" {
			it.Hunks = nil
			it.downgrade(VerdictInvalid, problem)
		} else {
			it.downgrade(VerdictAmbiguous, "there is text between the edits that is no edit")
			it.Guessed = len(groups) == 1
		}
		return []*Item{it}
	}
	var items []*Item
	for _, g := range groups {
		if len(g.hunks) == 0 {
			continue
		}
		at := where
		if g.path != "" {
			if where.raw != "" && len(groups) == 1 && cleanPath(where.raw, 0).path != cleanPath(g.path, 0).path &&
				where.from != PathComment && where.from != PathDirective {
				at.doubt(0.5, "the line above the edit names another file: "+g.path)
			} else {
				at = candidate{raw: g.path, from: PathAbove, conf: max(where.conf, 0.85)}
			}
		}
		if it := p.newEdit(at, g.hunks, span, body); it != nil {
			it.Lang = f.info.lang
			items = append(items, it)
		}
	}
	return items
}

// newEdit makes an item of hunks. Without a path it takes that of the edit
// before, which a person has to confirm.
func (p *Parser) newEdit(where candidate, hunks []Hunk, span, body Span) *Item {
	if where.raw == "" {
		if p.lastEdit == nil {
			it := &Item{Kind: KindEdit, Form: FormSearch, Span: span, Body: body, Hunks: hunks,
				Verdict: VerdictAmbiguous, Reason: "no path stands above the edit"}
			return it
		}
		where = candidate{raw: p.lastEdit.RawPath, from: PathEarlier, conf: 0.5, verdict: VerdictAmbiguous,
			reason: "no path stands above the edit; it may be for the file of the edit before"}
	}
	it := p.newItem(KindEdit, FormSearch, where, span, body)
	it.Hunks = hunks
	it.Guessed = it.Verdict == VerdictAmbiguous
	if it.Verdict == VerdictPartial && it.From != PathTag { // an edit is for a part of the file anyway
		it.Verdict, it.Reason = VerdictOK, ""
	}
	for _, h := range hunks {
		for _, line := range h.Lines {
			if h.elides(line, it.langOfPath()) {
				it.downgrade(VerdictPartial, "the new text leaves something out: "+strings.TrimSpace(line.Text))
			}
		}
	}
	if where.from != PathEarlier {
		p.lastEdit = it
	}
	return it
}

// langOfPath returns the language by the path's extension.
func (it *Item) langOfPath() string {
	return it.Path[strings.LastIndexByte(it.Path, '.')+1:]
}

// openSearch begins an edit outside of any fence.
func (p *Parser) openSearch(start int) {
	p.search = search{start: start, head: bytes.Contains(p.text(start, p.lineEnd(start)), []byte("HEAD"))}
	if p.blanks <= 1 && p.above.Len() > 0 {
		line := p.text(p.above.Start, p.above.End)
		if c, ok := pathAbove(line, nil); ok {
			p.search.where = c
		} else if path := barePath(string(line)); path != "" {
			p.search.where = candidate{raw: path, from: PathAbove, conf: 0.85}
		}
	}
	p.mode = inSearch
}

// endsHead reports whether a line ends an edit that begins with HEAD. A merge
// conflict has the name of a branch there.
func endsHead(line []byte) bool {
	label, _ := mark(bytes.TrimLeft(line, " \t"), '>')
	return strings.EqualFold(label, "UPDATED") || label == "REPLACE"
}

// leaveSearch reads the first line of a merge conflict as prose, and what follows
// again.
func (p *Parser) leaveSearch() {
	start := p.search.start
	p.mode = inProse
	p.remember(start, p.lineEnd(start))
	p.next = p.lineAfter(start)
	p.seen = p.next
}

// searchLine reads a line of an edit outside of any fence.
func (p *Parser) searchLine(start, end int) {
	line := p.text(start, end)
	ends := isReplaceMark(bytes.TrimLeft(line, " \t"))
	if p.search.head && (isSearchMark(line) || ends && !endsHead(line)) {
		p.leaveSearch()
		return
	}
	if !ends {
		p.search.divided = p.search.divided || isDivider(line)
		return
	}
	p.mode = inProse
	stop := p.after(end)
	span := Span{p.search.start, stop}
	groups, _, problem := parseSearches(p.bodyLines(span.Start, stop, 0))
	where := p.search.where
	defer p.forget()
	if problem != "" {
		it := p.newEdit(where, nil, span, span)
		it.downgrade(VerdictInvalid, problem)
		p.add(it)
		return
	}
	hunks := groups[0].hunks
	if last := len(p.items) - 1; where.raw == "" && last >= 0 && p.items[last].Form == FormSearch &&
		p.items[last].Verdict == VerdictOK &&
		blank(bytes.ReplaceAll(p.buf[p.items[last].Span.End:span.Start], []byte("\n"), nil)) {
		it := p.items[last]
		it.Hunks = append(it.Hunks, hunks...)
		it.Span.End, it.Body.End = span.End, span.End
		p.emit(EventRevised, it)
		return
	}
	p.add(p.newEdit(where, hunks, span, span))
}
