package command

import (
	"fmt"
	"strings"
)

// promptScreen is the part of a terminal on which a prompt and its text are. It writes only what
// changes.
type promptScreen struct {
	width, height int
	rows          []string // as they are shown
	row, column   int      // of the terminal's cursor
	pending       string   // to write with the next drawing
}

// tabWidth is how many columns a tab has in a prompt.
const tabWidth = 4

// forget makes the next drawing a new one, at the cursor.
func (s *promptScreen) forget() { s.rows, s.row, s.column = nil, 0, 0 }

// clear makes the next drawing the only one on the screen.
func (s *promptScreen) clear() {
	s.forget()
	s.pending = "\x1b[H\x1b[2J"
}

// leave returns what moves the cursor to the end of what is shown.
func (s *promptScreen) leave() string {
	var b strings.Builder
	if last := len(s.rows) - 1; last >= 0 {
		s.moveTo(&b, last, Columns(s.rows[last]))
	}
	return b.String()
}

// resize makes the next drawing fit a terminal of another size, which has wrapped the rows anew.
func (s *promptScreen) resize(width, height int) {
	if width != s.width && len(s.rows) > 0 {
		up := s.column / width
		for _, row := range s.rows[:s.row] {
			up += max(1, (Columns(row)+width-1)/width)
		}
		if up > 0 {
			s.pending += fmt.Sprintf("\x1b[%dA", up)
		}
		s.pending += "\r\x1b[J"
		s.forget()
	}
	s.width, s.height = width, height
}

// draw returns what shows a prompt and a text, with the cursor at a byte of the text.
func (s *promptScreen) draw(prompt, continuation, text string, at int) string {
	rows, row, column := layOut(prompt, continuation, text, at, s.width)
	if len(rows) > s.height { // those around the cursor
		top := min(max(0, row-s.height/2), len(rows)-s.height)
		rows, row = rows[top:top+s.height], row-top
	}
	var b strings.Builder
	b.WriteString(s.pending)
	s.pending = ""
	for i, line := range rows {
		old := ""
		if i < len(s.rows) {
			old = s.rows[i]
		}
		if line == old {
			continue
		}
		same := samePrefix(old, line)
		s.moveTo(&b, i, Columns(line[:same]))
		b.WriteString(line[same:])
		if s.column = Columns(line); Columns(old) > s.column {
			b.WriteString("\x1b[K")
		}
	}
	if len(s.rows) > len(rows) {
		s.moveTo(&b, len(rows), 0)
		b.WriteString("\x1b[J")
	}
	s.rows = rows
	s.moveTo(&b, row, column)
	return b.String()
}

// moveTo moves the cursor to a row and a column. A line feed also makes the row, where the screen
// ends.
func (s *promptScreen) moveTo(b *strings.Builder, row, column int) {
	switch {
	case row < s.row:
		fmt.Fprintf(b, "\x1b[%dA", s.row-row)
	case row > s.row:
		b.WriteString(strings.Repeat("\n", row-s.row))
		s.column = 0 // the terminal makes a carriage return of it, too
	}
	if column < s.column {
		b.WriteByte('\r')
		s.column = 0
	}
	if column > s.column {
		fmt.Fprintf(b, "\x1b[%dC", column-s.column)
	}
	s.row, s.column = row, column
}

// samePrefix returns how many bytes of whole characters two rows begin with in common.
func samePrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) {
		one, _ := cluster(a[n:])
		other, _ := cluster(b[n:])
		if one != other {
			break
		}
		n += len(one)
	}
	return n
}

// layOut returns the rows of a screen with a prompt and a text, and where the cursor is. A row that
// is full is followed by another one.
func layOut(prompt, continuation, text string, at, width int) (rows []string, row, column int) {
	var line strings.Builder
	columns := 0
	end := func() {
		rows = append(rows, line.String())
		line.Reset()
		columns = 0
	}
	put := func(shown string, wide int) {
		if columns+wide > width {
			end()
		}
		line.WriteString(shown)
		if columns += wide; columns >= width {
			end()
		}
	}
	putAll := func(text string) {
		for text != "" {
			first, wide := cluster(text)
			put(first, wide)
			text = text[len(first):]
		}
	}
	putAll(prompt)
	for i := 0; i < len(text); {
		first, wide := cluster(text[i:])
		if i == at {
			if first != "\n" && first != "\t" && columns+wide > width {
				end()
			}
			row, column = len(rows), columns
		}
		switch first {
		case "\n":
			end()
			putAll(continuation)
		case "\t":
			put(strings.Repeat(" ", tabWidth), tabWidth)
		default:
			put(first, wide)
		}
		i += len(first)
	}
	if at == len(text) {
		row, column = len(rows), columns
	}
	return append(rows, line.String()), row, column
}
