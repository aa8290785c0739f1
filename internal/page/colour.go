package page

import (
	"html/template"
	"strings"
)

// Bounds of the coloured code in one document. Other code stays plain.
const (
	maxHighlight = 32 << 10 // bytes of one block
	maxTokens    = 12_000   // each is an element of the page
)

// Palette counts down the tokens that a document may still have.
type Palette struct{ left int }

// NewPalette returns a palette for the code of one page.
func NewPalette() *Palette { return &Palette{maxTokens} }

// Highlight colours code: it returns escaped text in spans.
func Highlight(language, code string) template.HTML { return NewPalette().colour(language, code) }

func (p *Palette) colour(language, code string) template.HTML {
	var b strings.Builder
	done := 0
	for _, t := range p.tokens(language, code) {
		if t.Class != "" {
			b.WriteString(`<span class="` + t.Class + `">`)
		}
		b.WriteString(template.HTMLEscapeString(code[done:t.End]))
		if t.Class != "" {
			b.WriteString("</span>")
		}
		done = t.End
	}
	b.WriteString(template.HTMLEscapeString(code[done:])) // beyond the bounds
	return template.HTML(b.String())                      //nolint:gosec // escaped
}

// codeToken is a part of code with one colour, from the end of the one before it.
type codeToken struct {
	End   int
	Class string // of tokenClass
}

// tokens returns the tokens of code as far as the bounds allow. There are none for a
// language that is not coloured.
func (p *Palette) tokens(language, code string) (tokens []codeToken) {
	g := Grammars[strings.ToLower(language)]
	if g == nil || len(code) > maxHighlight {
		return nil
	}
	for l := (lexer{grammar: g, code: code}); l.at < len(code); {
		end, class := l.next()
		if n := len(tokens); n > 0 && tokens[n-1].Class == class {
			tokens[n-1].End = end
			continue
		}
		if p.left--; p.left <= 0 {
			break
		}
		tokens = append(tokens, codeToken{end, class})
	}
	return tokens
}

// CodeLine is a line of a diff with its view.
type CodeLine struct {
	Raw   string
	Shown *[]Stretch // which gets the colours; nil: not shown
}

// Lines colours consecutive lines.
func (p *Palette) Lines(language string, lines []CodeLine) {
	var code strings.Builder
	for _, l := range lines {
		code.WriteString(strings.TrimSuffix(l.Raw, "\n") + "\n")
	}
	tokens := p.tokens(language, code.String())
	from := 0
	for _, l := range lines {
		to := from + len(strings.TrimSuffix(l.Raw, "\n"))
		for len(tokens) > 0 && tokens[0].End <= from {
			tokens = tokens[1:]
		}
		if l.Shown != nil {
			*l.Shown = withClasses(*l.Shown, from, tokens)
		}
		from = to + 1
	}
}

// withClasses cuts the pieces of a line, which begins at an offset of the code, where tokens
// end. A line with spelled-out characters stays as it is.
func withClasses(pieces []Stretch, at int, tokens []codeToken) []Stretch {
	for _, piece := range pieces {
		if piece.Hidden {
			return pieces
		}
	}
	var cut []Stretch
	for _, piece := range pieces {
		for piece.Text != "" {
			for len(tokens) > 0 && tokens[0].End <= at {
				tokens = tokens[1:]
			}
			n, class := len(piece.Text), ""
			if len(tokens) > 0 {
				n, class = min(n, tokens[0].End-at), tokens[0].Class
			}
			cut = append(cut, Stretch{Text: piece.Text[:n], Word: piece.Word, Class: class})
			piece.Text, at = piece.Text[n:], at+n
		}
	}
	return cut
}
