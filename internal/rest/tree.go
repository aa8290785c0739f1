package rest

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

// ParseObject reads a body, which must be a JSON object. The object may share the memory of the
// body.
func ParseObject(body []byte) (*Object, error) {
	text := unsafe.String(unsafe.SliceData(body), len(body)) //nolint:gosec // nothing changes it, and a copy costs as much
	shape := scan(text)
	switch {
	case !utf8.Valid(body):
		return nil, Invalid("the body is not valid UTF-8")
	case shape.depth > maxDepth: // gjson.Valid would take that much stack
		return nil, Invalid("the body is nested more than %d deep", maxDepth)
	case shape.values > maxValues:
		return nil, Invalid("the body has more than %d values", maxValues)
	case !gjson.Valid(text):
		return nil, notJSON(body)
	case shape.half >= 0:
		return nil, Invalid(`the body has half of a \u surrogate pair at byte %d`, shape.half)
	}
	t := tree{size: len(text)}
	value, err := t.value(gjson.Parse(text))
	if err != nil {
		return nil, err
	}
	members, ok := value.(map[string]any)
	if !ok {
		return nil, Invalid("the body must be a JSON object, not %s", kindOf(value))
	}
	return &Object{Members: members, Failed: new(error)}, nil
}

// notJSON returns where a text stops being JSON.
func notJSON(body []byte) error {
	var any json.RawMessage
	e, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, &any))
	switch {
	case !ok:
		return Invalid("the body is not JSON")
	case e.Offset >= int64(len(body)) && strings.HasPrefix(e.Error(), "unexpected end"):
		return Invalid("the body is not JSON: it ends too soon, at byte %d", e.Offset)
	}
	return Invalid("the body is not JSON: %s, at byte %d", e.Error(), e.Offset-1)
}

// shape is what a look at a text tells of its values before they are read.
type shape struct {
	depth  int
	values int // of valid JSON
	half   int // position of a \u surrogate without its other half, which encoding/json and gjson would replace, or -1
}

// scan returns the shape of a text.
func scan(text string) shape {
	s := shape{values: 1, half: -1}
	open, quoted, empty := 0, false, false // empty: nothing yet in the innermost array or object
	for at := 0; at < len(text); at++ {
		c := text[at]
		switch {
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
				s.half, at = at, at+5
			}
		case quoted, c == ' ', c == '\t', c == '\n', c == '\r':
			continue
		case c == ',':
			s.values++
		case c == '[', c == '{':
			open++
			s.depth = max(s.depth, open)
			s.values++
			empty = true
			continue
		case c == ']', c == '}':
			open--
			if empty {
				s.values--
			}
		}
		empty = false
	}
	return s
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

// tree builds plain values from valid JSON.
type tree struct {
	size int    // of the text
	path []step // to the value that is read
}

// step leads from a value to an inner one: a member by its name, or an element.
type step struct {
	name    string
	element int // -1: a member
}

// value returns a plain value.
func (t *tree) value(v gjson.Result) (any, error) {
	switch v.Type {
	case gjson.String:
		return t.keep(v.Str), nil
	case gjson.True, gjson.False:
		return v.Bool(), nil
	case gjson.Null:
		return nil, nil
	case gjson.Number:
		if len(v.Raw) > maxNumber {
			return nil, Invalid("%s is a number of more than %d characters", cmp.Or(t.place(), "the body"), maxNumber)
		}
		return json.Number(strings.Clone(v.Raw)), nil
	}
	if v.IsArray() {
		return t.list(v)
	}
	return t.members(v)
}

func (t *tree) list(v gjson.Result) (list []any, err error) {
	list = []any{}
	v.ForEach(func(_, inner gjson.Result) bool {
		var one any
		one, err = t.inner(inner, step{element: len(list)})
		list = append(list, one)
		return err == nil
	})
	return list, err
}

func (t *tree) members(v gjson.Result) (members map[string]any, err error) {
	members = map[string]any{}
	v.ForEach(func(key, inner gjson.Result) bool {
		name := t.keep(key.Str)
		if _, twice := members[name]; twice {
			err = Invalid("%s is there twice", join(t.place(), name))
		} else {
			members[name], err = t.inner(inner, step{name, -1})
		}
		return err == nil
	})
	return members, err
}

// inner returns the value one step further.
func (t *tree) inner(v gjson.Result, by step) (any, error) {
	t.path = append(t.path, by)
	one, err := t.value(v)
	t.path = t.path[:len(t.path)-1]
	return one, err
}

// place names the value that is read. Only errors need it: to name each one would cost more than to read it.
func (t *tree) place() (at string) {
	for _, by := range t.path {
		if by.element < 0 {
			at = join(at, by.name)
		} else {
			at = index(at, by.element)
		}
	}
	return at
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
