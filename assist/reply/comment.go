package reply

import "strings"

// IsComment reports whether a line of a file has no code: it is a comment, or has dots where
// code would be. What counts as a comment depends on the name of the file.
func IsComment(path, line string) bool {
	line = strings.TrimSpace(line)
	if isDots(line) || strings.HasPrefix(line, "...") || strings.HasPrefix(line, "…") {
		return true
	}
	if inner := strings.Trim(line, "[](){}<> "); len(inner) < len(line) && (dotted(inner, strings.HasPrefix) ||
		dotted(inner, strings.HasSuffix)) {
		return true
	}
	_, leader := uncomment(line)
	switch f := family(path); {
	case leader == "":
		return false
	case f == "":
		return leader != "*" && leader != "'" && leader != `"""`
	case f == "html" && (leader == "//" || leader == "/*"): // in a script or a style
		return true
	default:
		return leaderFitsFamily(leader, f)
	}
}

// dotted reports whether a text has an ellipsis at the end that has is about.
func dotted(text string, has func(s, affix string) bool) bool {
	return has(text, "...") || has(text, "…")
}
