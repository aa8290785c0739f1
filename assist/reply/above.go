package reply

import (
	"bytes"
	"strings"
)

// pathAbove reads the line above a fence as the name of its file. sibling is the
// line above that one: two names in a row are a list, not a title.
func pathAbove(line, sibling []byte) (candidate, bool) {
	if len(line) > 600 || bytes.IndexByte(line, '.') < 0 && !mayBeWellKnown(line) && !bytes.ContainsAny(line, `/\`) {
		return candidate{}, false
	}
	c := candidate{from: PathAbove, conf: 0.85}
	title := readTitle(string(line))
	if title.text == "" {
		return c, false
	}
	path := c.trailer(title.text)
	if title.note != "" {
		c.annotation(title.note)
	}
	if !title.wrapped && !title.label && strings.ContainsRune(path, ' ') {
		return proseMention(string(line), title.colon)
	}
	path = unescape(path)
	c.doubtWords(path)
	if title.bullet && !title.wrapped && !title.colon {
		c.doubt(0.7, "it may be an item of a list")
	}
	bare := pathOf(path)
	switch pathShape(bare) {
	case shapeStrong:
	case shapeWeak:
		if !title.wrapped && !title.heading && !title.label {
			return c, false
		}
		c.doubt(0.6, "it may be no path")
	default:
		// A path that leads out of the folder is reported, not passed over.
		if !title.wrapped && !title.label || refusal(strings.ReplaceAll(bare, `\`, "/")) == "" ||
			pathShape(strings.TrimLeft(bare[strings.LastIndexAny(bare, `/\`)+1:], "~")) != shapeStrong {
			return c, false
		}
	}
	if isLanguage(bare) && wellKnown[bare] == "" {
		return c, false
	}
	if title.bullet && !title.colon && isListItem(sibling) || !title.bullet && !title.colon && isBarePath(sibling) {
		c.doubt(0.5, "it is the last of a list of files")
	}
	c.raw = path
	return c, true
}

func mayBeWellKnown(line []byte) bool {
	for word := range bytes.FieldsFuncSeq(line, func(r rune) bool { return !isWordRune(r) }) {
		if _, ok := wellKnown[string(word)]; ok {
			return true
		}
	}
	return false
}

// title is a line that may name the file below it, taken apart.
type title struct {
	text string
	// note stood in parentheses outside of the emphasis.
	note                                   string
	heading, bullet, wrapped, label, colon bool
}

// readTitle removes the marks that Markdown puts around a name: those of a heading
// or a list, a number, emphasis, backticks, "File:", a colon at the end.
func readTitle(line string) title {
	var t title
	s := strings.TrimSpace(line)
	if h := strings.TrimLeft(s, "#"); len(h) < len(s) && strings.HasPrefix(h, " ") {
		t.heading = true
		s = strings.TrimSpace(strings.TrimRight(h, "#"))
	}
	if rest, ok := cutMarker(s); ok {
		t.bullet = !t.heading
		s = rest
	}
	for {
		before := s
		s = strings.TrimLeftFunc(s, func(r rune) bool { return r > 0x2000 || r == ' ' }) // emoji and arrows
		if strings.HasSuffix(s, ":") || strings.HasSuffix(s, "：") {
			t.colon = true
			s = strings.TrimRight(s, ":： ")
		}
		if !t.wrapped || strings.ContainsAny(s, "`*") {
			s = t.peel(s)
		}
		if rest, ok := cutLabel(s); ok {
			t.label = true
			s = rest
		}
		if rest, ok := cutMarker(s); ok && t.wrapped { // **1. src/a.ts**
			s = rest
		}
		if s == before {
			break
		}
	}
	t.text = s
	return t
}

// peel removes one layer of emphasis or backticks, and the text after it.
func (t *title) peel(s string) string {
	for _, mark := range [...]string{"***", "**", "__", "`", "*"} {
		if !strings.HasPrefix(s, mark) {
			continue
		}
		end := strings.Index(s[len(mark):], mark)
		if end <= 0 {
			return s
		}
		inner, tail := s[len(mark):len(mark)+end], strings.TrimSpace(s[len(mark)+end+len(mark):])
		if label, isLabel := cutLabel(inner); isLabel && label == "" {
			t.label = true
			return strings.TrimLeft(tail, ": ")
		}
		switch tail = strings.TrimSpace(strings.Trim(tail, ":")); {
		case tail == "":
		case strings.HasPrefix(tail, "(") && strings.HasSuffix(tail, ")"),
			strings.HasPrefix(tail, "[") && strings.HasSuffix(tail, "]"):
			t.note = tail[1 : len(tail)-1]
		case strings.HasPrefix(tail, "- "), strings.HasPrefix(tail, "– "), strings.HasPrefix(tail, "— "):
			t.note = strings.TrimLeft(tail, "-–— ")
		default:
			return s
		}
		if mark == "*" && strings.IndexByte(inner, '/') < 0 && strings.IndexByte(inner, '.') < 0 {
			return s
		}
		t.wrapped = true
		return strings.TrimSpace(inner)
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, ")") && strings.Contains(s, "](") {
		t.wrapped = true
		return unwrap(s)
	}
	return s
}

// cutMarker removes the mark of a list item: "- ", "* ", "2. ", "2) ".
func cutMarker(s string) (string, bool) {
	end := listMark(s, 0)
	if end == 0 || end > 4 || len(s) <= 2 {
		return s, false
	}
	return strings.TrimSpace(s[end:]), true
}

// listMark returns where the mark of a list item ends that begins at an offset
// of a line ("-", "*", "+", "1.", "1)"), 0 if there is none.
func listMark[T string | []byte](line T, at int) int {
	i := at
	switch {
	case i == len(line):
		return 0
	case line[i] == '-' || line[i] == '*' || line[i] == '+':
		i++
	default:
		for i < len(line) && isDigit(line[i]) && i-at < 9 {
			i++
		}
		if i == at || i == len(line) || line[i] != '.' && line[i] != ')' {
			return 0
		}
		i++
	}
	if i == len(line) || line[i] != ' ' && line[i] != '\t' {
		return 0
	}
	return i
}

// cutLabel removes a label such as "File:".
func cutLabel(s string) (string, bool) {
	label, rest, ok := strings.Cut(s, ":")
	if !ok || len(label) > 16 {
		return s, false
	}
	switch strings.ToLower(strings.Trim(label, " *_")) {
	case "file", "filename", "file name", "path", "file path", "filepath", "new file", "create", "update", "updated file",
		"modified file", "full path":
		return strings.TrimSpace(rest), true
	}
	return s, false
}

// proseMention returns the file that a sentence right above a fence names in
// backticks. It is shown with the fence and never enough to write.
func proseMention(line string, colon bool) (candidate, bool) {
	c := candidate{from: PathProse, conf: 0.5}
	if !colon || strings.Count(line, "`") != 2 {
		return c, false
	}
	_, rest, _ := strings.Cut(line, "`")
	path, _, _ := strings.Cut(rest, "`")
	if pathShape(path) != shapeStrong || isLanguage(path) {
		return c, false
	}
	c.raw = path
	c.doubt(0.5, "the file is only mentioned in the sentence above")
	return c, true
}

// showsOld reports whether a line announces the present code, such as "Before:"
// or "### Current code".
func showsOld(line []byte) bool {
	if len(line) > 60 {
		return false
	}
	switch strings.ToLower(strings.Trim(readTitle(string(line)).text, " .*_`")) {
	case "before", "old", "original", "current", "old code", "current code", "original code", "existing code",
		"the current code", "before the change",
		"old version", "current version", "original version", "existing", "instead of", "replace this", "from":
		return true
	}
	return false
}

// unescape removes the backslashes of Markdown: src/my\_file.ts.
func unescape(s string) string {
	if !strings.Contains(s, `\_`) && !strings.Contains(s, `\*`) {
		return s
	}
	return strings.NewReplacer(`\_`, "_", `\*`, "*").Replace(s)
}

func isListItem(line []byte) bool {
	_, ok := cutMarker(strings.TrimSpace(string(line)))
	return ok
}

// isBarePath reports whether a line is nothing but a path.
func isBarePath(line []byte) bool {
	if len(line) == 0 || len(line) > 300 {
		return false
	}
	t := readTitle(string(line))
	return !strings.ContainsRune(t.text, ' ') && pathShape(unwrap(t.text)) == shapeStrong
}

// passed is a fence without a name. below is the line with a path below it, or empty.
type passed struct {
	start, body, bodyEnd, end, indent int
	below                             Span
}

// nameBelow records a path on the first line after such a fence.
func (p *Parser) nameBelow(start, end int) {
	u := p.unnamed
	p.unnamed = passed{}
	line := p.text(start, end)
	if u.end != p.fenceEnd || p.above.Len() > 0 || p.blanks > 1 || isListItem(line) {
		return
	}
	if c, ok := pathAbove(line, nil); ok && c.verdict == "" && c.from == PathAbove {
		u.below = Span{start, end}
		p.below = append(p.below, u)
	}
}

// offerBelow makes ambiguous items of the fences of code that have a path below
// them, in a reply that has no other item. The path may be the file's.
func (p *Parser) offerBelow() {
	if len(p.items) > 0 || p.block != nil || p.doubt != "" || p.wrapper.open || p.wrapper.closed {
		return
	}
	for _, u := range p.below {
		_, _, at, _ := run(p.buf[u.start:])
		f := fence{indent: u.indent, start: u.start, body: u.body,
			info: parseInfo(string(p.text(u.start+at, max(u.start+at, u.body-1))))}
		if d := language(f.info.lang); !d.is(classCode|classMarkup) || d.is(classShell|classOutput|classDiff|classPlain) {
			continue
		}
		where, _ := pathAbove(p.text(u.below.Start, u.below.End), nil)
		where.doubt(0.5, "the path stands below the fence")
		it := p.newItem(KindFile, FormFence, where, Span{u.start, u.end}, Span{u.body, u.bodyEnd})
		it.Lang, it.Content = f.info.lang, f.content(p.buf[u.body:u.bodyEnd])
		p.judgeFile(it, &f)
		p.add(it)
	}
}
