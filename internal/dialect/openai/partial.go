package openai

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// codeReader reads the code out of arguments that are still being written. It looks at
// each byte once.
type codeReader struct {
	state codeState
	held  string // what cannot be read yet
}

type codeState int

const (
	beforeCode codeState = iota
	inCode
	afterCode
)

var codeField = regexp.MustCompile(`^\s*\{\s*"code"\s*:\s*"`)

// mostBefore is how long the beginning of arguments may be in which the code is looked
// for: one that does not begin with it is shown when it is whole.
const mostBefore = 256

// read returns the code in the next piece.
func (r *codeReader) read(piece string) string {
	r.held += piece
	if r.state == beforeCode {
		at := codeField.FindStringIndex(r.held)
		switch {
		case at != nil:
			r.state, r.held = inCode, r.held[at[1]:]
		case len(r.held) > mostBefore:
			r.state = afterCode
		}
	}
	if r.state != inCode {
		if r.state == afterCode {
			r.held = ""
		}
		return ""
	}
	end := r.readable()
	text, rest := r.held[:end], r.held[end:]
	r.held = rest
	if strings.HasPrefix(rest, `"`) {
		r.state, r.held = afterCode, ""
	}
	var code string
	if json.Unmarshal([]byte(`"`+text+`"`), &code) != nil {
		r.state, r.held = afterCode, ""
	}
	return code
}

// readable is up to where there are whole characters and escapes of a JSON string.
func (r *codeReader) readable() int {
	s := r.held
	for i := 0; i < len(s); {
		switch {
		case s[i] == '"':
			return i
		case s[i] == '\\':
			step := 2
			if i+1 < len(s) && s[i+1] == 'u' {
				if step = 6; i+4 <= len(s) && (s[i+2] == 'd' || s[i+2] == 'D') &&
					strings.ContainsRune("89abAB", rune(s[i+3])) {
					step = 12 // the first half of a pair
				}
			}
			if i+step > len(s) {
				return i
			}
			i += step
		case s[i] >= utf8.RuneSelf && !utf8.FullRuneInString(s[i:]):
			return i
		default:
			_, size := utf8.DecodeRuneInString(s[i:])
			i += size
		}
	}
	return len(s)
}
