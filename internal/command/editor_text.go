package command

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// editedText is a text with a cursor before one of its characters, as a person counts them: a
// letter with its accents is one.
type editedText struct {
	all string
	at  int // in bytes
}

func (t *editedText) insert(text string) {
	t.all = t.all[:t.at] + text + t.all[t.at:]
	t.at += len(text)
}

func (t *editedText) cut(from, to int) {
	t.all = t.all[:from] + t.all[to:]
	t.at = from
}

// cluster returns the first character of a text, and its columns.
func cluster(text string) (string, int) { return ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth) }

func (t *editedText) next(at int) int {
	if at == len(t.all) {
		return at
	}
	first, _ := cluster(t.all[at:])
	return at + len(first)
}

func (t *editedText) previous(at int) int {
	if at == 0 {
		return 0
	}
	start := t.lineStart(at)
	if start == at {
		return at - 1 // the line feed
	}
	for {
		next := t.next(start)
		if next >= at {
			return start
		}
		start = next
	}
}

func (t *editedText) lineStart(at int) int { return strings.LastIndexByte(t.all[:at], '\n') + 1 }

func (t *editedText) lineEnd(at int) int {
	if i := strings.IndexByte(t.all[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(t.all)
}

// up moves the cursor to the line above, and reports whether there is one.
func (t *editedText) up() bool {
	start := t.lineStart(t.at)
	if start == 0 {
		return false
	}
	t.at = t.columnOf(t.lineStart(start-1), Columns(t.all[start:t.at]))
	return true
}

// down moves the cursor to the line below, and reports whether there is one.
func (t *editedText) down() bool {
	end := t.lineEnd(t.at)
	if end == len(t.all) {
		return false
	}
	t.at = t.columnOf(end+1, Columns(t.all[t.lineStart(t.at):t.at]))
	return true
}

// columnOf returns the place in a line that is as near to a column as the line has one.
func (t *editedText) columnOf(start, column int) int {
	end := t.lineEnd(start)
	for at, columns := start, 0; at < end; {
		first, width := cluster(t.all[at:end])
		if columns += width; columns > column {
			return at
		}
		at += len(first)
	}
	return end
}

func isWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// wordStart returns the start of the word before a place.
func (t *editedText) wordStart(at int) int {
	before := strings.TrimRightFunc(t.all[:at], func(r rune) bool { return !isWord(r) })
	return len(strings.TrimRightFunc(before, isWord))
}

// wordEnd returns the end of the word after a place.
func (t *editedText) wordEnd(at int) int {
	after := strings.TrimLeftFunc(t.all[at:], func(r rune) bool { return !isWord(r) })
	return len(t.all) - len(strings.TrimLeftFunc(after, isWord))
}

// blankStart returns the start of what stands before a place up to a blank, as Ctrl-W of a shell.
func (t *editedText) blankStart(at int) int {
	before := strings.TrimRightFunc(t.all[:at], unicode.IsSpace)
	return len(strings.TrimRightFunc(before, func(r rune) bool { return !unicode.IsSpace(r) }))
}

// Columns returns how many columns of a terminal a text of one line has.
func Columns(text string) int {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf || text[i] == '\x1b' {
			return ansi.StringWidth(text)
		}
	}
	return len(text)
}
