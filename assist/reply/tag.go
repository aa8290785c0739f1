package reply

import (
	"bytes"
	"strings"
)

// tag is an open tag with a file's content: <file path="p">, a tag that stands
// for a fence, or a call of a tool.
type tag struct {
	name        string
	start, body int
	where       candidate
	lang        string
	depth       int
	elided      bool
	// fenced: it stands for a code fence, so that what a fence may hold is in it.
	fenced bool
	call   bool // of a tool
	// foreign is the tag of another tool, which is not read.
	foreign string
}

// fileOps is an open list under ### Move Files or ### Remove Files.
type fileOps struct {
	kind Kind
	ops  []*Item
}

// openTag begins a file in a tag: <file path="p">, <boltAction type="file"
// filePath="p">, <PlandexBlock lang="go" path="p">, <source> below a path.
func (p *Parser) openTag(start, end int, line []byte) bool {
	if bytes.HasPrefix(line, []byte("<EndPlandexFileOps")) {
		p.endFileOps()
		return true
	}
	if bytes.HasPrefix(line, []byte("<boltArtifact ")) { // its first action may follow on the line
		if i := bytes.IndexByte(line, '>') + 1; bytes.HasPrefix(line[i:], []byte("<boltAction ")) {
			start, line = start+i, line[i:]
		}
	}
	if p.lastTag != nil && bytes.HasPrefix(line, []byte("</"+p.lastTagName+">")) {
		p.revise(p.lastTag, VerdictAmbiguous, "its closing tag stands twice: the first may belong to its content")
		p.lastTag = nil
		return false
	}
	name, attributes, ok := fileTag(line)
	if !ok {
		return false
	}
	t := tag{name: name, start: start, fenced: fenceTag(name)}
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
		case "path", "filepath", "file_path", "name", "filename", "file":
			t.where = tagPath(value)
		}
	}
	rest := string(bytes.TrimSpace(line[bytes.IndexByte(line, '>')+1:]))
	if t.where.raw == "" && t.fenced && attributes == "" && (rest == "" || isLanguage(rest)) {
		t.where, t.lang = p.nameAbove(rest), rest
		line = line[:bytes.IndexByte(line, '>')+1]
		end = start + bytes.IndexByte(p.buf[start:end], '>') + 1
	}
	if t.where.raw == "" {
		return false
	}
	if name == "code" || name == "pre" {
		t.where.doubt(0.7, "<"+name+"> is HTML, which may only show code")
	}
	p.beginTag(t, end, line)
	return true
}

// tagPath returns the path in a tag.
func tagPath(value string) candidate {
	c := candidate{raw: value, from: PathTag, conf: 0.95}
	if pathShape(value) < shapeStrong && refusal(value) == "" {
		c.doubt(0.7, "it may be no path")
	}
	return c
}

// beginTag begins to read what stands in a tag, from the tag's own line on.
func (p *Parser) beginTag(t tag, end int, line []byte) {
	closing := bytes.IndexByte(line, '>')
	t.body = t.start + bytes.IndexByte(p.buf[t.start:end], '<') + closing + 1
	p.mode, p.tag = inTag, t
	if rest := p.text(t.body, end); blank(rest) {
		p.tag.body = p.next
	} else {
		p.tagLine(t.body, end)
	}
}

// fenceTag reports whether a tag can stand for a code fence, as in aider.
func fenceTag(name string) bool {
	switch name {
	case "source", "sourcecode", "codeblock", "code", "pre":
		return true
	}
	return false
}

// fileTag cuts a tag that can hold a file into its name and attributes.
func fileTag(line []byte) (name, attributes string, ok bool) {
	closing := bytes.IndexByte(line, '>')
	if closing < 0 || closing > 500 || line[closing-1] == '/' {
		return "", "", false
	}
	name, attributes, ok = strings.Cut(string(line[1:closing]), " ")
	switch name {
	case "file", "boltAction", "PlandexBlock", "dyad-write", "lov-write", "create_file":
		return name, strings.TrimSpace(attributes), ok
	}
	if fenceTag(name) {
		return name, strings.TrimSpace(attributes), true
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
	trimmed := bytes.TrimSuffix(bytes.TrimSpace(line), []byte("</boltArtifact>"))
	if bytes.HasPrefix(trimmed, []byte("<"+t.name+">")) || !t.fenced && bytes.HasPrefix(trimmed, []byte("<"+t.name+" ")) {
		if !bytes.HasSuffix(trimmed, closing) && !bytes.HasSuffix(trimmed, []byte("/>")) {
			t.depth++
		}
		return
	}
	switch {
	case !bytes.HasPrefix(trimmed, closing) && (t.fenced || !bytes.HasSuffix(trimmed, closing)):
		return
	case t.depth > 0:
		t.depth--
		return
	}
	at := start + bytes.Index(line, closing)
	rest := at + len(closing)
	if start > t.body && blank(p.buf[start:at]) {
		at = start // the closing tag is indented
	}
	if next := bytes.TrimLeft(p.text(rest, end), " \t"); len(next) > 1 && len(next) < 4096 && next[0] == '<' &&
		next[1] != '/' {
		p.endTag(at, rest, false)
		p.line(rest, end) // a second tag on the same line
		return
	}
	p.endTag(at, p.after(end), false)
}

// endTag adds the items of a tag.
func (p *Parser) endTag(bodyEnd, end int, truncated bool) {
	t := p.tag
	p.mode, p.tag = inProse, tag{}
	span, body := Span{t.start, end}, Span{t.body, max(t.body, bodyEnd)}
	var items []*Item
	switch {
	case t.foreign != "":
		items = []*Item{p.readForeign(&t, span)}
	case t.call:
		items = p.readCall(&t, span, body)
	default:
		items = p.readTag(&t, span, body)
	}
	p.forget()
	for _, it := range items {
		if truncated {
			it.downgrade(VerdictTruncated, "the reply ended inside of it")
		}
		p.add(it)
		if t.name == "file" || t.fenced {
			p.lastTag, p.lastTagName = it, t.name
		}
	}
}

// readTag returns the items of a tag: the file, or edits of it.
func (p *Parser) readTag(t *tag, span, body Span) []*Item {
	f := fence{indent: 0, info: info{lang: t.lang}, scan: scan{elided: t.elided}}
	content := f.content(p.buf[body.Start:body.End])
	if first, _, _ := bytes.Cut(bytes.TrimSpace(content), []byte("\n")); t.fenced && isSearchMark(first) {
		return p.readSearches(p.bodyLines(body.Start, body.End, 0), t.where, &f, span, body)
	}
	it := p.newItem(KindFile, FormTag, t.where, span, body)
	it.Lang = t.lang
	it.Content = unpacked(content, it.Path)
	p.judgeFile(it, &f)
	if bytes.Contains(it.Content, []byte("<<<<<<< SEARCH")) || looksLikeDiff(it.Content) {
		it.downgrade(VerdictPartial, "it holds edits, not the file")
	}
	return []*Item{it}
}

// unpacked removes a fence or a CDATA section that is all of a tag's content.
func unpacked(content []byte, path string) []byte {
	if inner, ok := onlyFence(content); ok && !IsMarkup(path) {
		return inner
	}
	if body := bytes.TrimSpace(content); bytes.HasPrefix(body, []byte("<![CDATA[")) &&
		bytes.HasSuffix(body, []byte("]]>")) {
		return bytes.TrimPrefix(body[len("<![CDATA["):len(body)-len("]]>")], []byte("\n"))
	}
	return content
}

// onlyFence returns the body of a fence that is the whole content of a tag.
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

// fileOpsHeading reports whether a line is ### Move Files or ### Remove Files.
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

// fileOp reads a bullet of such a list. Its items are added once the list has ended
// with <EndPlandexFileOps/>, since any reply may have such a heading.
func (p *Parser) fileOp(start, end int, text string) bool {
	ops := &p.fileOps
	from, to, moved := strings.Cut(strings.ReplaceAll(text, "->", "→"), "→")
	if moved != (ops.kind == KindRename) {
		return false
	}
	span := Span{start, p.after(end)}
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
	p.forget()
}
