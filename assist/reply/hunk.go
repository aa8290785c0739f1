package reply

import (
	"slices"
	"strings"
)

// Line is a line of a hunk, without its line ending.
type Line struct {
	// Op is ' ' for an unchanged line, '-' for a removed line, '+' for a new one.
	Op   byte   `json:"op"`
	Text string `json:"text"`
}

// Hunk is one place of an edit: the lines to look for, and their replacement.
type Hunk struct {
	Lines []Line `json:"lines"`
	// Context are lines to find first, in order, before the hunk is looked for:
	// the text after @@ in a patch envelope.
	Context []string `json:"context,omitempty"`
	// At is the 1-based line of the old file where the hunk says it stands, or
	// 0. It is a hint: where the very same lines are found more than once, the
	// place that it names is taken, with a warning.
	At int `json:"at,omitempty"`
	// Insert says that the hunk has no old lines and adds its own behind the line At.
	Insert bool `json:"insert,omitempty"`
	// EOF says that the hunk stands at the end of the file.
	EOF bool `json:"eof,omitempty"`
	// OldNoEOL and NewNoEOL carry "\ No newline at end of file".
	OldNoEOL bool `json:"old_no_eol,omitempty"`
	NewNoEOL bool `json:"new_no_eol,omitempty"`
	Span     Span `json:"span"`
}

// Old returns the text that the hunk looks for, lines ended by LF.
func (h *Hunk) Old() string { return h.text('-') }

// New returns the replacement, lines ended by LF.
func (h *Hunk) New() string { return h.text('+') }

// read appends a line as diffs and envelopes write them. It reports whether the
// line has one of a hunk's signs. A line without even the space of an empty line
// of context is one.
func (h *Hunk) read(line bodyLine) bool {
	text := line.text
	h.Span.End = line.end
	switch {
	case text == "":
		h.Lines = append(h.Lines, Line{' ', ""})
	case strings.IndexByte(" +-", text[0]) >= 0:
		h.Lines = append(h.Lines, Line{text[0], text[1:]})
	default:
		return text[0] == '\\'
	}
	return true
}

// trim removes the empty lines of context at the end, which stand between hunks.
// It reports whether the hunk changes anything.
func (h *Hunk) trim() bool {
	for n := len(h.Lines); n > 0 && h.Lines[n-1] == (Line{' ', ""}); n-- {
		h.Lines = h.Lines[:n-1]
	}
	return slices.ContainsFunc(h.Lines, func(line Line) bool { return line.Op != ' ' })
}

func (h *Hunk) text(op byte) string {
	var b strings.Builder
	for _, line := range h.Lines {
		if line.Op == ' ' || line.Op == op {
			b.WriteString(line.Text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
