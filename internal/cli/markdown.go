package cli

import (
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"unicode"

	"charm.land/glamour/v2"
	"charm.land/glamour/v2/styles"
)

// markdown renders the Markdown of an answer on a terminal, block by block. The text is
// untrusted: none of its control characters reaches the terminal.
type markdown struct {
	to       io.Writer
	renderer *glamour.TermRenderer
	pending  string // incomplete block
	fence    string // open fence of the block
	line     string // incomplete line
}

// newMarkdown returns nil if the renderer cannot be made.
func newMarkdown(to io.Writer, width int) *markdown {
	style := styles.DarkStyleConfig
	none := uint(0)
	style.Document.Margin, style.Document.Color = &none, nil // the terminal's own, on any background
	style.Document.BlockPrefix, style.Document.BlockSuffix = "", ""
	// Code is not coloured: hostile code makes the highlighter slow.
	style.CodeBlock.Margin, style.CodeBlock.Chroma, style.CodeBlock.Theme = &none, nil, ""
	r, err := glamour.NewTermRenderer(glamour.WithStyles(style), glamour.WithWordWrap(min(width, 100)),
		glamour.WithInlineTableLinks(true))
	if err != nil {
		return nil
	}
	return &markdown{to: to, renderer: r}
}

// maxBlock bounds a block that is rendered. A longer one is shown as plain text.
const maxBlock = 64 << 10

// write adds text to the answer.
func (m *markdown) write(text string) {
	for text != "" {
		part, rest, whole := strings.Cut(text, "\n")
		m.line += part
		if text = rest; !whole {
			break
		}
		line := m.line
		m.line = ""
		m.pending += line + "\n"
		switch mark := fenceOf(line); {
		case m.fence != "":
			if strings.HasPrefix(mark, m.fence) && strings.Trim(line, " \t"+mark[:1]) == "" {
				m.fence = ""
			}
		case mark != "":
			m.fence = mark
		case strings.TrimSpace(line) == "":
			m.flush()
		}
		if len(m.pending) > maxBlock {
			m.flush()
		}
	}
}

// fenceOf returns the fence of a code block that a line begins with, or "".
func fenceOf(line string) string {
	line = strings.TrimLeft(line, " ")
	for _, mark := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, mark)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// flush renders the incomplete block.
func (m *markdown) flush() {
	text := m.pending + m.line
	fence := m.fence
	m.pending, m.line, m.fence = "", "", ""
	if strings.TrimSpace(text) == "" {
		return
	}
	if len(text) > maxBlock || fence != "" {
		fmt.Fprintln(m.to, strings.TrimRight(plainText(text), "\n"))
		return
	}
	shown, err := m.renderer.Render(harmless(plainText(text)))
	if err != nil {
		shown = plainText(text)
	}
	shown = strings.Trim(onlyLooks(shown), "\n")
	fmt.Fprintf(m.to, "%s\n\n", shown)
}

var entity = regexp.MustCompile(`&[#A-Za-z][0-9A-Za-z]*;?`)

// harmless replaces entities of characters that control a terminal.
func harmless(text string) string {
	return entity.ReplaceAllStringFunc(text, func(e string) string {
		hidden := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
		if strings.ContainsFunc(html.UnescapeString(e), hidden) {
			return "\ufffd"
		}
		return e
	})
}

var (
	link = regexp.MustCompile("\x1b]8;[^\x07\x1b]*(?:\x07|\x1b\\\\)")
	look = regexp.MustCompile("\x1b\\[[0-9;:]*m")
)

// onlyLooks removes all escape sequences of a rendered text but those that change its
// style. A link has its address beside its text.
func onlyLooks(text string) string {
	text = link.ReplaceAllString(text, "")
	var b strings.Builder
	at := 0
	for _, found := range look.FindAllStringIndex(text, -1) {
		b.WriteString(plainText(text[at:found[0]]) + text[found[0]:found[1]])
		at = found[1]
	}
	b.WriteString(plainText(text[at:]))
	return b.String()
}
