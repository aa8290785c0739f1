package reply

import "strings"

// place is where a hunk goes.
type place struct {
	line, count int
	fuzz        Fuzz
	shift       shift
	hinted      bool
	// skip and skipEnd are lines of the hunk that were left out of the search:
	// empty lines of context at its ends, which models add.
	skip, skipEnd int
	// hunk is the hunk with the blank lines that the file has, where they differ.
	hunk *Hunk
}

// find returns the place of a hunk: its old lines from a line on, else anywhere.
func (t *fileText) find(h *Hunk, from, delta int) (place, error) {
	t.several = nil
	var old []string
	for _, line := range h.Lines {
		if line.Op != '+' {
			old = append(old, line.Text)
		}
	}
	start := from
	for _, context := range h.Context {
		at, err := t.findContext(context, start)
		if err != nil {
			return place{}, err
		}
		start = at + 1
	}
	if len(old) == 0 {
		return t.insertion(h, start, delta)
	}
	p, err := t.search(old, h, start, delta)
	if err != nil && start > 0 && len(h.Context) == 0 {
		if anywhere, second := t.search(old, h, 0, delta); second == nil {
			return anywhere, nil
		}
	}
	if err != nil {
		if trimmed, skip, skipEnd := trimContext(h, old); len(trimmed) > 0 && len(trimmed) < len(old) {
			if p, second := t.search(trimmed, h, start, delta); second == nil {
				p.skip, p.skipEnd = skip, skipEnd
				return p, nil
			}
		}
	}
	return p, err
}

// trimContext removes empty old lines at both ends of a hunk.
func trimContext(h *Hunk, old []string) (trimmed []string, skip, skipEnd int) {
	isEmpty := func(l Line) bool { return l.Op != '+' && strings.TrimSpace(l.Text) == "" }
	for skip < len(h.Lines) && isEmpty(h.Lines[skip]) {
		skip++
	}
	for skipEnd < len(h.Lines)-skip && isEmpty(h.Lines[len(h.Lines)-1-skipEnd]) {
		skipEnd++
	}
	return old[min(skip, len(old)):max(skip, len(old)-skipEnd)], skip, skipEnd
}

// insertion returns the place of a hunk that only adds: after its context, behind the line
// that it names, or at the end of the file if the hunk says so.
func (t *fileText) insertion(h *Hunk, start, delta int) (place, error) {
	switch {
	case h.EOF:
		return place{line: len(t.lines)}, nil
	case h.Insert && h.At+delta <= len(t.lines):
		return place{line: h.At + delta, hinted: true}, nil
	case len(h.Context) > 0:
		return place{line: start}, nil
	case len(t.lines) == 0:
		return place{}, nil
	}
	return place{}, &ApplyError{Err: ErrExists}
}

// findContext returns the line of the text behind @@ in an envelope.
func (t *fileText) findContext(context string, from int) (int, error) {
	for n := range folds {
		f := t.folded(n)
		run, ok := f.run([]string{context})
		if !ok {
			continue
		}
		var found []int
		if !t.work.spend(f.places(run, from, func(line int) bool {
			found = append(found, line)
			return len(found) < maxPlaces
		})) {
			return 0, &ApplyError{Err: ErrTooComplex}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			i, err := t.oneOf(found)
			return found[i], err
		}
	}
	return 0, &ApplyError{Err: ErrNoMatch}
}

// oneOf returns the index of the place that the chooser takes of several.
func (t *fileText) oneOf(found []int) (int, error) {
	if t.chooser == nil {
		return 0, &ApplyError{Lines: oneBased(found), Err: ErrManyMatches}
	}
	t.several, t.taken = oneBased(found), t.chooser.choose(len(found))
	return t.taken, nil
}

func exactly(s string) string  { return s }
func trailing(s string) string { return strings.TrimRight(s, " \t\r") }

// punctuation folds characters that editors and models exchange: quotes, dashes,
// spaces.
func punctuation(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r >= 0x2018 && r <= 0x201b:
			return '\''
		case r >= 0x201c && r <= 0x201f:
			return '"'
		case r >= 0x2010 && r <= 0x2015, r == 0x2212:
			return '-'
		case r == 0xa0, r >= 0x2000 && r <= 0x200a, r == 0x202f, r == 0x205f, r == 0x3000, r == '\t':
			return ' '
		}
		return r
	}, s))
}

// search looks for old lines with growing fuzz. The first fuzz with a match decides.
func (t *fileText) search(old []string, h *Hunk, from, delta int) (place, error) {
	if from > len(t.lines) {
		from = len(t.lines)
	}
	for fuzz := FuzzExact; fuzz <= FuzzPunctuation; fuzz++ {
		if fuzz == FuzzBlank {
			if p, ok := t.withBlanks(h, from); ok {
				return p, nil
			}
			continue
		}
		found, shifts, hinted := t.rung(old, h, from, delta, fuzz)
		switch {
		case t.work.left <= 0:
			return place{}, &ApplyError{Err: ErrTooComplex}
		case len(found) == 0:
			continue
		case len(found) == 1:
			return place{line: found[0], count: len(old), fuzz: fuzz, shift: shifts[0], hinted: hinted}, nil
		}
		i, err := t.oneOf(found)
		return place{line: found[i], count: len(old), fuzz: fuzz, shift: shifts[i]}, err
	}
	t.work.spend(8 * len(t.lines))
	line, nearest := t.nearest(old)
	e := &ApplyError{Err: ErrNoMatch, Nearest: nearest}
	if nearest != "" {
		e.Lines = []int{line + 1}
	}
	return place{}, e
}

// foldOf has the fold of each fuzz.
var foldOf = [...]int{FuzzExact: foldExact, FuzzTrailing: foldTrailing, FuzzIndent: foldTrim, FuzzTrim: foldTrim,
	FuzzPunctuation: foldPunctuation}

// rung returns the places that match with a fuzz, maxPlaces at most: more cannot be told
// apart either. A hunk that belongs at the end of the file, or that names one of several
// places, has that one alone; hinted reports the second.
func (t *fileText) rung(old []string, h *Hunk, from, delta int, fuzz Fuzz) (found []int, shifts []shift, hinted bool) {
	f := t.folded(foldOf[fuzz])
	run, ok := f.run(old)
	if !ok {
		return nil, nil, false
	}
	add := func(line int) bool {
		var s shift
		if fuzz == FuzzIndent {
			if !t.work.spend(8 * len(old)) {
				return false
			}
			if s, ok = shiftOf(old, t.lines[line:line+len(old)]); !ok || !s.fits(h) {
				return true
			}
		}
		found, shifts = append(found, line), append(shifts, s)
		return len(found) < maxPlaces
	}
	if end := len(t.lines) - len(old); h.EOF && end >= from && f.isAt(run, end) {
		if add(end); len(found) > 0 {
			return found, shifts, false
		}
	}
	t.work.spend(f.places(run, from, add))
	if named := h.At - 1 + delta; len(found) > 1 && h.At > 0 && fuzz == FuzzExact && named >= from && f.isAt(run, named) {
		return []int{named}, shifts[:1], true
	}
	return found, shifts, false
}

// unlikely is how many bytes of lines hardly stand somewhere by chance.
const unlikely = 12

// has reports whether the text has what a hunk makes: its new lines and their context, so
// much text that they hardly stand there by chance, or all of the text. Context counts only
// on both sides of what changes: else other lines may stand where some were to be removed.
func (t *fileText) has(h *Hunk) bool {
	var made []string
	size := 0
	between := h.Lines[0].Op == ' ' && h.Lines[len(h.Lines)-1].Op == ' '
	for _, line := range h.Lines {
		if line.Op != '-' {
			made = append(made, line.Text)
		}
		if line.Op == '+' || line.Op == ' ' && between {
			size += len(strings.TrimSpace(line.Text))
		}
	}
	if size < unlikely && len(made) != len(t.lines) || len(made) == 0 {
		return false
	}
	f := t.folded(foldTrailing)
	run, ok := f.run(made)
	found := false
	if ok {
		t.work.spend(f.places(run, 0, func(int) bool { found = true; return false }))
	}
	return found
}

// hasAt reports whether a hunk that only adds lines, before or behind those that it looks for,
// has been applied at a place: there its old lines are found again.
func (t *fileText) hasAt(h *Hunk, at place) bool {
	var made []string
	before, size := 0, 0 // new lines at the beginning, bytes of all new ones
	for _, line := range h.Lines {
		if line.Op == '-' {
			return false
		}
		if line.Op == '+' && before == len(made) {
			before++
		}
		if line.Op == '+' {
			size += len(strings.TrimSpace(line.Text))
		}
		made = append(made, line.Text)
	}
	f := t.folded(foldTrailing)
	run, ok := f.run(made)
	return ok && size >= 3 && at.count > 0 && at.fuzz <= FuzzTrailing && at.hunk == nil &&
		f.isAt(run, at.line-before)
}

func indentation(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// nearest returns the place with the most lines of the run, if it has half of
// them, and its text: what the model may have meant.
func (t *fileText) nearest(old []string) (int, string) {
	want := make(map[string]bool, len(old))
	for _, line := range old {
		if s := strings.TrimSpace(line); s != "" {
			want[s] = true
		}
	}
	best, bestAt, count := 0, 0, 0
	hit := make([]bool, len(t.lines))
	for i, line := range t.lines {
		if hit[i] = want[strings.TrimSpace(line)]; hit[i] {
			count++
		}
		if j := i - len(old); j >= 0 && hit[j] {
			count--
		}
		if count > best {
			best, bestAt = count, max(0, i-len(old)+1)
		}
	}
	if len(want) == 0 || best*2 < len(want) {
		return 0, ""
	}
	return bestAt, strings.Join(t.lines[bestAt:min(bestAt+len(old), len(t.lines))], "\n")
}

func oneBased(lines []int) []int {
	out := make([]int, len(lines))
	for i, n := range lines {
		out[i] = n + 1
	}
	return out
}
