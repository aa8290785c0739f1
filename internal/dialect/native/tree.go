package native

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// tree builds plain values out of JSON in valid UTF-8. It checks and reads in
// one pass over the text itself: a large body is not to be gone through once to
// see whether it is JSON and once more for its values, and what is too much in
// it is refused where it stands. FuzzJSON holds it against encoding/json.
type tree struct {
	text   string
	pos    int
	values int
}

// whole reads the text, which must be one value.
func (t *tree) whole() (any, error) {
	v, err := t.value("", 0)
	if err == nil && (t.next() != 0 || t.pos < len(t.text)) {
		return nil, t.unexpected()
	}
	return v, err
}

// unexpected says what is wrong where the reading stands.
func (t *tree) unexpected() error {
	rest := t.text[t.pos:]
	if rest == "" {
		return invalid("the body is not JSON: it ends too soon, at byte %d", t.pos)
	}
	if utf16.IsSurrogate(escapedUnit(rest)) {
		return invalid(`the body has half of a \u surrogate pair at byte %d`, t.pos)
	}
	c, _ := utf8.DecodeRuneInString(rest)
	return invalid("the body is not JSON: %q is not expected at byte %d", c, t.pos)
}

// next moves to the next character that means something, and returns it; 0,
// which means nothing anywhere, at the end.
func (t *tree) next() byte {
	for ; t.pos < len(t.text); t.pos++ {
		if c := t.text[t.pos]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// skip moves past a character, if it is the next one.
func (t *tree) skip(c byte) bool {
	if t.next() != c {
		return false
	}
	t.pos++
	return true
}

// value reads one value; at says where it is, for an error.
func (t *tree) value(at string, depth int) (any, error) {
	if t.values++; t.values > maxValues {
		return nil, invalid("the body has more than %d values", maxValues)
	}
	switch c := t.next(); c {
	case '{', '[':
		if depth++; depth > maxDepth {
			return nil, invalid("the body is nested more than %d deep", maxDepth)
		}
		t.pos++
		if c == '[' {
			return t.array(at, depth)
		}
		return t.object(at, depth)
	case '"':
		return t.str()
	case 't':
		return true, t.word("true")
	case 'f':
		return false, t.word("false")
	case 'n':
		return nil, t.word("null")
	}
	start := t.pos
	if !t.number() {
		return nil, t.unexpected()
	}
	if t.pos-start > maxNumber {
		return nil, invalid("%s is a number of more than %d characters", cmp.Or(at, "the body"), maxNumber)
	}
	return json.Number(strings.Clone(t.text[start:t.pos])), nil
}

func (t *tree) word(w string) error {
	if !strings.HasPrefix(t.text[t.pos:], w) {
		return t.unexpected()
	}
	t.pos += len(w)
	return nil
}

// number moves past a number.
func (t *tree) number() bool {
	t.one("-")
	if !t.one("0") && !t.digits() {
		return false
	}
	if t.one(".") && !t.digits() {
		return false
	}
	if t.one("eE") {
		t.one("+-")
		return t.digits()
	}
	return true
}

// one moves past a character if it is one of some.
func (t *tree) one(of string) bool {
	if t.pos == len(t.text) || strings.IndexByte(of, t.text[t.pos]) < 0 {
		return false
	}
	t.pos++
	return true
}

// digits moves past one digit or more.
func (t *tree) digits() bool {
	start := t.pos
	for t.pos < len(t.text) && t.text[t.pos] >= '0' && t.text[t.pos] <= '9' {
		t.pos++
	}
	return t.pos > start
}

func (t *tree) array(at string, depth int) (any, error) {
	list := []any{}
	if t.skip(']') {
		return list, nil
	}
	for {
		where := at
		if c := t.next(); c == '{' || c == '[' { // else nothing in it can be wrong
			where = index(at, len(list))
		}
		v, err := t.value(where, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if t.skip(']') {
			return list, nil
		}
		if !t.skip(',') {
			return nil, t.unexpected()
		}
	}
}

func (t *tree) object(at string, depth int) (any, error) {
	members := map[string]any{}
	if t.skip('}') {
		return members, nil
	}
	for {
		if t.next() != '"' {
			return nil, t.unexpected()
		}
		name, err := t.str()
		if err != nil {
			return nil, err
		}
		where := join(at, name)
		if _, twice := members[name]; twice {
			return nil, invalid("%s is there twice", where)
		}
		if !t.skip(':') {
			return nil, t.unexpected()
		}
		if members[name], err = t.value(where, depth); err != nil {
			return nil, err
		}
		if t.skip('}') {
			return members, nil
		}
		if !t.skip(',') {
			return nil, t.unexpected()
		}
	}
}

// str reads a string. One that is most of the text stays a part of it, and any
// other is a copy: it must not keep the whole text in memory.
func (t *tree) str() (string, error) {
	t.pos++
	start, size := t.pos, 0
	escaped := false
	for t.pos < len(t.text) {
		switch c := t.text[t.pos]; {
		case c == '"':
			raw := t.text[start:t.pos]
			t.pos++
			switch {
			case escaped:
				return unescape(raw, size), nil
			case len(raw) > len(t.text)/2:
				return raw, nil
			}
			return strings.Clone(raw), nil
		case c == '\\':
			escaped = true
			if t.pos+1 < len(t.text) && escapes[t.text[t.pos+1]] != 0 {
				t.pos += 2
				size++
				continue
			}
			r, length := escapedRune(t.text[t.pos:])
			if length == 0 {
				return "", t.unexpected()
			}
			t.pos += length
			size += utf8.RuneLen(r)
		case c < ' ':
			return "", t.unexpected()
		default:
			t.pos++
			size++
		}
	}
	return "", t.unexpected()
}

// unescape decodes a string that becomes size bytes, of which every escape is
// known to be one.
func unescape(raw string, size int) string {
	var b strings.Builder
	b.Grow(size)
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			plain := i
			for i < len(raw) && raw[i] != '\\' {
				i++
			}
			b.WriteString(raw[plain:i])
			continue
		}
		if c := escapes[raw[i+1]]; c != 0 {
			b.WriteByte(c)
			i += 2
			continue
		}
		r, length := escapedRune(raw[i:])
		b.WriteRune(r)
		i += length
	}
	return b.String()
}

// escapes are those of two characters.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escapedRune reads \uXXXX, or two that are a surrogate pair, at the start of s;
// its length is 0 if they are not there.
func escapedRune(s string) (r rune, length int) {
	unit := escapedUnit(s)
	switch {
	case unit < 0:
		return 0, 0
	case !utf16.IsSurrogate(unit):
		return unit, 6
	}
	if r = utf16.DecodeRune(unit, escapedUnit(s[6:])); r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// escapedUnit reads \uXXXX at the start of s; -1: there is none.
func escapedUnit(s string) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	var unit rune
	for _, c := range []byte(s[2:6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		unit = unit<<4 | rune(c)
	}
	return unit
}

// join and index spell where a value is, at a length that fits a message.
func join(at, name string) string {
	if len(name) > 40 {
		name = strings.ToValidUTF8(name[:40], "") + "..."
	}
	if at == "" {
		return name
	}
	return at + "." + name
}

func index(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }
