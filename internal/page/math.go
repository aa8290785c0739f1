package page

import (
	"bytes"
	"html/template"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// formula is mathematics in TeX, which Markdown does not look into. A script of the page draws it.
type formula struct {
	ast.BaseInline
	source  string // with its delimiters
	display bool
}

var kindFormula = ast.NewNodeKind("Formula")

// Kind implements ast.Node.
func (*formula) Kind() ast.NodeKind { return kindFormula }

// Dump implements ast.Node.
func (f *formula) Dump(source []byte, level int) { ast.DumpHelper(f, source, level, nil, nil) }

// formulas finds $x$, $$x$$, \(x\) and \[x\]. As in Pandoc, there is no space inside of single dollars,
// and no digit behind them, so that prices stay text.
type formulas struct{}

// Trigger implements parser.InlineParser.
func (formulas) Trigger() []byte { return []byte("$\\") }

// maxFormula bounds a formula, in bytes: what is longer stays text.
const maxFormula = 4 << 10

// Parse implements parser.InlineParser.
func (formulas) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, _ := block.PeekLine()
	begin, end := "", ""
	for _, marks := range [][2]string{{"$$", "$$"}, {"$", "$"}, {`\(`, `\)`}, {`\[`, `\]`}} {
		if bytes.HasPrefix(line, []byte(marks[0])) {
			begin, end = marks[0], marks[1]
			break
		}
	}
	if begin == "" {
		return nil
	}
	number, segment := block.Position()
	var source []byte
	for rest := line; ; rest, _ = block.PeekLine() {
		from := 0
		if source == nil {
			from = len(begin)
		}
		if at := bytes.Index(rest[from:], []byte(end)); at >= 0 {
			at += from
			source = append(source, rest[:at+len(end)]...)
			if begin == "$" && !isInline(source, rest[at+1:]) {
				break
			}
			block.Advance(at + len(end))
			return &formula{source: string(source), display: begin == "$$" || begin == `\[`}
		}
		source = append(source, rest...)
		if begin == "$" || len(source) > maxFormula {
			break
		}
		if block.AdvanceLine(); noLine(block) {
			break
		}
	}
	block.SetPosition(number, segment)
	return nil
}

func noLine(block text.Reader) bool {
	line, _ := block.PeekLine()
	return line == nil
}

// isInline reports whether text between single dollars is a formula.
func isInline(source, rest []byte) bool {
	inner := source[1 : len(source)-1]
	space := func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }
	return len(inner) > 0 && !space(inner[0]) && !space(inner[len(inner)-1]) &&
		(len(rest) == 0 || rest[0] < '0' || rest[0] > '9')
}

// formulaNodes renders formulas.
type formulaNodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (formulaNodes) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(kindFormula, func(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		f, class := node.(*formula), "math"
		if f.display {
			class += " display"
		}
		_, err := w.WriteString(`<span class="` + class + `">` + template.HTMLEscapeString(f.source) + `</span>`)
		return ast.WalkSkipChildren, err
	})
}
