package reply

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// bodyLine is a line of a body, without its indentation, and its place.
type bodyLine struct {
	text  string
	start int
	end   int // with its line ending
}

// bodyLines returns the lines of a body, without the indentation of its fence.
func (p *Parser) bodyLines(start, end, indent int) []bodyLine {
	var lines []bodyLine
	for line := range bytes.Lines(p.buf[start:end]) {
		text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		lines = append(lines, bodyLine{string(dedent(text, indent)), start, start + len(line)})
		start += len(line)
	}
	return lines
}

// closeFence ends a fence and adds its items. It returns the last item, or nil if
// the fence gave none.
func (p *Parser) closeFence(bodyEnd, itemEnd int, truncated bool) *Item {
	f := p.fence
	p.mode, p.fence = inProse, fence{}
	p.forget()
	p.last, p.fenceEnd = closedFence{}, itemEnd
	items := p.readFence(&f, Span{f.start, itemEnd}, Span{f.body, max(f.body, bodyEnd)})
	if len(items) == 0 {
		if !f.named && !f.nested && bodyEnd > f.body {
			p.unnamed = passed{start: f.start, body: f.body, bodyEnd: bodyEnd, end: itemEnd, indent: f.indent}
		}
		p.examples += f.examples
		if p.block != nil {
			for _, line := range p.bodyLines(f.start, itemEnd, 0) {
				p.block.lines = append(p.block.lines, blockLine{bodyLine: line, raw: true})
			}
		}
		return nil
	}
	for _, it := range items {
		if truncated {
			it.downgrade(VerdictTruncated, "the reply ended inside of it")
		}
		if f.trouble != "" {
			it.downgrade(VerdictAmbiguous, f.trouble)
			p.readings(it, &f)
		}
		p.add(it)
	}
	return items[len(items)-1]
}

// readings adds the ways in which the end of a fence with fences inside can be
// read.
func (p *Parser) readings(it *Item, f *fence) {
	if it.Kind != KindFile || it.Binary || it.Content == nil {
		return
	}
	if f.paired && f.close > 0 {
		p.otherEnds(it, f)
		return
	}
	it.Readings = append(it.Readings, Reading{"all of it", it.Content})
	for _, r := range [...]struct {
		at   int
		text string
	}{{f.firstClose, "ends at the first closing fence"}, {f.firstInner, "ends where another fence begins"}} {
		if r.at > it.Body.Start && r.at < it.Body.End {
			it.Readings = append(it.Readings, Reading{r.text, f.file(p.buf[it.Body.Start:r.at])})
		}
	}
}

// readFence makes items of a fence, according to what its body is.
func (p *Parser) readFence(f *fence, span, body Span) []*Item {
	content := f.content(p.buf[body.Start:body.End])
	head, found := pathInside(content, f.info.lang)
	if d := language(f.info.lang); !f.named && !found && (f.nested || d.is(classMarkup) && !d.is(classPlain)) {
		return nil // it shows how to write something
	}
	if f.patch && (!f.named || !holdsPatches(f.where.raw)) {
		if items, ok := p.readEnvelope(p.bodyLines(body.Start, body.End, f.indent), span, body); ok {
			return items
		}
	}
	where := f.where
	f.directive = found && p.mergeHeader(&where, &head, f)
	switch {
	case f.searches:
		return p.readSearches(p.bodyLines(body.Start, body.End, f.indent), where, f, span, body)
	case (f.shielded || looksLikeDiff(content)) && (where.raw == "" || !holdsPatches(where.raw)):
		return p.readDiff(p.bodyLines(body.Start, body.End, f.indent), where, f.info.lang, span, body)
	case where.raw == "":
		return nil
	}
	it := p.newItem(KindFile, FormFence, where, span, body)
	it.Lang = f.info.lang
	it.Content = f.file(p.buf[body.Start:body.End])
	if f.indent > 0 {
		p.checkMargin(it, f, p.buf[body.Start:body.End])
	}
	p.judgeFile(it, f)
	return []*Item{it}
}

// file returns the file that a body holds: its content without the directive
// that names the file, if there is one.
func (f *fence) file(body []byte) []byte {
	content := f.content(body)
	if !f.directive {
		return content
	}
	head, _ := pathInside(content, f.info.lang)
	return slices.Concat(content[:head.start], content[head.end:])
}

// mergeHeader weighs a path in the first comment against the one outside. It
// reports whether the comment was an instruction and leaves the body.
func (p *Parser) mergeHeader(where *candidate, head *header, f *fence) bool {
	inner := pathOf(head.raw)
	if where.raw == "" {
		if head.from == PathComment && !fits(f.info.lang, inner) {
			if language(f.info.lang).is(classOutput | classShell) {
				return false
			}
			head.doubt(0.6, "the language "+f.info.lang+" does not fit the name in the comment")
		}
		*where = head.candidate
		return head.from == PathDirective
	}
	outer := cleanPath(where.raw, f.start).path
	same := cleanPath(inner, f.start).path
	switch {
	case outer == same:
		return head.from == PathDirective
	case head.from == PathDirective:
		where.doubt(0.5, "a comment inside names another file: "+inner)
	case where.from != PathAbove && where.from != PathProse:
		where.warnings = append(where.warnings, Warning{"path.comment", "a comment inside names another file: " + inner,
			f.body})
	case strings.HasSuffix(same, "/"+outer) && where.verdict == "":
		where.raw = head.raw
	case !strings.HasSuffix(outer, "/"+same):
		where.doubt(0.5, "a comment inside names another file: "+inner)
	}
	return false
}

// newItem makes an item of a path and where it was found.
func (p *Parser) newItem(kind Kind, form Form, where candidate, span, body Span) *Item {
	it := &Item{Kind: kind, Form: form, Verdict: VerdictOK, Confidence: where.conf, Span: span, Body: body,
		From: where.from, RawPath: where.raw}
	path, lines := lineSuffix(unwrap(where.raw))
	c := cleanPath(path, span.Start)
	it.Path = c.path
	it.Warnings = append(append(it.Warnings, where.warnings...), c.warnings...)
	if where.verdict != "" {
		it.Verdict, it.Reason = where.verdict, where.reason
	}
	switch {
	case it.Verdict == VerdictCitation:
	case c.refusal != "":
		it.Verdict, it.Reason = VerdictRefused, c.refusal
	case isPlaceholder(it.Path):
		it.downgrade(VerdictExample, "the path is a placeholder")
	case lines:
		it.downgrade(VerdictPartial, "it gives some lines of the file only")
	}
	if it.Verdict == VerdictOK && it.Confidence < Threshold {
		it.downgrade(VerdictAmbiguous, "the path is not sure enough")
	}
	return it
}

// judgeFile lowers the verdict of a file whose body is not a whole file.
func (p *Parser) judgeFile(it *Item, f *fence) {
	switch {
	case f.info.append:
		it.downgrade(VerdictPartial, "it is to be added to the file, not to replace it")
	case f.info.base64 || strings.EqualFold(f.info.lang, "base64"):
		decodeBase64(it)
	case f.elided, !IsMarkup(it.Path) && (elidesBehind(it.Content, "...") || elidesBehind(it.Content, "…")),
		elidesInBraces(it):
		it.downgrade(VerdictPartial, "it leaves out a part of the file")
	case f.added && f.removed && looksLikeChanges(it.Content):
		it.downgrade(VerdictAmbiguous, "every line begins with +, - or a space, as in a diff")
	case looksNumbered(it.Content):
		it.downgrade(VerdictAmbiguous, "every line begins with its number")
	case language(f.info.lang).is(classOutput):
		it.downgrade(VerdictAmbiguous, "it is marked as output")
	}
}

func decodeBase64(it *Item) {
	packed := bytes.Map(func(r rune) rune {
		if r == ' ' || r == '\n' || r == '\t' || r == '\r' {
			return -1
		}
		return r
	}, it.Content)
	decoded, err := base64.StdEncoding.Strict().DecodeString(string(packed))
	if err != nil {
		it.Content = nil
		it.downgrade(VerdictInvalid, "it is no base64: "+err.Error())
		return
	}
	it.Content, it.Binary = decoded, true
}

// checkMargin makes an item ambiguous if lines begin before the fence does: how
// much of their indentation is the file's is then unclear.
func (p *Parser) checkMargin(it *Item, f *fence, body []byte) {
	least := margin(body)
	if least >= f.indent {
		return
	}
	shallow := *f
	shallow.indent = least
	if other := shallow.file(body); !bytes.Equal(other, it.Content) {
		it.Readings = append(it.Readings, Reading{"indented as written", other},
			Reading{"the fence's indentation taken off", it.Content})
		it.Content = other
		it.downgrade(VerdictAmbiguous,
			"its lines begin before its fence does: how much of their indentation is the file's is unclear")
	}
}

// elidesInBraces reports whether the content has braces with nothing but dots,
// { ... }, which are code in no language.
func elidesInBraces(it *Item) bool {
	if IsMarkup(it.Path) || !bytes.Contains(it.Content, []byte("...")) {
		return false
	}
	if family(it.Path) == "json" && dotsOutsideStrings(it.Content) {
		return true
	}
	return dotsElide(it.langOfPath()) && (bytes.Contains(it.Content, []byte("{ ... }")) ||
		bytes.Contains(it.Content, []byte("{...}")))
}

// dotsOutsideStrings reports whether JSON has dots outside of strings.
func dotsOutsideStrings(body []byte) bool {
	for line := range bytes.Lines(body) {
		if i := bytes.Index(line, []byte("...")); i >= 0 && bytes.Count(line[:i], []byte(`"`))%2 == 0 {
			return true
		}
	}
	return false
}

// looksLikeChanges reports whether all lines begin as a hunk's do.
func looksLikeChanges(body []byte) bool {
	for line := range bytes.Lines(body) {
		if bytes.IndexByte([]byte("+- \n"), line[0]) < 0 {
			return false
		}
	}
	return true
}

// looksNumbered reports whether the lines begin with 1, 2, 3 and a mark, as cat -n
// writes them.
func looksNumbered(body []byte) bool {
	n := 0
	for line := range bytes.Lines(body) {
		n++
		rest, ok := bytes.CutPrefix(bytes.TrimLeft(line, " "), []byte(strconv.Itoa(n)))
		rest = bytes.TrimLeft(rest, " ")
		if !ok || len(rest) == 0 || rest[0] != '|' && rest[0] != ':' && rest[0] != '\t' {
			return false
		}
		if n == 3 {
			return true
		}
	}
	return n == 2
}

// elidesBehind reports whether a comment with dots behind code leaves something out:
// foo() { /* ... existing code ... */ }.
func elidesBehind(body []byte, dots string) bool {
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(dots))
		if i < 0 {
			return false
		}
		i += at
		at = i + len(dots)
		before := bytes.TrimRight(body[max(0, i-24):i], " \t[({")
		if !bytes.HasSuffix(before, []byte("//")) && !bytes.HasSuffix(before, []byte("/*")) &&
			!bytes.HasSuffix(before, []byte("#")) &&
			!bytes.HasSuffix(before, []byte("<!--")) {
			continue
		}
		end := bytes.IndexByte(body[i:], '\n')
		if end < 0 {
			end = len(body) - i
		}
		text := strings.Trim(string(body[i:i+min(end, 200)]), " */->)]}")
		if isDots(text) || elides(text) {
			return true
		}
	}
}

// holdsPatches reports whether a file may itself consist of diffs, or describe
// them, by its name.
func holdsPatches(raw string) bool {
	f := family(strings.ReplaceAll(unwrap(raw), `\`, "/"))
	return f == "patch" || f == "md" || f == "txt"
}
