package page

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Bounds of a Markdown document. Programs and models write these documents, and
// goldmark needs memory and time that grow with the square of some of these
// quantities. A document beyond a bound is shown as plain text.
const (
	MaxMarkdown  = 128 << 10        // bytes
	maxDepth     = 32               // quotes and lists that one line begins
	maxCells     = 20_000           // cells of all tables, the missing ones that goldmark adds included
	maxMarks     = 40_000           // characters that may begin inline markup
	maxBlockMark = 2_000            // the same in one paragraph, heading or cell
	maxRendered  = 1 << 20          // bytes of HTML
	renderTime   = 10 * time.Second // the last resort: the bounds above keep a document below 0.1 s
)

// errUnbounded ends the rendering of a document that exceeds a bound.
var errUnbounded = errors.New("the document exceeds a bound")

// rendering limits how many documents are rendered at once, and so the memory
// that rendering takes.
var rendering = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

// newMarkdown returns a renderer without raw HTML and without pictures, whose
// documents are bounded.
func newMarkdown(nodes renderer.NodeRenderer, more ...goldmark.Option) goldmark.Markdown {
	options := []goldmark.Option{goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList),
		goldmark.WithParserOptions(
			parser.WithASTTransformers(util.Prioritized(workKeeper{}, 0)),
			parser.WithParagraphTransformers(util.Prioritized(cellCounter{}, 0)),
			parser.WithInlineParsers(util.Prioritized(markCounter{}, 0))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(
			util.Prioritized(noPictures{}, 100), util.Prioritized(nodes, 90)))}
	return goldmark.New(append(options, more...)...)
}

// RenderMarkdown returns a file of a run, or a cell, as HTML; false: it exceeds a bound or cannot be
// rendered.
func RenderMarkdown(source string) (html template.HTML, ok bool) { return convert(documents, source) }

// convert returns a document as HTML, and false if it exceeds a bound or cannot be rendered.
func convert(md goldmark.Markdown, source string) (html template.HTML, ok bool) {
	if len(source) > MaxMarkdown || deepLine(source) {
		return "", false
	}
	rendering <- struct{}{}
	defer func() { <-rendering }()
	// goldmark's parsers and renderers cannot return an error from where the
	// bounds are seen, so exceeding one is a panic that ends here.
	defer func() {
		switch failure := recover(); failure {
		case nil:
		case errUnbounded:
			html, ok = "", false
		default:
			panic(failure)
		}
	}()
	pc := parser.NewContext()
	pc.Set(workKey, &work{end: time.Now().Add(renderTime), palette: NewPalette()})
	out := &boundedBuffer{}
	if err := md.Convert([]byte(source), out, parser.WithContext(pc)); err != nil {
		return "", false
	}
	return template.HTML(out.String()), true //nolint:gosec // raw HTML is off, and the policy of the page lets nothing run
}

// deepLine reports whether a line begins more quotes and lists than maxDepth.
func deepLine(source string) bool {
	for line := range strings.Lines(source) {
		rule := strings.Trim(line, "- \t\r\n") == "" || strings.Trim(line, "* \t\r\n") == "" // across the page
		if !rule && lineDepth(line) > maxDepth {
			return true
		}
	}
	return false
}

// lineDepth counts the quotes and lists that a line begins.
func lineDepth(line string) (depth int) {
	for i := range len(line) {
		before, after := max(i-1, 0), min(i+1, len(line)-1)
		spaced := strings.IndexByte(" \t\r\n", line[after]) >= 0
		switch c := line[i]; {
		case c == '>':
			depth++
		case c == '-' && spaced, c == '+' && spaced, c == '*' && spaced:
			depth++
		case (c == '.' || c == ')') && spaced && line[before] >= '0' && line[before] <= '9':
			depth++
		case c == ' ', c == '\t', c >= '0' && c <= '9':
		default:
			return depth
		}
	}
	return depth
}

// work counts what a document has cost so far.
type work struct {
	cells, marks int
	block        ast.Node
	blockMarks   int
	end          time.Time
	palette      *Palette // for the code in it
}

var workKey = parser.NewContextKey()

// workKeeper makes a document's work known to the renderer of its nodes.
type workKeeper struct{}

// Transform implements parser.ASTTransformer.
func (workKeeper) Transform(doc *ast.Document, _ text.Reader, pc parser.Context) {
	doc.AddMeta("work", pc.Get(workKey))
}

func workOf(n ast.Node) *work { return n.OwnerDocument().Meta()["work"].(*work) }

// cellCounter sees each paragraph before the table extension does.
type cellCounter struct{}

// Transform implements parser.ParagraphTransformer.
func (cellCounter) Transform(node *ast.Paragraph, reader text.Reader, pc parser.Context) {
	w := pc.Get(workKey).(*work)
	lines := node.Lines()
	for i := 1; i < lines.Len(); i++ {
		line := lines.At(i)
		raw := line.Value(reader.Source())
		if len(bytes.Trim(raw, "|-: \t\r\n")) > 0 || bytes.IndexByte(raw, '-') < 0 {
			continue
		}
		if w.cells += (bytes.Count(raw, []byte("|")) + 1) * (lines.Len() - i + 1); w.cells > maxCells {
			panic(errUnbounded)
		}
	}
}

// markCounter sees each character that may begin inline markup before the
// parsers of that markup do, and leaves it to them.
type markCounter struct{}

// Trigger implements parser.InlineParser.
func (markCounter) Trigger() []byte { return []byte("[]()!*_~`<&\\$") }

// Parse implements parser.InlineParser.
func (markCounter) Parse(parent ast.Node, _ text.Reader, pc parser.Context) ast.Node {
	w := pc.Get(workKey).(*work)
	if w.block != parent {
		w.block, w.blockMarks = parent, 0
	}
	w.marks++
	w.blockMarks++
	if w.marks > maxMarks || w.blockMarks > maxBlockMark || w.marks%64 == 0 && time.Now().After(w.end) {
		panic(errUnbounded)
	}
	return nil
}

// boundedBuffer is a buffer that takes maxRendered bytes.
type boundedBuffer struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		panic(errUnbounded)
	}
	return b.Buffer.Write(p)
}

// documents renders files of runs, and cells.
var documents = newMarkdown(lowerHeadings{})

// lowerHeadings renders headings two levels lower, so that the page's own title stays its
// only h1.
type lowerHeadings struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (lowerHeadings) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := "</h%d>\n"
		if entering {
			tag = "<h%d>"
		}
		_, err := fmt.Fprintf(w, tag, min(node.(*ast.Heading).Level+2, 6))
		return ast.WalkContinue, err
	})
}

// answers renders answers of models.
var answers = newMarkdown(answerNodes{},
	goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(formulas{}, 50))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(formulaNodes{}, 80))))

// RenderAnswer renders an answer of a model, as plain text if it exceeds the bounds of
// Markdown.
func RenderAnswer(text string) template.HTML {
	text = strings.TrimSpace(text)
	if html, ok := convert(answers, text); ok {
		return html
	}
	return template.HTML(`<pre class="text">` + template.HTMLEscapeString(text) + `</pre>`) //nolint:gosec // escaped
}

// answerNodes renders links and code.
type answerNodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (n answerNodes) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindLink, n.link)
	to.Register(ast.KindAutoLink, n.autoLink)
	to.Register(ast.KindFencedCodeBlock, n.code)
	to.Register(ast.KindCodeBlock, n.code)
}

// linkTags returns the tags around a link out of the page. Links of other kinds stay text.
func linkTags(to string) (begin, end string) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return `<span class="nowhere">`, "</span>"
	}
	return `<a href="` + template.HTMLEscapeString(u.String()) + `" rel="noopener noreferrer nofollow" target="_blank">`,
		"</a>"
}

func (answerNodes) link(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	tag, end := linkTags(string(n.(*ast.Link).Destination))
	if !entering {
		tag = end
	}
	_, err := w.WriteString(tag)
	return ast.WalkContinue, err
}

func (answerNodes) autoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	link := n.(*ast.AutoLink)
	to := string(link.URL(source))
	if link.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(to), "mailto:") {
		to = "mailto:" + to
	}
	begin, end := linkTags(to)
	_, err := w.WriteString(begin + template.HTMLEscapeString(string(link.Label(source))) + end)
	return ast.WalkContinue, err
}

func (answerNodes) code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
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
		language, name = l, `<span class="fence">`+template.HTMLEscapeString(Named(path))+`</span>`
	}
	code := string(workOf(n).palette.colour(language, text.String()))
	_, err := w.WriteString(`<pre class="text" tabindex="0">` + name + `<code>` + code + `</code></pre>`)
	return ast.WalkSkipChildren, err
}

// noPictures renders the alternative text of pictures: a preview loads nothing from
// elsewhere.
type noPictures struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (noPictures) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindImage, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := "</em>"
		if entering {
			tag = "<em>picture: "
		}
		_, err := w.WriteString(tag)
		return ast.WalkContinue, err
	})
}
