package web

import (
	"html/template"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// spoken renders what a model says: links lead only where a person can see.
var spoken = newMarkdown(spokenNodes{})

// say renders what a model says. What exceeds the bounds of Markdown is shown
// as it is.
func say(text string) template.HTML {
	text = strings.TrimSpace(text)
	if html, ok := renderMarkdown(spoken, text); ok {
		return html
	}
	return template.HTML(`<pre class="text">` + template.HTMLEscapeString(text) + `</pre>`) //nolint:gosec // escaped
}

// spokenNodes renders links and code.
type spokenNodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (n spokenNodes) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindLink, n.link)
	to.Register(ast.KindAutoLink, n.autoLink)
	to.Register(ast.KindFencedCodeBlock, n.code)
	to.Register(ast.KindCodeBlock, n.code)
}

// openLink begins a link out of the page; links of other kinds stay text.
func openLink(w util.BufWriter, to string) (opened bool) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		_, _ = w.WriteString(`<span class="nowhere">`)
		return false
	}
	_, _ = w.WriteString(`<a href="` + template.HTMLEscapeString(u.String()) +
		`" rel="noopener noreferrer nofollow" target="_blank">`)
	return true
}

func closeLink(w util.BufWriter, to string) {
	tag := "</span>"
	if u, err := url.Parse(to); err == nil && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto") {
		tag = "</a>"
	}
	_, _ = w.WriteString(tag)
}

func (spokenNodes) link(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	to := string(n.(*ast.Link).Destination)
	if entering {
		openLink(w, to)
	} else {
		closeLink(w, to)
	}
	return ast.WalkContinue, nil
}

func (spokenNodes) autoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	link := n.(*ast.AutoLink)
	to := string(link.URL(source))
	if link.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(to), "mailto:") {
		to = "mailto:" + to
	}
	openLink(w, to)
	_, _ = w.WriteString(template.HTMLEscapeString(string(link.Label(source))))
	closeLink(w, to)
	return ast.WalkContinue, nil
}

func (spokenNodes) code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	var text strings.Builder
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		text.Write(line.Value(source))
	}
	language := ""
	if fenced, ok := n.(*ast.FencedCodeBlock); ok {
		language = string(fenced.Language(source))
	}
	name := "" // "go:cmd/main.go": a file that the reply proposes
	if l, path, ok := strings.Cut(language, ":"); ok && path != "" {
		language, name = l, `<span class="fence">`+template.HTMLEscapeString(named(path))+`</span>`
	}
	code := string(workOf(n).palette.colour(language, text.String()))
	_, err := w.WriteString(`<pre class="text" tabindex="0">` + name + `<code>` + code + `</code></pre>`)
	return ast.WalkSkipChildren, err
}

// Bounds of the code in one document that is coloured; the rest stays plain.
const (
	maxHighlight  = 32 << 10 // bytes of one block
	maxTokens     = 12_000   // each takes some 2.5 KB of a lexer's memory
	highlightTime = 300 * time.Millisecond
)

// palette is what is left of these bounds.
type palette struct {
	left int // tokens
	time time.Duration
}

func newPalette() *palette { return &palette{maxTokens, highlightTime} }

// highlight colours code. Whatever is in it, it becomes text in spans.
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
	b.WriteString(template.HTMLEscapeString(whole[done:])) // what the lexer changed or did not reach
	return template.HTML(b.String())                       //nolint:gosec // escaped
}

// codeToken is a part of code that has one colour, from the end of the one before it.
type codeToken struct {
	end   int
	class string // of tokenClass
}

// tokens returns code as lexers want it, and the parts of it as far as the bounds allow:
// none for a language that is not coloured.
func (p *palette) tokens(language, code string) (whole string, tokens []codeToken) {
	name := coloured[strings.ToLower(language)]
	if name == "" || len(code) > maxHighlight || p.time <= 0 || p.left <= 0 {
		return code, nil
	}
	whole = strings.TrimRight(code, "\n") + "\n" // which lexers want at the end
	began := time.Now()
	defer func() {
		p.time -= time.Since(began)
		if recover() != nil { // iterators of lexers tell errors so
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

// coloured are the languages that models write, by the names that they give
// them, with the names of their lexers.
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

// tokenClass is a kind of token as the style sheet knows it.
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
