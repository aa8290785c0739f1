package web

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/airlock-run/airlock/workspace"
)

// Names and contents that a model chose are shown as they are. Characters that
// would not show, or that would change how others show, are spelled out, so
// that what the user approves is what they see.

// stretch is a part of a text that looks one way.
type stretch struct {
	Text   string
	Hidden bool   // the spelled-out name of a character that would not show
	Word   bool   // it differs from its counterpart on the other side
	Class  string // of the token of code that it is part of
}

// shown cuts a text into pieces.
func shown(text string) []stretch { return shownLine(text, nil, len(text)) }

// shownLine is shown for a line of a diff: the spans differ from the other
// side. What is beyond most bytes is left out, and said.
func shownLine(text string, spans []workspace.Span, most int) []stretch {
	var pieces []stretch
	var plain strings.Builder
	word := false
	flush := func() {
		if plain.Len() > 0 {
			pieces = append(pieces, stretch{Text: plain.String(), Word: word})
			plain.Reset()
		}
	}
	for i := 0; i < len(text); {
		if i >= most {
			flush()
			return append(pieces, stretch{Text: "… " + count(utf8.RuneCountInString(text[i:]), "more character"), Hidden: true})
		}
		for len(spans) > 0 && i >= spans[0].End {
			spans = spans[1:]
		}
		if marked := len(spans) > 0 && i >= spans[0].Start; marked != word {
			flush()
			word = marked
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if name := spelledOut(r, n); name != "" {
			flush()
			pieces = append(pieces, stretch{Text: name, Hidden: true, Word: word})
		} else {
			plain.WriteString(text[i : i+n])
		}
		i += n
	}
	flush()
	return pieces
}

// spelledOut is how a character is written that would not show; "" for one
// that does.
func spelledOut(r rune, size int) string {
	switch {
	case r == utf8.RuneError && size <= 1:
		return "invalid byte"
	case r == '\t':
		return ""
	case r == '\r':
		return "CR"
	case r == '\n':
		return "LF"
	case r == 0x1b:
		return "ESC"
	case r == 0x7f:
		return "DEL"
	case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs),
		r >= 0xfe00 && r <= 0xfe0e, r >= 0xe0100 && r <= 0xe01ef, // selectors of variants
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0: // letters without a shape
		return fmt.Sprintf("U+%04X", r)
	case r != ' ' && unicode.Is(unicode.Zs, r):
		return fmt.Sprintf("U+%04X", r)
	}
	return ""
}

// prose is named for a text of several lines.
func prose(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = named(lines[i])
	}
	return strings.Join(lines, "\n")
}

// findingView is what a rule has to say.
type findingView struct {
	Severity             workspace.Severity
	Words, Message, Hint string
	Rule                 string
}

// findings are shown with what they quote.
func findings(list []workspace.Finding) []findingView {
	var all []findingView
	for _, f := range list {
		v := findingView{f.Severity, severityWords[f.Severity], sentence(prose(f.Message)), "", f.Rule}
		if f.Hint != "" {
			v.Hint = sentence(prose(f.Hint))
		}
		all = append(all, v)
	}
	return all
}

// named is a text of one line for a place where pieces cannot be marked.
func named(text string) string {
	var b strings.Builder
	for _, p := range shown(text) {
		if p.Hidden {
			b.WriteString("⟨" + p.Text + "⟩")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
