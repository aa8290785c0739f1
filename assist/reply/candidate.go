package reply

import (
	"slices"
	"strings"
)

// candidate is a path found in one place, and what the words beside it say.
type candidate struct {
	raw  string
	from PathSource
	conf float64
	// verdict, if set, is the verdict that the words around the path imply.
	verdict  Verdict
	reason   string
	warnings []Warning
}

func (c *candidate) mark(v Verdict, reason string) {
	if c.verdict == "" || c.verdict == VerdictAmbiguous {
		c.verdict, c.reason = v, reason
	}
}

// doubt lowers the confidence and makes the candidate ambiguous.
func (c *candidate) doubt(conf float64, reason string) {
	if conf < c.conf {
		c.conf = conf
	}
	if c.verdict == "" {
		c.verdict, c.reason = VerdictAmbiguous, reason
	}
}

// annotation reads the words in parentheses after a path: (new), (lines 3-9).
func (c *candidate) annotation(words string) {
	w := strings.ToLower(strings.Trim(words, " *_`:.,!"))
	has := func(list ...string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(w, func(r rune) bool { return !isWordRune(r) }),
			func(field string) bool { return slices.Contains(list, field) })
	}
	switch {
	case w == "":
	case has("before", "old", "original", "current", "existing", "unchanged", "reference", "readonly"):
		c.mark(VerdictCitation, "it is marked as what the file holds now ("+words+")")
	case has("line", "lines", "excerpt", "snippet", "partial", "fragment", "portion", "section", "part", "diff", "append",
		"insert", "add"):
		c.mark(VerdictPartial, "it is marked as a part of the file ("+words+")")
	case has("example", "sample", "output", "usage"):
		c.mark(VerdictExample, "it is marked as an example ("+words+")")
	case has("delete", "deleted", "remove", "removed"):
		c.doubt(0.5, "it is marked as removed, and has content ("+words+")")
	case has("new", "updated", "update", "modified", "modify", "create", "created", "complete", "full", "file", "changed",
		"after", "fixed", "final", "revised", "rewritten", "replace", "edited", "refactored", "version"):
	default:
		c.doubt(0.7, "it is unclear what ("+words+") after the path means")
	}
}

func isWordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 0x7f
}

// trailer splits off what follows a path in its line: {3-5}, (new), key=value,
// a dash and words. The path may have spaces; what has the look of a path to its
// end is one.
func (c *candidate) trailer(s string) string {
	for {
		s = strings.TrimSpace(s)
		switch {
		case strings.HasSuffix(s, "}"):
			i := strings.LastIndex(s, " {")
			if i < 0 {
				if i = strings.IndexByte(s, '{'); i <= 0 || strings.ContainsAny(s[i:], "/.") {
					return s
				}
			}
			s = s[:i]
			continue
		case strings.HasSuffix(s, ")"), strings.HasSuffix(s, "]") && strings.Contains(s, " ["):
			i := strings.LastIndexAny(s, "([")
			if i <= 0 || s[i-1] != ' ' {
				return s
			}
			c.annotation(s[i+1 : len(s)-1])
			s = s[:i]
			continue
		}
		for _, dash := range [...]string{" - ", " – ", " — ", " // ", " # ", " -- "} {
			if i := strings.Index(s, dash); i > 0 && pathShape(s[:i]) == shapeStrong && pathShape(s) != shapeStrong {
				c.annotation(s[i+len(dash):])
				s = s[:i]
			}
		}
		return s
	}
}

// doubtWords doubts a path with spaces, which may be a command or a sentence,
// unless its first word already leads into a folder.
func (c *candidate) doubtWords(path string) {
	if first, rest, ok := strings.Cut(unwrap(path), " "); ok &&
		(!strings.ContainsAny(first, `/\`) || strings.ContainsAny(rest, `/\`)) {
		c.doubt(0.7, "it may be a path with spaces, or words and a path")
	}
}

// spaced returns the path in a text with spaces.
func (c *candidate) spaced(s string) string {
	first, rest, ok := strings.Cut(s, " ")
	if !ok {
		return s
	}
	firstShape := pathShape(first)
	last := s[strings.LastIndexByte(s, ' ')+1:]
	switch {
	case firstShape != shapeStrong:
		return s
	case pathShape(last) == shapeStrong:
		c.doubt(0.5, "it could be one path with spaces, or several paths")
		return s
	}
	for word := range strings.FieldsSeq(rest) {
		word = strings.ToLower(strings.Trim(word, ",;"))
		if !isFenceOption(word) {
			c.doubt(0.7, "it is unclear what \""+rest+"\" after the path means")
		}
	}
	return first
}

// isFenceOption reports whether a word is an option that renderers take after a
// language.
func isFenceOption(word string) bool {
	switch word {
	case "showlinenumbers", "linenos", "linenums", "copy", "nocopy", "wrap", "nowrap", "numbers", "collapse", "expand",
		"expandable", "new", "updated", "modified", "create", "created", "full", "complete", "editable", "live",
		"hl_lines", "noinline", "twoslash", "line-numbers", "no-line-numbers", ":line-numbers", "playground",
		"runnable":
		return true
	}
	return strings.HasPrefix(word, "{") || strings.Contains(word, "=")
}
