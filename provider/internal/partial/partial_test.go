package partial_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/provider/internal/partial"
)

func TestEveryBeginningIsABeginning(t *testing.T) {
	const code = "print(\"é\\n\")\t# 你好 😀 \u2028 <&>"
	for _, object := range []string{
		string(must(json.Marshal(map[string]string{"code": code}))),
		`{"other": 1, "code" : "print(\"\u00e9\\n\")\t# 你好 \ud83d\ude00 \u2028 <&>"}`,
	} {
		seen := ""
		for i := range len(object) + 1 {
			got := partial.String([]byte(object[:i]), "code")
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

func FuzzString(f *testing.F) {
	f.Add([]byte(`{"code":"a\ud83d\ude00"}`))
	f.Add([]byte(`{"code":"\u`))
	f.Fuzz(func(t *testing.T, object []byte) {
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
