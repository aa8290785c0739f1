package openterminal

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxCompared   = 2_000_000 // characters of one text
	maxLines      = 50_000
	longestMarked = 4096 // bytes of a line in which words are marked
)

// compared is a compared file with its lines.
type compared struct {
	Path    string   `json:"path"`
	Name    string   `json:"name"`
	Notices []string `json:"notices"`
	lines   []string
}

// segment is a part of a line.
type segment struct {
	Text    string `json:"text"`
	Changed bool   `json:"changed"`
}

type comparedLine struct {
	Type     string    `json:"type"` // context, removed or added
	Old      *int      `json:"oldNumber"`
	New      *int      `json:"newNumber"`
	Content  string    `json:"content"`
	Revised  *string   `json:"revisedContent,omitempty"` // of context
	Segments []segment `json:"segments"`
}

type comparedHunk struct {
	Header string         `json:"header"`
	Lines  []comparedLine `json:"lines"`
}

type comparison struct {
	Original  compared       `json:"original"`
	Revised   compared       `json:"revised"`
	Additions int            `json:"additions"`
	Deletions int            `json:"deletions"`
	Hunks     []comparedHunk `json:"hunks"`
}

// compareFiles answers with the differences between two files, line by line.
func (q *request) compareFiles(body struct {
	Original, Revised string
	IgnoreWhitespace  bool `json:"ignore_whitespace"`
}) (any, error) {
	before, err := q.comparable(body.Original)
	if err != nil {
		return nil, err
	}
	after, err := q.comparable(body.Revised)
	if err != nil {
		return nil, err
	}
	return compare(before, after, body.IgnoreWhitespace), nil
}

// comparable reads a file for a comparison.
func (q *request) comparable(name string) (c compared, err error) {
	f, err := q.existing(q.absolute(name, q.cwd()), "file")
	if _, ok := errors.AsType[*wire.Refusal](err); ok {
		return c, wire.Refuse(http.StatusNotFound, "%s: File not found.", path.Base(name))
	}
	if err != nil {
		return c, err
	}
	c = compared{Path: f.Path, Name: path.Base(f.Path), Notices: []string{}}
	text, err := q.text(f)
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		return c, wire.Refuse(http.StatusUnprocessableEntity, "%s: %v", c.Name, refused.Detail)
	}
	if err != nil {
		return c, err
	}
	if slices.Contains(documents, strings.ToLower(path.Ext(c.Path))) {
		c.Notices = append(c.Notices, "Text only; formatting, images and layout are not compared.")
	}
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff"))
	if text != "" {
		c.lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	if utf8.RuneCountInString(text) > maxCompared || len(c.lines) > maxLines {
		return c, wire.Refuse(http.StatusUnprocessableEntity, "%s: Extracted text exceeds the comparison limit "+
			"(2 million characters / 50,000 lines). Nothing was truncated.", c.Name)
	}
	return c, nil
}

// differences returns the hunks between two lists, with context elements around each. No element
// contains a line end.
func differences(a, b []string, around int) []*udiff.Hunk {
	joined := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return strings.Join(list, "\n") + "\n"
	}
	from, to := joined(a), joined(b)
	unified, err := udiff.ToUnifiedDiff("", "", from, udiff.Lines(from, to), around)
	if err != nil {
		panic(err) // edits that are not of this text
	}
	return unified.Hunks
}

var space = regexp.MustCompile(`\s+`)

func compare(before, after compared, ignoreSpace bool) comparison {
	keys := func(lines []string) []string {
		if !ignoreSpace {
			return lines
		}
		bare := make([]string, len(lines))
		for i, line := range lines {
			bare[i] = space.ReplaceAllString(line, "")
		}
		return bare
	}
	c := comparison{Original: before, Revised: after, Hunks: []comparedHunk{}}
	for _, h := range differences(keys(before.lines), keys(after.lines), 3) {
		c.add(h)
	}
	return c
}

// add adds a hunk. Its lines are looked up: they may have been compared without spaces.
func (c *comparison) add(h *udiff.Hunk) {
	hunk, old, now := comparedHunk{}, h.FromLine, h.ToLine
	var removed, added []comparedLine
	flush := func() {
		for i := range min(len(removed), len(added)) {
			removed[i].Segments, added[i].Segments = marked(removed[i].Content, added[i].Content)
		}
		hunk.Lines = append(append(hunk.Lines, removed...), added...)
		c.Deletions, c.Additions = c.Deletions+len(removed), c.Additions+len(added)
		removed, added = nil, nil
	}
	for _, line := range h.Lines {
		switch line.Kind {
		case udiff.Delete:
			text := c.Original.lines[old-1]
			removed = append(removed, comparedLine{Type: "removed", Old: new(old), Content: text, Segments: whole(text)})
			old++
		case udiff.Insert:
			text := c.Revised.lines[now-1]
			added = append(added, comparedLine{Type: "added", New: new(now), Content: text, Segments: whole(text)})
			now++
		default:
			flush()
			text := c.Original.lines[old-1]
			hunk.Lines = append(hunk.Lines, comparedLine{Type: "context", Old: new(old), New: new(now), Content: text,
				Revised: new(c.Revised.lines[now-1]), Segments: whole(text)})
			old, now = old+1, now+1
		}
	}
	flush()
	hunk.Header = fmt.Sprintf("@@ -%s +%s @@", extent(h.FromLine, old), extent(h.ToLine, now))
	c.Hunks = append(c.Hunks, hunk)
}

// extent returns the first line and the number of lines; of none, the line before.
func extent(first, end int) string {
	if end == first {
		return fmt.Sprintf("%d,0", first-1)
	}
	return fmt.Sprintf("%d,%d", first, end-first)
}

func whole(text string) []segment { return []segment{{Text: text}} }

var word = regexp.MustCompile(`[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]`)

// marked returns two lines in segments, with the words that differ.
func marked(before, after string) (left, right []segment) {
	if max(len(before), len(after)) > longestMarked {
		return whole(before), whole(after)
	}
	add := func(to []segment, from *bool, line string, changed bool) []segment {
		if n := len(to); n > 0 && !*from {
			to[n-1].Text += line
			return to
		}
		*from = false
		return append(to, segment{line, changed})
	}
	same, newLeft, newRight := true, true, true // a segment ends where one of the other line does
	for _, h := range differences(word.FindAllString(before, -1), word.FindAllString(after, -1), longestMarked) {
		for _, line := range h.Lines {
			text, equal := strings.TrimSuffix(line.Content, "\n"), line.Kind == udiff.Equal
			if equal != same {
				same, newLeft, newRight = equal, true, true
			}
			if line.Kind != udiff.Insert {
				left = add(left, &newLeft, text, !equal)
			}
			if line.Kind != udiff.Delete {
				right = add(right, &newRight, text, !equal)
			}
		}
	}
	return left, right
}
