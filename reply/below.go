package reply

// passed is a fence without a name. below is the line with a path that follows
// it, if there is one.
type passed struct {
	start, body, bodyEnd, end, indent int
	below                             Span
}

// pass notes a fence of which nothing came.
func (p *Parser) pass(f *fence, bodyEnd, end int) {
	if !f.named && !f.nested && bodyEnd > f.body {
		p.unnamed = passed{start: f.start, body: f.body, bodyEnd: bodyEnd, end: end, indent: f.indent}
	}
}

// nameBelow notes that the first line behind such a fence is a path.
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

// settleBelow asks about the fences of code that have a path below them, in a
// reply of which nothing else came: it may be the file's.
func (p *Parser) settleBelow() {
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
