// Package partial reads incomplete JSON: the arguments of a call that a model streams.
package partial

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Reader reads a string field of an object in pieces, for display. The complete object has to
// be decoded separately.
type Reader struct {
	start *regexp.Regexp
	state state
	held  string // incomplete input
}

type state int

const (
	before state = iota
	inside
	after
)

// NewReader returns a reader of the first field with a name.
func NewReader(name string) *Reader {
	return &Reader{start: regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `"\s*:\s*"`)}
}

// String returns the known part of a field of an incomplete object.
func String(object, name string) string { return NewReader(name).Read(object) }

// maxBefore bounds the input before the field, which each Read searches.
const maxBefore = 4096

// Read adds a piece of the object and returns the next part of the field.
func (r *Reader) Read(piece string) string {
	if r.state == after {
		return ""
	}
	r.held += piece
	if r.state == before {
		at := r.start.FindStringIndex(r.held)
		if at == nil {
			if len(r.held) > maxBefore {
				r.state, r.held = after, ""
			}
			return ""
		}
		r.state, r.held = inside, r.held[at[1]:]
	}
	end := readable(r.held)
	text, rest := r.held[:end], r.held[end:]
	r.held = rest
	var s string
	if json.Unmarshal([]byte(`"`+text+`"`), &s) != nil || strings.HasPrefix(rest, `"`) {
		r.state, r.held = after, ""
	}
	return s
}

// readable returns the length of the complete characters and escapes of a JSON string.
func readable(s string) int {
	for i := 0; i < len(s); {
		var step int
		switch {
		case s[i] == '"':
			return i
		case s[i] == '\\':
			step = escape(s[i:])
		case !utf8.FullRuneInString(s[i:]):
			return i
		default:
			_, step = utf8.DecodeRuneInString(s[i:])
		}
		if i+step > len(s) {
			return i
		}
		i += step
	}
	return len(s)
}

// escape returns the length of the escape at the beginning of a text.
func escape(s string) int {
	switch {
	case len(s) < 2 || s[1] != 'u':
		return 2
	case len(s) >= 4 && strings.ContainsRune("dD", rune(s[2])) && strings.ContainsRune("89abAB", rune(s[3])):
		return 12 // the first half of a pair
	}
	return 6
}
