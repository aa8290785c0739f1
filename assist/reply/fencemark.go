package reply

import "bytes"

// fenceMark is a line that opens or closes a fence, or could.
type fenceMark struct {
	start, end int // the line, without its line feed
	char       byte
	length     int
	column     int
	opens      bool // it can only open: it has an info string, or a list's mark before it
	named      bool // its info string is a path, or a language and a path
	file       bool // the latter, as only replies have it
	markup     bool // it would open a document
	nest       bool // it would open a document inside of a document
	gapBefore  bool // a blank line, or nothing, stands before it
	gapBehind  bool
	abuts      bool // the line before is a mark
	before     bool // the next line opens a fence with an info string
	text       int  // how much the lines behind it, up to the next, look like a document's text
}

// costIf returns a cost that counts only under a condition.
func costIf(condition bool, cost int) int {
	if condition {
		return cost
	}
	return 0
}

func (m *fenceMark) openCost() int {
	return costIf(m.gapBehind, costGap) + costIf(!m.gapBefore && !m.named, costTight) +
		costIf(m.abuts && !m.opens, costAbut)
}

func (m *fenceMark) closeCost() int {
	return costIf(m.gapBefore, costGap) + costIf(!m.gapBehind, costTight)
}

// endCost returns the cost of the mark as a document's own closing fence.
func (m *fenceMark) endCost(indent int) int {
	return costIf(m.gapBefore, costEndGap) + costIf(!m.gapBehind && !m.before, costEndTight) +
		costIf(m.column != indent, costShape) + costIf(m.length != 3, costShape)
}

// fenceMarks collects the marks from an offset on. Those inside of edits are
// the edits' own, and those deeper than a fence at this indentation can be are
// a list's.
func (p *Parser) fenceMarks(from, indent int) []fenceMark {
	var marks []fenceMark
	var above Span
	blanks, inHunk, abuts := 1, false, false
	for start := from; start < len(p.buf); {
		end := p.lineEnd(start)
		line := p.text(start, end)
		next := end + 1
		if len(marks) > 0 {
			marks[len(marks)-1].text += textScore(line, blanks > 0)
		}
		if blank(line) {
			blanks, abuts = blanks+1, false
			start = next
			continue
		}
		m, ok := readMark(line)
		switch {
		case isSearchMark(line):
			inHunk = true
		case inHunk && isReplaceMark(line):
			inHunk = false
		}
		if ok = ok && !inHunk && m.column <= indent+3; ok {
			m.start, m.end, m.abuts = start, end, abuts
			m.gapBefore = blanks > 0
			m.gapBehind = next >= len(p.buf) || blank(p.text(next, p.lineEnd(next)))
			p.classify(&m, above, blanks)
			if abuts && m.opens {
				marks[len(marks)-1].before = true
			}
			marks = append(marks, m)
		}
		above, blanks, abuts = Span{start, end}, 0, ok
		start = next
	}
	return marks
}

// readMark parses a line that opens or closes a fence. A list marker may precede an opening
// run.
func readMark(line []byte) (m fenceMark, ok bool) {
	column, length, at, char := run(line)
	if length == 0 && at < len(line) {
		i := listMark(line, at)
		if i == 0 {
			return m, false
		}
		var end int
		column, length, end, char = runFrom(line[i:], column+i-at)
		at = i + end
		m.opens = true
	}
	if length < 3 {
		return m, false
	}
	rest := bytes.TrimSpace(line[at:])
	if char == '`' && bytes.IndexByte(rest, '`') >= 0 {
		return m, false
	}
	m.char, m.length, m.column = char, length, column
	m.opens = m.opens || len(rest) > 0
	return m, true
}

// wordByte is 1 for the letters of ASCII and all bytes of others.
var wordByte = func() (t [256]uint8) {
	for c := range t {
		if c >= 0x80 || isLetter(byte(c)) {
			t[c] = 1
		}
	}
	return t
}()

// textScore says how much a line looks like one of a document's text and unlike
// code: a heading, a link, a sentence.
func textScore(line []byte, afterBlank bool) int {
	line = bytes.TrimLeft(line, " \t")
	if len(line) < 4 {
		return 0
	}
	if title := bytes.TrimLeft(line, "#"); len(title) < len(line) && afterBlank && len(title) > 1 && title[0] == ' ' &&
		len(line)-len(title) <= 6 {
		if len(line)-len(title) == 1 {
			return 1 // also a comment
		}
		return 3
	}
	score := 0
	if bytes.Contains(line, []byte("](")) {
		score = 2
	}
	spaces := bytes.Count(line, []byte(" "))
	if spaces < 5 && len(line) < 45 || line[0] == '/' || line[0] == '#' {
		return score
	}
	words, wide := spaces, 0
	for _, c := range line {
		words += int(wordByte[c])
		wide += int(c >> 7)
	}
	if words < len(line)*85/100 || spaces < 5 && wide < 45 {
		return score
	}
	return score + 1
}

// classify sets what a mark would open.
func (p *Parser) classify(m *fenceMark, above Span, blanks int) {
	line := p.text(m.start, m.end)
	in := parseInfo(string(bytes.TrimSpace(bytes.TrimLeft(line[bytes.IndexByte(line, m.char):], string(m.char)))))
	d := language(in.lang)
	m.nest = m.opens && d.is(classMarkup) && !d.is(classPlain)
	m.named = in.raw != "" && (in.from == PathInfo || in.from == PathBareInfo)
	m.file = m.named && in.from == PathInfo && d.known()
	raw := in.raw
	if raw == "" && blanks <= 1 && above.Len() > 0 {
		c, ok := pathAbove(p.text(above.Start, above.End), nil)
		if ok && c.from == PathAbove && fits(in.lang, pathOf(c.raw)) {
			raw = c.raw
		}
	}
	m.markup = m.nest
	if raw != "" {
		path := pathOf(raw)
		m.markup = IsMarkup(path) || m.nest && family(path) == ""
	}
}
