package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// History is what was answered to prompts, oldest first.
type History struct {
	lines []string
	file  string // empty: it is not kept
	at    int    // the entry that is shown; len(lines): none
	typed string // before an entry was shown
}

// mostHistory is how many entries a history has.
const mostHistory = 1000

// OpenHistory returns the history that is kept in a file: a line for each entry, which is a string
// of JSON. A file that cannot be read is as good as none; one that cannot be written, too.
func OpenHistory(file string) History {
	h := History{file: file}
	content, err := os.ReadFile(file)
	if err != nil {
		return h
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	for _, line := range lines[max(0, len(lines)-mostHistory):] {
		var entry string
		if json.Unmarshal([]byte(line), &entry) == nil {
			h.lines = append(h.lines, pastedText(entry))
		}
	}
	if len(lines) > 2*mostHistory {
		h.rewrite()
	}
	return h
}

// rewrite leaves old entries out of the file.
func (h *History) rewrite() {
	var b strings.Builder
	for _, line := range h.lines {
		b.WriteString(entryOf(line))
	}
	_ = ReplaceFile(h.file, []byte(b.String()), 0o600) // the next time, then
}

func entryOf(line string) string {
	entry, _ := json.Marshal(line) // a string has no error
	return string(entry) + "\n"
}

// Add adds an answer, unless it is blank or the one before. One that begins with a blank is not
// kept in the file, as in a shell.
func (h *History) Add(line string) {
	line = strings.TrimRight(line, " \t\n")
	if line == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	if h.lines = append(h.lines, line); len(h.lines) > mostHistory {
		h.lines = slices.Delete(h.lines, 0, 1)
	}
	if h.file == "" || strings.HasPrefix(line, " ") {
		return
	}
	if os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = f.WriteString(entryOf(line)) // it is lost, and nothing else
	_ = f.Close()
}

func (h *History) rewind() { h.at, h.typed = len(h.lines), "" }

// older returns the entry before the one that is shown.
func (h *History) older(shown string) (string, bool) {
	if h.at == 0 {
		return "", false
	}
	if h.at == len(h.lines) {
		h.typed = shown
	}
	h.at--
	return h.lines[h.at], true
}

// newer returns the entry after the one that is shown, and at last what was typed.
func (h *History) newer() (string, bool) {
	if h.at >= len(h.lines) {
		return "", false
	}
	if h.at++; h.at == len(h.lines) {
		return h.typed, true
	}
	return h.lines[h.at], true
}

// historySearch looks for entries of the history while their text is typed.
type historySearch struct {
	wanted string
	at     int // the entry that was found, or len
	failed bool
	before editedText
}

func (s *historySearch) prompt() string {
	if s.failed {
		return "(no earlier `" + s.wanted + "') "
	}
	return "(search `" + s.wanted + "') "
}

// searchFor does what a key means for a search. It reports false, and ends the search, if the key
// is for the text that was found. Enter makes that the answer.
func (e *LineEditor) searchFor(key pressedKey) bool {
	s := e.search
	switch key.name {
	case keySearch:
		e.find(s.at-1, -1)
	case keySearchBack:
		e.find(s.at+1, 1)
	case keyText:
		s.wanted += key.text
		e.find(min(s.at, len(e.History.lines)-1), -1)
	case keyBackspace:
		wanted := editedText{all: s.wanted}
		s.wanted = s.wanted[:wanted.previous(len(s.wanted))]
		e.find(len(e.History.lines)-1, -1)
	case keyCancel, keyInterrupt:
		e.text, e.search = s.before, nil
	case keyEnter: // the text that was found is the answer
		e.text.at = len(e.text.all)
		e.search = nil
	default:
		e.search = nil
		return false
	}
	return true
}

// find shows the first entry with the text that is searched for, from one on.
func (e *LineEditor) find(from, step int) {
	s := e.search
	if s.failed = true; s.wanted == "" {
		s.failed = false
		return
	}
	for i := from; i >= 0 && i < len(e.History.lines); i += step {
		if at := strings.Index(e.History.lines[i], s.wanted); at >= 0 {
			s.at, s.failed = i, false
			e.text = editedText{all: e.History.lines[i], at: at}
			return
		}
	}
}
