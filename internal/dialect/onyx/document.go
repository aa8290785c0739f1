package onyx

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/wire"
)

// The original reads JSON with Python, and its answers to an invalid body show it: they have the
// position and the reason in Python's words, distinguish 1000 from 1000.0, and repeat the input.
// encoding/json loses all of that, and replaces half of a surrogate pair. So bodies are read here
// as Python 3.11 reads them, with NaN and repeated members.

// value is a JSON value as it was written.
type value struct {
	kind kind
	text string // of a string; of a number its digits, of a constant its name
	list []value
	keys []string // of an object; list has the values
}

type kind uint8

const (
	isNull kind = iota
	isBool
	isInt
	isFloat
	isString
	isList
	isObject
)

// member returns the value under a name.
func (v *value) member(name string) (*value, bool) {
	for i, key := range v.keys {
		if key == name {
			return &v.list[i], true
		}
	}
	return nil, false
}

// Limits of the memory and the stack for reading a body.
const (
	maxDepth  = 200
	maxValues = 200_000
)

// syntaxError reports where a body stops being JSON, in characters from its beginning, and why.
type syntaxError struct {
	at   int
	text string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s: char %d", e.text, e.at) }

// parser reads one document. It panics with an error, which parseDocument returns.
type parser struct {
	s      []byte
	values int
}

// errUnreadable stands for whatever else keeps Python from reading a body.
var errUnreadable = wire.Refuse(400, "There was an error parsing the body")

// parseDocument returns a *syntaxError for invalid JSON, and errUnreadable for a body that is not
// UTF-8 or over the limits.
func parseDocument(body []byte) (v value, err error) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(body) {
		return value{}, errUnreadable
	}
	p := &parser{s: body}
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case *syntaxError:
			fault.at = utf8.RuneCount(body[:min(fault.at, len(body))])
			err = fault
		case *wire.Refusal:
			err = fault
		default:
			panic(fault)
		}
	}()
	v, end := p.value(p.space(0), 0)
	if end = p.space(end); end != len(body) {
		p.fail(end, "Extra data")
	}
	return v, nil
}

func (p *parser) fail(at int, text string) { panic(&syntaxError{at, text}) }

func (p *parser) at(i int) byte {
	if i < len(p.s) {
		return p.s[i]
	}
	return 0
}

func (p *parser) space(i int) int {
	for i < len(p.s) && (p.s[i] == ' ' || p.s[i] == '\t' || p.s[i] == '\n' || p.s[i] == '\r') {
		i++
	}
	return i
}

var constants = []struct {
	word string
	kind kind
}{{"null", isNull}, {"true", isBool}, {"false", isBool}, {"NaN", isFloat}, {"Infinity", isFloat},
	{"-Infinity", isFloat}}

func (p *parser) value(i, depth int) (value, int) {
	if p.values++; p.values > maxValues || depth > maxDepth {
		panic(errUnreadable)
	}
	switch p.at(i) {
	case '"':
		text, end := p.text(i + 1)
		return value{kind: isString, text: text}, end
	case '{':
		return p.object(p.space(i+1), depth+1)
	case '[':
		return p.array(p.space(i+1), depth+1)
	}
	for _, c := range constants {
		if bytes.HasPrefix(p.s[min(i, len(p.s)):], []byte(c.word)) {
			return value{kind: c.kind, text: c.word}, i + len(c.word)
		}
	}
	return p.number(i)
}

func (p *parser) object(i, depth int) (value, int) {
	v := value{kind: isObject}
	if p.at(i) == '}' {
		return v, i + 1
	}
	places := map[string]int{}
	for {
		if p.at(i) != '"' {
			p.fail(i, "Expecting property name enclosed in double quotes")
		}
		var key string
		key, i = p.text(i + 1)
		if i = p.space(i); p.at(i) != ':' {
			p.fail(i, "Expecting ':' delimiter")
		}
		var one value
		one, i = p.value(p.space(i+1), depth)
		if at, twice := places[key]; twice {
			v.list[at] = one
		} else {
			places[key] = len(v.keys)
			v.keys, v.list = append(v.keys, key), append(v.list, one)
		}
		switch i = p.space(i); p.at(i) {
		case '}':
			return v, i + 1
		case ',':
			i = p.space(i + 1)
		default:
			p.fail(i, "Expecting ',' delimiter")
		}
	}
}

func (p *parser) array(i, depth int) (value, int) {
	v := value{kind: isList}
	if p.at(i) == ']' {
		return v, i + 1
	}
	for {
		var one value
		one, i = p.value(i, depth)
		v.list = append(v.list, one)
		switch i = p.space(i); p.at(i) {
		case ']':
			return v, i + 1
		case ',':
			i = p.space(i + 1)
		default:
			p.fail(i, "Expecting ',' delimiter")
		}
	}
}

func (p *parser) digits(i int) int {
	for c := p.at(i); c >= '0' && c <= '9'; c = p.at(i) {
		i++
	}
	return i
}

// number reads the longest prefix that is a number: of "01" that is 0.
func (p *parser) number(start int) (value, int) {
	i := start
	if p.at(i) == '-' {
		i++
	}
	end := p.digits(i)
	switch {
	case end == i:
		p.fail(start, "Expecting value")
	case p.at(i) == '0':
		end = i + 1
	}
	kind := isInt
	if p.at(end) == '.' && p.digits(end+1) > end+1 {
		kind, end = isFloat, p.digits(end+1)
	}
	if c := p.at(end); c == 'e' || c == 'E' {
		from := end + 1
		if s := p.at(from); s == '+' || s == '-' {
			from++
		}
		if p.digits(from) > from {
			kind, end = isFloat, p.digits(from)
		}
	}
	return value{kind: kind, text: string(p.s[start:end])}, end
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// text reads a string behind its opening quote. Half of a surrogate pair is kept, as the three
// bytes that UTF-8 would have for it.
func (p *parser) text(begin int) (string, int) {
	const unterminated = "Unterminated string starting at"
	var b strings.Builder
	for i := begin; ; {
		plain := i
		for i < len(p.s) && p.s[i] != '"' && p.s[i] != '\\' {
			if p.s[i] < ' ' {
				p.fail(i, "Invalid control character at")
			}
			i++
		}
		b.Write(p.s[plain:i])
		switch {
		case i >= len(p.s), p.s[i] == '\\' && i+1 >= len(p.s):
			p.fail(begin-1, unterminated)
		case p.s[i] == '"':
			return b.String(), i + 1
		case p.s[i+1] != 'u':
			c, ok := escapes[p.s[i+1]]
			if !ok {
				p.fail(i, `Invalid \escape`)
			}
			b.WriteByte(c)
			i += 2
		default:
			unit := p.unit(i)
			i += 6
			if unit>>10 == 0xD800>>10 && p.at(i) == '\\' && p.at(i+1) == 'u' {
				if low := p.unit(i); low>>10 == 0xDC00>>10 {
					unit = 0x10000 + (unit&0x3FF)<<10 + low&0x3FF
					i += 6
				}
			}
			writeUnit(&b, unit)
		}
	}
}

// unit reads the \uXXXX at i.
func (p *parser) unit(i int) rune {
	const message = `Invalid \uXXXX escape`
	if i+6 >= len(p.s) {
		p.fail(i+1, message)
	}
	n, err := strconv.ParseUint(string(p.s[i+2:i+6]), 16, 16)
	if err != nil || bytes.ContainsRune(p.s[i+2:i+6], '_') {
		p.fail(i+1, message)
	}
	return rune(n)
}

func writeUnit(b *strings.Builder, unit rune) {
	if unit>>11 == 0xD800>>11 {
		b.Write([]byte{0xE0 | byte(unit>>12), 0x80 | byte(unit>>6&0x3F), 0x80 | byte(unit&0x3F)})
		return
	}
	b.WriteRune(unit)
}

// surrogates returns Python's error for encoding s as UTF-8, or "".
func surrogates(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	at, first, count := 0, rune(0), 0
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 && len(s) >= 3 {
			if count++; count == 1 {
				first = rune(s[0]&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
			}
			s = s[3:]
			continue
		}
		if count > 0 {
			break
		}
		at++
		s = s[size:]
	}
	if count == 1 {
		return fmt.Sprintf(`'utf-8' codec can't encode character '\u%04x' in position %d: surrogates not allowed`, first, at)
	}
	return fmt.Sprintf(`'utf-8' codec can't encode characters in position %d-%d: surrogates not allowed`, at, at+count-1)
}

// append writes a value as Python would: compact, as UTF-8, a float always
// with a point or an exponent.
func (v *value) append(b []byte) []byte {
	switch v.kind {
	case isNull:
		return append(b, "null"...)
	case isBool:
		return append(b, v.text...)
	case isInt:
		if v.text == "-0" {
			return append(b, '0')
		}
		return append(b, v.text...)
	case isFloat:
		return appendFloat(b, v.text)
	case isString:
		return appendString(b, v.text)
	}
	open, closing := byte('['), byte(']')
	if v.kind == isObject {
		open, closing = '{', '}'
	}
	b = append(b, open)
	for i := range v.list {
		if i > 0 {
			b = append(b, ',')
		}
		if v.kind == isObject {
			b = append(appendString(b, v.keys[i]), ':')
		}
		b = v.list[i].append(b)
	}
	return append(b, closing)
}

func appendFloat(b []byte, text string) []byte {
	f, _ := strconv.ParseFloat(text, 64)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	format := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		format = 'e'
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if !bytes.ContainsAny(b[start:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}
