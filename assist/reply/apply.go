package reply

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fuzz says how far a hunk's lines differ from the file's lines at the place where it was
// applied.
type Fuzz int

// The rungs of the search, tried in this order; each must find exactly one place.
const (
	FuzzExact       Fuzz = iota // the same bytes
	FuzzTrailing                // but for white space at the ends of lines
	FuzzIndent                  // but for an indentation shifted as a whole, or that of the first line
	FuzzBlank                   // but for blank lines
	FuzzTrim                    // but for white space at both ends of lines
	FuzzPunctuation             // but for quotes, dashes and spaces of other kinds
)

func (f Fuzz) String() string {
	return [...]string{"exact", "trailing space", "indentation", "blank lines", "white space", "punctuation"}[f]
}

// Result is what an item makes of a file.
type Result struct {
	// Content is the new content, with the byte order mark, line endings and
	// final newline of the current file. It is nil for a KindDelete.
	Content []byte
	// Fuzz is the largest of the hunks' fuzzes. A person should look at a fuzz above
	// FuzzTrailing, and decide about a fuzz above FuzzBlank.
	Fuzz  Fuzz
	Hunks []AppliedHunk
	// Applied is how many hunks were left out because the file has their result already.
	Applied int
	// Warnings are about how the item was applied. Their offsets are the hunks'.
	Warnings []Warning
	// Guesses are the unsure decisions of ApplyEach, in sentences.
	Guesses []string
}

// AppliedHunk is where a hunk found its place.
type AppliedHunk struct {
	Fuzz Fuzz
	// Line is the first line of the place, from 1, in the file after the hunks before;
	// Lines is how many of its lines the hunk looked for.
	Line, Lines int
}

// Errors of Apply, for errors.Is.
var (
	// ErrNoMatch: the lines that a hunk looks for are not in the file.
	ErrNoMatch = errors.New("the lines to change are not in the file")
	// ErrManyMatches: the lines that a hunk looks for are in the file more than once.
	ErrManyMatches = errors.New("the lines to change are in the file more than once")
	// ErrRepeated: a hunk is given again for the place that it already changed.
	ErrRepeated = errors.New("the same change is given twice")
	// ErrExists: the item calls the file new, or searches for nothing, and the
	// file has content.
	ErrExists = errors.New("the file exists")
	// ErrMissing: the item edits a file that does not exist.
	ErrMissing = errors.New("the file does not exist")
	// ErrNotText: the item edits a file that is no UTF-8 text.
	ErrNotText = errors.New("the file is no text")
	// ErrNotApplicable: the item is a block, or its verdict allows no write.
	ErrNotApplicable = errors.New("the item changes no file")
)

// ApplyError is an error of Apply about one hunk.
type ApplyError struct {
	// Hunk counts from 1.
	Hunk int
	// Lines are the places found, from 1: several for ErrManyMatches; for
	// ErrNoMatch the place that is the most alike, if any.
	Lines []int
	// Nearest is the text at that most alike place ("did you mean").
	Nearest string
	Err     error
}

func (e *ApplyError) Error() string {
	s := fmt.Sprintf("hunk %d: %v", e.Hunk, e.Err)
	switch {
	case errors.Is(e.Err, ErrManyMatches):
		s += fmt.Sprintf(", at lines %s; more lines around the change would tell them apart", listed(e.Lines))
	case len(e.Lines) > 0 && e.Nearest != "":
		s += fmt.Sprintf("; the nearest are at line %d", e.Lines[0])
	}
	return s
}

// Unwrap returns the sentinel error.
func (e *ApplyError) Unwrap() error { return e.Err }

// Apply returns the result of an item for a file with the content current; nil means that
// the file does not exist. It changes neither, and uses only its arguments. It refuses an
// item that is not Proposable.
//
// A whole file takes over the current file's byte order mark, line endings and
// final newline. Hunks change the lines that they name and leave every other
// byte alone; lines of context keep the file's own spelling.
func Apply(it *Item, current []byte) (*Result, error) { return apply(it, current, nil, nil) }

// maxPlaces bounds the results of ApplyEach.
const maxPlaces = 9

// ApplyEach is Apply where that fails with ErrManyMatches or ErrRepeated. It has
// a result for each place that a hunk fits in, at most nine that differ, and
// leaves out a hunk that is given again. The first result has the first places,
// as some programs take them. Result.Guesses says what each decided; a person
// must choose.
func ApplyEach(it *Item, current []byte) ([]*Result, error) {
	var (
		each  []*Result
		first error
		c     chooser
	)
	if it.Repeated && current != nil {
		r, err := applyEdit(it, current, nil, &c)
		return []*Result{r}, err
	}
	text, err := readText(current)
	if err != nil {
		return nil, err
	}
	text.folded(foldExact)    // once for all copies
	for range 2 * maxPlaces { // some are the same, or do not fit
		c.asked = 0
		if !text.work.spend(2 * len(text.lines)) {
			return nil, ErrTooComplex
		}
		r, err := apply(it, current, text, &c)
		if first = cmp.Or(first, err); err == nil && !slices.ContainsFunc(
			each, func(e *Result) bool { return bytes.Equal(e.Content, r.Content) }) {
			each = append(each, r)
		}
		if len(each) == maxPlaces || !c.next() {
			break
		}
	}
	if len(each) > 0 {
		first = nil
	}
	return each, first
}

// chooser takes one of several places at each call of choose. next moves to places
// that were not taken together before.
type chooser struct {
	taken, of []int
	asked     int
}

func (c *chooser) choose(places int) int {
	if c.asked == len(c.taken) {
		c.taken, c.of = append(c.taken, 0), append(c.of, places)
	}
	c.asked++
	return c.taken[c.asked-1]
}

func (c *chooser) next() bool {
	n := c.asked
	for n > 0 && c.taken[n-1]+1 >= c.of[n-1] {
		n--
	}
	if c.taken, c.of = c.taken[:n], c.of[:n]; n > 0 {
		c.taken[n-1]++
	}
	return n > 0
}

// apply is Apply, with the text of current if it is read already, and a chooser for ApplyEach.
func apply(it *Item, current []byte, text *fileText, c *chooser) (*Result, error) {
	if it.Kind == KindBlock || !it.Proposable() {
		return nil, fmt.Errorf("%w: it is %s (%s)", ErrNotApplicable, it.Verdict, it.Reason)
	}
	switch it.Kind {
	case KindFile:
		return applyFile(it, current)
	case KindDelete:
		if current == nil {
			return nil, ErrMissing
		}
		if len(it.Hunks) > 0 {
			return applyHunks(it, current, text, c)
		}
		return &Result{}, nil
	case KindEdit, KindRename:
		return applyEdit(it, current, text, c)
	}
	return nil, ErrNotApplicable
}

func applyFile(it *Item, current []byte) (*Result, error) {
	r := &Result{Content: it.Content}
	if r.Content == nil {
		r.Content = []byte{}
	}
	if current == nil || bytes.Equal(current, it.Content) {
		return r, nil
	}
	if it.Create {
		return nil, fmt.Errorf("%w, and the reply calls it new", ErrExists)
	}
	if it.Binary || len(current) == 0 || len(it.Content) == 0 {
		return r, nil
	}
	if text, err := readText(current); err == nil {
		r.Content = text.adopt(it.Content)
	} else {
		r.Warnings = append(r.Warnings, Warning{"file.not_text",
			"the current file is no UTF-8 text; its encoding is not kept", it.Span.Start})
	}
	return r, nil
}

func applyEdit(it *Item, current []byte, text *fileText, c *chooser) (*Result, error) {
	if it.Repeated && current != nil {
		if c != nil {
			return &Result{Content: current, Guesses: []string{"the edit was given before and is left out"}}, nil
		}
		return nil, ErrRepeated
	}
	if len(it.Hunks) == 0 {
		if current == nil {
			return nil, ErrMissing
		}
		return &Result{Content: current}, nil // a rename
	}
	return applyHunks(it, current, text, c)
}

// applyHunks applies one hunk after the other. A KindDelete's must together take
// the whole file away.
func applyHunks(it *Item, current []byte, text *fileText, c *chooser) (*Result, error) {
	h := &it.Hunks[0]
	if h.searchesNothing() && len(it.Hunks) == 1 && len(bytes.TrimSpace(current)) == 0 {
		content := h.New()
		if h.NewNoEOL {
			content = strings.TrimSuffix(content, "\n")
		}
		return &Result{Content: []byte(content), Hunks: []AppliedHunk{{Line: 1}}}, nil
	}
	if current == nil {
		return nil, ErrMissing
	}
	if text == nil {
		var err error
		if text, err = readText(current); err != nil {
			return nil, err
		}
	} else {
		text = text.clone()
	}
	text.chooser = c
	a := applier{text: text, ordered: it.Form == FormDiff || it.Form == FormEnvelope,
		done: make(map[string][]*AppliedHunk)}
	for i := range it.Hunks {
		if err := a.apply(i+1, &it.Hunks[i]); err != nil {
			var apply *ApplyError
			if errors.As(err, &apply) {
				apply.Hunk = i + 1
			}
			return nil, err
		}
	}
	r := &a.result
	r.Content = text.bytes()
	if it.Kind == KindDelete {
		if len(bytes.TrimSpace(r.Content)) > 0 {
			return nil, &ApplyError{Hunk: len(it.Hunks), Err: fmt.Errorf(
				"%w: it deletes the file but does not name all of its lines", ErrNoMatch)}
		}
		r.Content = nil
	}
	return r, nil
}

// applier applies the hunks of an item in order.
type applier struct {
	text    *fileText
	ordered bool
	// from and delta: where the hunk before ended, and by how much lines moved.
	from, delta int
	// done are the places that were changed, by what the hunk is; their lines
	// are those of the text as it is now.
	done   map[string][]*AppliedHunk
	result Result
}

// apply applies the hunk with a number.
func (a *applier) apply(number int, hunk *Hunk) error {
	if !a.ordered {
		a.from = 0
	}
	if !a.text.work.spend(len(a.result.Hunks)) {
		return &ApplyError{Err: ErrTooComplex}
	}
	key := hunk.key()
	twins := a.done[key]
	pieces, elided := hunk.pieces()
	if elided {
		if place, err := a.text.find(hunk, a.from, a.delta); err == nil && place.fuzz <= FuzzTrailing &&
			a.text.several == nil {
			pieces = []*Hunk{hunk} // the dots are the file's own
		}
	}
	for k, h := range pieces {
		place, err := a.find(number, h)
		if len(pieces) == 1 && (errors.Is(err, ErrNoMatch) && a.text.has(h) ||
			err == nil && len(twins) == 0 && a.text.hasAt(h, place)) {
			a.result.Warnings = append(a.result.Warnings, Warning{"hunk.applied",
				fmt.Sprintf("the file has what hunk %d makes already", number), hunk.Span.Start})
			a.result.Applied++
			return nil
		}
		if err == nil && k > 0 && place.line < a.from {
			err = &ApplyError{Err: ErrNoMatch}
		}
		if len(twins) > 0 && k == 0 && (errors.Is(err, ErrNoMatch) || err == nil && place.within(twins)) {
			if a.text.chooser != nil {
				a.result.Guesses = append(a.result.Guesses, fmt.Sprintf("hunk %d was given before and is left out", number))
				return nil
			}
			err = &ApplyError{Err: ErrRepeated}
		}
		if err != nil {
			return err
		}
		a.change(number, key, hunk, h, place)
	}
	return nil
}

// find returns the place of a hunk, and records which of several places it took.
func (a *applier) find(number int, h *Hunk) (place, error) {
	found, err := a.text.find(h, a.from, a.delta)
	if err == nil && a.text.several != nil {
		a.result.Guesses = append(a.result.Guesses, fmt.Sprintf(
			"the lines of hunk %d are at lines %s; line %d is taken", number, listed(a.text.several),
			a.text.several[a.text.taken]))
	}
	return found, err
}

// change changes the text and records the change.
func (a *applier) change(number int, key string, hunk, h *Hunk, place place) {
	if place.hunk != nil {
		h = place.hunk
	}
	grown := a.text.change(h, place)
	r := &a.result
	if place.hinted {
		why := "is found more than once"
		if h.Insert {
			why = "names no lines to look for"
		}
		r.Warnings = append(r.Warnings, Warning{"hunk.hint", fmt.Sprintf(
			"hunk %d %s; the place at line %d was taken, which it names", number, why, place.line+1), hunk.Span.Start})
	}
	if place.fuzz > FuzzTrailing {
		r.Warnings = append(r.Warnings, Warning{"hunk.fuzz", fmt.Sprintf("hunk %d matches but for %s", number, place.fuzz),
			hunk.Span.Start})
	}
	r.Fuzz = max(r.Fuzz, place.fuzz)
	r.Hunks = append(r.Hunks, AppliedHunk{place.fuzz, place.line + 1, place.count})
	for _, places := range a.done {
		for _, other := range places {
			if other.Line > place.line+1 {
				other.Line += grown
			}
		}
	}
	a.done[key] = append(a.done[key], &AppliedHunk{Line: place.line + 1, Lines: place.count + grown})
	a.from, a.delta = place.line+place.count+grown, a.delta+grown
}

// within reports whether a place overlaps lines that were changed already.
func (p place) within(done []*AppliedHunk) bool {
	return slices.ContainsFunc(done, func(h *AppliedHunk) bool {
		end := h.Line + max(h.Lines, 1)
		return h.Line < p.line+1+max(p.count, 1) && (p.line+1 < end || p.count == 0 && p.line+1 == end)
	})
}

// key returns a text that is the same for equal hunks.
func (h *Hunk) key() string {
	var b strings.Builder
	for _, context := range h.Context {
		fmt.Fprintf(&b, "@%s\n", context)
	}
	for _, line := range h.Lines {
		b.WriteByte(line.Op)
		b.WriteString(line.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// listed returns line numbers with commas.
func listed(lines []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(lines), " ", ", "), "[]")
}

// searchesNothing reports whether the hunk has no old lines.
func (h *Hunk) searchesNothing() bool {
	return !slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Op != '+' })
}
