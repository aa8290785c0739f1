package onyx

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// What Python's json says of a body, asked of Python 3.11.
func TestBrokenDocuments(t *testing.T) {
	for body, want := range map[string]syntaxError{
		` `:                     {1, "Expecting value"},
		`{`:                     {1, "Expecting property name enclosed in double quotes"},
		`{"a"`:                  {4, "Expecting ':' delimiter"},
		`{"a":`:                 {5, "Expecting value"},
		`{"a":1`:                {6, "Expecting ',' delimiter"},
		`{"a":1,`:               {7, "Expecting property name enclosed in double quotes"},
		`{"a":1,}`:              {7, "Expecting property name enclosed in double quotes"},
		`{a:1}`:                 {1, "Expecting property name enclosed in double quotes"},
		`[`:                     {1, "Expecting value"},
		`[1`:                    {2, "Expecting ',' delimiter"},
		`[1,`:                   {3, "Expecting value"},
		`[1,]`:                  {3, "Expecting value"},
		`[1 2]`:                 {3, "Expecting ',' delimiter"},
		`{} x`:                  {3, "Extra data"},
		`01`:                    {1, "Extra data"},
		`1.`:                    {1, "Extra data"},
		`1e`:                    {1, "Extra data"},
		`-`:                     {0, "Expecting value"},
		`nul`:                   {0, "Expecting value"},
		`"é`:                    {0, "Unterminated string starting at"},
		`["é", "\x"]`:           {7, `Invalid \escape`},
		`"\`:                    {0, "Unterminated string starting at"},
		`"\u12"`:                {2, `Invalid \uXXXX escape`},
		`"\u12xy   "`:           {2, `Invalid \uXXXX escape`},
		`"\ud800\uzzzz     "`:   {8, `Invalid \uXXXX escape`},
		"\"a\nb\"":              {2, "Invalid control character at"},
		`{"code": "é", }`:       {14, "Expecting property name enclosed in double quotes"},
		"\xef\xbb\xbf{\"a\" 1}": {5, "Expecting ':' delimiter"},
	} {
		_, err := parseDocument([]byte(body))
		got, ok := errors.AsType[*syntaxError](err)
		if !ok || *got != want {
			t.Errorf("%s: %v, want %v", body, err, &want)
		}
	}
	for name, body := range map[string]string{
		"not UTF-8": "\"\xff\"", "too deep": strings.Repeat("[", 1000),
		"too much": "[" + strings.Repeat("1,", maxValues) + "1]",
	} {
		if _, err := parseDocument([]byte(body)); !errors.Is(err, errUnreadable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEcho(t *testing.T) {
	for body, want := range map[string]string{
		` { "b" : [ 1 , -0 , 2.50 , 1e3 , 1E-7, 1e22 ] , "a" : "é\u2028\/<" , "b2":null } `: `{"b":[1,0,2.5,1000.0,1e-07,1e+22],"a":"é\u2028/<","b2":null}`,
		`{"a":1,"b":2,"a":3}`:            `{"a":3,"b":2}`,
		`[NaN,Infinity,-Infinity,1e999]`: `[null,null,null,null]`,
		`"\ud83d\ude00 \ud83d"`:          `"😀 ` + "\ufffd\ufffd\ufffd" + `"`,
		`123456789012345678901234567890`: `123456789012345678901234567890`,
	} {
		v, err := parseDocument([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if got := string(v.append(nil)); strings.ReplaceAll(got, `\ufffd`, "\ufffd") != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// What encoding/json can read is read here too, and means the same; and
// nothing that a client sends makes the reader fall over.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"x\u00e9\n",true,null]}`, `"\ud800"`, `[[[`, `{"a":1,"a":2}`, `-0`,
		"\"\x7f\"", `{"":NaN}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ours, err := parseDocument(body)
		var theirs any
		if json.Unmarshal(body, &theirs) != nil {
			if err == nil {
				ours.append(nil)
			}
			return
		}
		if err != nil {
			if errors.Is(err, errUnreadable) {
				return
			}
			t.Fatalf("%q: %v", body, err)
		}
		if got := plainValue(&ours); !reflect.DeepEqual(got, theirs) {
			t.Errorf("%q: %#v, encoding/json has %#v", body, got, theirs)
		}
	})
}

// wholePairs has one U+FFFD for half of a surrogate pair, as encoding/json
// does.
func wholePairs(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			size = 3
		}
		b.WriteRune(r)
		s = s[size:]
	}
	return b.String()
}

// plainValue is a value as encoding/json has it.
func plainValue(v *value) any {
	switch v.kind {
	case isBool:
		return v.text == "true"
	case isInt, isFloat:
		var f float64
		if json.Unmarshal([]byte(v.text), &f) != nil {
			return math.NaN()
		}
		return f
	case isString:
		return wholePairs(v.text)
	case isList:
		list := []any{}
		for i := range v.list {
			list = append(list, plainValue(&v.list[i]))
		}
		return list
	case isObject:
		members := map[string]any{}
		for i, key := range v.keys {
			members[wholePairs(key)] = plainValue(&v.list[i])
		}
		return members
	}
	return nil
}
