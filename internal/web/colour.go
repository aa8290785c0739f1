package web

import (
	"html/template"
	"path"
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// Bounds of the coloured code in one document. Other code stays plain.
const (
	maxHighlight  = 32 << 10 // bytes of one block
	maxTokens     = 12_000   // each takes some 2.5 KB of a lexer's memory
	highlightTime = 300 * time.Millisecond
)

// palette counts down the remaining bounds of a document.
type palette struct {
	left int // tokens
	time time.Duration
}

func newPalette() *palette { return &palette{maxTokens, highlightTime} }

// highlight colours code: it returns escaped text in spans.
func highlight(language, code string) template.HTML {
	rendering <- struct{}{}
	defer func() { <-rendering }()
	return newPalette().colour(language, code)
}

func (p *palette) colour(language, code string) template.HTML {
	whole, tokens := p.tokens(language, code)
	var b strings.Builder
	done := 0
	for _, t := range tokens {
		if t.class != "" {
			b.WriteString(`<span class="` + t.class + `">`)
		}
		b.WriteString(template.HTMLEscapeString(whole[done:t.end]))
		if t.class != "" {
			b.WriteString("</span>")
		}
		done = t.end
	}
	b.WriteString(template.HTMLEscapeString(whole[done:])) // the lexer changed the rest, or did not reach it
	return template.HTML(b.String())                       //nolint:gosec // escaped
}

// codeToken is a part of code with one colour, from the end of the one before it.
type codeToken struct {
	end   int
	class string // of tokenClass
}

// tokens returns code with a newline at its end, as lexers need it, and its tokens as far
// as the bounds allow. There are none for a language that is not coloured.
func (p *palette) tokens(language, code string) (whole string, tokens []codeToken) {
	name := coloured[strings.ToLower(language)]
	if name == "" || len(code) > maxHighlight || p.time <= 0 || p.left <= 0 {
		return code, nil
	}
	whole = strings.TrimRight(code, "\n") + "\n" // which lexers want at the end
	began := time.Now()
	defer func() {
		p.time -= time.Since(began)
		if recover() != nil { // lexers panic to report errors
			whole, tokens = code, nil
		}
	}()
	lexer := lexers.Get(name)
	if lexer == nil {
		return code, nil
	}
	next, err := lexer.Tokenise(&chroma.TokeniseOptions{State: "root"}, whole)
	if err != nil {
		return code, nil
	}
	done := 0
	for token := next(); token != chroma.EOF; token = next() {
		p.left--
		if !strings.HasPrefix(whole[done:], token.Value) || p.left <= 0 || time.Since(began) > p.time {
			break
		}
		done += len(token.Value)
		class := tokenClass(token.Type)
		if n := len(tokens); n > 0 && tokens[n-1].class == class {
			tokens[n-1].end = done
		} else {
			tokens = append(tokens, codeToken{done, class})
		}
	}
	return whole, tokens
}

// coloured maps the names that models give languages to the names of their lexers.
var coloured = map[string]string{
	"python": "python", "python3": "python", "py": "python", "bash": "bash", "sh": "bash", "shell": "bash",
	"console":    "bash",
	"javascript": "javascript", "js": "javascript", "typescript": "typescript", "ts": "typescript", "json": "json",
	"sql": "sql",
	"r":   "r", "go": "go", "rust": "rust", "rs": "rust",
	"jsx": "javascript", "mjs": "javascript", "tsx": "typescript", "java": "java", "c": "c", "h": "c",
	"c++": "c++", "cpp": "c++", "css": "css",
	"html": "html", "xml": "xml",
	"yaml": "yaml", "yml": "yaml", "toml": "toml", "diff": "diff", "ini": "ini",
}

// tokenClass returns the CSS class of a kind of token.
func tokenClass(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Keyword), t == chroma.OperatorWord:
		return "tok-keyword"
	case t.InSubCategory(chroma.LiteralString):
		return "tok-string"
	case t.InSubCategory(chroma.LiteralNumber):
		return "tok-number"
	case t.InCategory(chroma.Comment):
		return "tok-comment"
	case t == chroma.NameFunction, t == chroma.NameClass, t == chroma.NameBuiltin, t == chroma.NameDecorator,
		t == chroma.NameNamespace:
		return "tok-definition"
	}
	return ""
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
	if p == nil || coloured[strings.ToLower(language)] == "" {
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
	rendering <- struct{}{}
	defer func() { <-rendering }()
	p.lines(language, before)
	p.lines(language, after)
}

// lines colours consecutive lines.
func (p *palette) lines(language string, lines []codeLine) {
	var code strings.Builder
	for _, l := range lines {
		code.WriteString(strings.TrimSuffix(l.raw, "\n") + "\n")
	}
	_, tokens := p.tokens(language, code.String())
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
