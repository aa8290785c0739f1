package web

import (
	"path"
	"strings"

	"github.com/airlock-run/airlock/workspace"
)

// codeLine is a line of a diff as it is, and as it is shown.
type codeLine struct {
	raw   string
	shown *[]stretch
}

// colour gives the code of a hunk its colours. A lexer sees each side by itself, from the
// beginning of the hunk: it may take the end of a long string for code.
func (v *hunkView) colour(file string, h *workspace.Hunk, p *palette) {
	language := strings.TrimPrefix(path.Ext(file), ".")
	if p == nil || coloured[strings.ToLower(language)] == "" {
		return
	}
	var before, after []codeLine
	blocks, at := v.Blocks, struct{ block, same, old, new int }{}
	for i := range h.Lines {
		l := &h.Lines[i]
		for done(&blocks[at.block], at.same, at.old, at.new) {
			at.block, at.same, at.old, at.new = at.block+1, 0, 0, 0
		}
		b := &blocks[at.block]
		switch l.Op {
		case "-":
			before = append(before, codeLine{l.Text, &b.Old[at.old].Text})
			at.old++
		case "+":
			after = append(after, codeLine{l.Text, &b.New[at.new].Text})
			at.new++
		default:
			before = append(before, codeLine{l.Text, nil})
			after = append(after, codeLine{l.Text, &b.Same[at.same].Text})
			at.same++
		}
	}
	rendering <- struct{}{}
	defer func() { <-rendering }()
	p.lines(language, before)
	p.lines(language, after)
}

func done(b *blockView, same, before, after int) bool {
	return same == len(b.Same) && before == len(b.Old) && after == len(b.New)
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

// withClasses cuts the pieces of a line, which begins at a place of the code, where tokens
// end. One with characters that are spelled out stays as it is.
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
