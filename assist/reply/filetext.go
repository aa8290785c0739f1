package reply

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// byteOrderMark is the byte order mark in UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// fileText is a file's text in lines, each with its own ending.
type fileText struct {
	bom   bool
	lines []string // without endings
	ends  []string // "\n", "\r\n", or "" for the last
	eol   string   // what most lines end with
	mixed bool
	// chooser, if there is one, takes one of several places where a hunk fits in
	// all of them; several is then where they are, from 1, and taken which it is.
	chooser *chooser
	several []int
	taken   int
	// folds are the lines as numbers, once a search needed them.
	folds [len(folds)]*folded
	work  *work
}

// clone returns a copy that can be changed.
func (t *fileText) clone() *fileText {
	c := *t
	c.lines, c.ends = slices.Clone(t.lines), slices.Clone(t.ends)
	for i, f := range t.folds {
		if f != nil {
			c.folds[i] = &folded{f.fold, slices.Clone(f.ids), f.known}
		}
	}
	return &c
}

// readText splits a file into lines. A lone carriage return is no line ending.
func readText(b []byte) (*fileText, error) {
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return nil, fmt.Errorf("%w: it is not UTF-8, or holds zero bytes", ErrNotText)
	}
	t := &fileText{work: &work{maxWork}}
	s := string(b)
	s, t.bom = strings.CutPrefix(s, byteOrderMark)
	n := strings.Count(s, "\n") + 1
	t.lines, t.ends = make([]string, 0, n), make([]string, 0, n)
	crlf := 0
	for len(s) > 0 {
		i := strings.IndexByte(s, '\n')
		if i < 0 {
			t.lines, t.ends = append(t.lines, s), append(t.ends, "")
			break
		}
		line, end := s[:i], "\n"
		if strings.HasSuffix(line, "\r") {
			line, end = line[:i-1], "\r\n"
			crlf++
		}
		t.lines, t.ends = append(t.lines, line), append(t.ends, end)
		s = s[i+1:]
	}
	t.eol = "\n"
	if all := n - 1; crlf*2 > all || crlf > 0 && crlf*2 == all && t.ends[0] == "\r\n" { // half and half: as the first line
		t.eol = "\r\n"
	}
	t.mixed = crlf > 0 && crlf < n-1
	return t, nil
}

// bytes returns the text as bytes.
func (t *fileText) bytes() []byte {
	size := len(byteOrderMark)
	for i := range t.lines {
		size += len(t.lines[i]) + 2
	}
	out := make([]byte, 0, size)
	if t.bom {
		out = append(out, byteOrderMark...)
	}
	for i := range t.lines {
		out = append(append(out, t.lines[i]...), t.ends[i]...)
	}
	return out
}

// unended reports whether the last line has no ending.
func (t *fileText) unended() bool {
	return len(t.ends) > 0 && t.ends[len(t.ends)-1] == ""
}

// adopt returns a new content with the byte order mark, line endings and final
// newline of the current file. If the file mixes line endings, unchanged lines at
// both ends keep theirs.
func (t *fileText) adopt(content []byte) []byte {
	next, err := readText(content)
	if err != nil {
		return content
	}
	next.bom = t.bom
	last := len(next.lines) - 1
	for i := range next.ends {
		next.ends[i] = t.eol
	}
	if t.mixed {
		keepEnds(t, next)
	}
	if last >= 0 {
		switch {
		case t.unended():
			next.ends[last] = ""
		case next.ends[last] == "":
			next.ends[last] = t.eol
		}
	}
	return next.bytes()
}

// keepEnds sets the endings of lines that two texts share at both ends to those of
// the first.
func keepEnds(old, next *fileText) {
	head := 0
	for head < len(old.lines) && head < len(next.lines) && old.lines[head] == next.lines[head] {
		if old.ends[head] != "" {
			next.ends[head] = old.ends[head]
		}
		head++
	}
	for i, j := len(old.lines)-1, len(next.lines)-1; i >= head && j >= head && old.lines[i] == next.lines[j]; i, j = i-1,
		j-1 {
		if old.ends[i] != "" {
			next.ends[j] = old.ends[i]
		}
	}
}

// change replaces the old lines of a hunk by the new ones. It returns by how many
// lines the text grew.
func (t *fileText) change(h *Hunk, at place) int {
	var lines, ends []string
	begun := false
	old := at.line
	end := at.line + at.count
	for _, line := range h.Lines[at.skip : len(h.Lines)-at.skipEnd] {
		switch line.Op {
		case ' ':
			lines, ends = append(lines, t.lines[old]), append(ends, t.ends[old])
			old++
			begun = true
		case '-':
			old++
		default:
			text := line.Text
			if at.fuzz == FuzzIndent {
				text = at.shift.apply(text, !begun)
			}
			begun = true
			lines, ends = append(lines, text), append(ends, t.eol)
		}
	}
	atEnd := end == len(t.lines)
	bare := t.unended()
	t.lines = slices.Replace(t.lines, at.line, end, lines...)
	t.ends = slices.Replace(t.ends, at.line, end, ends...)
	for _, f := range t.folds {
		if f != nil {
			f.ids = slices.Replace(f.ids, at.line, end, f.numbers(lines)...)
		}
	}
	if len(lines) != at.count {
		t.work.spend(3 * (len(t.lines) - at.line)) // they were moved
	}
	if atEnd {
		t.finish(h, bare, at.line)
	}
	return len(lines) - at.count
}

// finish sets the ending of the last line after a change at the end, which begins at a
// line: as it was, unless the hunk says otherwise.
func (t *fileText) finish(h *Hunk, bare bool, from int) {
	last := len(t.lines) - 1
	if last < 0 {
		return
	}
	for i := max(0, from-1); i < last; i++ { // only the last line of a text can be without one
		if t.ends[i] == "" {
			t.ends[i] = t.eol
		}
	}
	switch {
	case h.NewNoEOL, bare && !h.OldNoEOL:
		t.ends[last] = ""
	case t.ends[last] == "":
		t.ends[last] = t.eol
	}
}
