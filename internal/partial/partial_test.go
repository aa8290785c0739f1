package partial_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/partial"
)

func TestEveryBeginningIsABeginning(t *testing.T) {
	const code = "print(\"é\\n\")\t# 你好 😀 \u2028 <&>"
	for _, object := range []string{
		string(must(json.Marshal(map[string]string{"code": code}))),
		`{"other": 1, "code" : "print(\"\u00e9\\n\")\t# 你好 \ud83d\ude00 \u2028 <&>"}`,
	} {
		seen := ""
		for i := range len(object) + 1 {
			got := partial.String(object[:i], "code")
			if !strings.HasPrefix(code, got) || len(got) < len(seen) {
				t.Fatalf("of %q: %q after %q", object[:i], got, seen)
			}
			seen = got
		}
		if seen != code {
			t.Errorf("got %q, want %q", seen, code)
		}
	}
}

// Arguments are read as they are written, whatever they are cut into.
func TestReader(t *testing.T) {
	code := "print(\"a\\b\", 'é😀\u2028')\n\t# \x00 end"
	for _, arguments := range []string{string(must(json.Marshal(map[string]string{"code": code}))), ` { "code" : "print(\"a\\b\", '\u00e9\ud83d\ude00\u2028')\n\t# \u0000 end", "x": "y" }`} {
		for step := 1; step < 9; step++ {
			r := partial.NewReader("code")
			got := ""
			for at := 0; at < len(arguments); at += step {
				got += r.Read(arguments[at:min(at+step, len(arguments))])
			}
			if got != code {
				t.Errorf("in pieces of %d: %q", step, got)
			}
		}
	}
	for _, odd := range []string{`{"other":"x","code":"y"}`, `[]`, `{"code":7}`, `{"code":"\q"}`, strings.Repeat(" ", 1000) + `{"code":"x"}`, `{"code":"\ud83d"}`} {
		r := partial.NewReader("code")
		for i := range odd {
			r.Read(odd[i : i+1])
		}
	}
}

func FuzzString(f *testing.F) {
	f.Add(`{"code":"a\ud83d\ude00"}`)
	f.Add(`{"code":"\u`)
	f.Fuzz(func(t *testing.T, object string) {
		got := partial.String(object, "code")
		if len(got) > 3*len(object) {
			t.Errorf("%d bytes of %d", len(got), len(object))
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
