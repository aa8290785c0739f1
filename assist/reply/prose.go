package reply

import (
	"bytes"
	"strings"
)

// proseLine reads a line that stands in no fence.
func (p *Parser) proseLine(start, end int) {
	if start == 0 && bytes.HasPrefix(p.buf, []byte(byteOrderMark)) {
		start = min(len(byteOrderMark), end)
	}
	line := p.text(start, end)
	if p.wrapper.open && p.wrapper.fresh {
		p.wrapperFirst(line)
		if p.mode != inProse {
			p.line(start, end)
			return
		}
	}
	column, length, at, char := run(line)
	if at == len(line) && length == 0 {
		p.blanks++
		p.prosePart(start, end)
		return
	}
	if p.wrapper.closed {
		p.notWhole()
	}
	if length >= 3 && p.fenceInProse(start, end, column, length, char, line) {
		return
	}
	if length == 0 && (line[at] < 'A' || line[at] == '[' || line[at] == '_') &&
		p.beginsSomething(start, end, column, line, at) {
		return
	}
	if at == 0 && line[0] == '{' && p.jsonCall(start, end, line) {
		return
	}
	if bytes.IndexByte(line, '<') >= 0 && p.tagLike(start, end, column, line, at) {
		return
	}
	if at == 0 && line[0] == 'd' && bytes.HasPrefix(line, []byte("diff --git ")) {
		p.prosePart(start, start)
		p.openDiff(start)
		return
	}
	p.remember(start, end)
}

// remember records a line, which may name the next file.
func (p *Parser) remember(start, end int) {
	if p.last.item != nil && p.last.end == start {
		p.last.text = true
	}
	p.begun = true
	if p.unnamed.end > 0 {
		p.nameBelow(start, end)
	}
	if column, _, _, _ := run(p.buf[start:end]); p.listContent > 0 && column == 0 && p.blanks > 0 &&
		!isListItem(p.text(start, min(end, start+8))) {
		p.listContent = 0
	}
	p.sibling, p.above, p.blanks = p.above, Span{start, end}, 0
	p.prosePart(start, end)
}

// prosePart adds a line to the open block, if there is one.
func (p *Parser) prosePart(start, end int) {
	if p.block != nil && end >= start {
		p.block.line(p.text(start, end), start, p.after(end))
	}
}

// fenceInProse reads a run of three or more at the beginning of a line.
func (p *Parser) fenceInProse(start, end, column, length int, char byte, line []byte) bool {
	_, _, at, _ := run(line)
	if p.wrapper.open && char == p.wrapper.char && length >= p.wrapper.length && len(bytes.TrimSpace(line[at:])) == 0 {
		p.closeBlock(start, false)
		p.wrapper.open, p.wrapper.closed, p.wrapper.end = false, true, p.after(end)
		p.forget()
		p.fenceEnd = p.wrapper.end
		return true
	}
	if column-p.wrapper.indent > 3 && (p.listContent == 0 || column < p.listContent || column > p.listContent+3) {
		return false // indented code
	}
	return p.openFence(start, end, column, line)
}

// beginsSomething reads a line that begins with a sign, and reports whether it
// begins a block, an edit, an envelope, a diff or a fence.
func (p *Parser) beginsSomething(start, end, column int, line []byte, at int) bool {
	rest := line[at:]
	switch rest[0] {
	case '=', '*', '_', '#', '>':
		if bytes.Contains(rest, []byte("===")) && p.blockLine(start, end, column, line) {
			return true
		}
		if rest[0] == '*' && column == 0 && bytes.HasPrefix(rest, []byte(patchBegin)) {
			p.mode, p.patchStart = inEnvelope, start
			return true
		}
		if rest[0] == '#' && p.fileOpsHeading(string(rest)) {
			p.remember(start, end)
			return true
		}
	case '<':
		if column == 0 && isSearchMark(rest) {
			p.openSearch(start)
			return true
		}
	case '-':
		if column == 0 && isSearchMark(rest) {
			p.openSearch(start)
			return true
		}
		if column == 0 && bytes.HasPrefix(rest, []byte("--- ")) && p.diffFollows(rest) {
			p.openDiff(start)
			return true
		}
	case '[':
		if t := bytes.TrimRight(rest, " "); len(t) < 100 && isControlTag(t) {
			p.tags = append(p.tags, string(t[1:len(t)-1]))
		}
	}
	return p.listItem(start, end, column, line, at)
}

// diffFollows reports whether a line is "--- a/path", "--- path.txt" or "--- /dev/null", not
// a rule or dashes of Markdown. The +++ line may not have arrived yet; a diff without it
// gives no item.
func (p *Parser) diffFollows(line []byte) bool {
	path := diffPath(string(line[4:]))
	return path == "/dev/null" || strings.HasPrefix(path, "a/") && pathShape(path) >= shapeWeak ||
		pathShape(path) == shapeStrong
}

// isControlTag reports whether a line is a control tag: [PHASE_ADVANCE:X].
func isControlTag(t []byte) bool {
	if len(t) < 4 || t[len(t)-1] != ']' {
		return false
	}
	name, value, ok := bytes.Cut(t[1:len(t)-1], []byte(":"))
	if !ok || len(name) < 2 || len(value) == 0 {
		return false
	}
	return !bytes.ContainsFunc(name, func(c rune) bool { return (c < 'A' || c > 'Z') && c != '_' })
}

// listItem records where a list item's text begins, and opens a fence on the
// item's own line.
func (p *Parser) listItem(start, end, column int, line []byte, at int) bool {
	i := listMark(line, at)
	if i == 0 {
		return false
	}
	marked := column + i - at
	content, length, _, _ := runFrom(line[i:], marked)
	spaces := content - marked
	if spaces > 4 {
		content = marked + 1
	}
	p.listContent = content
	if p.fileOps.kind != "" && p.fileOp(start, end, strings.TrimSpace(string(line[i:]))) {
		return true
	}
	if length < 3 || spaces > 4 {
		return false
	}
	_, _, mark, _ := run(line[i:])
	if bytes.IndexByte(line[i+mark:], '`') >= 0 {
		return false
	}
	p.above, p.sibling = Span{}, Span{}
	return p.openFence(start, end, content, line[i:])
}

// opensWrapper reports whether a fence opens a ```markdown fence in which the whole
// reply may stand.
func (p *Parser) opensWrapper(f *fence, d dialect) bool {
	if p.begun || f.named || d.family != "md" || p.doubt != "" || p.block != nil {
		return false
	}
	p.begun = true
	p.wrapper = wrapper{open: true, fresh: true, char: f.char, length: f.length, start: f.start, indent: f.indent}
	p.forget()
	return true
}

// wrapperFirst reads the first line inside: a comment with a path makes the
// wrapper a file after all; a title makes it a document.
func (p *Parser) wrapperFirst(line []byte) {
	if blank(line) {
		return
	}
	w := &p.wrapper
	w.fresh = false
	text := string(bytes.TrimSpace(line))
	if h, ok := readHeader(text, "markdown", false); ok && h.raw != "" {
		_, _, at, _ := run(p.buf[w.start:])
		first := p.lineAfter(w.start)
		in := parseInfo(string(p.text(w.start+at, first-1)))
		p.fence = fence{char: w.char, length: w.length, indent: w.indent, info: in, start: w.start, body: first,
			markup: true}
		p.wrapper = wrapper{}
		p.mode = inFence
		return
	}
	w.document = strings.HasPrefix(text, "# ") || text == "---" || strings.HasPrefix(text, "<h1") ||
		strings.HasPrefix(text, "<div") || strings.HasPrefix(text, "<p")
}

// notWhole revises the items in a wrapper that other text follows: they are examples.
func (p *Parser) notWhole() {
	w := p.wrapper
	p.wrapper = wrapper{}
	for _, it := range p.items {
		if it.Span.Start >= w.start && it.Span.End <= w.end {
			p.revise(it, VerdictExample, "it stands inside a markdown fence that is only a part of the reply")
		}
	}
}

// closeWrapper revises at the end of the reply the items in the wrapper.
func (p *Parser) closeWrapper() {
	w := p.wrapper
	if !w.open && !w.closed {
		return
	}
	files := 0
	for _, it := range p.items {
		if it.Kind != KindBlock && it.OK() {
			files++
		}
	}
	for _, it := range p.items {
		switch {
		case w.open && it.Span.Start >= w.start:
			p.revise(it, VerdictAmbiguous, "it stands inside a markdown fence that does not end")
		case it.Kind == KindBlock && files == 0:
			p.revise(it, VerdictExample, "it stands inside a markdown fence")
		case it.Kind == KindBlock:
			p.revise(it, VerdictAmbiguous, "it stands inside a markdown fence around the whole reply")
		}
	}
}

// atEnd handles open items at the end of the reply. It reports whether the rest must be
// read again.
func (p *Parser) atEnd() bool {
	end := len(p.buf)
	if p.wrapper.open && p.wrapper.fresh {
		p.wrapper.fresh = false
	}
	switch p.mode {
	case inFence:
		return p.fenceAtEnd(end)
	case inThought:
		if p.doubt == "" {
			p.again("it stands in a thought that does not end", p.thought.body)
			return true
		}
	case inSearch:
		if s := p.search; s.head && (!s.divided || s.where.raw == "") {
			p.leaveSearch()
			return true
		}
		if p.doubt == "" {
			p.truncatedSearch(end)
			p.again("an edit before it does not end", p.lineAfter(p.search.start))
			return true
		}
		p.truncatedSearch(end)
	case inEnvelope:
		if p.patchLoose > 0 {
			p.leaveEnvelope()
			return true
		}
		p.endEnvelope(end)
	case inDiff:
		problem := ""
		if p.diff.old > 0 || p.diff.new > 0 {
			problem = "a hunk is shorter than it says"
		}
		p.endDiff(end, problem)
	case inTag:
		return p.tagAtEnd(end)
	}
	p.mode = inProse
	return false
}

// fenceAtEnd ends a fence that the reply did not end.
func (p *Parser) fenceAtEnd(end int) bool {
	f := p.fence
	again := p.doubt == "" && (f.nested || f.inHunk || f.inPatch)
	if !again {
		p.warn("fence.unclosed",
			"a fence is not closed; what follows it was read as its content", f.start)
		p.closeFence(end, end, true)
		return false
	}
	p.doubt = "the fences before it do not balance"
	p.warn("fence.unbalanced",
		"the fences do not balance from here on; nothing after it is done without a question", f.start)
	f.trouble, f.scan = "", scan{}
	p.fence = f
	p.next, p.seen = f.body, f.body
	return true
}

// again restarts the parser at an offset; no item from there on is OK.
func (p *Parser) again(doubt string, from int) {
	p.doubt = doubt
	p.warn("reply.unclosed", doubt+"; nothing after it is done without a question",
		from)
	p.mode = inProse
	p.next, p.seen = from, from
	p.forget()
}

func (p *Parser) truncatedSearch(end int) {
	span := Span{p.search.start, end}
	it := p.newEdit(p.search.where, nil, span, span)
	it.downgrade(VerdictTruncated, "the reply ended inside of it")
	p.add(it)
}
