package reply

import (
	"strings"
)

// info is a parsed info string of a fence.
type info struct {
	lang string
	candidate
	base64 bool
	// append says that the body is to be added to a file, or put into it: gptme's
	// "append path", mode=append.
	append bool
	// words is set for text that is neither a language nor a path, as if a sentence
	// continued after a closing fence.
	words bool
}

// maxInfo bounds an info string that is looked at.
const maxInfo = 1024

// parseInfo parses the text after the run of a fence.
func parseInfo(raw string) info {
	var in info
	s := strings.TrimSpace(raw)
	if s == "" {
		return in
	}
	if len(s) > maxInfo {
		in.words = true
		return in
	}
	s = strings.ReplaceAll(s, "：", ":")
	if s[0] == '{' {
		in.attributes(strings.Trim(s, "{} "), true)
		return in
	}
	if in.citation(s) {
		return in
	}
	if driveLetter(s) {
		in.found(s, PathBareInfo, 0.9)
		return in
	}
	cut := strings.IndexAny(s, ": \t{[")
	if cut < 0 {
		in.bare(s)
		return in
	}
	head, rest := s[:cut], strings.TrimSpace(s[cut+1:])
	switch s[cut] {
	case ':':
		in.colon(head, rest)
	case '{', '[':
		if cut > 0 && s[cut-1] == '/' || strings.Contains(head, "/") { // src/app/[id]/page.tsx
			in.bare(in.spaced(in.trailer(s)))
			return in
		}
		in.lang = head
		in.after(s[cut:])
	default:
		in.space(head, rest, s)
	}
	return in
}

func driveLetter(s string) bool {
	return len(s) >= 3 && isLetter(s[0]) && s[1] == ':' && (s[2] == '\\' || s[2] == '/')
}

// citation reads 12:15:path, which quotes lines and never writes.
func (in *info) citation(s string) bool {
	i := 0
	for parts := range 2 {
		digits := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		if i == digits {
			return false
		}
		if i < len(s) && (s[i] == '-' && parts == 0 || s[i] == ':') {
			i++
			continue
		}
		return false
	}
	in.found(s[i:], PathInfo, 1)
	in.mark(VerdictCitation, "it quotes lines of the file")
	return true
}

// found sets the path.
func (in *info) found(path string, from PathSource, conf float64) {
	in.raw, in.from, in.conf = path, from, conf
}

// colon reads lang:path.
func (in *info) colon(head, rest string) {
	switch strings.ToLower(head) {
	case "http", "https", "ftp":
		in.words = true
		return
	case "file", "path", "filename", "filepath", "title":
		head = ""
	}
	if strings.ContainsRune(head, '/') || pathShape(head) == shapeStrong && !isLanguage(head) { // src/a.ts:12-30
		in.bare(in.spaced(in.trailer(head + ":" + rest)))
		return
	}
	in.lang = head
	if rest == "" {
		return
	}
	if i := strings.IndexByte(rest, ':'); i > 0 && isDigit(rest[0]) && in.citation(rest) {
		return
	}
	if attr := strings.IndexByte(rest, '='); attr > 0 && pathShape(strings.Fields(rest)[0]) != shapeStrong {
		in.attributes(rest, false)
		return
	}
	if strings.Contains(strings.ToLower(rest), "encoding=base64") {
		in.base64 = true
	}
	path := in.spaced(in.trailer(rest))
	switch shaped := pathOf(path); pathShape(shaped) {
	case shapeStrong, shapeWeak:
		in.found(path, PathInfo, 1)
		if language(head).is(classShell | classOutput) {
			in.doubtWords(path)
		}
		if !strings.ContainsAny(shaped, `/\`) && pathShape(shaped) == shapeWeak {
			in.doubt(0.8, "\""+path+"\" has an ending that no kind of file has; it may be no path")
		}
	case shapeWord:
		if isLanguage(head) && !isFenceOption(strings.ToLower(path)) {
			in.found(path, PathInfo, 0.5)
			in.doubt(0.5, "\""+path+"\" has neither a folder nor an ending; it may be no path")
		}
	default:
		if in.unportable(path, PathInfo) {
			return
		}
		if refusal(strings.ReplaceAll(unwrap(path), `\`, "/")) != "" {
			in.found(path, PathInfo, 1)
			return
		}
		in.words = true
	}
}

// space reads what has a space after its first word.
func (in *info) space(head, rest, whole string) {
	switch strings.ToLower(head) {
	case "save", "write", "create":
		in.after(rest)
		return
	case "append":
		in.append = true
		in.after(rest)
		return
	}
	if isLanguage(head) {
		in.lang = head
		in.after(rest)
		return
	}
	if pathShape(unwrap(head)) == shapeStrong || strings.ContainsAny(head, `/\`) || refusal(head) != "" {
		in.bare(in.spaced(in.trailer(whole)))
		return
	}
	if key, _, ok := strings.Cut(head, "="); ok && isAttribute(key) {
		in.attributes(whole, false)
		return
	}
	// An unknown word, then something: an unknown language, or prose.
	in.lang = head
	in.after(rest)
	if in.raw == "" {
		in.words = strings.IndexByte(rest, '=') < 0 && rest[0] != '{'
	} else if in.from == PathInfoSpace {
		in.doubt(0.7, "\""+head+"\" is no language we know; it may be a sentence")
	}
}

// after reads what follows a language: attributes, [path], or a path.
func (in *info) after(rest string) {
	rest = strings.TrimSpace(rest)
	for _, sign := range [...]string{"// ", "# ", "- "} {
		rest = strings.TrimPrefix(rest, sign)
	}
	if rest == "" {
		return
	}
	if rest[0] == '{' {
		if end := strings.IndexByte(rest, '}'); end > 0 {
			in.attributes(rest[1:end], true)
			if in.raw == "" {
				in.after(rest[end+1:])
			}
			return
		}
	}
	if rest[0] == '[' {
		if label, tail, ok := strings.Cut(rest[1:], "]"); ok && !strings.HasPrefix(tail, "/") &&
			pathShape(label) >= shapeWeak {
			in.found(label, PathAttribute, 0.9)
			if pathShape(label) == shapeWeak {
				in.doubt(0.7, "the label may be no path")
			}
			return
		}
	}
	if i := strings.IndexByte(rest, '='); i > 0 && isAttribute(rest[strings.LastIndexAny(rest[:i], " \t{,")+1:i]) {
		head := strings.TrimSpace(rest[:strings.LastIndexAny(rest[:i], " \t{,")+1])
		in.attributes(rest, false)
		if in.raw == "" && head != "" {
			in.after(head)
		}
		return
	}
	if in.citation(rest) {
		return
	}
	path := in.spaced(in.trailer(rest))
	shaped := pathOf(path)
	switch pathShape(shaped) {
	case shapeStrong:
		in.found(path, PathInfoSpace, 0.95)
		in.doubtWords(path)
		if language(in.lang).is(classShell|classOutput) && !fits(in.lang, shaped) {
			in.doubt(0.6, "behind a shell's name the path may be a command's")
		}
	case shapeWeak:
		in.found(path, PathInfoSpace, 0.7)
		in.doubt(0.7, "it may be no path")
	default:
		if driveLetter(path) || len(path) > 1 && (path[0] == '/' || path[0] == '~') {
			in.found(path, PathInfoSpace, 0.95)
		} else if !in.unportable(path, PathInfoSpace) && strings.IndexByte(rest, ' ') > 0 {
			in.words = true
		}
	}
}

// bare reads an info string of one word, which is a language or a path.
func (in *info) bare(s string) {
	path := pathOf(s)
	if strings.HasPrefix(path, ".") && isLanguage(path[1:]) && wellKnown[path] == "" {
		in.lang = path[1:]
		return
	}
	if isLanguage(path) {
		in.lang = path
		if wellKnown[path] != "" && path != strings.ToLower(path) { // Dockerfile: a language's name and a file's
			in.found(path, PathBareInfo, 0.6)
			in.doubt(0.6, "\""+path+"\" is the name of a file and of its language")
		}
		return
	}
	switch pathShape(path) {
	case shapeStrong:
		in.found(s, PathBareInfo, 0.9)
	case shapeWeak:
		in.found(s, PathBareInfo, 0.7)
		in.doubt(0.7, "it may be no path")
	case shapeWord:
		in.lang = path
	default:
		if in.unportable(s, PathBareInfo) {
			return
		}
		if refusal(strings.ReplaceAll(path, `\`, "/")) != "" && strings.ContainsAny(path, `/\`) {
			in.found(s, PathBareInfo, 0.9)
			return
		}
		in.lang = path
	}
}

// unportable reports whether a text would be a file's path but for a character
// that names cannot have on every system. The path is set, so that package
// workspace can refuse it in words; it is never written without an approval.
func (in *info) unportable(path string, from PathSource) bool {
	const characters = `<>|?*"`
	shaped := pathOf(path)
	if !strings.ContainsAny(shaped, characters) || strings.ContainsAny(shaped, " \t") {
		return false
	}
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(characters, r) {
			return '_'
		}
		return r
	}, shaped)
	if pathShape(plain) != shapeStrong || from != PathInfo && !strings.ContainsAny(plain, `/\`) {
		return false
	}
	in.found(path, from, 0.7)
	in.doubt(0.7, "a file's name cannot have one of "+characters+" on every system")
	return true
}

func isAttribute(key string) bool { return attributeRank(key) > 0 }

// attributeRank orders the attributes that may name a file: explicit file attributes first,
// then titles.
func attributeRank(key string) int {
	switch strings.ToLower(strings.TrimPrefix(key, "data-")) {
	case "path", "file", "filename", "filepath", "file_path", "file-path", "file_name":
		return 3
	case "title", "name", "label", "source", "src":
		return 2
	case "encoding", "mode", "action", "lines", "startline", "start", "range":
		return 1
	}
	return 0
}

// attributes reads key=value pairs; classes says that .word names a language.
func (in *info) attributes(s string, classes bool) {
	rank := 0
	for s = strings.TrimLeft(s, " \t,"); s != ""; s = strings.TrimLeft(s, " \t,") {
		key, value, rest := attribute(s)
		s = rest
		if classes && value == "" && strings.HasPrefix(key, ".") && in.lang == "" {
			in.lang = key[1:]
			continue
		}
		if value == "" {
			continue
		}
		r := attributeRank(key)
		switch {
		case r == 1:
			in.control(strings.ToLower(key), strings.ToLower(value))
		case r == 2 && pathShape(value) != shapeStrong:
		case r > rank:
			rank = r
			in.found(value, PathAttribute, 1)
			if sh := pathShape(value); sh != shapeStrong && refusal(value) == "" {
				in.conf = 0.9
				if next := strings.TrimSpace(s); next != "" && next[0] != '{' &&
					strings.IndexByte(strings.Fields(next)[0], '=') < 0 && !isFenceOption(next) {
					in.doubt(0.6, "the path may go on after a space; it has no quotes")
				}
			}
		case r == rank && r > 0 && value != in.raw:
			in.doubt(0.5, "two attributes name different files")
		}
	}
}

// control reads an attribute that says how to use the body.
func (in *info) control(key, value string) {
	switch {
	case key == "encoding" && value == "base64":
		in.base64 = true
	case (key == "mode" || key == "action") && value != "create" && value != "write" && value != "overwrite" &&
		value != "update" && value != "replace":
		in.append = true
	case key == "lines" || key == "startline" || key == "range" || key == "start" && value != "1":
		in.mark(VerdictPartial, "it gives some lines of the file only")
	}
}

// attribute splits off the first key=value, key="value" or word.
func attribute(s string) (key, value, rest string) {
	i := strings.IndexAny(s, "= \t,")
	if i < 0 {
		return strings.TrimRight(s, "}"), "", ""
	}
	key = s[:i]
	if s[i] != '=' {
		return key, "", s[i+1:]
	}
	s = s[i+1:]
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		if end := strings.IndexByte(s[1:], s[0]); end >= 0 {
			return key, s[1 : 1+end], s[end+2:]
		}
	}
	end := strings.IndexAny(s, " \t,")
	if end < 0 {
		end = len(s)
	}
	return key, strings.Trim(s[:end], "\"'}"), s[end:]
}
