package page

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names and contents from a model are shown exactly. Characters that are invisible, or that
// change how others look, are spelled out, so that users see what they approve.

// Stretch is a part of a text with one look.
type Stretch struct {
	Text   string
	Hidden bool   // the spelled-out name of an invisible character
	Word   bool   // it differs from its counterpart on the other side
	Class  string // of the token of code that it is part of
}

// Span is a range of bytes of a text.
type Span struct{ Start, End int }

// Shown cuts a text into stretches.
func Shown(text string) []Stretch { return ShownLine(text, nil, len(text)) }

// ShownLine is shown for a line of a diff, whose spans differ from the other side. It cuts
// the line off after most bytes, and says so.
func ShownLine(text string, spans []Span, most int) []Stretch {
	var pieces []Stretch
	var plain strings.Builder
	word := false
	flush := func() {
		if plain.Len() > 0 {
			pieces = append(pieces, Stretch{Text: plain.String(), Word: word})
			plain.Reset()
		}
	}
	for i := 0; i < len(text); {
		if i >= most {
			flush()
			return append(pieces, Stretch{Text: "… " + Count(utf8.RuneCountInString(text[i:]), "more character"), Hidden: true})
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
			pieces = append(pieces, Stretch{Text: name, Hidden: true, Word: word})
		} else {
			plain.WriteString(text[i : i+n])
		}
		i += n
	}
	flush()
	return pieces
}

// spelledOut returns the name of an invisible character, "" for a visible one.
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

// Prose is named for a text of several lines.
func Prose(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = Named(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Named returns a text of one line, for places where stretches cannot be marked.
func Named(text string) string {
	var b strings.Builder
	for _, p := range Shown(text) {
		if p.Hidden {
			b.WriteString("⟨" + p.Text + "⟩")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
