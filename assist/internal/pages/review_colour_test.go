package pages

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// TestReviewColours checks that colours do not change the text, and that they match the tokens.
func TestReviewColours(t *testing.T) {
	lines := []workspace.Line{
		{Op: " ", Text: "import os\t# <b>"}, {Op: "-", Text: `print("old")`, Spans: []workspace.Span{{Start: 7, End: 10}}},
		{Op: "-", Text: `s = """not`}, {Op: "+", Text: `print("new", 12)`, Spans: []workspace.Span{{Start: 7, End: 10}}},
		{Op: " ", Text: "def a(): pass\r"}, {Op: "+", Text: "x = '\u202e'"}, {Op: "+", Text: ""},
		{Op: "+", Text: "héllo = 'ü' # é"},
	}
	for _, file := range []string{"a.py", "a.go", "a.html", "a.unknown", "Makefile", "a.yaml"} {
		h := &workspace.Hunk{ID: "h1", OldStart: 1, NewStart: 1, Lines: lines}
		plain, v := hunkOf("f1", h, lineBytes), hunkOf("f1", h, lineBytes)
		v.colour(file, page.NewPalette())
		classes := map[string]string{}
		want, got := readHunk(plain, nil), readHunk(v, classes)
		if got != want {
			t.Errorf("%s: coloured it reads\n%s\nwant\n%s", file, got, want)
		}
		if file == "a.py" && (classes["import"] != "tok-keyword" || classes["def"] != "tok-keyword" ||
			classes["12"] != "tok-number" || classes["old"] != "tok-string") {
			t.Errorf("classes %q", classes)
		}
		if file == "a.unknown" && len(classes) > 0 {
			t.Errorf("an unknown language has %q", classes)
		}
	}
}

// readHunk returns the text of a hunk with its marks, and records the class of each piece.
func readHunk(v hunkView, classes map[string]string) string {
	var b strings.Builder
	for _, block := range v.Blocks {
		for _, side := range [][]lineView{block.Same, block.Old, block.New} {
			for _, l := range side {
				word := false
				for _, p := range l.Text {
					if p.Word != word {
						b.WriteString("|")
						word = p.Word
					}
					b.WriteString(p.Text)
					if p.Class != "" {
						classes[strings.TrimSpace(p.Text)] = p.Class
					}
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}
