package workspace

import (
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Merge merges two versions of a text that were made from the same base. Where both
// change the same or adjacent lines differently, the result has both between
// conflict marks, and conflicts counts them.
func Merge(base, mine, theirs string) (merged string, conflicts int) {
	m := merger{base: splitLines(base), mine: splitLines(mine), theirs: splitLines(theirs)}
	m.left, m.right = diffLines(m.base, m.mine), diffLines(m.base, m.theirs)
	m.run()
	return m.out.String(), m.conflicts
}

type merger struct {
	base, mine, theirs []string
	left, right        []lcs.Diff // of mine and theirs against base
	out                strings.Builder
	conflicts          int
}

// run merges region by region. A region consists of differences that overlap or
// touch; it is a conflict if both sides changed it.
func (m *merger) run() {
	at := 0
	for len(m.left)+len(m.right) > 0 {
		start, end := m.region()
		var left, right []lcs.Diff
		left, m.left = splitAt(m.left, end)
		right, m.right = splitAt(m.right, end)
		writeLines(&m.out, m.base[at:start])
		mine := side(m.base, m.mine, left, start, end)
		theirs := side(m.base, m.theirs, right, start, end)
		switch {
		case len(right) == 0 || slices.Equal(mine, theirs):
			writeLines(&m.out, mine)
		case len(left) == 0:
			writeLines(&m.out, theirs)
		default:
			m.conflict(mine, theirs)
		}
		at = end
	}
	writeLines(&m.out, m.base[at:])
}

// region returns the next changed lines of the base, extended until no difference
// overlaps or touches them from outside.
func (m *merger) region() (start, end int) {
	next := func(d []lcs.Diff) (int, int) {
		if len(d) == 0 {
			return len(m.base) + 1, 0
		}
		return d[0].Start, d[0].End
	}
	start, end = next(m.left)
	if s, e := next(m.right); s < start {
		start, end = s, e
	}
	for grown := true; grown; {
		grown = false
		for _, side := range [][]lcs.Diff{m.left, m.right} {
			for _, d := range side {
				if d.Start > end {
					break
				}
				if d.End > end {
					end, grown = d.End, true
				}
			}
		}
	}
	return start, end
}

// splitAt cuts off the differences up to a line of the base.
func splitAt(d []lcs.Diff, end int) (taken, rest []lcs.Diff) {
	i := 0
	for i < len(d) && d[i].Start <= end {
		i++
	}
	return d[:i], d[i:]
}

// side returns one side's lines for base[start:end].
func side(base, lines []string, edits []lcs.Diff, start, end int) []string {
	var out []string
	for _, e := range edits {
		out = append(out, base[start:e.Start]...)
		out = append(out, lines[e.ReplStart:e.ReplEnd]...)
		start = e.End
	}
	return append(out, base[start:end]...)
}

func (m *merger) conflict(mine, theirs []string) {
	m.conflicts++
	section := func(mark string, lines []string) {
		m.out.WriteString(mark + "\n")
		writeLines(&m.out, lines)
		if n := len(lines); n > 0 && !strings.HasSuffix(lines[n-1], "\n") {
			m.out.WriteByte('\n')
		}
	}
	section("<<<<<<< in the folder", mine)
	section("=======", theirs)
	m.out.WriteString(">>>>>>> proposed\n")
}
