package reply

import (
	"bytes"
	"strings"
)

// header is a comment at the beginning of a body that names the file.
type header struct {
	candidate
	// start and end are the bytes of the body that a directive takes, its line
	// ending included; both are 0 for a plain comment, which is kept.
	start, end int
}

// pathInside looks for a path in the first comment of a body: after a shebang,
// an opening tag of PHP, a declaration of XML.
func pathInside(body []byte, lang string) (header, bool) {
	at := 0
	shebang := false
	for skipped := range 4 {
		end := bytes.IndexByte(body[at:], '\n')
		next := at + end + 1
		if end < 0 {
			end, next = len(body)-at, len(body)
		}
		line := strings.TrimSpace(string(body[at : at+min(end, 600)]))
		lower := strings.ToLower(line)
		switch {
		case at == next:
			return header{}, false
		case line == "" && skipped == 0, line == "" && shebang:
		case strings.HasPrefix(line, "#!"):
			shebang = true
		case lower == "<?php" || strings.HasPrefix(lower, "<?xml") || strings.HasPrefix(lower, "<!doctype") ||
			strings.HasPrefix(line, "# -*-") ||
			lower == "'use strict';" || lower == `"use strict";` || lower == `"use client";` || lower == `'use client';` ||
			lower == "@echo off":
			shebang = true
		default:
			h, ok := readHeader(line, lang, shebang)
			if ok && h.from == PathDirective {
				h.start, h.end = at, next
			}
			return h, ok
		}
		at = next
	}
	return header{}, false
}

// readHeader reads one comment line.
func readHeader(line, lang string, shebang bool) (header, bool) {
	text, leader := uncomment(line)
	if leader == "" || text == "" {
		return header{}, false
	}
	var h header
	lowered := strings.ToLower(text)
	for _, directive := range [...]string{"filepath:", "file path:", "file_path:", "filename:", "file name:", "file:",
		"path:", "@file "} {
		if !strings.HasPrefix(lowered, directive) {
			continue
		}
		h.from, h.conf = PathDirective, 0.9
		path := h.spaced(h.trailer(text[len(directive):]))
		bare := pathOf(path)
		if sh := pathShape(bare); sh < shapeWord && refusal(strings.ReplaceAll(bare, `\`, "/")) == "" ||
			directive == "@file " && sh < shapeStrong {
			return header{}, false
		} else if sh == shapeWord || sh == shapeWeak && directive != "filepath:" {
			h.doubt(0.7, "it may be no path")
		}
		if directive != "filepath:" {
			h.doubtWords(path)
		}
		h.raw = path
		return h, true
	}
	if !leaderFits(leader, lang) {
		return header{}, false
	}
	h.from, h.conf = PathComment, 0.85
	path := h.trailer(text)
	bare, _ := lineSuffix(path)
	if strings.ContainsRune(bare, ' ') || pathShape(bare) != shapeStrong {
		return header{}, false
	}
	h.raw = path
	if language(lang).is(classShell) && !shebang {
		h.doubt(0.6, "in commands, a comment may say what is run on the file")
	}
	if lang == "" {
		h.doubt(0.7, "the fence has no language that the comment would fit")
	}
	return h, true
}

// uncomment returns a comment's text and the sign that begins it.
func uncomment(line string) (text, leader string) {
	for _, pair := range [...][2]string{{"<!--", "-->"}, {"{/*", "*/}"}, {"/*", "*/"}, {"{#", "#}"}, {"<%#", "%>"},
		{"(*", "*)"}, {`"""`, `"""`}, {"{{!--", "--}}"}} {
		if rest, ok := strings.CutPrefix(line, pair[0]); ok {
			rest = strings.TrimSuffix(strings.TrimSpace(rest), pair[1])
			return strings.Trim(rest, " *"), pair[0]
		}
	}
	for _, sign := range [...]string{"///", "//!", "//", "##", "#", "--", ";;", ";", "%", "REM ", "rem ", "::", "'", "*"} {
		if rest, ok := strings.CutPrefix(line, sign); ok {
			return strings.TrimSpace(rest), sign
		}
	}
	return "", ""
}

// leaderFits reports whether a plain comment of this kind is one in a language.
func leaderFits(leader, lang string) bool {
	d := language(lang)
	if !d.known() {
		return leader != "*" && leader != "'" && leader != "%" && leader != `"""`
	}
	return leaderFitsFamily(leader, d.family)
}

func leaderFitsFamily(leader, family string) bool {
	switch leader {
	case "#", "##":
		switch family {
		case "md", "html", "js", "css", "c", "jvm", "go", "rust", "swift", "dart", "cs", "json", "tex", "txt", "sql", "xml",
			"lua", "hs":
			return false
		}
		return true
	case "//", "///", "//!":
		switch family {
		case "py", "ruby", "sh", "yaml", "make", "md", "html", "sql", "lua", "hs", "r", "perl", "tex", "txt", "beam":
			return false
		}
		return true
	case "<!--":
		return family == "md" || family == "html" || family == "xml" || family == "web" || family == "php" ||
			family == "cs"
	case "--":
		return family == "sql" || family == "lua" || family == "hs" || family == "asm"
	case ";", ";;":
		return family == "asm" || family == "misc" || family == "yaml" || family == "jvm"
	case "%":
		return family == "tex" || family == "beam" || family == "misc"
	case `"""`:
		return family == "py"
	case "*", "'":
		return false
	}
	return true
}
