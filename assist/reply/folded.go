package reply

import (
	"errors"
	"slices"
	"strings"
)

// ErrTooComplex is the error of Apply where placing the edit takes more work than a reply may cost, such as edits that
// fit in hundreds of thousands of places.
var ErrTooComplex = errors.New("placing the edit takes too much work; name more of the lines around it, " +
	"or give the whole file")

// maxWork bounds the work of one call of Apply or ApplyEach, in lines looked at: about a second.
const maxWork = 1 << 30

// work counts down what is left of maxWork.
type work struct{ left int }

// spend takes n lines off. It reports whether there is work left.
func (w *work) spend(n int) bool {
	w.left -= n
	return w.left > 0
}

// folded has the lines of a text as numbers: equal numbers are lines that are equal after a
// fold. A search compares numbers, so each line is folded and hashed once.
type folded struct {
	fold func(string) string
	ids  []uint32
	// known are the numbers by folded line. Copies of a text share it: it only grows.
	known map[string]uint32
}

func fold(lines []string, f func(string) string) *folded {
	ids := &folded{fold: f, known: make(map[string]uint32)}
	ids.ids = ids.numbers(lines)
	return ids
}

// numbers returns the numbers of lines, also of new ones.
func (f *folded) numbers(lines []string) []uint32 {
	ids := make([]uint32, len(lines))
	for i, line := range lines {
		key := f.fold(line)
		id, ok := f.known[key]
		if !ok {
			id = uint32(len(f.known))
			f.known[key] = id
		}
		ids[i] = id
	}
	return ids
}

// run returns the numbers of lines; false if the text never had one of them.
func (f *folded) run(lines []string) ([]uint32, bool) {
	ids := make([]uint32, len(lines))
	for i, line := range lines {
		id, ok := f.known[f.fold(line)]
		if !ok {
			return nil, false
		}
		ids[i] = id
	}
	return ids, true
}

// isAt reports whether a run stands at a line.
func (f *folded) isAt(run []uint32, line int) bool {
	return line >= 0 && line+len(run) <= len(f.ids) && slices.Equal(f.ids[line:line+len(run)], run)
}

// places yields the lines from a line on at which a run begins, in time linear in both. It
// returns how many lines it looked at.
func (f *folded) places(run []uint32, from int, yield func(line int) bool) int {
	// Knuth, Morris and Pratt: how much of the run is also its own beginning.
	back := make([]int, len(run))
	for i, k := 1, 0; i < len(run); i++ {
		for k > 0 && run[i] != run[k] {
			k = back[k-1]
		}
		if run[i] == run[k] {
			k++
		}
		back[i] = k
	}
	for i, k := from, 0; i < len(f.ids); i++ {
		for k > 0 && (k == len(run) || run[k] != f.ids[i]) {
			k = back[k-1]
		}
		if run[k] == f.ids[i] {
			k++
		}
		if k == len(run) && !yield(i-k+1) {
			return i - from
		}
	}
	return len(f.ids) - from
}

// folds are the folds of a text, in the order in which a search tries them.
var folds = [...]func(string) string{exactly, trailing, strings.TrimSpace, punctuation}

// The indexes of folds.
const (
	foldExact = iota
	foldTrailing
	foldTrim
	foldPunctuation
)

// folded returns the lines of the text after a fold.
func (t *fileText) folded(n int) *folded {
	if t.folds[n] == nil {
		t.work.spend(8 * len(t.lines))
		t.folds[n] = fold(t.lines, folds[n])
	}
	return t.folds[n]
}
