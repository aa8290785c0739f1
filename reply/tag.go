package reply

import (
	"bytes"
	"strings"
)

// tag is an open tag with a file's content: <file path="p">.
type tag struct {
	name        string
	start, body int
	where       candidate
	lang        string
	depth       int
	elided      bool
}

// fileOps is an open list under ### Move Files or ### Remove Files.
type fileOps struct {
	kind Kind
	ops  []*Item
}

// openTag begins a file in a tag: <file path="p">, <boltAction type="file"
// filePath="p">, <PlandexBlock lang="go" path="p">.
func (p *Parser) openTag(start, end int, line []byte) bool {
	if bytes.HasPrefix(line, []byte("<EndPlandexFileOps")) {
		p.endFileOps()
		return true
	}
	if p.lastTag != nil && bytes.HasPrefix(line, []byte("</file>")) {
		p.revise(p.lastTag, VerdictAmbiguous, "its closing tag stands twice: the first may belong to its content")
		p.lastTag = nil
		return false
	}
	name, attributes, ok := fileTag(line)
	if !ok {
		return false
	}
	t := tag{name: name, start: start}
	for s := attributes; s != ""; s = strings.TrimLeft(s, " \t") {
		key, value, rest := attribute(s)
		s = rest
		switch strings.ToLower(key) {
		case "type":
			if value != "file" {
				return false
			}
		case "lang":
			t.lang = value
		case "path", "filepath", "name", "filename":
			t.where = candidate{raw: value, from: PathTag, conf: 0.95}
			if pathShape(value) < shapeStrong && refusal(value) == "" {
				t.where.doubt(0.7, "it may be no path")
			}
		}
	}
	if t.where.raw == "" {
		return false
	}
	closing := bytes.IndexByte(line, '>')
	t.body = start + bytes.IndexByte(p.buf[start:end], '<') + closing + 1
	p.mode, p.tag = inTag, t
	if rest := p.text(t.body, end); blank(rest) {
		p.tag.body = p.next
	} else {
		p.tagLine(t.body, end)
	}
	return true
}

// fileTag cuts a tag that can hold a file into its name and attributes.
func fileTag(line []byte) (name, attributes string, ok bool) {
	closing := bytes.IndexByte(line, '>')
	if closing < 0 || closing > 500 || line[closing-1] == '/' {
		return "", "", false
	}
	name, attributes, ok = strings.Cut(string(line[1:closing]), " ")
	switch name {
	case "file", "boltAction", "PlandexBlock":
		return name, strings.TrimSpace(attributes), ok
	}
	return "", "", false
}

// tagLine looks for the end of a file in a tag.
func (p *Parser) tagLine(start, end int) {
	t := &p.tag
	line := p.text(start, end)
	if !t.elided && isElision(line, t.lang) {
		t.elided = true
	}
	if bytes.IndexByte(line, '<') < 0 {
		return
	}
	closing := []byte("</" + t.name + ">")
	trimmed := bytes.TrimSpace(line)
	if bytes.HasPrefix(trimmed, []byte("<"+t.name+">")) || bytes.HasPrefix(trimmed, []byte("<"+t.name+" ")) {
		if !bytes.HasSuffix(trimmed, closing) && !bytes.HasSuffix(trimmed, []byte("/>")) {
			t.depth++
		}
		return
	}
	switch {
	case !bytes.HasPrefix(trimmed, closing) && !bytes.HasSuffix(trimmed, closing):
		return
	case t.depth > 0:
		t.depth--
		return
	}
	p.endTag(start+bytes.Index(line, closing), min(end+1, len(p.buf)), false)
}

// endTag adds the file that stood in a tag.
func (p *Parser) endTag(bodyEnd, end int, truncated bool) {
	t := p.tag
	p.mode, p.tag = inProse, tag{}
	p.above, p.sibling, p.blanks = Span{}, Span{}, 0
	it := p.newItem(KindFile, FormTag, t.where, Span{t.start, end}, Span{t.body, max(t.body, bodyEnd)})
	it.Lang = t.lang
	f := fence{indent: 0, info: info{lang: t.lang}, elided: t.elided}
	it.Content = f.content(p.buf[it.Body.Start:it.Body.End])
	if inner, ok := onlyFence(it.Content); ok && !isMarkup(it.Path) {
		it.Content = inner
	} else if bytes.HasPrefix(bytes.TrimSpace(it.Content), []byte("<![CDATA[")) && bytes.HasSuffix(bytes.TrimSpace(it.Content), []byte("]]>")) {
		body := bytes.TrimSpace(it.Content)
		it.Content = bytes.TrimPrefix(body[len("<![CDATA["):len(body)-len("]]>")], []byte("\n"))
	}
	p.judgeFile(it, &f)
	if bytes.Contains(it.Content, []byte("<<<<<<< SEARCH")) || looksLikeDiff(it.Content) {
		it.downgrade(VerdictPartial, "it holds edits, not the file")
	}
	if truncated {
		it.downgrade(VerdictTruncated, "the reply ended inside of it")
	}
	p.add(it)
	if t.name == "file" {
		p.lastTag = it
	}
}

// onlyFence: the whole content is one fence, which a model put into the tag.
func onlyFence(content []byte) ([]byte, bool) {
	trimmed := bytes.TrimSpace(content)
	_, length, _, char := run(trimmed)
	first := bytes.IndexByte(trimmed, '\n')
	last := bytes.LastIndexByte(trimmed, '\n')
	if length < 3 || first < 0 || last < first {
		return nil, false
	}
	_, closing, at, c := run(trimmed[last+1:])
	if c != char || closing < length || len(bytes.TrimSpace(trimmed[last+1+at:])) > 0 {
		return nil, false
	}
	if last == first {
		return []byte{}, true
	}
	return trimmed[first+1 : last+1], true
}

func (p *Parser) tagAtEnd(end int) bool {
	start := p.tag.start
	p.endTag(end, end, true)
	if p.doubt == "" {
		p.again("a tag before it does not end", p.lineAfter(start))
		return true
	}
	return false
}

// fileOpsHeading: ### Move Files, ### Remove Files.
func (p *Parser) fileOpsHeading(line string) bool {
	heading := strings.TrimSpace(strings.TrimLeft(line, "#"))
	p.fileOps = fileOps{}
	switch heading {
	case "Move Files":
		p.fileOps.kind = KindRename
	case "Remove Files":
		p.fileOps.kind = KindDelete
	}
	return p.fileOps.kind != ""
}

// fileOp reads a bullet of such a list. It counts once the list has ended with
// <EndPlandexFileOps/>: the heading alone is what anybody may write.
func (p *Parser) fileOp(start, end int, text string) bool {
	ops := &p.fileOps
	from, to, moved := strings.Cut(strings.ReplaceAll(text, "->", "→"), "→")
	if moved != (ops.kind == KindRename) {
		return false
	}
	span := Span{start, min(end+1, len(p.buf))}
	it := p.newItem(ops.kind, FormList, candidate{raw: strings.TrimSpace(from), from: PathHeader, conf: 0.9}, span, span)
	if pathShape(it.Path) < shapeWeak && it.Verdict != VerdictRefused {
		return false
	}
	if moved {
		p.rename(it, strings.TrimSpace(to), start)
	}
	ops.ops = append(ops.ops, it)
	p.remember(start, end)
	return true
}

func (p *Parser) endFileOps() {
	for _, it := range p.fileOps.ops {
		p.add(it)
	}
	p.fileOps = fileOps{}
	p.above, p.sibling, p.blanks = Span{}, Span{}, 0
}
