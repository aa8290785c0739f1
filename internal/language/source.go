package language

import (
	"cmp"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A comment in one of a Python program's first two lines may name the encoding of its
// file. The second line counts only behind a comment or an empty line.
var (
	pythonEncoding = regexp.MustCompile(
		`^\x{FEFF}?(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)`)
	unicodeName = regexp.MustCompile(`(?i)^utf[-_]?8`)
)

// Source returns the text of a program's file, which is written in UTF-8. Code comes as
// text: where a Python program says that its file has another encoding, what it says is
// changed to UTF-8, or each letter that is not ASCII would be read as others.
func (l Language) Source(code string) string {
	if l.Name != "python" || !strings.Contains(code, "coding") {
		return code
	}
	at := pythonEncoding.FindStringSubmatchIndex(code)
	if at == nil || unicodeName.MatchString(code[at[2]:at[3]]) ||
		!strings.ContainsFunc(code, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return code
	}
	return code[:at[2]] + "utf-8" + code[at[3]:]
}

// A Java program may be called anything. Its file must be called like its
// public class, and who starts it must name the class that has the main
// method; both are found by a look at the outermost level of the source.

// javaNoise is what only looks like code.
var javaNoise = regexp.MustCompile(
	`(?s)//[^\n]*|/\*.*?(?:\*/|$)|"""(?:\\.|[^\\])*?(?:"""|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?`)

var javaWords = regexp.MustCompile(
	`[{}]|\bpackage\s+([\w.]+)\s*;|(\bpublic\s+)?(?:\b(?:abstract|final|sealed|non-sealed|strictfp|static)\s+)*\b(?:class|record|enum|interface)\s+(\w+)|\bvoid\s+main\s*\(`)

// javaClasses returns the class after which the file is to be named, and the
// one to start, with its package.
func javaClasses(code string) (class, main string) {
	code = javaNoise.ReplaceAllString(code, " ")
	var home, first, current string
	depth := 0
	for _, found := range javaWords.FindAllStringSubmatch(code, -1) {
		word, packageName, public, name := found[0], found[1], found[2], found[3]
		switch {
		case word == "{":
			depth++
		case word == "}":
			depth--
		case packageName != "" && depth == 0:
			home = packageName + "."
		case name != "" && depth == 0:
			current = name
			first = cmp.Or(first, name)
			if strings.TrimSpace(public) != "" {
				class = name
			}
		case strings.HasPrefix(word, "void") && depth == 1 && main == "":
			main = current
		}
	}
	for _, name := range []*string{&class, &main} {
		for _, other := range []string{main, class, first, "Main"} {
			if *name == "" {
				*name = other
			}
		}
	}
	return class, home + main
}
