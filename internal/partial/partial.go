// Package partial reads JSON that is still being written: the arguments of a
// call, as a model streams them.
package partial

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Reader reads the first string of an object that has a name, in pieces. It is meant
// for showing: the whole is decoded once it is there.
type Reader struct {
	start *regexp.Regexp
	state state
	held  string // what cannot be read yet
}

type state int

const (
	before state = iota
	inside
	after
)

// NewReader returns a reader of the field of that name.
func NewReader(name string) *Reader {
	return &Reader{start: regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `"\s*:\s*"`)}
}

// String returns what there is of the field in an object of which only the
// beginning is known.
func String(object, name string) string { return NewReader(name).Read(object) }

// maxBefore is how much of an object is searched again and again for the beginning
// of the field.
const maxBefore = 4096

// Read returns what the next piece of the object adds to the field.
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

// readable is up to where there are whole characters and escapes of a JSON string.
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

// escape is how long the escape is that a text begins with.
func escape(s string) int {
	switch {
	case len(s) < 2 || s[1] != 'u':
		return 2
	case len(s) >= 4 && strings.ContainsRune("dD", rune(s[2])) && strings.ContainsRune("89abAB", rune(s[3])):
		return 12 // the first half of a pair
	}
	return 6
}
