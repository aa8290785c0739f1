package web

import (
	"bytes"
	"html/template"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// spoken renders what a model says: Markdown without raw HTML, without
// pictures, and with links that lead only where a person can see.
var spoken = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(noPictures{}, 100), util.Prioritized(spokenNodes{}, 90))))

// maxSpoken is the longest text that is rendered as Markdown; a longer one is
// shown as it is.
const maxSpoken = 256 << 10

// say renders what a model says.
func say(text string) template.HTML {
	text = strings.TrimSpace(text)
	var html bytes.Buffer
	if len(text) > maxSpoken || spoken.Convert([]byte(text), &html) != nil {
		return template.HTML(`<pre class="text">` + template.HTMLEscapeString(text) + `</pre>`) //nolint:gosec // escaped
	}
	return template.HTML(html.String()) //nolint:gosec // raw HTML is off, and the policy of the page lets nothing run
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
	_, _ = w.WriteString(`<a href="` + template.HTMLEscapeString(u.String()) + `" rel="noopener noreferrer nofollow" target="_blank">`)
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
	_, err := w.WriteString(`<pre class="text" tabindex="0">` + name + `<code>` + string(highlight(language, text.String())) + `</code></pre>`)
	return ast.WalkSkipChildren, err
}

const (
	maxHighlight  = 64 << 10               // bytes of code that are coloured
	highlightTime = 150 * time.Millisecond // then the rest stays plain: lexers can be led astray
)

// highlight colours code. Whatever is in it, it becomes text in spans.
func highlight(language, code string) (html template.HTML) {
	plain := template.HTML(template.HTMLEscapeString(code)) //nolint:gosec // escaped
	name := coloured[strings.ToLower(language)]
	if name == "" || len(code) > maxHighlight {
		return plain
	}
	defer func() {
		if recover() != nil { // iterators of lexers tell errors so
			html = plain
		}
	}()
	lexer := lexers.Get(name)
	if lexer == nil {
		return plain
	}
	whole := strings.TrimRight(code, "\n") + "\n" // which lexers want at the end
	next, err := chroma.Coalesce(lexer).Tokenise(&chroma.TokeniseOptions{State: "root"}, whole)
	if err != nil {
		return plain
	}
	var b strings.Builder
	done, end := 0, time.Now().Add(highlightTime)
	for token := next(); token != chroma.EOF; token = next() {
		if !strings.HasPrefix(whole[done:], token.Value) || time.Now().After(end) {
			break
		}
		done += len(token.Value)
		text := template.HTMLEscapeString(token.Value)
		if class := tokenClass(token.Type); class != "" {
			text = `<span class="` + class + `">` + text + `</span>`
		}
		b.WriteString(text)
	}
	b.WriteString(template.HTMLEscapeString(whole[done:])) // what the lexer has changed or not come to
	return template.HTML(b.String())                       //nolint:gosec // escaped
}

// coloured are the languages that models write, by the names that they give
// them, with the names of their lexers.
var coloured = map[string]string{
	"python": "python", "python3": "python", "py": "python", "bash": "bash", "sh": "bash", "shell": "bash", "console": "bash",
	"javascript": "javascript", "js": "javascript", "typescript": "typescript", "ts": "typescript", "json": "json", "sql": "sql",
	"r": "r", "go": "go", "rust": "rust", "java": "java", "c": "c", "c++": "c++", "cpp": "c++", "css": "css", "html": "html", "xml": "xml",
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
	case t == chroma.NameFunction, t == chroma.NameClass, t == chroma.NameBuiltin, t == chroma.NameDecorator, t == chroma.NameNamespace:
		return "tok-definition"
	}
	return ""
}
