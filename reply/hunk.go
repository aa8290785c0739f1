package reply

import "strings"

// Line is a line of a hunk, without its line ending.
type Line struct {
	// Op is ' ' for a line that stays, '-' for one that goes, '+' for a new one.
	Op   byte   `json:"op"`
	Text string `json:"text"`
}

// Hunk is one place of an edit: lines that are looked for, and what becomes of
// them.
type Hunk struct {
	Lines []Line `json:"lines"`
	// Context are lines to find first, in order, before the hunk is looked for:
	// the text after @@ in a patch envelope.
	Context []string `json:"context,omitempty"`
	// At is the 1-based line of the old file where the hunk says it stands, or
	// 0. It is a hint: where the very same lines are found more than once, the
	// place that it names is taken, with a warning.
	At int `json:"at,omitempty"`
	// EOF says that the hunk stands at the end of the file.
	EOF bool `json:"eof,omitempty"`
	// OldNoEOL and NewNoEOL carry "\ No newline at end of file".
	OldNoEOL bool `json:"old_no_eol,omitempty"`
	NewNoEOL bool `json:"new_no_eol,omitempty"`
	Span     Span `json:"span"`
}

// Old is the text that the hunk looks for, lines ended by LF.
func (h *Hunk) Old() string { return h.text('-') }

// New is the text that takes its place, lines ended by LF.
func (h *Hunk) New() string { return h.text('+') }

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
