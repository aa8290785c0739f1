package native

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
)

// tree builds plain values out of JSON that is known to be valid, to have no
// lone surrogates and to be UTF-8. It works on the text itself: a decoder of
// tokens would copy a large text twice more before it is read.
type tree struct {
	text   []byte
	pos    int
	values int
}

// next moves to the next character that means something, and returns it.
func (t *tree) next() byte {
	for t.text[t.pos] == ' ' || t.text[t.pos] == '\n' || t.text[t.pos] == '\t' || t.text[t.pos] == '\r' {
		t.pos++
	}
	return t.text[t.pos]
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
		return t.str(), nil
	case 't':
		t.pos += len("true")
		return true, nil
	case 'f':
		t.pos += len("false")
		return false, nil
	case 'n':
		t.pos += len("null")
		return nil, nil
	}
	start := t.pos
	for t.pos < len(t.text) && strings.IndexByte("+-.0123456789eE", t.text[t.pos]) >= 0 {
		t.pos++
	}
	if t.pos-start > maxNumber {
		return nil, invalid("%s is a number of more than %d characters", cmp.Or(at, "the body"), maxNumber)
	}
	return json.Number(t.text[start:t.pos]), nil
}

func (t *tree) array(at string, depth int) (any, error) {
	list := []any{}
	for t.next() != ']' {
		where := at
		if c := t.text[t.pos]; c == '{' || c == '[' { // else nothing in it can be wrong
			where = index(at, len(list))
		}
		v, err := t.value(where, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if t.next() == ',' {
			t.pos++
		}
	}
	t.pos++
	return list, nil
}

func (t *tree) object(at string, depth int) (any, error) {
	members := map[string]any{}
	for t.next() != '}' {
		name := t.str()
		where := join(at, name)
		if _, twice := members[name]; twice {
			return nil, invalid("%s is there twice", where)
		}
		t.next()
		t.pos++ // the colon
		v, err := t.value(where, depth)
		if err != nil {
			return nil, err
		}
		members[name] = v
		if t.next() == ',' {
			t.pos++
		}
	}
	t.pos++
	return members, nil
}

// str reads a string.
func (t *tree) str() string {
	t.pos++
	start, escapes := t.pos, 0
	for t.text[t.pos] != '"' {
		if t.text[t.pos] == '\\' {
			escapes++
			t.pos++
		}
		t.pos++
	}
	raw := t.text[start:t.pos]
	t.pos++
	if escapes == 0 {
		return string(raw)
	}
	return unescape(raw, escapes)
}

// unescape decodes a string with a number of escapes, each of which is two
// bytes or more and becomes one or more.
func unescape(raw []byte, escapes int) string {
	var b strings.Builder
	b.Grow(len(raw) - escapes)
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			b.Write(raw)
			return b.String()
		}
		b.Write(raw[:i])
		c := raw[i+1]
		if c != 'u' {
			if at := strings.IndexByte("bfnrt", c); at >= 0 {
				c = "\b\f\n\r\t"[at]
			}
			b.WriteByte(c)
			raw = raw[i+2:]
			continue
		}
		r := rune(escapedUnit(raw[i:]))
		raw = raw[i+6:]
		if utf16.IsSurrogate(r) {
			r = utf16.DecodeRune(r, rune(escapedUnit(raw)))
			raw = raw[6:]
		}
		b.WriteRune(r)
	}
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
