package native

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/rest"
)

func decode(t *testing.T, r io.Reader, into any) {
	t.Helper()
	if err := json.NewDecoder(r).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func TestStrictJSON(t *testing.T) {
	r := newRig(t, hello)
	with := func(member string) string { return `{"language":"python","code":"x",` + member + `}` }
	cases := []struct {
		name, body string
		status     int
		contains   string
	}{
		{"empty", "", 400, "not JSON"},
		{"null", "null", 400, "must be a JSON object, not null"},
		{"array", "[]", 400, "not an array"},
		{"string", `"x"`, 400, "not a string"},
		{"number", "1", 400, "not a number"},
		{"truncated", `{"language":"python","code":"x"`, 400, "not JSON"},
		{"trailing", with(`"args":[]`) + "x", 400, "not JSON"},
		{"two documents", with(`"args":[]`) + with(`"args":[]`), 400, "not JSON"},
		{"trailing comma", `{"language":"python","code":"x","args":["a",]}`, 400, "not JSON"},
		{"missing comma", `{"language":"python","code":"x","args":["a" "b"]}`, 400, "not JSON"},
		{"BOM", "\ufeff" + with(`"args":[]`), 400, "not JSON"},
		{"NUL", "\x00", 400, "not JSON"},
		{"UTF-16", "{\x00}\x00", 400, "not JSON"},
		{"NUL in args", `{"language":"python","code":"x","args":["\u0000"]}`, 400, "args"},
		{"invalid UTF-8", `{"language":"python","code":"` + "\xff" + `"}`, 400, "UTF-8"},
		{"lone high surrogate", `{"language":"python","code":"\ud800"}`, 400, "surrogate"},
		{"lone low surrogate", `{"language":"python","code":"\udc00x"}`, 400, "surrogate"},
		{"high and no low", `{"language":"python","code":"\ud800\u0041"}`, 400, "surrogate"},
		{"two highs", `{"language":"python","code":"\ud800\ud800\udc00"}`, 400, "surrogate"},
		{"pair", `{"language":"python","code":"\ud83d\ude00"}`, 200, ""},
		{"escaped backslash", `{"language":"python","code":"\\ud800"}`, 200, ""},
		{"control", "{\"language\":\"python\",\"code\":\"\n\"}", 400, "not JSON"},
		{"unknown field", with(`"cmd":1`), 400, "cmd is not a field"},
		{"unknown inner field", with(`"limits":{"ram":1}`), 400, "limits.ram is not a field"},
		{"other case", `{"Language":"python","code":"x"}`, 400, "language is missing"},
		{"other case, twice", with(`"CODE":"y"`), 400, "CODE is not a field"},
		{"duplicate", with(`"code":"y"`), 400, "code is there twice"},
		{"escaped duplicate", with(`"c\u006fde":"y"`), 400, "code is there twice"},
		{"inner duplicate", with(`"limits":{"cpus":1,"cpus":2}`), 400, "limits.cpus is there twice"},
		{"code missing", `{"language":"python"}`, 400, "code is missing"},
		{"code null", `{"language":"python","code":null}`, 400, "code is missing"},
		{"code a number", `{"language":"python","code":1}`, 400, "code must be a string, not a number"},
		{"timeout text", with(`"timeout_ms":"5"`), 400, "timeout_ms must be a whole number"},
		{"timeout exponent", with(`"timeout_ms":1e3`), 400, "timeout_ms must be a whole number"},
		{"timeout fraction", with(`"timeout_ms":1.5`), 400, "timeout_ms must be a whole number"},
		{"timeout whole fraction", with(`"timeout_ms":1000.0`), 400, "timeout_ms must be a whole number"},
		{"timeout true", with(`"timeout_ms":true`), 400, "timeout_ms must be a whole number, not true or false"},
		{"timeout negative", with(`"timeout_ms":-1`), 400, "timeout_ms must be a whole number"},
		{"timeout 0", with(`"timeout_ms":0`), 400, "timeout_ms must be a whole number"},
		{"timeout 2^63", with(`"timeout_ms":9223372036854775808`), 400, "timeout_ms must be a whole number"},
		{"timeout NaN", with(`"timeout_ms":NaN`), 400, "not JSON"},
		{"timeout of many digits", with(`"timeout_ms":1` + strings.Repeat("0", 64)), 400,
			"timeout_ms is a number of more than 64"},
		{"timeout null", with(`"timeout_ms":null`), 200, ""},
		{"timeout 1", with(`"timeout_ms":1`), 200, ""},
		{"cpus 0", with(`"limits":{"cpus":0}`), 400, "limits.cpus"},
		{"args text", with(`"args":"a"`), 400, "args must be an array of strings, not a string"},
		{"args mixed", with(`"args":["a",1]`), 400, "args[1] must be a string, not a number"},
		{"files mixed", with(`"files":[[]]`), 400, "files[0] must be an object, not an array"},
		{"file without id", with(`"files":[{}]`), 400, "files[0].id is missing"},
		{"limits array", with(`"limits":[]`), 400, "limits must be an object, not an array"},
		{"merge text", with(`"merge_output":"no"`), 400, "merge_output must be true or false, not a string"},
		{"merge", with(`"merge_output":true`), 200, ""},
		{"echo", with(`"echo_last":true`), 200, ""},
		{"wait text", with(`"wait":"no"`), 400, "wait must be true or false, not a string"},
		{"deep", with(`"args":` + strings.Repeat("[", 17) + strings.Repeat("]", 17)), 400, "nested"},
		{"very deep", strings.Repeat("[", 100_000), 400, "nested"},
		{"deep and cut short", strings.Repeat("[", 16), 400, "not JSON: it ends too soon, at byte 16"},
		{"very deep and closed", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), 400, "nested"},
		{"many values", with(`"args":[` + strings.Repeat(`"",`, 1_000_000) + `""]`), 400, "values"},
		{"long key", `{"` + strings.Repeat("k", 7<<20) + `":1}`, 400, "language is missing"},
		{"over the limit", `{"` + strings.Repeat("k", 25<<20) + `":1}`, 413, "too_large"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			check(t, r.json("POST", "/runs", c.body), c.status, c.contains)
		})
	}
}

// FuzzJSON holds the reader against encoding/json: what it accepts is valid,
// comes out the same, and is what it would be if written anew; what it calls no
// JSON is none.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"a":"\ud83d\ude00"}`, `{"a":{"b":[1,"x",null,true]}}`, "\ufeff{}",
		`{"a":"\\ud800"}`, `{"a":1e400}`, `{"a":-0}`, `{"\u0061":1}`,
		strings.Repeat(`{"a":`, 17) + "1" + strings.Repeat("}", 17),
	} {
		f.Add([]byte(s))
	}
	for _, s := range []string{ // what is nearly JSON
		`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e}`, `{"a":-}`, `{"a":1e+}`, `{"a":1E-7}`, `{"a":tru}`,
		`{"a":trueb}`, `{"a":nul`, `{,}`, `{"a",1}`, `{"a":1,}`, `[1,]`, `[,1]`, `[1 2]`,
		`{"a" :	[ ]` + "\r\n}", `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12"}`, `{"a":"\`, `{"a":"\ud83d\u00e9"}`,
		`{"a":"\uDEAD\uD83D"}`, "{\"a\":\"\x1f\"}", "{\"a\":\"\x7f\"}", `{"a":"\b\f\n\r\t\/\\\""}`,
		`{}}`, `{} {}`, "{}\x00", "{\u00a0}", `{'a':1}`, `{a:1}`, `{"a":NaN}`, `{"a":1}//`, "{\v}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := rest.ParseObject(body)
		if err != nil {
			if strings.Contains(err.Error(), "not JSON") && json.Valid(body) {
				t.Errorf("%q: %v", body, err)
			}
			if text := err.Error(); !utf8.ValidString(text) || len(text) > 1<<10 {
				t.Errorf("the message is %q", text)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("accepted %q", body)
		}
		want := map[string]any{}
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		ours, _ := json.Marshal(o.Members)
		theirs, _ := json.Marshal(want)
		if !bytes.Equal(ours, theirs) {
			t.Errorf("%q reads as %s, and as %s", body, ours, theirs)
		}
		if bytes.ContainsRune(ours, utf8.RuneError) && !bytes.ContainsRune(body, utf8.RuneError) &&
			!bytes.Contains(bytes.ToLower(body), []byte(`\ufffd`)) {
			t.Errorf("%q lost characters: %s", body, ours)
		}
	})
}
