package rest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The values of a text are counted before any is read.
func TestValuesAreCounted(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `[ ]`, "[\r\n\t]", `1`, `"a,b[{"`, `[1]`, `[[]]`, `[ [ ] , { } ]`, `[{},{},[]]`,
		`{"a":[],"b":{"c":[1,2]}}`,
		`{"a,\",":"[","b":"\\"}`, `[[[1],[]],"]"]`, `["\u005b,\ud83d\ude00,"]`, ` [ 1 , 2 ] `, `[["a"],[""],[null]]`,
	} {
		var whole any
		if err := json.Unmarshal([]byte(text), &whole); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, want := scan(text).values, countValues(whole); got != want {
			t.Errorf("%s has %d values, want %d", text, got, want)
		}
	}
}

func countValues(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			n += countValues(inner)
		}
	case map[string]any:
		for _, inner := range v {
			n += countValues(inner)
		}
	}
	return n
}

func TestMostValues(t *testing.T) {
	for _, piece := range []string{"1", `""`, "[]", "{}", "[ ]"} {
		const beside = 2 // the object and the array
		body := func(n int) []byte {
			return fmt.Appendf(nil, `{"args":[%s%s]}`, strings.Repeat(piece+",", n-beside-1), piece)
		}
		if _, err := ParseObject(body(maxValues)); err != nil {
			t.Errorf("%d times %s: %v", maxValues, piece, err)
		}
		if _, err := ParseObject(body(maxValues + 1)); err == nil ||
			!strings.Contains(err.Error(), "more than 100000 values") {
			t.Errorf("%d times %s: %v", maxValues+1, piece, err)
		}
	}
}

// An error names its place, which is put together only then.
func TestPlaceOfError(t *testing.T) {
	long := strings.Repeat("1", maxNumber+1)
	for body, want := range map[string]string{
		long:                                  "the body is a number",
		`{"a":` + long + `}`:                  "a is a number",
		`{"a":[1,{"b":[` + long + `]}]}`:      "a[1].b[0] is a number",
		`{"a":[{"b":1},{"c":{"d":1,"d":2}}]}`: "a[1].c.d is there twice",
		`{"a":{"b":[1]},"a":1}`:               "a is there twice",
	} {
		if _, err := ParseObject([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
