package reply

import (
	"bytes"
	"crypto/sha256"
)

// state is the state of a Parser.
type state struct {
	mode  mode
	fence fence

	items    []*Item
	warnings []Warning
	tags     []string
	examples int

	// above and sibling are the last two lines of prose; blanks are the empty
	// lines since. A line that ended something is no line to take a name from.
	above, sibling Span
	blanks         int
	// listContent is the column at which the text of the last list item begins.
	listContent int
	begun       bool // a line that is not empty was read

	// doubt, if set, is why nothing is OK any more: the rest is read a second
	// time, because its fences, thoughts or marks did not end.
	doubt string

	// last is the item whose fence ended last.
	last closedFence
	// fenceEnd is where the last fence ended. A block that begins there and ends
	// where another fence begins may stand inside of one: shown.
	fenceEnd int
	shown    *Item

	// unnamed is the last fence without a name; below are those with a path below.
	unnamed passed
	below   []passed

	// nestings are the pairings of the fences from a document on, by its
	// indentation. mayHold is how far a document may continue that was ended before.
	nestings map[int]*nesting
	mayHold  int
	holder   string

	wrapper wrapper
	thought thought
	// thoughtItems is how many items turned out to stand in thoughts.
	thoughtItems int
	search       search
	patchStart   int // of an envelope outside of any fence
	patchLoose   int // of its first line without one of its signs, or 0
	diff         rawDiff
	tag          tag
	block        *openBlock
	blocks       map[string]*Item // the valid blocks, by digest and by type and id
	fileOps      fileOps
	lastTag      *Item
	lastTagName  string
	// byPath are the OK items, by path.
	byPath map[string][]*Item
	// edits are what the edits hold that are OK, by path.
	edits map[string]map[[sha256.Size]byte]bool
	// lastEdit is the last edit with a path of its own.
	lastEdit *Item
}

// wrapper is a ```markdown around the whole reply.
type wrapper struct {
	open, closed bool
	fresh        bool // no line of it was read yet
	char         byte
	length       int
	start, end   int
	// document: it begins like a document, not like an answer.
	document bool
	indent   int
}

// forget drops the lines above: a line that ended something names nothing.
func (p *Parser) forget() { p.above, p.sibling, p.blanks = Span{}, Span{}, 0 }

// lineEnd returns the end of the line at an offset, without its line feed.
func (p *Parser) lineEnd(offset int) int {
	if i := bytes.IndexByte(p.buf[offset:], '\n'); i >= 0 {
		return offset + i
	}
	return len(p.buf)
}

// lineAfter returns the beginning of the line after an offset.
func (p *Parser) lineAfter(offset int) int { return p.after(p.lineEnd(offset)) }

// after returns the beginning of the line after a line that ends at end.
func (p *Parser) after(end int) int { return min(end+1, len(p.buf)) }

// text returns a line without its carriage return.
func (p *Parser) text(start, end int) []byte {
	if end > start && p.buf[end-1] == '\r' {
		end--
	}
	return p.buf[start:end]
}

// warn adds a warning about the reply.
func (p *Parser) warn(code, message string, offset int) {
	p.warnings = append(p.warnings, Warning{code, message, offset})
}

// emit passes an event to the caller.
func (p *Parser) emit(t EventType, it *Item) {
	if p.options.Events != nil {
		p.options.Events(Event{Type: t, Item: *it})
	}
}

// add records a finished item, with the verdict that its surroundings allow.
func (p *Parser) add(it *Item) *Item {
	if it.Kind != KindBlock && it.Verdict == VerdictOK && it.Confidence < Threshold {
		it.downgrade(VerdictAmbiguous, "the path is not sure enough")
	}
	if p.doubt != "" {
		it.downgrade(VerdictAmbiguous, p.doubt)
	}
	if it.Span.Start < p.mayHold {
		it.downgrade(VerdictAmbiguous, "it may stand inside of "+p.holder+", whose end is not sure")
	}
	if p.wrapper.open && p.wrapper.document {
		it.downgrade(VerdictAmbiguous, "the whole reply is one markdown document; this may be an example in it")
	}
	if it.Kind == KindEdit && len(it.Hunks) > 0 {
		p.repeated(it)
	}
	it.Ordinal = len(p.items) + 1
	if p.block != nil && it.Kind != KindBlock {
		p.block.files = append(p.block.files, it.Ordinal)
		it.Within = p.block.item.Ordinal
		if it.Path != "" {
			p.block.lines = append(p.block.lines,
				blockLine{bodyLine: bodyLine{it.Path, it.Span.Start, it.Span.End}, file: it.Ordinal})
		}
	}
	p.items = append(p.items, it)
	if p.byPath == nil {
		p.byPath = make(map[string][]*Item)
	}
	if it.Kind == KindFile && it.Verdict == VerdictOK {
		p.supersede(it)
	}
	if it.Kind != KindBlock && it.Verdict == VerdictOK {
		p.byPath[it.Path] = append(p.byPath[it.Path], it)
	}
	p.emit(EventItem, it)
	return it
}

// repeated marks an edit that the reply gave before: the file may have the change already.
func (p *Parser) repeated(it *Item) {
	hash := sha256.New()
	for i := range it.Hunks {
		_, _ = hash.Write([]byte(it.Hunks[i].key() + "\n"))
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	switch {
	case p.edits[it.Path][sum]:
		it.Repeated = it.downgrade(VerdictAmbiguous, "the reply gives this edit twice") || it.Verdict == VerdictAmbiguous
	case it.Verdict == VerdictOK:
		if p.edits == nil {
			p.edits = make(map[string]map[[sha256.Size]byte]bool)
		}
		if p.edits[it.Path] == nil {
			p.edits[it.Path] = make(map[[sha256.Size]byte]bool)
		}
		p.edits[it.Path][sum] = true
	}
}

// supersede marks the items before a file that is given whole.
func (p *Parser) supersede(it *Item) {
	for _, old := range p.byPath[it.Path] {
		if old.Verdict == VerdictOK && old.Kind != KindRename {
			old.Verdict = VerdictSuperseded
			old.Reason = "the reply gives the file again further on"
			it.Warnings = append(it.Warnings, Warning{"path.twice", "the reply gives this file more than once; the last counts",
				it.Span.Start})
			p.emit(EventRevised, old)
		}
	}
	p.byPath[it.Path] = p.byPath[it.Path][:0]
	delete(p.edits, it.Path)
}

// downgrade lowers the verdict of an OK or ambiguous item. A worse one stays.
func (it *Item) downgrade(v Verdict, reason string) bool {
	if it.Guessed && v == VerdictAmbiguous {
		it.Reason, it.Guessed = reason, false
		return true
	}
	if it.Verdict == v && v != VerdictOK || it.Verdict != VerdictOK && it.Verdict != VerdictAmbiguous &&
		it.Verdict != VerdictSuperseded {
		return false
	}
	it.Verdict, it.Reason, it.Guessed = v, reason, false
	if v == VerdictAmbiguous && it.Confidence > 0.8 {
		it.Confidence = 0.8
	}
	return true
}

// revise downgrades an item that was emitted before.
func (p *Parser) revise(it *Item, v Verdict, reason string) {
	if it.downgrade(v, reason) {
		p.emit(EventRevised, it)
	}
}

// blank reports whether a line has nothing but spaces.
func blank(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r\n")) == 0 }
