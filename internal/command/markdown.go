package command

import (
	"fmt"
	"io"
	"strings"
)

// Markdown renders the Markdown of an answer on a terminal, block by block. The text is
// untrusted: none of its control characters reaches the terminal.
type Markdown struct {
	to      io.Writer
	width   int
	pending string // incomplete block
	fence   string // open fence of the block
	line    string // incomplete line
}

// NewMarkdown returns a renderer that writes to a terminal of a width.
func NewMarkdown(to io.Writer, width int) *Markdown { return &Markdown{to: to, width: min(width, 100)} }

// maxBlock bounds a block that is rendered. A longer one is shown as plain text.
const maxBlock = 64 << 10

// Write adds text to the answer.
func (m *Markdown) Write(text string) {
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
			m.Flush()
		}
		if len(m.pending) > maxBlock {
			m.Flush()
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

// Flush renders the incomplete block.
func (m *Markdown) Flush() {
	text := m.pending + m.line
	fence := m.fence
	m.pending, m.line, m.fence = "", "", ""
	if strings.TrimSpace(text) == "" {
		return
	}
	shown, ok := "", false
	if len(text) <= maxBlock && fence == "" {
		shown, ok = renderMarkdown(text, m.width)
	}
	if !ok {
		fmt.Fprintln(m.to, strings.TrimRight(PlainText(text), "\n"))
		return
	}
	fmt.Fprintf(m.to, "%s\n\n", strings.Trim(shown, "\n"))
}
