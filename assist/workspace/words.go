package workspace

import (
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// mostWords bounds the words of two lines that are compared word by word.
const mostWords = 400

// refine marks the changes within lines that replace others. Lines are compared in
// pairs; a pair with little in common is left unmarked.
func refine(removed, added []Line) {
	if len(removed) != len(added) {
		return
	}
	for i := range removed {
		removed[i].Spans, added[i].Spans = changedWords(removed[i].Text, added[i].Text)
	}
}

func changedWords(before, after string) (removed, added []Span) {
	old, words := splitWords(before), splitWords(after)
	if len(old) == 0 || len(words) == 0 || len(old)+len(words) > mostWords {
		return nil, nil
	}
	edits := lcs.DiffLines(old, words)
	common := len(before)
	at, pos := 0, 0
	newAt, newPos := 0, 0
	for _, e := range edits {
		pos += width(old[at:e.Start])
		newPos += width(words[newAt:e.ReplStart])
		if n := width(old[e.Start:e.End]); n > 0 {
			removed = append(removed, Span{pos, pos + n})
			pos += n
			common -= n
		}
		if n := width(words[e.ReplStart:e.ReplEnd]); n > 0 {
			added = append(added, Span{newPos, newPos + n})
			newPos += n
		}
		at, newAt = e.End, e.ReplEnd
	}
	if 10*common < 3*max(len(before), len(after)) {
		return nil, nil
	}
	return removed, added
}

func width(words []string) (n int) {
	for _, w := range words {
		n += len(w)
	}
	return n
}

// splitWords cuts a line into words, runs of spaces, and single other
// characters.
func splitWords(line string) []string {
	words := make([]string, 0, len(line)/4+1)
	for line != "" {
		r, n := utf8.DecodeRuneInString(line)
		if kind := wordKind(r); kind != 0 {
			for n < len(line) {
				r, size := utf8.DecodeRuneInString(line[n:])
				if wordKind(r) != kind {
					break
				}
				n += size
			}
		}
		words = append(words, line[:n])
		line = line[n:]
	}
	return words
}

func wordKind(r rune) int {
	switch {
	case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
		return 1
	case unicode.IsSpace(r):
		return 2
	}
	return 0
}
