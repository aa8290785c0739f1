package web

import (
	"html/template"
	"path"
	"strings"
)

// Bounds of the coloured code in one document. Other code stays plain.
const (
	maxHighlight = 32 << 10 // bytes of one block
	maxTokens    = 12_000   // each is an element of the page
)

// palette counts down the tokens that a document may still have.
type palette struct{ left int }

func newPalette() *palette { return &palette{maxTokens} }

// highlight colours code: it returns escaped text in spans.
func highlight(language, code string) template.HTML { return newPalette().colour(language, code) }

func (p *palette) colour(language, code string) template.HTML {
	var b strings.Builder
	done := 0
	for _, t := range p.tokens(language, code) {
		if t.class != "" {
			b.WriteString(`<span class="` + t.class + `">`)
		}
		b.WriteString(template.HTMLEscapeString(code[done:t.end]))
		if t.class != "" {
			b.WriteString("</span>")
		}
		done = t.end
	}
	b.WriteString(template.HTMLEscapeString(code[done:])) // beyond the bounds
	return template.HTML(b.String())                      //nolint:gosec // escaped
}

// codeToken is a part of code with one colour, from the end of the one before it.
type codeToken struct {
	end   int
	class string // of tokenClass
}

// tokens returns the tokens of code as far as the bounds allow. There are none for a
// language that is not coloured.
func (p *palette) tokens(language, code string) (tokens []codeToken) {
	g := grammars[strings.ToLower(language)]
	if g == nil || len(code) > maxHighlight {
		return nil
	}
	for l := (lexer{grammar: g, code: code}); l.at < len(code); {
		end, class := l.next()
		if n := len(tokens); n > 0 && tokens[n-1].class == class {
			tokens[n-1].end = end
			continue
		}
		if p.left--; p.left <= 0 {
			break
		}
		tokens = append(tokens, codeToken{end, class})
	}
	return tokens
}

// codeLine is a line of a diff with its view.
type codeLine struct {
	raw   string
	shown *[]stretch
}

// colour gives the code of a hunk its colours. A lexer sees each side by itself, from the
// beginning of the hunk, so that it may take the end of a long string for code.
func (v *hunkView) colour(file string, p *palette) {
	language := strings.TrimPrefix(path.Ext(file), ".")
	if p == nil || grammars[strings.ToLower(language)] == nil {
		return
	}
	var before, after []codeLine
	for i := range v.Blocks {
		b := &v.Blocks[i]
		for j := range b.Same {
			before = append(before, codeLine{b.Same[j].raw, nil})
			after = append(after, codeLine{b.Same[j].raw, &b.Same[j].Text})
		}
		for j := range b.Old {
			before = append(before, codeLine{b.Old[j].raw, &b.Old[j].Text})
		}
		for j := range b.New {
			after = append(after, codeLine{b.New[j].raw, &b.New[j].Text})
		}
	}
	p.lines(language, before)
	p.lines(language, after)
}

// lines colours consecutive lines.
func (p *palette) lines(language string, lines []codeLine) {
	var code strings.Builder
	for _, l := range lines {
		code.WriteString(strings.TrimSuffix(l.raw, "\n") + "\n")
	}
	tokens := p.tokens(language, code.String())
	from := 0
	for _, l := range lines {
		to := from + len(strings.TrimSuffix(l.raw, "\n"))
		for len(tokens) > 0 && tokens[0].end <= from {
			tokens = tokens[1:]
		}
		if l.shown != nil {
			*l.shown = withClasses(*l.shown, from, tokens)
		}
		from = to + 1
	}
}

// withClasses cuts the pieces of a line, which begins at an offset of the code, where tokens
// end. A line with spelled-out characters stays as it is.
func withClasses(pieces []stretch, at int, tokens []codeToken) []stretch {
	for _, piece := range pieces {
		if piece.Hidden {
			return pieces
		}
	}
	var cut []stretch
	for _, piece := range pieces {
		for piece.Text != "" {
			for len(tokens) > 0 && tokens[0].end <= at {
				tokens = tokens[1:]
			}
			n, class := len(piece.Text), ""
			if len(tokens) > 0 {
				n, class = min(n, tokens[0].end-at), tokens[0].class
			}
			cut = append(cut, stretch{Text: piece.Text[:n], Word: piece.Word, Class: class})
			piece.Text, at = piece.Text[n:], at+n
		}
	}
	return cut
}
