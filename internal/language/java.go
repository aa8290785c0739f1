package language

import (
	"cmp"
	"regexp"
	"strings"
)

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
