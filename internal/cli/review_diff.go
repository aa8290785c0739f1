package cli

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/airlock-run/airlock/workspace"
	"github.com/dustin/go-humanize"
)

// wide is the width from which the two sides of a diff stand beside each
// other.
const wide = 140

// The looks of what changed within a line.
const (
	redMark   = "31;7"
	greenMark = "32;7"
	cyan      = "36"
)

// showFile writes what would happen to a file: one line about it, what the
// rules say, and the diff.
func showFile(p *page, f *workspace.FileChange, width int) {
	look := map[workspace.Op]string{workspace.OpCreate: green, workspace.OpDelete: red, workspace.OpUnchanged: faint}[f.Op]
	look = cmp.Or(look, yellow)
	summary := f.Summary()
	if f.Verdict() == workspace.Refuse {
		look, summary = red, "refused "+f.Path
	}
	p.line("%s  %s", p.paint(bold, f.ID), p.paint(look, printableName(summary)))
	showFindings(p, f.Findings)
	for _, r := range f.Readings {
		shown := ""
		if r.Post.Hash == f.Post.Hash {
			shown = ", which is shown"
		}
		p.line("    %s", p.paint(yellow, fmt.Sprintf("reading %s: %s, %s%s", r.ID, r.What,
			humanize.IBytes(uint64(max(r.Post.Size, 0))), shown)))
	}
	if b := f.Binary; b != nil {
		size := ""
		if b.Width > 0 {
			size = fmt.Sprintf(", %d x %d pixels", b.Width, b.Height)
		}
		p.line("    %s%s, %s, sha256 %.16s", printable(b.Type), size, humanize.IBytes(uint64(max(f.Post.Size, 0))),
			f.Post.Hash)
		return
	}
	for i := range f.Hunks {
		showHunk(p, &f.Hunks[i], width)
	}
}

func showFindings(p *page, findings []workspace.Finding) {
	for _, f := range findings {
		look := map[workspace.Severity]string{workspace.Ask: yellow, workspace.Conflict: red,
			workspace.Refuse: red}[f.Severity]
		text := fmt.Sprintf("    %s: %s (%s)", f.Severity, f.Message, f.Rule)
		if f.Hint != "" {
			text += "; " + f.Hint
		}
		for line := range strings.Lines(text) {
			p.line("%s", p.paint(orFaint(look), printable(strings.TrimRight(line, "\n"))))
		}
	}
}

func orFaint(look string) string {
	return cmp.Or(look, faint)
}

func showHunk(p *page, h *workspace.Hunk, width int) {
	p.line("    %s", p.paint(cyan, printable(h.Header())+"  "+h.ID))
	if width >= wide {
		showSides(p, h, width)
		return
	}
	for i := range h.Lines {
		l := &h.Lines[i]
		p.line("    %s", paintLine(p, l, l.Op, 0))
		if l.NoNewline {
			p.line("    %s", p.paint(faint, `\ no newline at the end`))
		}
	}
}

// showSides writes a hunk with the old lines on the left and the new ones on
// the right.
func showSides(p *page, h *workspace.Hunk, width int) {
	column := (width - 4 - 3) / 2
	var removed, added []*workspace.Line
	flush := func() {
		for i := range max(len(removed), len(added)) {
			left, right := "", ""
			leftWidth := 0
			if i < len(removed) {
				left, leftWidth = paintLine(p, removed[i], "-", column), lineWidth(removed[i], column)
			}
			if i < len(added) {
				right = paintLine(p, added[i], "+", column)
			}
			p.line("    %s%s | %s", left, strings.Repeat(" ", column-leftWidth), right)
		}
		removed, added = nil, nil
	}
	for i := range h.Lines {
		switch l := &h.Lines[i]; l.Op {
		case "-":
			removed = append(removed, l)
		case "+":
			added = append(added, l)
		default:
			flush()
			text := paintLine(p, l, " ", column)
			p.line("    %s%s | %s", text, strings.Repeat(" ", column-lineWidth(l, column)), text)
		}
	}
	flush()
}

func lineWidth(l *workspace.Line, most int) int {
	return min(utf8.RuneCountInString(visible(l.Text))+1, most)
}

// paintLine writes a line in the colour of what happens to it, with marks
// where it differs from its counterpart. A line that is wider than most, if
// that is not 0, is cut off.
func paintLine(p *page, l *workspace.Line, op string, most int) string {
	look, mark := map[string]string{"-": red, "+": green}[op], map[string]string{"-": redMark, "+": greenMark}[op]
	room := most - 1
	var b strings.Builder
	piece := func(look, text string) {
		text = visible(text)
		if most > 0 {
			runes := []rune(text)
			text = string(runes[:min(len(runes), max(room, 0))])
			room -= len(runes)
		}
		if look != "" {
			text = p.paint(look, text)
		}
		b.WriteString(text)
	}
	at := 0
	for _, s := range l.Spans {
		if s.Start < at || s.End > len(l.Text) {
			continue
		}
		piece(look, l.Text[at:s.Start])
		piece(mark, l.Text[s.Start:s.End])
		at = s.End
	}
	piece(look, l.Text[at:])
	first := op
	if look != "" {
		first = p.paint(look, op)
	}
	return first + b.String()
}

// visible makes a line of a file safe for a terminal.
func visible(text string) string {
	return printableName(strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\t", "    "))
}
