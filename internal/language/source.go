package language

import (
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
