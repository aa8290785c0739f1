package web

import (
	"cmp"
	"path"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// titleOfRun returns what a run is called: the name that its owner gave it, else what its code begins with, else the
// name of its file; "" if its code is not stored.
func titleOfRun(run *engine.Run) string {
	src := run.Source
	if src == nil {
		return page.Named(run.Name)
	}
	file := ""
	if src.Entry != "" {
		file = path.Base(src.Entry)
	}
	described := describe(src.Code)
	return cmp.Or(page.Named(run.Name), described, file, firstLine(src.Code))
}

const maxTitle = 72 // characters

// describe returns the comment or the docstring that code begins with; "" without one.
func describe(code string) string {
	rest := strings.TrimSpace(code)
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		line = strings.TrimSpace(line)
		quoted := strings.TrimLeft(line, "rRuU")
		for _, quote := range []string{`"""`, "'''"} {
			if text, ok := strings.CutPrefix(quoted, quote); ok {
				return docstring(text+"\n"+after, quote)
			}
		}
		switch text, comment := commentOf(line); {
		case strings.HasPrefix(line, "#!"), strings.HasPrefix(line, "<?"), line == "": // an interpreter's line
		case !comment && setsUp[firstWord(line)] && !declares[firstWord(line)]:
		case !comment:
			return ""
		case title(text) != "":
			return title(text)
		}
		rest = strings.TrimLeft(after, " \t\r\n")
	}
	return ""
}

func docstring(text, quote string) string {
	text, _, _ = strings.Cut(text, quote)
	for line := range strings.Lines(text) {
		if t := title(line); t != "" {
			return t
		}
	}
	return ""
}

// commentOf returns the text of a line that is a comment.
func commentOf(line string) (text string, ok bool) {
	for _, mark := range []string{"#", "//", "/*", "*/", "* ", "--", ";;", "%%"} {
		if rest, found := strings.CutPrefix(line, mark); found {
			return strings.TrimSuffix(strings.TrimLeft(rest, "#/*-%; !"), "*/"), true
		}
	}
	return "", false
}

// title returns a line as a title; "" if it does not say anything: a rule, a mode line, a linter's note.
func title(line string) string {
	line = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "-=*#~"))
	word, _, _ := strings.Cut(strings.ToLower(line), " ")
	switch {
	case !strings.ContainsFunc(line, isLetter), strings.HasPrefix(word, "coding"), word == "noqa", word == "pylint:",
		word == "eslint-disable", word == "@ts-nocheck", word == "copyright", strings.HasPrefix(word, "spdx-"):
		return ""
	}
	if strings.Count(line, ".") == 1 {
		line = strings.TrimSuffix(line, ".")
	}
	return shorten(line, maxTitle)
}

// firstLine returns the first line of code that tells it from other code: one that sets nothing up and
// declares nothing, if there is such a line.
func firstLine(code string) string {
	first := ""
	for line := range strings.Lines(code) {
		text := strings.TrimSpace(line)
		if _, comment := commentOf(text); text == "" || comment || !strings.ContainsFunc(text, isLetter) ||
			strings.HasPrefix(text, "<?") {
			continue
		}
		first = cmp.Or(first, text)
		if !setsUp[firstWord(text)] && !strings.HasPrefix(text, "@") && line[0] != ' ' && line[0] != '\t' {
			return shorten(text, maxTitle)
		}
	}
	if word := firstWord(first); declares[word] {
		return declared(first, word)
	}
	return shorten(first, maxTitle)
}

// firstWord returns the word that a line of code begins with.
func firstWord(line string) string {
	word, _, _ := strings.Cut(line, " ")
	word, _, _ = strings.Cut(word, "(")
	return word
}

// declared returns the name that a line declares: "load" of "def load(name):".
func declared(line, word string) string {
	name := strings.TrimSpace(strings.TrimPrefix(line, word))
	if i := strings.IndexAny(name, "({:< ="); i > 0 {
		name = name[:i]
	}
	return shorten(name, maxTitle)
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 0x7f }

// declares has the words with which a declaration begins.
var declares = map[string]bool{
	"def": true, "class": true, "func": true, "function": true, "fn": true, "struct": true, "interface": true,
}

// setsUp has the first words of lines that do not describe a program.
var setsUp = map[string]bool{
	"import": true, "from": true, "include": true, "package": true, "use": true, "using": true, "library": true,
	"set": true, "const": true, "require": true, "def": true, "class": true, "func": true, "function": true, "fn": true,
	"async": true, "export": true, "type": true, "interface": true, "struct": true, "suppressPackageStartupMessages": true,
}

// givenName returns the name in a form's field: one line of it.
func givenName(text string) string {
	return shorten(strings.Join(strings.Fields(text), " "), maxGivenName)
}

const maxGivenName = 119 // characters, and one that stands for the rest

// languageTitle returns the name of a language for people.
func languageTitle(name string) string {
	if title := oddTitles[name]; title != "" || name == "" {
		return title
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

var oddTitles = map[string]string{
	"javascript": "JavaScript", "typescript": "TypeScript", "php": "PHP", "cpp": "C++", "c++": "C++", "csharp": "C#",
	"fsharp": "F#", "sql": "SQL", "js": "JavaScript", "ts": "TypeScript", "py": "Python", "rb": "Ruby", "rs": "Rust",
}
