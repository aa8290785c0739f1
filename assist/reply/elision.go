package reply

import (
	"bytes"
	"strings"
)

// mayElide reports whether a line that leaves something out can begin with c: a comment's
// first character, dots, a brace or a bracket.
func mayElide(c byte) bool {
	switch c {
	case '/', '#', '-', '<', ';', '%', '*', '{', '.', '[', '(', '"', '\'', 0xe2, 'r', 'R':
		return true
	}
	return false
}

// isElision reports whether a line stands for code that was left out: a comment
// with dots and words such as "existing code", {{ edit_1 }}, a line of dots.
func isElision(line []byte, lang string) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || len(line) > 300 || !mayElide(line[0]) || !hints(line) {
		return false
	}
	s := string(line)
	if strings.HasPrefix(s, "{{") && strings.HasSuffix(s, "}}") {
		inner := strings.TrimSpace(strings.Trim(s, "{} "))
		return isDots(inner) || strings.HasPrefix(inner, "edit_") || strings.HasPrefix(inner, "...") && elides(inner)
	}
	if isDots(s) {
		return dotsElide(lang)
	}
	if inner := strings.Trim(s, "[]()<> "); len(inner) < len(s) &&
		(strings.HasPrefix(inner, "...") || strings.HasPrefix(inner, "…")) && (isDots(inner) || elides(inner)) {
		return !strings.Contains(s, ",")
	}
	text, leader := uncomment(s)
	if strings.HasPrefix(s, "...") || strings.HasPrefix(s, "…") {
		text, leader = s, "..."
	}
	if leader == "" || leader == "'" && !strings.Contains(s, "...") {
		return false
	}
	text = strings.TrimSpace(strings.Trim(text, "[](){}-=*/#<> "))
	prose := language(lang).is(classMarkup) && leader != "<!--" // a document may show code with dots in it
	if isDots(text) {
		return !prose
	}
	if prose && strings.ContainsAny(leader, "*-#") && leader != "<!--" && !strings.HasPrefix(text, "...") &&
		!strings.HasPrefix(text, "…") {
		return false // an item of a list, or a heading
	}
	dots := strings.Contains(text, "...") || strings.Contains(text, "…") || strings.HasSuffix(text, "..")
	if dots && elides(text) {
		return leader != "..." || len(text) < 80
	}
	return leader != "..." && !prose && elidesWithoutDots(strings.ToLower(strings.Trim(text, ". :!")))
}

// hints reports whether a line has a word or sign without which isElision is
// false. It is cheap, and false for most comments.
func hints(line []byte) bool {
	if line[0] == '{' {
		return true
	}
	before := byte(' ')
	for i, c := range line {
		if c == '.' && before == '.' || c == 0xe2 {
			return true
		}
		if !isLetter(before) && telling[c][0] != "" && (hasWord(line[i:], telling[c][0]) ||
			hasWord(line[i:], telling[c][1])) {
			return true
		}
		before = c
	}
	return false
}

// telling has, by first letter, the beginnings of the words of which a line that
// leaves something out without dots has one.
var telling = func() (t [256][2]string) {
	for _, word := range [...]string{"rest", "remain", "existing", "etc", "same", "snip", "omitted", "previous",
		"truncated", "keep", "unchanged", "change", "before"} {
		lower, upper := word[0], word[0]-'a'+'A'
		t[lower][1], t[upper][1] = t[lower][0], t[lower][0]
		t[lower][0], t[upper][0] = word, word
	}
	return t
}()

// hasWord reports whether a text begins with a word, in any case.
func hasWord(text []byte, word string) bool {
	if word == "" || len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if text[i]|0x20 != word[i] {
			return false
		}
	}
	return true
}

// isDots reports whether a text is three dots or more, or an ellipsis.
func isDots(s string) bool {
	return s == "…" || len(s) >= 3 && strings.Trim(s, ". ") == ""
}

// dotsElide reports whether a line of dots is no code in a language.
func dotsElide(lang string) bool {
	switch language(lang).family {
	case "js", "c", "cs", "jvm", "go", "rust", "php", "swift", "dart", "css", "json", "ruby", "sql", "lua", "web", "sh",
		"xml", "make", "zig":
		return true
	}
	return false
}

// elides reports whether a text has words that stand for code left out.
func elides(text string) bool {
	text = strings.ToLower(text)
	for _, word := range [...]string{"existing", "rest", "unchanged", "remain", "omitted", "same as", "same code",
		"previous", "other ", "keep", "code here", "as before", "truncated", "snip", "implementation", "more ", "etc",
		"no change", "unmodified", "your code", "continue", "and so on", "as is", "above", "original", "(code)",
		" code", "abbreviated", "skipped", "elided"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return text == "code" || text == "etc"
}

// elidesWithoutDots reports whether a text is a phrase that leaves out even
// without dots. Phrases are matched at the beginning, so that a comment about the
// rest of something is none.
func elidesWithoutDots(text string) bool {
	text = strings.TrimPrefix(text, "the ")
	text = strings.TrimPrefix(text, "all ")
	what, found := strings.CutPrefix(text, "rest of ")
	if found {
		what = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(what, "the "), "your "), "existing ")
		return startsWithCodeWord(what)
	}
	for _, prefix := range [...]string{"existing ", "previous ", "remaining ", "other existing ", "keep existing ",
		"keep the existing ", "keep the rest", "your existing "} {
		if what, ok := strings.CutPrefix(text, prefix); ok {
			return prefix == "keep the rest" || startsWithCodeWord(what) && len(strings.Fields(what)) <= 6
		}
	}
	if strings.HasPrefix(text, "other ") && (strings.HasSuffix(text, "unchanged") || strings.HasSuffix(text, "the same") ||
		strings.HasSuffix(text, "as before")) {
		return true
	}
	switch text {
	case "unchanged", "code unchanged", "same as before", "same as above", "omitted", "omitted for brevity",
		"code omitted", "code omitted for brevity", "no changes", "no changes here", "no change", "unchanged code",
		"rest unchanged", "rest is unchanged", "rest remains unchanged", "rest stays the same",
		"rest remains the same", "truncated", "truncated for brevity", "snip", "etc":
		return true
	}
	return strings.HasSuffix(text, "remains the same") || strings.HasSuffix(text, "remains unchanged") ||
		strings.HasSuffix(text, "remain unchanged") ||
		strings.HasSuffix(text, "omitted for brevity") || strings.HasSuffix(text, "stays the same")
}

func startsWithCodeWord(s string) bool {
	word := s
	if i := strings.IndexAny(s, " .,:;()"); i >= 0 {
		word = s[:i]
	}
	switch word {
	case "code", "file", "content", "contents", "imports", "import", "methods", "method", "functions", "function",
		"styles", "class", "component", "implementation", "logic", "routes", "tests", "fields", "props", "config",
		"configuration", "script", "document", "template", "module", "body", "html", "css", "markup", "handlers",
		"exports", "definitions", "declarations", "types", "middleware", "settings", "lines", "sections", "section":
		return true
	}
	return false
}
