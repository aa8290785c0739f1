package reply

import (
	"bytes"
	"slices"
	"strings"
)

// thought is an open <think>.
type thought struct {
	name []byte
	body int
}

// thoughts are the tags in which models think aloud.
var thoughts = [...]string{"think", "thinking", "thought", "reasoning", "reflection", "scratchpad", "antthinking",
	"analysis"}

// shows are tags around examples. Indented calls are examples, too.
var shows = slices.Concat([]string{"example", "examples", "sample"}, calls[:])

// tagLike reads a line with an angle bracket: the beginning of a thought, the end of a
// thought without a beginning, or a tag with a file.
func (p *Parser) tagLike(start, end, column int, line []byte, at int) bool {
	if line[at] == '<' && (column <= 3 && p.openCall(start, end, line[at:]) || p.doubtlessThought(start, end, line, at)) {
		return true
	}
	if p.orphanThought(start, end, line) {
		return true
	}
	return line[at] == '<' && column <= 3 && (p.openTag(start, end, line[at:]) || p.openForeign(start, end, line[at:]))
}

func (p *Parser) doubtlessThought(start, end int, line []byte, at int) bool {
	if p.doubt != "" {
		return false // it was opened once, and did not end
	}
	open, closing := thoughtTag(line[at:])
	if open == 0 {
		return false
	}
	p.thought = thought{name: []byte(closing), body: start + at + open}
	p.mode = inThought
	p.thoughtLine(p.thought.body, end)
	return true
}

// thoughtTag returns how long the tag is with which a line begins, and what
// ends it; 0 if it begins with none.
func thoughtTag(line []byte) (open int, closing string) {
	if bytes.HasPrefix(line, []byte("<!--")) {
		return len("<!--"), "-->"
	}
	end := bytes.IndexByte(line[:min(len(line), 24)], '>')
	if end < 2 {
		return 0, ""
	}
	name := strings.ToLower(string(line[1:end]))
	if slices.Contains(thoughts[:], name) || slices.Contains(shows, name) {
		return end + 1, "</" + name + ">"
	}
	return 0, ""
}

// thoughtLine looks for the thought's end. What stands behind it is a line.
func (p *Parser) thoughtLine(start, end int) {
	line := p.text(start, end)
	i := indexFold(line, p.thought.name)
	if i < 0 {
		return
	}
	p.mode = inProse
	p.forget()
	if rest := start + i + len(p.thought.name); rest < end && !blank(p.text(rest, end)) {
		p.line(rest, end)
	}
}

// orphanThought reads the end of a thought that has no beginning: all before it is
// the thought.
func (p *Parser) orphanThought(start, end int, line []byte) bool {
	if !bytes.Contains(line, []byte("</")) {
		return false
	}
	for _, name := range thoughts {
		closing := []byte("</" + name + ">")
		i := indexFold(line, closing)
		if i < 0 || i > 0 && line[i-1] == '`' {
			continue
		}
		for _, it := range p.items[p.thoughtItems:] {
			p.revise(it, VerdictExample, "it stands in a thought of the model")
		}
		if p.block != nil {
			p.block.thought = true
			p.closeBlock(start, false)
		}
		p.thoughtItems = len(p.items)
		p.byPath, p.edits, p.lastEdit, p.last = nil, nil, nil, closedFence{}
		p.wrapper, p.below = wrapper{}, nil
		p.begun = false
		p.forget()
		if rest := start + i + len(closing); rest < end && !blank(p.text(rest, end)) {
			p.line(rest, end)
		}
		return true
	}
	return false
}

// indexFold is bytes.Index ignoring the case of ASCII letters. what must be short and lower
// case.
func indexFold(line, what []byte) int {
	for at := 0; at+len(what) <= len(line); at++ {
		i := bytes.IndexByte(line[at:], what[0])
		if i < 0 || at+i+len(what) > len(line) {
			return -1
		}
		at += i
		if bytes.EqualFold(line[at:at+len(what)], what) {
			return at
		}
	}
	return -1
}
