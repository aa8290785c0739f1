package reply

import (
	"bytes"
	"cmp"
	"strings"
)

// fence is an open code fence.
type fence struct {
	char   byte
	length int
	indent int // columns before the opener, taken off the body's lines
	info   info
	where  candidate // the path by info or by the line above
	named  bool

	start, body      int // where the opener, and the body, begin
	above            Span
	markup, shielded bool
	trouble          string // why the fence may end elsewhere
	directive        bool   // a comment inside names the file and is no part of it
	scan

	// paired is set once the fences inside were paired. close is then the line
	// that ends the fence, or -1 if they do not pair. If the end is not sure,
	// others are the lines that may end the fence, close included, and offer is
	// that of them at which the item ends.
	paired       bool
	close, offer int
	others       []int
	inner        []Span // the fences inside of a document, in order
}

// scan is the state of reading the lines of a fence.
type scan struct {
	// levels are the lengths of fences that were opened inside.
	levels []int
	// inHunk: between <<<<<<< SEARCH and >>>>>>> REPLACE nothing is a fence.
	// inPatch: between *** Begin Patch and *** End Patch only a fence at the
	// margin is one.
	inHunk, inPatch bool
	searches, patch bool
	elided          bool
	added, removed  bool // lines begin with + and with -
	examples        int
	nested          bool // a fence was opened inside
	firstInner      int  // the first line that opened one inside, 0 for none
	firstClose      int  // the first bare run after that, 0 for none
}

// run returns the column, the length and the end of a fence's run of characters at
// the beginning of a line. The length is 0 if there is none.
func run(line []byte) (column, length, end int, char byte) { return runFrom(line, 0) }

// runFrom is run for the rest of a line that begins at a column.
func runFrom(line []byte, from int) (column, length, end int, char byte) {
	column = from
	i := 0
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		if line[i] == '\t' {
			column += 4 - column%4
		} else {
			column++
		}
		i++
	}
	if i == len(line) || line[i] != '`' && line[i] != '~' {
		return column, 0, i, 0
	}
	char = line[i]
	j := i
	for j < len(line) && line[j] == char {
		j++
	}
	return column, j - i, j, char
}

// openFence begins a fence. It reports whether the line was one.
func (p *Parser) openFence(start, end, column int, line []byte) bool {
	_, length, at, char := run(line)
	if length < 3 {
		return false
	}
	rest := bytes.TrimSpace(line[at:])
	if char == '`' && bytes.IndexByte(rest, '`') >= 0 {
		return false
	}
	f := fence{char: char, length: length, indent: column, start: start, body: p.next}
	f.info = parseInfo(string(rest))
	if p.blanks <= 1 {
		f.above = p.above
	}
	f.where = f.info.candidate
	if f.where.raw == "" && len(rest) < 200 {
		if c := p.nameAbove(f.info.lang); c.raw != "" {
			f.where = c
		}
	} else if f.where.raw != "" && p.blanks <= 1 && showsOld(p.text(p.above.Start, p.above.End)) {
		f.where.mark(VerdictCitation, "the line above calls it the old code")
	}
	f.named = f.where.raw != ""
	d := language(f.info.lang)
	f.markup = d.is(classMarkup)
	if f.named {
		path := pathOf(f.where.raw)
		f.markup = IsMarkup(path) || f.markup && family(path) == ""
	}
	f.shielded = d.is(classDiff)
	if p.opensWrapper(&f, d) {
		return true
	}
	if !f.named && len(rest) == 0 && p.last.mayContinue() {
		it := p.last.item
		it.Readings = append(it.Readings, Reading{"ends at the first closing fence", it.Content})
		p.revise(it, VerdictAmbiguous, "a fence without a language follows: the file's own fences may have ended it early")
	}
	if p.shown != nil && !f.named && len(rest) == 0 && p.shown.Span.End == start {
		p.revise(p.shown, VerdictAmbiguous, "it stands between the lines of two fences, and may be an example")
	}
	p.last, p.shown = closedFence{}, nil
	p.mode, p.fence = inFence, f
	p.begun = true
	if f.named && f.where.verdict == "" {
		it := p.opened(p.next)
		p.emit(EventOpened, &it)
	}
	return true
}

// opened returns the item of the open fence, as far as it is known, up to an end.
func (p *Parser) opened(end int) Item {
	f := &p.fence
	return Item{Ordinal: len(p.items) + 1, Kind: KindFile, Form: FormFence, Verdict: VerdictTruncated,
		Confidence: f.where.conf, Span: Span{f.start, end}, Body: Span{f.body, end},
		Path: cleanPath(f.where.raw, f.start).path, RawPath: f.where.raw, From: f.where.from, Lang: f.info.lang}
}

// nameAbove returns the name that the line above gives to a fence of a language.
func (p *Parser) nameAbove(lang string) candidate {
	if p.blanks > 1 || p.above.Len() == 0 {
		return candidate{}
	}
	c, ok := pathAbove(p.text(p.above.Start, p.above.End), p.text(p.sibling.Start, p.sibling.End))
	if !ok || !fitsAbove(&c, lang) {
		return candidate{}
	}
	if p.block != nil && isListItem(p.text(p.above.Start, p.above.End)) {
		c.doubt(0.5, "it may be an item of the block's list")
	}
	return c
}

// fitsAbove reports whether a fence of a language may be the file that the line
// above names. Commands and output below a name are not.
func fitsAbove(c *candidate, lang string) bool {
	if fits(lang, pathOf(c.raw)) {
		return true
	}
	d := language(lang)
	if d.is(classShell | classOutput | classPlain) {
		return false
	}
	if !d.is(classDiff) {
		c.doubt(0.6, "the language "+lang+" does not fit the name above the fence")
	}
	return true
}

// fenceLine reads a line inside a fence.
func (p *Parser) fenceLine(start, end int) {
	f := &p.fence
	line := p.text(start, end)
	column, length, at, char := run(line)
	if at == len(line) && length == 0 {
		return
	}
	if length >= 3 && char == f.char {
		switch {
		case f.close > 0 && start == f.close:
			p.closeFence(start, p.after(end), false)
		case f.close > 0:
		case p.isDocument():
			p.pairDocument()
		default:
			p.fenceRun(start, end, line, column, length, at)
		}
		return
	}
	switch line[at-max(length, 0)] {
	case '<', '-':
		f.removed = f.removed || line[0] == '-'
		if isSearchMark(line[at:]) && f.close <= 0 {
			f.inHunk, f.searches = p.doubt == "", true
		} else if bytes.HasPrefix(line[at:], []byte("</think")) && !f.markup {
			f.tangle("a thought ends inside the fence")
		}
	case '>', '+':
		f.added = f.added || line[0] == '+'
		if isReplaceMark(line[at:]) {
			f.inHunk = false
		}
	case '*':
		if t := line[at:]; column <= f.indent+4 && bytes.HasPrefix(t, []byte("*** ")) {
			if bytes.HasPrefix(t, []byte("*** Begin Patch")) {
				f.inPatch, f.patch = p.doubt == "", true
			} else if bytes.HasPrefix(t, []byte("*** End Patch")) {
				f.inPatch = false
			}
		}
	case '=':
		if m, ok := readBlockMark(line); ok && !m.bare && p.registry.lookup(m.name) != nil { // it would open a block
			f.examples++
		}
	}
	if !f.elided && at < len(line) && mayElide(line[at]) && (!f.markup || column < f.indent+4) &&
		isElision(line, f.elisionLang()) && !f.shows(start) {
		f.elided = true
	}
}

// elisionLang returns the language by which a line of dots is judged.
func (f *fence) elisionLang() string {
	if f.info.lang != "" || !f.named {
		return f.info.lang
	}
	return f.where.raw[strings.LastIndexByte(f.where.raw, '.')+1:]
}

// tangle records why the fence may end elsewhere.
func (f *fence) tangle(why string) {
	f.trouble = cmp.Or(f.trouble, why)
}

// fenceRun reads a line inside a fence that begins with a run of its character.
func (p *Parser) fenceRun(start, end int, line []byte, column, length, at int) {
	f := &p.fence
	rest := bytes.TrimSpace(line[at:])
	inner := f.length
	if n := len(f.levels); n > 0 {
		inner = f.levels[n-1]
	}
	switch {
	case f.inHunk, (f.inPatch || f.shielded) && column > f.indent:
		return
	case column > f.indent+3 && len(f.levels) == 0 || length < inner && length < f.length:
		return
	case len(rest) == 0:
		p.bareRun(start, end, column, length, inner)
	case f.char == '`' && bytes.IndexByte(rest, '`') >= 0:
		return
	case length == 2*inner && rest[0] != '<':
		p.closeAndOpen(start, end, rest, inner)
	case length < f.length:
		return
	case rest[0] == '<' || rest[0] == '*' || rest[0] == '#' && !f.markup || bytes.HasPrefix(rest, []byte("===")):
		// No info string begins so: the line after the fence was glued to it.
		if len(f.levels) == 0 {
			at := start + bytes.IndexByte(p.buf[start:end], rest[0])
			p.closeFence(start, at, false)
			p.line(at, end)
			return
		}
		f.levels = f.levels[:len(f.levels)-1]
	default:
		p.innerOpener(start, end, line, rest, column, length)
	}
}

// bareRun closes the innermost fence.
func (p *Parser) bareRun(start, end, column, length, inner int) {
	f := &p.fence
	if length < inner {
		return
	}
	if n := len(f.levels); n > 0 {
		if f.firstClose == 0 {
			f.firstClose = start
		}
		f.levels = f.levels[:n-1]
		return
	}
	odd := column > f.indent
	if it := p.closeFence(start, p.after(end), false); it != nil {
		p.last = closedFence{item: it, odd: odd, end: p.next}
	}
}

// closedFence is the item whose fence ended last.
type closedFence struct {
	item *Item
	end  int
	odd  bool // its closing fence stood deeper than the opening one
	text bool // text follows on the very next line
}

// mayContinue reports whether the fence may have been ended by a fence of its own
// content, so that it continues where a bare fence opens.
func (c *closedFence) mayContinue() bool {
	return c.item != nil && (c.odd || c.item.unbalanced() || c.text && IsMarkup(c.item.Path))
}

// closeAndOpen reads ``````lang, which closes a fence and opens the next on one
// line.
func (p *Parser) closeAndOpen(start, end int, rest []byte, inner int) {
	f := &p.fence
	if n := len(f.levels); n > 0 {
		return // one level closed and another opened: nothing changes
	}
	middle := start + bytes.IndexByte(p.buf[start:end], f.char) + inner
	column := f.indent
	p.closeFence(start, middle, false)
	p.openFence(middle, end, column, p.text(middle, end))
}

// innerOpener reads a line inside a fence that could open another fence.
func (p *Parser) innerOpener(start, end int, line, rest []byte, column, length int) {
	f := &p.fence
	if p.doubt != "" {
		if !f.markup {
			f.tangle("another fence begins inside it")
		}
		return // the second reading is CommonMark's: it is content
	}
	f.nested = true
	if f.firstInner == 0 {
		f.firstInner = start
	}
	if f.markup || !f.named && (f.info.lang == "" || language(f.info.lang).is(classPlain)) {
		f.levels = append(f.levels, length)
		return
	}
	f.tangle("another fence begins inside it; the closing fence may be missing")
	in := parseInfo(string(rest))
	switch {
	case in.raw != "" || in.verdict != "":
		p.closeFence(start, start, false)
		if p.openFence(start, end, column, line) && p.mode == inFence {
			p.fence.tangle("it begins inside of another fence, whose closing fence may be missing")
		}
	case in.words, !isLanguage(in.lang): // more likely a sentence behind the closing fence
		p.closeFence(start, p.after(end), false)
	default:
		f.levels = append(f.levels, length)
	}
}

// content returns the body without the opener's indentation, lines ended by LF.
func (f *fence) content(body []byte) []byte {
	if f.indent == 0 && bytes.IndexByte(body, '\r') < 0 {
		return body
	}
	out := make([]byte, 0, len(body))
	for line := range bytes.Lines(body) {
		line = dedent(line, f.indent)
		if text, ok := bytes.CutSuffix(line, []byte("\r\n")); ok {
			out = append(append(out, text...), '\n')
		} else {
			out = append(out, line...)
		}
	}
	return out
}

// dedent removes up to a number of columns of white space from a line.
func dedent(line []byte, columns int) []byte {
	at := 0
	for len(line) > 0 && at < columns {
		switch {
		case line[0] == ' ':
			at++
		case line[0] == '\t' && at+4-at%4 <= columns:
			at += 4 - at%4
		default:
			return line
		}
		line = line[1:]
	}
	return line
}

// margin returns the smallest column at which a line of the body begins.
func margin(body []byte) int {
	least := -1
	for line := range bytes.Lines(body) {
		if blank(line) {
			continue
		}
		column, _, _, _ := run(line)
		if least < 0 || column < least {
			least = column
		}
	}
	return max(least, 0)
}

// unbalanced reports whether the content ends inside of something that might
// hold a fence: a template literal, a docstring, a README's own fence.
func (it *Item) unbalanced() bool {
	if it.Kind != KindFile || it.Binary {
		return false
	}
	if IsMarkup(it.Path) {
		body := bytes.TrimRight(it.Content, " \n\t")
		return len(body) > 0 && body[len(body)-1] == ':'
	}
	return bytes.Count(it.Content, []byte("`"))%2 == 1 ||
		bytes.Count(it.Content, []byte(`"""`))%2 == 1 || bytes.Count(it.Content, []byte("'''"))%2 == 1
}
