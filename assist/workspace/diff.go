package workspace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Hunk is a changed place of a text, with some lines around it. It can be approved
// and undone by itself.
type Hunk struct {
	ID       string `json:"id"` // "h1", "h2", ... in the order of the file
	OldStart int    `json:"old_start"`
	OldLines int    `json:"old_lines"`
	NewStart int    `json:"new_start"`
	NewLines int    `json:"new_lines"`
	Lines    []Line `json:"lines"`
}

// Header returns the line that begins the hunk in a unified diff.
func (h *Hunk) Header() string {
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
}

// Line is a line of a hunk.
type Line struct {
	Op   string `json:"op"` // " ", "-" or "+"
	Text string `json:"text"`
	// NoNewline is set on a line that ends the file without a newline.
	NoNewline bool `json:"no_newline,omitempty"`
	// Spans are the bytes of Text that differ from its counterpart.
	Spans []Span `json:"spans,omitempty"`
}

// Span is a range of bytes, End not included.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// around is the number of lines shown before and after a change.
const around = 3

// diffText returns the hunks between two texts, and the numbers of added and
// removed lines.
func diffText(before, after string) (hunks []Hunk, added, removed int) {
	old, lines := splitLines(before), splitLines(after)
	edits := diffLines(old, lines)
	for first := 0; first < len(edits); {
		last := first
		for last+1 < len(edits) && edits[last+1].Start-edits[last].End <= 2*around {
			last++
		}
		h := newHunk(old, lines, edits[first:last+1])
		h.ID = fmt.Sprintf("h%d", len(hunks)+1)
		hunks = append(hunks, h)
		first = last + 1
	}
	for _, e := range edits {
		removed += e.End - e.Start
		added += e.ReplEnd - e.ReplStart
	}
	return hunks, added, removed
}

func newHunk(old, lines []string, edits []lcs.Diff) Hunk {
	first, last := edits[0], edits[len(edits)-1]
	start, end := max(0, first.Start-around), min(len(old), last.End+around)
	h := Hunk{OldStart: start + 1, OldLines: end - start, NewStart: first.ReplStart - (first.Start - start) + 1}
	at := start
	for _, e := range edits {
		h.append(" ", old[at:e.Start])
		removed := h.append("-", old[e.Start:e.End])
		added := h.append("+", lines[e.ReplStart:e.ReplEnd])
		refine(removed, added)
		at = e.End
	}
	h.append(" ", old[at:end])
	for _, l := range h.Lines {
		if l.Op != "-" {
			h.NewLines++
		}
	}
	if h.OldLines == 0 {
		h.OldStart = start
	}
	if h.NewLines == 0 {
		h.NewStart--
	}
	return h
}

func (h *Hunk) append(op string, lines []string) []Line {
	at := len(h.Lines)
	for _, text := range lines {
		line, ended := strings.CutSuffix(text, "\n")
		h.Lines = append(h.Lines, Line{Op: op, Text: line, NoNewline: !ended})
	}
	return h.Lines[at:]
}

// Unified returns the change as a unified diff, "" where there is no text to
// compare.
func (f *FileChange) Unified() string {
	if len(f.Hunks) == 0 {
		return ""
	}
	var b strings.Builder
	from, to := "a/"+f.Path, "b/"+f.Path
	if f.From != "" {
		from = "a/" + f.From
	}
	switch f.Op {
	case OpCreate:
		from = "/dev/null"
	case OpDelete:
		to = "/dev/null"
	}
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, to)
	for i := range f.Hunks {
		h := &f.Hunks[i]
		b.WriteString(h.Header() + "\n")
		for _, l := range h.Lines {
			b.WriteString(l.Op + l.Text + "\n")
			if l.NoNewline {
				b.WriteString("\\ No newline at end of file\n")
			}
		}
	}
	return b.String()
}

// applyHunks returns before with the chosen hunks.
func applyHunks(before string, hunks []Hunk, chosen []string) (string, error) {
	for _, id := range chosen {
		if !slices.ContainsFunc(hunks, func(h Hunk) bool { return h.ID == id }) {
			return "", fmt.Errorf("there is no hunk %q: the hunks are h1 to h%d", id, len(hunks))
		}
	}
	old := splitLines(before)
	var b strings.Builder
	at := 0
	for i := range hunks {
		h := &hunks[i]
		if !slices.Contains(chosen, h.ID) {
			continue
		}
		start := h.OldStart - min(h.OldLines, 1) // a hunk that only adds names the line before
		writeLines(&b, old[at:start])
		for _, l := range h.Lines {
			if l.Op == "-" {
				continue
			}
			b.WriteString(l.Text)
			if !l.NoNewline {
				b.WriteByte('\n')
			}
		}
		at = start + h.OldLines
	}
	writeLines(&b, old[at:])
	return b.String(), nil
}

func writeLines(b *strings.Builder, lines []string) {
	for _, l := range lines {
		b.WriteString(l)
	}
}

// diffLines returns the differences, in order. Equal lines at both ends, and lines
// that each side has exactly once, divide the texts first: long texts then cost
// little, and hunks show what a person would call the change.
func diffLines(old, lines []string) []lcs.Diff {
	d := differ{old: old, lines: lines}
	d.compare(0, len(old), 0, len(lines), 0)
	return d.edits
}

type differ struct {
	old, lines []string
	edits      []lcs.Diff
}

// compare appends the differences between two ranges.
func (d *differ) compare(start, end, replStart, replEnd, depth int) {
	for start < end && replStart < replEnd && d.old[start] == d.lines[replStart] {
		start, replStart = start+1, replStart+1
	}
	for start < end && replStart < replEnd && d.old[end-1] == d.lines[replEnd-1] {
		end, replEnd = end-1, replEnd-1
	}
	if start == end && replStart == replEnd {
		return
	}
	if start == end || replStart == replEnd {
		d.add(lcs.Diff{Start: start, End: end, ReplStart: replStart, ReplEnd: replEnd})
		return
	}
	var anchors []anchor
	if depth < 16 {
		anchors = d.anchors(start, end, replStart, replEnd)
	}
	if len(anchors) == 0 {
		for _, e := range lcs.DiffLines(d.old[start:end], d.lines[replStart:replEnd]) {
			d.add(lcs.Diff{Start: e.Start + start, End: e.End + start, ReplStart: e.ReplStart + replStart,
				ReplEnd: e.ReplEnd + replStart})
		}
		return
	}
	for _, a := range anchors {
		d.compare(start, a.old, replStart, a.line, depth+1)
		start, replStart = a.old, a.line
	}
	d.compare(start, end, replStart, replEnd, depth+1)
}

// add appends one difference, joined to the one before where they touch.
func (d *differ) add(e lcs.Diff) {
	if n := len(d.edits); n > 0 && d.edits[n-1].End == e.Start && d.edits[n-1].ReplEnd == e.ReplStart {
		d.edits[n-1].End, d.edits[n-1].ReplEnd = e.End, e.ReplEnd
		return
	}
	d.edits = append(d.edits, e)
}

// anchor is a line that both ranges have exactly once.
type anchor struct{ old, line int }

// anchors returns the longest series of anchors that both ranges have in order.
func (d *differ) anchors(start, end, replStart, replEnd int) []anchor {
	type count struct{ old, line, at, lineAt int }
	counts := make(map[string]*count, end-start)
	all := make([]count, 0, end-start)
	for i := start; i < end; i++ {
		if c, ok := counts[d.old[i]]; ok {
			c.old++
			continue
		}
		all = append(all, count{old: 1, at: i})
		counts[d.old[i]] = &all[len(all)-1] // the capacity is there: it stays where it is
	}
	for j := replStart; j < replEnd; j++ {
		if c, ok := counts[d.lines[j]]; ok {
			c.line++
			c.lineAt = j
		}
	}
	// Patience sorting: tops[k] is the anchor with the smallest line that ends
	// a series of length k+1.
	var tops []int
	var once []anchor
	before := make([]int, 0, len(all))
	for _, c := range all {
		if c.old != 1 || c.line != 1 {
			continue
		}
		k, _ := slices.BinarySearchFunc(tops, c.lineAt, func(i, line int) int { return once[i].line - line })
		once = append(once, anchor{c.at, c.lineAt})
		before = append(before, -1)
		if k > 0 {
			before[len(once)-1] = tops[k-1]
		}
		if k == len(tops) {
			tops = append(tops, 0)
		}
		tops[k] = len(once) - 1
	}
	if len(tops) == 0 {
		return nil
	}
	series := make([]anchor, len(tops))
	for i, k := tops[len(tops)-1], len(tops)-1; i >= 0; i, k = before[i], k-1 {
		series[k] = once[i]
	}
	return series
}
