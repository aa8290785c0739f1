package reply

import (
	"slices"
	"strings"
)

// shift is how the indentation of a hunk's lines differs from that of the lines
// in the file: by a prefix of all lines, by tabs that the one has and the other
// has not, or in the first line only.
type shift struct {
	add, remove string
	// tab is the number of spaces that stand for a tab: toTabs in the hunk, else
	// in the file.
	tab    int
	toTabs bool
	// first says that only the first line differs. Its indentation in the hunk
	// is remove, in the file add.
	first bool
}

// shiftOf finds the shift between lines that are the same but for white space at
// their ends.
func shiftOf(old, file []string) (shift, bool) {
	for _, find := range [...]func(old, file []string) (shift, bool){uniformShift, tabShift, firstShift} {
		if s, ok := find(old, file); ok {
			return s, true
		}
	}
	return shift{}, false
}

// uniformShift finds the indentation by which all lines differ.
func uniformShift(old, file []string) (shift, bool) {
	var s shift
	known := false
	for i := range old {
		if strings.TrimSpace(old[i]) == "" {
			continue
		}
		a, b := indentation(old[i]), indentation(file[i])
		var here shift
		switch {
		case strings.HasSuffix(b, a):
			here.add = b[:len(b)-len(a)]
		case strings.HasSuffix(a, b):
			here.remove = a[:len(a)-len(b)]
		default:
			return s, false
		}
		if known && here != s {
			return s, false
		}
		s, known = here, true
	}
	return s, known
}

// tabShift finds how many spaces of the one stand for a tab of the other.
func tabShift(old, file []string) (shift, bool) {
	var s shift
	for i := range old {
		a, b := indentation(old[i]), indentation(file[i])
		if strings.TrimSpace(old[i]) == "" || a == "" && b == "" {
			continue
		}
		spaces, tabs, toTabs := a, b, true
		if strings.HasPrefix(a, "\t") {
			spaces, tabs, toTabs = b, a, false
		}
		if strings.Trim(spaces, " ") != "" || strings.Trim(tabs, "\t") != "" || tabs == "" || len(spaces)%len(tabs) != 0 {
			return s, false
		}
		here := shift{tab: len(spaces) / len(tabs), toTabs: toTabs}
		if here.tab < 2 || here.tab > 8 || s.tab > 0 && here != s {
			return s, false
		}
		s = here
	}
	return s, s.tab > 0
}

// firstShift finds a shift of the first line only. Models often begin a search
// behind that line's indentation.
func firstShift(old, file []string) (shift, bool) {
	for i := 1; i < len(old); i++ {
		if trailing(old[i]) != trailing(file[i]) {
			return shift{}, false
		}
	}
	return shift{add: indentation(file[0]), remove: indentation(old[0]), first: true}, len(old) > 1
}

// fits reports whether it is clear what a shift makes of a hunk's new lines.
func (s shift) fits(h *Hunk) bool {
	begun := false
	var known []string // indentations that old lines behind the first one have, as in the file
	for i, line := range h.Lines {
		if line.Op != '+' && i > 0 {
			known = append(known, indentation(line.Text))
		}
	}
	for _, line := range h.Lines {
		if line.Op == '-' {
			continue
		}
		first := !begun
		begun = true
		if line.Op != '+' || strings.TrimSpace(line.Text) == "" {
			continue
		}
		in := indentation(line.Text)
		switch {
		case s.first && first:
			if in != s.remove {
				return false
			}
		case s.first:
			// A line as far out as the first one may have lost as much.
			if len(in) <= max(len(s.remove), len(s.add)-1) && !slices.Contains(known, in) {
				return false
			}
		case s.tab > 0 && s.toTabs:
			if strings.Trim(in, " ") != "" || len(in)%s.tab != 0 {
				return false
			}
		case s.tab > 0:
			if strings.Trim(in, "\t") != "" {
				return false
			}
		case !strings.HasPrefix(in, s.remove):
			return false
		}
	}
	return true
}

// apply shifts a new line; first says that it is the first of the hunk's new
// lines.
func (s shift) apply(line string, first bool) string {
	if strings.TrimSpace(line) == "" || s.first && !first {
		return line
	}
	in := indentation(line)
	rest := line[len(in):]
	switch {
	case s.tab > 0 && s.toTabs:
		return strings.Repeat("\t", len(in)/s.tab) + rest
	case s.tab > 0:
		return strings.Repeat(" ", len(in)*s.tab) + rest
	}
	return s.add + strings.TrimPrefix(line, s.remove)
}

// leastLines is how many lines with text a hunk must have to be looked for
// without regard to blank lines.
const leastLines = 3

// withBlanks finds the only place at which a hunk's old lines stand but for
// blank lines, and gives the hunk those of the file.
func (t *fileText) withBlanks(h *Hunk, from int) (place, bool) {
	var old []string
	for _, line := range h.Lines {
		if line.Op != '+' && strings.TrimSpace(line.Text) != "" {
			old = append(old, trailing(line.Text))
		}
	}
	if len(old) < leastLines || h.EOF {
		return place{}, false
	}
	all := t.folded(foldTrailing)
	run, ok := all.run(old)
	if !ok || !t.work.spend(len(t.lines)-from) {
		return place{}, false
	}
	blank, ok := all.known[""]
	if !ok {
		blank = ^uint32(0) // the file has no blank line
	}
	text := &folded{ids: make([]uint32, 0, len(t.lines)-from)}
	at := make([]int, 0, len(t.lines)-from) // the lines of the file that are not blank
	for i := from; i < len(t.lines); i++ {
		if id := all.ids[i]; id != blank {
			text.ids, at = append(text.ids, id), append(at, i)
		}
	}
	var found []int
	t.work.spend(text.places(run, 0, func(line int) bool {
		found = append(found, line)
		return len(found) < 2
	}))
	if len(found) != 1 {
		return place{}, false
	}
	first, last := at[found[0]], at[found[0]+len(old)-1]
	return place{line: first, count: last + 1 - first, fuzz: FuzzBlank, hunk: t.blanksOf(h, first, last)}, true
}

// blanksOf is a hunk with the blank lines that stand in the file between its
// lines. One goes if the lines around it go.
func (t *fileText) blanksOf(h *Hunk, first, last int) *Hunk {
	next := *h
	next.Lines = nil
	line := first
	before := byte(' ')
	for _, l := range h.Lines {
		if l.Op == '+' {
			next.Lines = append(next.Lines, l)
			continue
		}
		if strings.TrimSpace(l.Text) == "" {
			continue
		}
		for ; line < last && strings.TrimSpace(t.lines[line]) == ""; line++ {
			op := byte(' ')
			if before == '-' && l.Op == '-' {
				op = '-'
			}
			next.Lines = append(next.Lines, Line{op, t.lines[line]})
		}
		next.Lines = append(next.Lines, Line{l.Op, t.lines[line]})
		before = l.Op
		line++
	}
	return &next
}

// pieces splits a hunk at lines of dots, which stand for lines that stay where
// the old and the new text have the same number of them.
func (h *Hunk) pieces() ([]*Hunk, bool) {
	if !slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Op != '+' && isDots(strings.TrimSpace(l.Text)) }) {
		return []*Hunk{h}, false
	}
	split := func(op byte) [][]string {
		parts := [][]string{nil}
		for _, l := range h.Lines {
			switch {
			case l.Op != ' ' && l.Op != op:
			case isDots(strings.TrimSpace(l.Text)):
				parts = append(parts, nil)
			default:
				parts[len(parts)-1] = append(parts[len(parts)-1], l.Text)
			}
		}
		return parts
	}
	old, new := split('-'), split('+')
	if len(old) != len(new) || len(h.Context) > 0 {
		return []*Hunk{h}, false
	}
	var pieces []*Hunk
	for i := range old {
		if len(old[i]) == 0 && len(new[i]) > 0 {
			return []*Hunk{h}, false // it adds, and does not say where
		}
		if len(old[i]) > 0 {
			pieces = append(pieces, &Hunk{Lines: opsOf(old[i], new[i]), Span: h.Span})
		}
	}
	return pieces, true
}

// elides reports whether the new text leaves out what the old one has: it has
// dots that the old text has not.
func (h *Hunk) elides(line Line, lang string) bool {
	if line.Op != '+' || !isElision([]byte(line.Text), lang) {
		return false
	}
	if _, paired := h.pieces(); paired && isDots(strings.TrimSpace(line.Text)) {
		return false
	}
	return !slices.ContainsFunc(h.Lines, func(l Line) bool {
		return l.Op == '-' && strings.TrimSpace(l.Text) == strings.TrimSpace(line.Text)
	})
}
