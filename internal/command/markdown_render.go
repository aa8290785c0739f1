package command

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Looks of a terminal, each with what ends it.
var (
	boldLook   = [2]string{"\x1b[1m", "\x1b[22m"}
	italicLook = [2]string{"\x1b[3m", "\x1b[23m"}
	struckLook = [2]string{"\x1b[9m", "\x1b[29m"}
	faintLook  = [2]string{"\x1b[2m", "\x1b[22m"}
	codeLook   = [2]string{"\x1b[36m", "\x1b[39m"}
)

// Bounds of a block that is rendered. goldmark needs time or memory that grows with the square
// of some of them, and it adds the missing cells of a table.
const (
	maxNesting = 16 // quotes and lists in one another
	maxCells   = 20_000
	maxProse   = 16 << 10 // bytes of a block that is no code
	narrowest  = 20       // columns of a text, however deep
)

var markdownParser = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough,
	extension.TaskList)).Parser()

// renderMarkdown returns a block of Markdown for a terminal. Text goes through plainText once
// its entities are resolved, so none of it controls the terminal. It reports false for a block
// that exceeds the bounds.
func renderMarkdown(source string, width int) (shown string, ok bool) {
	if isHeavy(source) {
		return "", false
	}
	r := &markdownRenderer{source: []byte(source), ok: true}
	shown = r.blocks(markdownParser.Parse(text.NewReader(r.source)), width, 0, "\n\n")
	return shown, r.ok
}

func isHeavy(source string) bool {
	lines, widest := 0, 0
	for line := range strings.Lines(source) {
		lines++
		widest = max(widest, strings.Count(line, "|")+1)
		marks := line[:len(line)-len(strings.TrimLeft(line, "> \t-+*"))]
		if strings.Count(marks, ">")+strings.Count(marks, "- ")+strings.Count(marks, "+ ")+strings.Count(marks, "* ") >
			2*maxNesting {
			return true
		}
	}
	return lines*widest > maxCells || len(source) > maxProse && fenceOf(source) == ""
}

type markdownRenderer struct {
	source []byte
	ok     bool
}

// blocks returns the blocks of a node, one below the other.
func (r *markdownRenderer) blocks(parent ast.Node, width, depth int, between string) string {
	if depth > maxNesting {
		r.ok = false
		return ""
	}
	width = max(width, narrowest)
	var blocks []string
	number := 0
	if list, ok := parent.(*ast.List); ok {
		number = list.Start
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			blocks = append(blocks, ansi.Wrap(look(boldLook, r.line(n)), width, ""))
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			blocks = append(blocks, look(codeLook, r.raw(n)))
		case *ast.HTMLBlock:
			blocks = append(blocks, r.raw(n))
		case *ast.ThematicBreak:
			blocks = append(blocks, strings.Repeat("─", width))
		case *ast.Blockquote:
			bar := look(faintLook, "│ ")
			blocks = append(blocks, hang(bar, bar, r.blocks(n, width-2, depth+1, "\n\n")))
		case *ast.List:
			space := "\n\n"
			if n.IsTight {
				space = "\n"
			}
			blocks = append(blocks, r.blocks(n, width, depth+1, space))
		case *ast.ListItem:
			mark := "• "
			if list, ok := parent.(*ast.List); ok && list.IsOrdered() {
				mark = fmt.Sprintf("%d%c ", number, list.Marker)
				number++
			}
			blocks = append(blocks, hang(mark, strings.Repeat(" ", ansi.StringWidth(mark)),
				r.blocks(n, width-ansi.StringWidth(mark), depth+1, between)))
		case *table.Table:
			blocks = append(blocks, r.table(n, width))
		default:
			blocks = append(blocks, ansi.Wrap(r.line(n), width, ""))
		}
	}
	return strings.Join(blocks, between)
}

// hang puts one prefix before the first line of a text, and another before the others.
func hang(first, others, text string) string {
	return first + strings.ReplaceAll(text, "\n", "\n"+others)
}

func look(l [2]string, text string) string { return l[0] + text + l[1] }

// raw returns the lines of a block as they are.
func (r *markdownRenderer) raw(n ast.Node) string {
	lines := n.Lines().Value(r.source)
	if block, ok := n.(*ast.HTMLBlock); ok && block.HasClosure() {
		lines = append(lines, block.ClosureLine.Value(r.source)...)
	}
	return strings.TrimRight(PlainText(string(lines)), "\n")
}

// line returns the text of a node, with its looks.
func (r *markdownRenderer) line(parent ast.Node) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			b.WriteString(unescaped(n.Value(r.source)))
			if n.HardLineBreak() {
				b.WriteString("\n")
			} else if n.SoftLineBreak() {
				b.WriteString(" ")
			}
		case *ast.String:
			b.WriteString(unescaped(n.Value))
		case *ast.CodeSpan:
			var code strings.Builder
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok {
					code.Write(t.Value(r.source))
				}
			}
			b.WriteString(look(codeLook, PlainText(strings.ReplaceAll(code.String(), "\n", " "))))
		case *ast.Emphasis:
			if n.Level > 1 {
				b.WriteString(look(boldLook, r.line(n)))
			} else {
				b.WriteString(look(italicLook, r.line(n)))
			}
		case *table.Strikethrough:
			b.WriteString(look(struckLook, r.line(n)))
		case *table.TaskCheckBox:
			if n.IsChecked {
				b.WriteString("[x] ")
			} else {
				b.WriteString("[ ] ")
			}
		case *ast.Link:
			b.WriteString(withAddress(r.line(n), n.Destination))
		case *ast.Image:
			b.WriteString(withAddress("picture: "+r.line(n), n.Destination))
		case *ast.AutoLink:
			b.WriteString(PlainText(string(n.Label(r.source))))
		case *ast.RawHTML:
			b.WriteString(PlainText(string(n.Segments.Value(r.source))))
		default:
			b.WriteString(r.line(n))
		}
	}
	return b.String()
}

var entity = regexp.MustCompile(`&[#A-Za-z][0-9A-Za-z]*;?`)

// unescaped resolves escapes and entities, but for entities of characters that nobody sees.
func unescaped(source []byte) string {
	return PlainText(entity.ReplaceAllStringFunc(string(util.UnescapePunctuations(source)), func(e string) string {
		text := html.UnescapeString(e)
		hidden := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
		if strings.ContainsFunc(text, hidden) {
			return "\ufffd"
		}
		return text
	}))
}

// withAddress returns the text of a link with its address.
func withAddress(text string, destination []byte) string {
	if address := unescaped(destination); address != ansi.Strip(text) {
		return text + " (" + address + ")"
	}
	return text
}

// table returns a table whose columns have equal shares of the width if it is too narrow for them.
func (r *markdownRenderer) table(t *table.Table, width int) string {
	var rows [][]string
	widths := make([]int, len(t.Alignments))
	for row := t.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil && len(cells) < len(widths); cell = cell.NextSibling() {
			text := r.line(cell)
			widths[len(cells)] = max(widths[len(cells)], ansi.StringWidth(text))
			cells = append(cells, text)
		}
		rows = append(rows, cells)
	}
	if most := max(width/max(len(widths), 1)-3, 3); sum(widths) > width-3*len(widths) {
		for i := range widths {
			widths[i] = min(widths[i], most)
		}
	}
	var b strings.Builder
	for i, cells := range rows {
		lines := make([][]string, len(cells))
		height := 1
		for c := range cells {
			lines[c] = strings.Split(ansi.Wrap(cells[c], widths[c], ""), "\n")
			height = max(height, len(lines[c]))
		}
		for y := range height {
			var shown []string
			for c := range cells {
				part := ""
				if y < len(lines[c]) {
					part = lines[c][y]
				}
				pad := strings.Repeat(" ", max(widths[c]-ansi.StringWidth(part), 0))
				if t.Alignments[c] == table.AlignRight {
					shown = append(shown, pad+part)
				} else {
					shown = append(shown, part+pad)
				}
			}
			b.WriteString(strings.TrimRight(strings.Join(shown, " │ "), " ") + "\n")
		}
		if i == 0 {
			var rules []string
			for _, w := range widths {
				rules = append(rules, strings.Repeat("─", w))
			}
			b.WriteString(strings.Join(rules, "─┼─") + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func sum(all []int) (total int) {
	for _, n := range all {
		total += n
	}
	return total
}
