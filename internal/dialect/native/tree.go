package native

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"
)

// JSON has one reading here, or none. encoding/json alone would replace bytes that are not
// UTF-8, take the last of two members with the same name, match names in any case and ignore
// unknown ones. Two programs could then read a request differently. So a body is parsed into a
// plain tree that refuses all of that, and a handler takes its fields by name.

const (
	maxDepth  = 16      // no request is deeper than 4
	maxNumber = 64      // characters
	maxValues = 100_000 // bounds the memory that small values take beside their text
)

// parseObject reads a body, which must be a JSON object. The object may share the memory of the
// body.
func parseObject(body []byte) (*object, error) {
	text := unsafe.String(unsafe.SliceData(body), len(body)) //nolint:gosec // nothing changes it, and a copy costs as much
	depth, half := scan(text)
	switch {
	case !utf8.Valid(body):
		return nil, invalid("the body is not valid UTF-8")
	case depth > maxDepth: // gjson.Valid would take that much stack
		return nil, invalid("the body is nested more than %d deep", maxDepth)
	case !gjson.Valid(text):
		return nil, notJSON(body)
	case half >= 0:
		return nil, invalid(`the body has half of a \u surrogate pair at byte %d`, half)
	}
	t := tree{size: len(text)}
	value, err := t.value(gjson.Parse(text), "")
	if err != nil {
		return nil, err
	}
	members, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("the body must be a JSON object, not %s", kindOf(value))
	}
	return &object{members: members, failed: new(error)}, nil
}

// notJSON returns where a text stops being JSON.
func notJSON(body []byte) error {
	var any json.RawMessage
	e, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, &any))
	switch {
	case !ok:
		return invalid("the body is not JSON")
	case e.Offset >= int64(len(body)) && strings.HasPrefix(e.Error(), "unexpected end"):
		return invalid("the body is not JSON: it ends too soon, at byte %d", e.Offset)
	}
	return invalid("the body is not JSON: %s, at byte %d", e.Error(), e.Offset-1)
}

// scan returns the depth of a text, and the position of a \u surrogate without its other half,
// which encoding/json and gjson would replace; -1: there is none.
func scan(text string) (depth, half int) {
	open, quoted := 0, false
	half = -1
	for at := 0; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			unit := escapedUnit(text[at:])
			switch {
			case unit < 0:
				at++
			case !utf16.IsSurrogate(unit):
				at += 5
			case utf16.DecodeRune(unit, escapedUnit(text[at+6:])) != utf8.RuneError:
				at += 11
			default:
				half, at = at, at+5
			}
		case quoted:
		case c == '[', c == '{':
			open++
			depth = max(depth, open)
		case c == ']', c == '}':
			open--
		}
	}
	return depth, half
}

// escapedUnit returns the unit of the \uXXXX at the start of s; -1: there is none.
func escapedUnit(s string) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(s[2:6], 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
}

// tree builds plain values from valid JSON, within limits.
type tree struct {
	size   int // of the text
	values int
}

// value returns a plain value. at is its place, for errors.
func (t *tree) value(v gjson.Result, at string) (any, error) {
	if t.values++; t.values > maxValues {
		return nil, invalid("the body has more than %d values", maxValues)
	}
	switch v.Type {
	case gjson.String:
		return t.keep(v.Str), nil
	case gjson.True, gjson.False:
		return v.Bool(), nil
	case gjson.Null:
		return nil, nil
	case gjson.Number:
		if len(v.Raw) > maxNumber {
			return nil, invalid("%s is a number of more than %d characters", cmp.Or(at, "the body"), maxNumber)
		}
		return json.Number(strings.Clone(v.Raw)), nil
	}
	members, list := map[string]any{}, []any{}
	var err error
	v.ForEach(func(key, inner gjson.Result) bool {
		var one any
		if v.IsArray() {
			one, err = t.value(inner, index(at, len(list)))
			list = append(list, one)
			return err == nil
		}
		name := t.keep(key.Str)
		where := join(at, name)
		if _, twice := members[name]; twice {
			err = invalid("%s is there twice", where)
		} else {
			members[name], err = t.value(inner, where)
		}
		return err == nil
	})
	if v.IsArray() {
		return list, err
	}
	return members, err
}

// keep returns a copy of a short string, so that it does not retain the whole text.
func (t *tree) keep(s string) string {
	if len(s) > t.size/2 {
		return s
	}
	return strings.Clone(s)
}

// join and index return the place of a value, at a length that fits a message.
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
