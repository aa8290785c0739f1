package reply

import (
	"bytes"
	"slices"
	"strings"
)

// calls are the tags of tools that change files in Cline, Roo and similar agents.
// A reply may only show them, so the user decides, unless the lines that an edit
// looks for are in its file.
var calls = [...]string{"write_to_file", "replace_in_file", "apply_diff", "search_and_replace", "insert_content"}

// openCall begins a call of a tool.
func (p *Parser) openCall(start, end int, line []byte) bool {
	closing := bytes.IndexByte(line[:min(len(line), 24)], '>')
	if closing < 0 || !slices.Contains(calls[:], string(line[1:closing])) {
		return false
	}
	p.beginTag(tag{name: string(line[1:closing]), start: start, call: true}, end, line)
	return true
}

// readCall returns the items of a call, at least one, so that none is overlooked.
func (p *Parser) readCall(t *tag, span, body Span) []*Item {
	doubt := "it is a call of a tool, " + t.name + ", which the reply may only show"
	switch t.name {
	case "write_to_file":
		it := p.writeCall(t, span, body)
		it.downgrade(VerdictAmbiguous, doubt)
		return []*Item{it}
	case "replace_in_file", "apply_diff":
		items := p.editCall(span, body)
		for _, it := range items {
			if it.OK() {
				it.Guessed = it.downgrade(VerdictAmbiguous, doubt)
			}
		}
		return items
	}
	it := p.callItem(KindEdit, callPath(p.buf[body.Start:body.End]), span, body)
	it.downgrade(VerdictInvalid, "the tool "+t.name+" is not supported; ask for a SEARCH/REPLACE edit")
	return []*Item{it}
}

// callItem returns the item of a call whose path may be missing.
func (p *Parser) callItem(kind Kind, path string, span, body Span) *Item {
	if path == "" {
		return &Item{Kind: kind, Form: FormTag, Span: span, Body: body, Verdict: VerdictInvalid,
			Reason: "a call of a tool names no file"}
	}
	return p.newItem(kind, FormTag, tagPath(path), span, body)
}

// callPath returns the content of the first <path>.
func callPath(text []byte) string {
	_, rest, _ := bytes.Cut(text, []byte("<path>"))
	path, _, ok := bytes.Cut(rest[:min(len(rest), 1000)], []byte("</path>"))
	if !ok {
		return ""
	}
	return strings.TrimSpace(string(path))
}

// writeCall reads <path>p</path><content>...</content>. Of several </content>
// the last one counts.
func (p *Parser) writeCall(t *tag, span, body Span) *Item {
	const open, closing = "<content>", "</content>"
	text := p.buf[body.Start:body.End]
	head, rest, _ := bytes.Cut(text, []byte(open))
	first, last := bytes.Index(rest, []byte(closing)), bytes.LastIndex(rest, []byte(closing))
	path := callPath(head)
	if path == "" && last >= 0 {
		path = callPath(rest[last:])
	}
	it := p.callItem(KindFile, path, span, body)
	if last < 0 {
		it.downgrade(VerdictInvalid, "the call has no <content>, or it does not end")
		return it
	}
	at := body.Start + len(head) + len(open)
	it.Body = Span{at, at + last}
	f := fence{scan: scan{elided: t.elided}}
	it.Content = callContent(f.content(rest[:last]), it.Path)
	p.judgeFile(it, &f)
	if first < last && it.Proposable() {
		it.Readings = append(it.Readings, Reading{"ends at the last " + closing, it.Content},
			Reading{"ends at the first " + closing, callContent(f.content(rest[:first]), it.Path)})
	}
	return it
}

// callContent returns the content without the line ends behind <content> and before
// </content>, where the tags stand on lines of their own.
func callContent(content []byte, path string) []byte {
	if line, rest, ok := bytes.Cut(content, []byte("\n")); ok && blank(line) {
		content = rest
	}
	if last := bytes.LastIndexByte(content, '\n') + 1; blank(content[last:]) {
		content = content[:last]
	}
	return unpacked(content, path)
}

// editCall reads <path>p</path><diff> with SEARCH/REPLACE hunks, for one file or
// several. Other tags may stand around the hunks.
func (p *Parser) editCall(span, body Span) []*Item {
	var (
		items  []*Item
		path   string
		lines  []bodyLine
		inside bool
	)
	end := func() {
		items = append(items, p.editOf(path, lines, span, body))
		lines = nil
	}
	for _, line := range p.bodyLines(body.Start, body.End, 0) {
		text := []byte(strings.TrimSpace(line.text))
		switch {
		case isSearchMark(text):
			inside = true
		case isReplaceMark(text):
			inside = false
			lines = append(lines, line)
			continue
		case !inside && bytes.HasPrefix(text, []byte("<path>")):
			if path != "" {
				end()
			}
			path = callPath(text)
			continue
		}
		if inside {
			lines = append(lines, line)
		}
	}
	end()
	return items
}

// editOf makes an item of the hunks for a path.
func (p *Parser) editOf(path string, lines []bodyLine, span, body Span) *Item {
	it := p.callItem(KindEdit, path, span, body)
	groups, _, problem := parseSearches(lines)
	switch {
	case problem != "":
		it.downgrade(VerdictInvalid, problem)
	case len(groups) == 0:
		it.downgrade(VerdictInvalid, "the call has no SEARCH/REPLACE edit")
	case path == "" || it.Verdict == VerdictRefused:
		it.Hunks = groups[0].hunks
	default:
		return p.newEdit(tagPath(path), groups[0].hunks, span, body)
	}
	return it
}
