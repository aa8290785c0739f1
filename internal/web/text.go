package web

import "strings"

// plainText is what a program printed without what a terminal would take for
// commands: escape sequences and control characters. Line breaks and tabs
// stay. A carriage return begins the line anew, as progress bars have it.
func plainText(s string) string {
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	b := make([]byte, 0, len(s))
	start := 0 // of the current line in b
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == 0x1b:
			i = skipEscape(s, i)
			continue
		case c == '\n':
			b = append(b, c)
			start = len(b)
		case c == '\r':
			if next := i + 1; next < len(s) && s[next] != '\n' {
				b = b[:start]
			}
		case c < ' ' && c != '\t' || c == 0x7f:
		default:
			b = append(b, c)
		}
		i++
	}
	return string(b)
}

func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// skipEscape returns where an escape sequence ends that begins at i.
func skipEscape(s string, i int) int {
	if i++; i >= len(s) {
		return i
	}
	switch s[i] {
	case '[': // a command: parameters, then one letter
		for i++; i < len(s) && (s[i] < 0x40 || s[i] > 0x7e); i++ {
		}
	case ']', 'P', '^', '_', 'X': // a string, up to BEL or ESC \
		for i++; i < len(s) && s[i] != 0x07 && s[i] != 0x1b; i++ {
		}
		if i+1 < len(s) && s[i] == 0x1b && s[i+1] == '\\' {
			i++
		}
	}
	return min(i+1, len(s))
}
