package reply

import (
	"strings"
)

// openBlock is a status block whose end has not been read yet.
type openBlock struct {
	kind   *compiledType
	item   *Item
	lines  []blockLine
	files  []int
	quoted bool
	// thought: it stood in a thought.
	thought bool
	// shown: it begins right behind a fence's last line.
	shown bool
}

// blockLine is a line of a block's body.
type blockLine struct {
	bodyLine
	raw  bool // stands in a fence: a value, never a field
	file int  // the ordinal of the file that it refers to
}

// blockMark is a line with a name between === signs.
type blockMark struct {
	name   string
	bare   bool // nothing but the signs
	quoted bool
}

// readBlockMark reads === NAME ===, with emphasis around it or without.
func readBlockMark(line []byte) (blockMark, bool) {
	if len(line) > 200 {
		return blockMark{}, false
	}
	const decoration = " \t*_`#>"
	s := strings.TrimRight(strings.TrimSpace(string(line)), decoration+":")
	t := strings.TrimLeft(s, decoration)
	m := blockMark{quoted: strings.Contains(s[:len(s)-len(t)], ">")}
	inner := strings.TrimLeft(t, "=")
	if len(t)-len(inner) < 3 {
		return m, false
	}
	if inner == "" {
		m.bare = true
		return m, true
	}
	name := strings.TrimRight(inner, "=")
	if len(inner)-len(name) < 3 || strings.ContainsAny(name, "=") {
		return m, false
	}
	m.name = strings.Trim(name, decoration)
	return m, m.name != ""
}

// closing returns the name behind END, which may be empty.
func (m *blockMark) closing() (name string, ok bool) {
	folded := blockName(m.name)
	switch {
	case folded == "END", folded == "/":
		return "", true
	case strings.HasPrefix(folded, "END OF "):
		return folded[len("END OF "):], true
	case strings.HasPrefix(folded, "END "):
		return folded[len("END "):], true
	case strings.HasPrefix(folded, "/"):
		return folded[1:], true
	case strings.HasSuffix(folded, " END"):
		return strings.TrimSuffix(folded, " END"), true
	}
	return "", false
}

// blockLine handles a line with === signs in prose. It reports whether the line
// belongs to a block's frame.
func (p *Parser) blockLine(start, end, column int, line []byte) bool {
	m, ok := readBlockMark(line)
	if !ok {
		return false
	}
	stop := p.after(end)
	if m.bare {
		if p.block == nil {
			return false
		}
		p.closeBlock(stop, false)
		return true
	}
	if name, ends := m.closing(); ends && p.registry.lookup(m.name) == nil {
		kind := p.registry.lookup(name)
		switch {
		case p.block == nil, name != "" && kind == nil:
			return false
		case name == "" || kind == p.block.kind:
			p.closeBlock(stop, true)
		default:
			p.closeBlock(start, false)
		}
		p.forget()
		return true
	}
	kind := p.registry.lookup(m.name)
	if kind == nil {
		return false
	}
	if column-p.wrapper.indent > 3 && p.listContent == 0 {
		p.examples++ // indented code
		return false
	}
	p.closeBlock(start, false)
	it := &Item{Kind: KindBlock, Form: FormBlock, Ordinal: len(p.items) + 1, Confidence: 1, Span: Span{start, stop},
		Body: Span{stop, stop}}
	p.items = append(p.items, it)
	p.block = &openBlock{kind: kind, item: it, quoted: m.quoted, shown: start > 0 && start == p.fenceEnd}
	p.forget()
	p.begun = true
	return true
}

// line adds a line of prose.
func (b *openBlock) line(text []byte, start, end int) {
	b.lines = append(b.lines, blockLine{bodyLine: bodyLine{string(text), start, end}})
}

// closeBlock ends the open block, if there is one. A block without its END extends
// to its natural end.
func (p *Parser) closeBlock(end int, explicit bool) {
	b := p.block
	if b == nil {
		return
	}
	p.block = nil
	it := b.item
	lines := b.lines
	it.Span.End, it.Body.End = end, end
	if n := len(lines); n > 0 {
		it.Body.End = lines[n-1].end
	} else {
		it.Body.End = it.Body.Start
	}
	if !explicit {
		cut := b.naturalEnd()
		if cut < len(lines) {
			p.release(b, lines[cut].start)
			it.Body.End = lines[cut].start
		}
		if end > it.Body.End {
			it.Span.End = it.Body.End
		}
		lines = lines[:cut]
	}
	it.Block, it.Verdict, it.Reason, it.Warnings = readBlock(b.kind, lines)
	it.Block.Recovered = !explicit
	it.Block.Files = b.files
	switch {
	case b.thought:
		it.downgrade(VerdictExample, "it stands in a thought of the model")
	case p.doubt != "":
		it.downgrade(VerdictAmbiguous, p.doubt)
	case b.quoted:
		it.downgrade(VerdictAmbiguous, "it is quoted")
	case !explicit && b.kind.Final:
		it.downgrade(VerdictAmbiguous, "it marks work as complete and has no END")
	}
	if !explicit {
		it.Warnings = append(it.Warnings, Warning{"block.recovered",
			"the block has no END; it was read up to where it seems to end", it.Span.Start})
	}
	p.relate(it)
	p.emit(EventItem, it)
	p.shown = nil
	if b.shown {
		p.shown = it
	}
}

// release removes the files behind a block's natural end from the block.
func (p *Parser) release(b *openBlock, end int) {
	kept := b.files[:0]
	for _, ordinal := range b.files {
		if file := p.items[ordinal-1]; file.Span.Start >= end {
			file.Within = 0
		} else {
			kept = append(kept, ordinal)
		}
	}
	b.files = kept
}

// naturalEnd returns the line at which a block without an END ends: a heading, or
// a paragraph after an empty line that is no field.
func (b *openBlock) naturalEnd() int {
	style := fieldStyle{}
	for i, line := range b.lines {
		if line.raw || line.file > 0 {
			continue
		}
		text := strings.TrimSpace(line.text)
		if text == "" {
			continue
		}
		if _, ok := b.kind.field(line.text, &style); ok {
			continue
		}
		if strings.HasPrefix(text, "# ") || strings.HasPrefix(text, "## ") {
			return i
		}
		after := i > 0 && strings.TrimSpace(b.lines[i-1].text) == ""
		if _, bullet := cutMarker(text); after && !bullet && line.text[0] != ' ' && line.text[0] != '\t' {
			return i
		}
	}
	return len(b.lines)
}

// relate marks a block that repeats, replaces or contradicts one before it.
func (p *Parser) relate(it *Item) {
	if !it.Proposable() {
		return
	}
	if p.blocks == nil {
		p.blocks = make(map[string]*Item)
	}
	digest := it.Block.Type + "\x00" + it.Block.Digest
	if first := p.blocks[digest]; first != nil && first.Proposable() {
		it.Verdict, it.Reason = VerdictDuplicate, "the same block stands further up"
		return
	}
	p.blocks[digest] = it
	repeat := p.registry.lookup(it.Block.Type).Repeat
	if repeat == RepeatAll {
		return
	}
	for _, id := range it.Block.IDs {
		key := it.Block.Type + "\x01" + id
		old := p.blocks[key]
		p.blocks[key] = it
		switch {
		case old == nil || !old.Proposable():
		case repeat == RepeatConflict:
			p.revise(old, VerdictAmbiguous, "the reply has another "+it.Block.Type+" for "+id)
			it.downgrade(VerdictAmbiguous, "the reply has another "+it.Block.Type+" for "+id)
		case it.OK():
			old.Verdict, old.Reason = VerdictSuperseded, "a later "+it.Block.Type+" for "+id+" counts"
			p.emit(EventRevised, old)
		}
	}
}

// warnBlocks warns at the end of what looks odd about the blocks together.
func (p *Parser) warnBlocks() {
	for _, it := range p.items {
		if it.Kind != KindBlock || it.Block == nil || it.Block.Percent == nil || it.Block.Percent.Value != 100 ||
			!it.Proposable() {
			continue
		}
		for _, id := range it.Block.IDs {
			if s := p.blocks[BlockSubmission+"\x01"+id]; s == nil || !s.Proposable() {
				p.warn("block.no_submission",
					"assignment "+id+" is at 100 % and has no submission", it.Span.Start)
			}
		}
	}
}
