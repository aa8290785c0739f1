package completions_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/completions"
)

func read(t *testing.T, kind, body string) (calls []string, text string, err error) {
	t.Helper()
	r := completions.Reader[int]{
		Most: 1 << 10, ID: func(given string) string { return "id-" + given },
		Text:   func(delta string) { text += delta },
		Called: func(c *completions.Call[int], more string) error { c.State += len(more); return nil },
	}
	a, err := r.Read(&http.Response{Header: http.Header{"Content-Type": {kind}},
		Body: io.NopCloser(strings.NewReader(body))})
	for _, c := range a.Calls {
		calls = append(calls, c.ID+" "+c.Name+c.Arguments.String())
		if c.State != c.Arguments.Len() {
			t.Errorf("of %q %d bytes were told", c.Arguments.String(), c.State)
		}
	}
	return calls, text, err
}

func TestPieces(t *testing.T) {
	for name, c := range map[string]struct {
		pieces string
		want   []string
	}{
		"a name that comes late":  {`{"index":0,"id":"a","function":{"arguments":"{"}},{"index":0,"function":{"name":"f","arguments":"}"}}`, []string{"id-a f{}"}},
		"no numbers":              {`{"id":"a","function":{"name":"f","arguments":"1"}},{"function":{"arguments":"2"}},{"id":"b","function":{"name":"f"}}`, []string{"id-a f12", "id-b f"}},
		"neither numbers nor ids": {`{"function":{"name":"f","arguments":"1"}},{"function":{"name":"g","arguments":"2"}}`, []string{"id- f1", "id- g2"}},
		"an odd number":           {`{"index":0,"id":"a","function":{"name":"f"}},{"index":-1,"function":{"name":"g","arguments":null}}`, []string{"id-a f", "id- g"}},
	} {
		calls, _, err := read(t, "text/event-stream",
			`data: {"choices":[{"delta":{"tool_calls":[`+c.pieces+`]},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
		if diff := cmp.Diff(c.want, calls); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestErrors(t *testing.T) {
	for body, want := range map[string]string{
		`{"choices":[{"message":{"content":"all"},"finish_reason":"stop"}]}`: "",
		`{"choices":[{"message":{"content":"half"}}]}`:                       "before its end",
		`{"error":{"message":"out of memory","type":"server"}}`:              "out of memory",
		`<html>`:                  "no chat completion",
		strings.Repeat(" ", 2000): "more than",
	} {
		_, text, err := read(t, "application/json", body)
		if want == "" && err == nil && text == "all" {
			continue
		}
		if e, ok := errors.AsType[*completions.Error](err); !ok || want == "" || !strings.Contains(e.Error(), want) {
			t.Errorf("%.80s: %q, %v", body, text, err)
		}
	}
}

func TestErrorText(t *testing.T) {
	for body, want := range map[string][3]string{
		`{"error":{"message":"m","code":"c","type":"t"}}`: {"m", "c", "t"},
		`{"error":{"message":"m","code":7}}`:              {"m", "", ""},
		`{"error":"m"}`:                                   {"m", "", ""},
		`{"message":" m\n"}`:                              {"m", "", ""},
		`boom`:                                            {"", "", ""},
	} {
		var got [3]string
		got[0], got[1], got[2] = completions.ErrorText([]byte(body))
		if got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}
