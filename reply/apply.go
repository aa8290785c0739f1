package reply

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fuzz says how far a hunk's lines were from those in the file, for the place
// where it was applied.
type Fuzz int

// The rungs of the search, tried in this order; each must find one place only.
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
	// Fuzz is the largest of the hunks' fuzzes. A person should see what is above
	// FuzzTrailing, and decide about what is above FuzzBlank.
	Fuzz  Fuzz
	Hunks []AppliedHunk
	// Warnings are about how the item was applied. Their offsets are the hunks'.
	Warnings []Warning
}

// AppliedHunk is where a hunk found its place.
type AppliedHunk struct {
	Fuzz Fuzz
	// Line is the first line of the place, from 1, in the file as the hunks
	// before left it; Lines how many lines of it the hunk looked for.
	Line, Lines int
}

// Errors of Apply, to be asked for with errors.Is.
var (
	// ErrNoMatch: what a hunk looks for is not in the file.
	ErrNoMatch = errors.New("the lines to change are not in the file")
	// ErrManyMatches: what a hunk looks for is in the file more than once.
	ErrManyMatches = errors.New("the lines to change are in the file more than once")
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
		s += fmt.Sprintf(", at lines %s; more lines around the change would tell them apart", strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Lines), " ", ", "), "[]"))
	case len(e.Lines) > 0 && e.Nearest != "":
		s += fmt.Sprintf("; the nearest are at line %d", e.Lines[0])
	}
	return s
}

// Unwrap gives the sentinel.
func (e *ApplyError) Unwrap() error { return e.Err }

// Apply returns what the item makes of a file whose content is current; nil
// means that there is no such file. It changes neither, and looks at nothing
// but its arguments. It refuses an item that is not Proposable.
//
// A whole file takes over the current file's byte order mark, line endings and
// final newline. Hunks change the lines that they name and leave every other
// byte alone; lines of context keep the file's own spelling.
func Apply(it *Item, current []byte) (*Result, error) {
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
			return applyHunks(it, current, true)
		}
		return &Result{}, nil
	case KindEdit, KindRename:
		return applyEdit(it, current)
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
		r.Warnings = append(r.Warnings, Warning{"file.not_text", "the current file is no UTF-8 text; its encoding is not kept", it.Span.Start})
	}
	return r, nil
}

func applyEdit(it *Item, current []byte) (*Result, error) {
	if len(it.Hunks) == 0 {
		if current == nil {
			return nil, ErrMissing
		}
		return &Result{Content: current}, nil // a rename
	}
	return applyHunks(it, current, false)
}

// applyHunks applies one hunk after the other. all says that together they must
// take the whole file away.
func applyHunks(it *Item, current []byte, all bool) (*Result, error) {
	first := &it.Hunks[0]
	if first.searchesNothing() && len(it.Hunks) == 1 && len(bytes.TrimSpace(current)) == 0 {
		content := first.New()
		if first.NewNoEOL {
			content = strings.TrimSuffix(content, "\n")
		}
		return &Result{Content: []byte(content), Hunks: []AppliedHunk{{Line: 1}}}, nil
	}
	if current == nil {
		return nil, ErrMissing
	}
	text, err := readText(current)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	from, delta := 0, 0 // in order: where the hunk before ended, and by how much lines moved
	ordered := it.Form == FormDiff || it.Form == FormEnvelope
	for i := range it.Hunks {
		if !ordered {
			from = 0
		}
		pieces, elided := it.Hunks[i].pieces()
		if elided {
			if place, err := text.find(&it.Hunks[i], from, delta); err == nil && place.fuzz <= FuzzTrailing {
				pieces = []*Hunk{&it.Hunks[i]} // the dots are the file's own
			}
		}
		for k, h := range pieces {
			place, err := text.find(h, from, delta)
			if err == nil && k > 0 && place.line < from {
				err = &ApplyError{Err: ErrNoMatch}
			}
			if err != nil {
				var apply *ApplyError
				if errors.As(err, &apply) {
					apply.Hunk = i + 1
				}
				return nil, err
			}
			if place.hunk != nil {
				h = place.hunk
			}
			grown := text.change(h, place)
			if place.hinted {
				r.Warnings = append(r.Warnings, Warning{"hunk.hint", fmt.Sprintf("hunk %d is found more than once; the place at line %d was taken, which it names", i+1, place.line+1), it.Hunks[i].Span.Start})
			}
			if place.fuzz > FuzzTrailing {
				r.Warnings = append(r.Warnings, Warning{"hunk.fuzz", fmt.Sprintf("hunk %d matches but for %s", i+1, place.fuzz), it.Hunks[i].Span.Start})
			}
			r.Fuzz = max(r.Fuzz, place.fuzz)
			r.Hunks = append(r.Hunks, AppliedHunk{place.fuzz, place.line + 1, place.count})
			from, delta = place.line+place.count+grown, delta+grown
		}
	}
	r.Content = text.bytes()
	if all {
		if len(bytes.TrimSpace(r.Content)) > 0 {
			return nil, &ApplyError{Hunk: len(it.Hunks), Err: fmt.Errorf("%w: it deletes the file but does not name all of its lines", ErrNoMatch)}
		}
		r.Content = nil
	}
	return r, nil
}

// searchesNothing: the hunk has no old lines.
func (h *Hunk) searchesNothing() bool {
	return !slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Op != '+' })
}
