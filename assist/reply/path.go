package reply

import (
	"strings"
	"unicode/utf8"
)

// shape says how much a text looks like a file's path.
type shape int

const (
	shapeNone   shape = iota
	shapeWord         // a word that may be anything: "hello"
	shapeWeak         // "src/foo", "foo.bar"
	shapeStrong       // "src/a.ts", "main.py", "Dockerfile"
)

// pathShape judges a text that stands where a path may stand.
func pathShape(s string) shape {
	s = strings.ReplaceAll(s, `\`, "/")
	if s == "" || len(s) > 512 || strings.ContainsAny(s, "<>|?*\"\n\t=,;:") || strings.Contains(s, "://") ||
		strings.Contains(s, "...") || strings.Contains(s, "…") || s[len(s)-1] == '/' || s[0] == '-' {
		return shapeNone
	}
	base := s[strings.LastIndexByte(s, '/')+1:]
	slash := len(base) < len(s)
	if _, ok := wellKnown[base]; ok {
		return shapeStrong
	}
	if base == "" || base == "." || base == ".." || base[0] == ' ' {
		return shapeNone
	}
	ext := base[strings.LastIndexByte(base, '.')+1:]
	switch {
	case len(ext) == len(base): // no dot
		if slash {
			return shapeWeak
		}
		if strings.IndexByte(base, ' ') >= 0 {
			return shapeNone
		}
		return shapeWord
	case !isExtension(ext):
		if slash {
			return shapeWeak
		}
		return shapeNone
	case slash || extensions[strings.ToLower(ext)] != "" || strings.HasPrefix(base, ".env.") ||
		strings.HasPrefix(base, "Dockerfile."):
		return shapeStrong
	}
	return shapeWeak
}

// isExtension reports whether a text can be a file's extension: letters and digits,
// at least one letter, so that a version's number is none.
func isExtension(ext string) bool {
	if ext == "" || len(ext) > 16 {
		return false
	}
	letter := false
	for _, c := range []byte(ext) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			letter = true
		case c >= '0' && c <= '9', c == '_', c == '-', c == '+':
		default:
			return false
		}
	}
	return letter
}

// cleaned is a path after its spelling was made plain.
type cleaned struct {
	path     string
	refusal  string // why it may never be written to, in a sentence
	warnings []Warning
}

// cleanPath unwraps a path and returns its canonical spelling: relative, forward slashes,
// no "." segments. It refuses a path that leads out of the folder.
func cleanPath(raw string, offset int) cleaned {
	var c cleaned
	warn := func(code, message string) { c.warnings = append(c.warnings, Warning{code, message, offset}) }
	s := unwrap(raw)
	if strings.IndexByte(s, '\\') >= 0 {
		s = strings.ReplaceAll(s, `\`, "/")
		warn("path.backslash", "backslashes were read as slashes")
	}
	if c.refusal = refusal(s); c.refusal != "" {
		c.path = s
		return c
	}
	if strings.Contains(s, "./") || strings.Contains(s, "//") || strings.HasSuffix(s, "/.") {
		kept := make([]string, 0, 8)
		for segment := range strings.SplitSeq(s, "/") {
			if segment != "" && segment != "." {
				kept = append(kept, segment)
			}
		}
		if joined := strings.Join(kept, "/"); joined != s {
			s = joined
			warn("path.cleaned", "empty and dot segments were left out")
		}
	}
	if s == "" {
		c.refusal = "the path is empty"
	}
	c.path = s
	return c
}

// unwrap removes one layer of quotes, backticks, angle brackets or a link.
func unwrap(s string) string {
	s = strings.TrimSpace(s)
	if len(s) < 2 {
		return s
	}
	if s[0] == '[' {
		if text, target, ok := strings.Cut(s[1:], "]("); ok && strings.HasSuffix(target, ")") {
			return strings.Trim(strings.TrimSpace(text), "`")
		}
	}
	first, last := s[0], s[len(s)-1]
	switch {
	case first == last && (first == '"' || first == '\'' || first == '`'), first == '<' && last == '>':
		return strings.TrimSpace(s[1 : len(s)-1])
	}
	return s
}

// refusal returns why a path, with forward slashes, leads out of the folder or
// cannot be a name, "" if it may be used.
func refusal(s string) string {
	switch {
	case strings.HasPrefix(s, "/"):
		return "the path is absolute"
	case len(s) >= 2 && s[1] == ':' && isLetter(s[0]):
		return "the path begins with a drive letter"
	case strings.HasPrefix(s, "~"):
		return "the path begins in a home directory"
	case strings.Contains(s, "://"), strings.HasPrefix(strings.ToLower(s), "file:"), strings.HasPrefix(s, "sandbox:"):
		return "the path is a URL"
	case !utf8.ValidString(s):
		return "the path is not UTF-8"
	}
	for _, r := range s {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
			r >= 0x200b && r <= 0x200f || r == 0xfeff || r == 0x2028 || r == 0x2029 {
			return "the path has control or invisible characters"
		}
	}
	for segment := range strings.SplitSeq(s, "/") {
		if segment == ".." {
			return `the path has a ".." segment`
		}
	}
	return ""
}

// isPlaceholder reports whether a path was copied from an instruction:
// path/to/file.ext, your-file.ts.
func isPlaceholder(path string) bool {
	p := strings.ToLower(path)
	if strings.HasPrefix(p, "path/to/") || strings.Contains(p, "/path/to/") {
		return true
	}
	base := p[strings.LastIndexByte(p, '/')+1:]
	stem, ext, _ := strings.Cut(base, ".")
	switch stem {
	case "your-file", "your_file", "yourfile", "file-name", "file_path", "filepath":
		return true
	case "file", "filename", "name", "path":
		return ext == "ext" || ext == "extension" || ext == ""
	}
	return ext == "ext" || ext == "extension"
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// lineSuffix splits off a suffix that names lines: #L10-L20, :12-30, :12.
func lineSuffix(s string) (path string, lines bool) {
	if i := strings.LastIndex(s, "#L"); i > 0 && i+2 < len(s) && isDigit(s[i+2]) {
		return s[:i], true
	}
	end := len(s)
	for end > 0 && (isDigit(s[end-1]) || s[end-1] == '-' || s[end-1] == ':' || s[end-1] == ',' || s[end-1] == 'L') {
		end--
	}
	// What is left may have eaten digits that belong to the name: a colon decides.
	if i := strings.IndexByte(s[end:], ':'); i >= 0 && end+i > 0 && end+i+1 < len(s) &&
		strings.ContainsAny(s[end+i+1:], "0123456789") {
		return s[:end+i], true
	}
	return s, false
}

// pathOf returns the path of a spelling, without the marks around it and the
// lines that it names.
func pathOf(raw string) string {
	path, _ := lineSuffix(unwrap(raw))
	return path
}
