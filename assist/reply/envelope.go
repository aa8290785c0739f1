package reply

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

const (
	patchBegin = "*** Begin Patch"
	patchEnd   = "*** End Patch"
)

// readEnvelope reads the lines from *** Begin Patch on. ok is false if they are no
// envelope: only blank lines and the command of a heredoc may precede it.
func (p *Parser) readEnvelope(lines []bodyLine, span, body Span) ([]*Item, bool) {
	first := 0
	for ; first < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[first].text), patchBegin); first++ {
		text := strings.TrimSpace(lines[first].text)
		if text != "" && !strings.Contains(text, "apply_patch") && !strings.Contains(text, "<<") {
			return nil, false
		}
	}
	if first == len(lines) {
		return nil, false
	}
	e := envelope{p: p, span: span, body: body}
	ended := false
	for _, line := range lines[first+1:] {
		if line.text = e.unpad(line.text); strings.HasPrefix(line.text, patchEnd) {
			ended = true
			break
		}
		e.read(line)
	}
	e.close()
	group := len(p.items) + 1
	for _, it := range e.items {
		if len(e.items) > 1 {
			it.Group = group
		}
		if !ended {
			it.downgrade(VerdictTruncated, "the envelope has no *** End Patch")
		}
		if e.problem != "" {
			it.downgrade(VerdictInvalid, "a part of its envelope is malformed: "+e.problem)
		}
	}
	return e.items, true
}

// envelope reads a patch envelope line by line.
type envelope struct {
	p          *Parser
	span, body Span
	items      []*Item
	item       *Item
	content    []byte
	blanks     int // blank lines of a new file that no other line has followed yet
	hunk       *Hunk
	problem    string
}

// unpad removes the white space that some models put around a marker. A marker
// behind a single space may be a line of context in a hunk, and stays.
func (e *envelope) unpad(text string) string {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "*** ") || text[0] == ' ' && !strings.HasPrefix(text, "  ") && e.hunk != nil {
		return text
	}
	for _, marker := range [...]string{patchEnd, "*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:",
		"*** End of File"} {
		if strings.HasPrefix(trimmed, marker) {
			return trimmed
		}
	}
	return text
}

// read takes the next line.
func (e *envelope) read(line bodyLine) {
	text := line.text
	if op, ok := strings.CutPrefix(text, "*** "); ok {
		e.operation(op, line)
		return
	}
	switch {
	case e.item == nil:
		if strings.TrimSpace(text) != "" {
			e.fail("text stands before the first operation")
		}
	case e.item.Kind == KindFile:
		switch {
		case strings.HasPrefix(text, "+"):
			// Blank lines before it had forgotten their plus.
			e.content = append(e.content, strings.Repeat("\n", e.blanks)...)
			e.content = append(append(e.content, text[1:]...), '\n')
			e.blanks = 0
		case strings.TrimSpace(text) == "":
			e.blanks++
		default:
			e.fail("a line of a new file does not begin with +")
		}
	case e.item.Kind == KindDelete:
		if strings.TrimSpace(text) != "" {
			e.fail("text stands under Delete File")
		}
	case strings.HasPrefix(text, "@@"):
		context := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text[2:]), "@@"))
		if e.hunk != nil && len(e.hunk.Lines) == 0 && len(e.hunk.Context) > 0 && context != "" {
			e.hunk.Context = append(e.hunk.Context, context) // @@ class A, then @@ def b
			return
		}
		e.newHunk(line)
		if context != "" && !isLineNumbers(context) {
			e.hunk.Context = []string{context}
		}
	default:
		e.change(line)
	}
}

// change reads a line of a hunk.
func (e *envelope) change(line bodyLine) {
	if e.hunk == nil {
		if strings.TrimSpace(line.text) == "" {
			return
		}
		e.newHunk(line)
	}
	if !e.hunk.read(line) {
		e.hunk.Lines = append(e.hunk.Lines, Line{' ', line.text})
		e.item.Guessed = e.item.downgrade(VerdictAmbiguous,
			"a line of a hunk begins with neither space, + nor -, and may be one of context")
	}
}

// operation reads a line that begins with three stars.
func (e *envelope) operation(op string, line bodyLine) {
	verb, path, ok := strings.Cut(op, ":")
	path = strings.TrimSpace(path)
	switch {
	case strings.TrimSpace(op) == "End of File":
		if e.hunk != nil {
			e.hunk.EOF = true
		}
	case !ok || path == "":
		e.fail("*** " + op + " is no operation")
	case verb == "Add File":
		e.startItem(KindFile, path, line)
		e.item.Create = true
	case verb == "Update File":
		e.startItem(KindEdit, path, line)
	case verb == "Delete File":
		e.startItem(KindDelete, path, line)
	case verb == "Move to" && e.item != nil && e.item.Kind == KindEdit:
		e.item.Kind = KindRename
		e.p.rename(e.item, path, line.start)
	default:
		e.fail("*** " + op + " is no operation")
	}
}

func (e *envelope) startItem(kind Kind, path string, line bodyLine) {
	e.close()
	e.item = e.p.newItem(kind, FormEnvelope, candidate{raw: path, from: PathHeader, conf: 1}, e.span,
		Span{line.start, line.end})
	e.items = append(e.items, e.item)
	e.content, e.blanks = []byte{}, 0
}

// close ends the current operation.
func (e *envelope) close() {
	if e.item == nil {
		return
	}
	e.endHunk()
	switch e.item.Kind {
	case KindFile:
		e.item.Content = e.content
		e.item.Create = !slices.ContainsFunc(e.items, func(it *Item) bool {
			return it.Kind == KindDelete && it.Path == e.item.Path // it replaces the file
		})
		lang := e.item.langOfPath()
		for line := range bytes.Lines(e.item.Content) {
			if isElision(line, lang) {
				e.item.downgrade(VerdictPartial, "it leaves out a part of the file")
			}
		}
	case KindEdit:
		if len(e.item.Hunks) == 0 {
			e.fail("Update File has no hunk")
		}
	}
	e.item = nil
}

func (e *envelope) newHunk(line bodyLine) {
	e.endHunk()
	e.hunk = &Hunk{Span: Span{line.start, line.end}}
}

func (e *envelope) endHunk() {
	if e.hunk == nil {
		return
	}
	if e.hunk.trim() {
		e.item.Hunks = append(e.item.Hunks, *e.hunk)
	} else if len(e.hunk.Lines) > 0 || len(e.hunk.Context) > 0 {
		e.fail("a hunk changes nothing")
	}
	e.hunk = nil
}

func (e *envelope) fail(problem string) { e.problem = cmp.Or(e.problem, problem) }

// isLineNumbers reports whether a text is the lines of a diff's hunk: -1,3 +1,4.
func isLineNumbers(s string) bool {
	return len(s) > 1 && s[0] == '-' && isDigit(s[1]) && strings.Contains(s, "+")
}

// rename sets an item's new path.
func (p *Parser) rename(it *Item, to string, offset int) {
	c := cleanPath(to, offset)
	it.To, it.RawTo = c.path, to
	it.Warnings = append(it.Warnings, c.warnings...)
	if c.refusal != "" {
		it.downgrade(VerdictRefused, "the new path: "+c.refusal)
	} else if isPlaceholder(c.path) {
		it.downgrade(VerdictExample, "the new path is a placeholder")
	}
}

// envelopeLine reads a line of an envelope outside of any fence.
func (p *Parser) envelopeLine(start, end int) {
	line := p.text(start, end)
	stop := p.after(end)
	switch {
	case bytes.HasPrefix(line, []byte(patchEnd)):
		p.endEnvelope(stop)
	case p.patchLoose > 0 && bytes.HasPrefix(line, []byte(patchBegin)):
		p.leaveEnvelope()
	case len(line) == 0, bytes.IndexByte([]byte(" +-@\\"), line[0]) >= 0, bytes.HasPrefix(line, []byte("*** ")):
	case p.patchLoose == 0:
		p.patchLoose = start // if the envelope ends further on, it belongs to it
	}
}

// leaveEnvelope ends an envelope without an end at the first line that has none of its signs,
// and reads on from there.
func (p *Parser) leaveEnvelope() {
	from := p.patchLoose
	p.endEnvelope(from)
	p.next, p.seen = from, from
}

func (p *Parser) endEnvelope(stop int) {
	p.mode, p.patchLoose = inProse, 0
	p.forget()
	span := Span{p.patchStart, stop}
	items, _ := p.readEnvelope(p.bodyLines(span.Start, stop, 0), span, span)
	for _, it := range items {
		p.add(it)
	}
}
