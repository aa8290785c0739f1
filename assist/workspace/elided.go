package workspace

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff/lcs"

	"github.com/airlock-run/airlock/assist/reply"
)

// Models write a file in part and put a comment in place of the rest: "// the other methods".
// Its words are of any language, so only the place tells: a new line without code stands where
// code of the old file was, and there is less new code there than old.

// leastLines is the size of a file, in lines, from which losing more than half is a finding.
const leastLines = 40

// elided finds a change that may leave out what it does not show.
func (pl *planner) elided(ctx context.Context, d *draft) error {
	old := d.pre
	if d.from != nil {
		old = d.from.pre
	}
	limit := pl.w.limits.TextBytes
	if !d.authored || d.cur == nil || old == nil || old.hash == d.cur.hash || max(old.size, d.cur.size) > limit {
		return nil
	}
	var texts [2]string
	for i, c := range []*Content{old, d.cur} {
		data, err := c.Bytes(ctx, limit)
		if err != nil {
			return err
		}
		var ok bool
		if texts[i], _, ok = decodeText(data); !ok {
			return nil
		}
	}
	e := elider{path: d.path, old: splitLines(texts[0]), lines: splitLines(texts[1]), cells: maxCells}
	if line, removed := e.find(); line > 0 {
		d.find(Ask, elidedRule, "if those lines should stay, ask for the whole file, or for an edit",
			"line %d, %q, stands where %d lines of the file were, and may only stand for them", line,
			clip(strings.TrimSpace(e.lines[line-1])), removed)
		return nil
	}
	if len(e.old) > leastLines && 2*len(e.lines) < len(e.old) {
		d.find(Ask, "write.shrinks", "if the rest should stay, ask for the whole file, or for an edit",
			"it would leave %d of the file's %d lines", len(e.lines), len(e.old))
	}
	return nil
}

// elidedRule is the id of the finding that no policy covers: what it is about would be lost.
const elidedRule = "write.elided"

// clip shortens a line for a message.
func clip(line string) string {
	const most = 80
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return line
}

// maxCells bounds the comparisons of lines with lines, for all places of a file together.
const maxCells = 1 << 18

// elider compares two texts of a file.
type elider struct {
	path       string
	old, lines []string
	cells      int // comparisons left
}

// find returns the first line that may stand for removed ones, from 1, and how many those
// are; 0 if there is none.
func (e *elider) find() (line, removed int) {
	known := make(map[string]bool, len(e.old))
	for _, l := range e.old {
		known[strings.TrimSpace(l)] = true
	}
	isNew := func(l string) bool { return !known[strings.TrimSpace(l)] && e.isComment(l) }
	if !slices.ContainsFunc(e.lines, isNew) {
		return 0, 0
	}
	for _, edit := range e.edits() {
		old, lines := e.old[edit.Start:edit.End], e.lines[edit.ReplStart:edit.ReplEnd]
		if len(old) == 0 || !slices.ContainsFunc(lines, isNew) {
			continue
		}
		i, j := 0, 0
		for _, next := range append(e.align(old, lines), [2]int{len(old), len(lines)}) {
			gap, removed := lines[j:next[1]], e.code(old[i:next[0]])
			added := e.code(gap)
			for k, l := range gap {
				if removed == 0 || !isNew(l) {
					continue
				}
				// A comment in a document is hardly ever new, and one with no new code right below it
				// describes none.
				if removed > added || reply.IsMarkup(e.path) || !e.describes(gap[k:]) {
					return edit.ReplStart + j + k + 1, removed
				}
			}
			i, j = next[0]+1, next[1]+1
		}
	}
	for k, l := range e.lines {
		if isNew(l) {
			if removed := e.between(k); removed > 0 {
				return k + 1, removed
			}
		}
	}
	return 0, 0
}

// describes reports whether lines begin with comments right above code.
func (e *elider) describes(lines []string) bool {
	i := slices.IndexFunc(lines, func(l string) bool { return !e.isComment(l) })
	return i >= 0 && e.code(lines[i:i+1]) > 0
}

// between returns how many lines of old code stood between the three lines before a new line and
// the three after it, if the old file has those six. The differences need not show that: in a
// reply with much new code, removed lines may look like lines of that code.
func (e *elider) between(line int) (removed int) {
	const beside = 3
	if line < beside || line+beside >= len(e.lines) {
		return 0
	}
	if e.cells -= len(e.old); e.cells < 0 {
		return 0
	}
	before, after := e.lines[line-beside:line], e.lines[line+1:line+1+beside]
	from := -1 // the line after the nearest place that looks like before
	for i := range e.old {
		if from >= 0 && i+beside <= len(e.old) && slices.Equal(e.old[i:i+beside], after) {
			return e.code(e.old[from:i])
		}
		if i+1 >= beside && slices.Equal(e.old[i+1-beside:i+1], before) {
			from = i + 1
		}
	}
	return 0
}

// edits returns the differences. Those with only blank lines between them are one: such a
// line may be any of those that were removed.
func (e *elider) edits() (joined []lcs.Diff) {
	isText := func(line string) bool { return strings.TrimSpace(line) != "" }
	for _, edit := range diffLines(e.old, e.lines) {
		if n := len(joined) - 1; n >= 0 && !slices.ContainsFunc(e.old[joined[n].End:edit.Start], isText) {
			joined[n].End, joined[n].ReplEnd = edit.End, edit.ReplEnd
			continue
		}
		joined = append(joined, edit)
	}
	return joined
}

func (e *elider) isComment(line string) bool { return reply.IsComment(e.path, line) }

// code returns how many lines are neither blank nor comments.
func (e *elider) code(lines []string) (n int) {
	for _, l := range lines {
		if strings.TrimSpace(l) != "" && !e.isComment(l) {
			n++
		}
	}
	return n
}

// align returns the longest series of old lines that have a similar new one, in order: those
// that were changed, not removed.
func (e *elider) align(old, lines []string) (pairs [][2]int) {
	if e.cells -= len(old) * len(lines); e.cells < 0 {
		return nil
	}
	old, lines = e.compared(old), e.compared(lines)
	width := len(lines) + 1
	best := make([]int, (len(old)+1)*width) // the lengths of the series from old i and new j on
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(lines) - 1; j >= 0; j-- {
			best[i*width+j] = max(best[(i+1)*width+j], best[i*width+j+1])
			if isSimilar(old[i], lines[j]) {
				best[i*width+j] = max(best[i*width+j], best[(i+1)*width+j+1]+1)
			}
		}
	}
	for i, j := 0, 0; i < len(old) && j < len(lines); {
		switch best[i*width+j] {
		case best[(i+1)*width+j]:
			i++
		case best[i*width+j+1]:
			j++
		default:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		}
	}
	return pairs
}

// compared returns what is compared of each line: of a comment its words, since all comments have
// the same signs around them.
func (e *elider) compared(lines []string) []string {
	words := make([]string, len(lines))
	for i, l := range lines {
		words[i] = strings.TrimSpace(l)
		if e.isComment(l) {
			words[i] = strings.TrimFunc(l, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		}
	}
	return words
}

// isSimilar reports whether two lines begin and end alike for half of their length. Of long
// lines only the beginnings count.
func isSimilar(a, b string) bool {
	const most = 400
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	n := min(len(a), len(b))
	head, tail := 0, 0
	for head < n && a[head] == b[head] {
		head++
	}
	for tail < n-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head+tail > 2 && 2*(head+tail) >= max(len(a), len(b))
}
