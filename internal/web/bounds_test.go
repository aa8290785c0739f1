package web

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/page/pagetest"
)

// TestLargeTexts shows each text as a file of each kind.
func TestLargeTexts(t *testing.T) {
	for name, text := range pagetest.Bombs() {
		for _, kind := range []string{"markdown", "json", "text"} {
			pagetest.Bounded(t, kind+": "+name, func() {
				body := previewView{File: fileView{Kind: kind}}
				if err := readText(strings.NewReader(text), &body); err != nil {
					t.Errorf("%s as %s: %v", name, kind, err)
				}
				if invisible := name == "escapes" || name == "definitions"; !invisible && body.Text == "" && body.HTML == "" {
					t.Errorf("%s as %s: nothing is shown", name, kind)
				}
			})
		}
		pagetest.Bounded(t, "diff: "+name, func() { _ = diff(text, text[1:]) })
	}
	body := previewView{File: fileView{Kind: "json"}}
	if err := readText(strings.NewReader(`{"a":["\"[[[[",{"b":[]}]}`), &body); err != nil || body.Problem != "" ||
		!strings.Contains(body.Text, "\n    {\n      \"b\": []") {
		t.Errorf("JSON is shown as %q, %q, %v", body.Text, body.Problem, err)
	}
}

func FuzzJSON(f *testing.F) {
	for _, text := range []string{`{"a":`, "[", "[[],", `"\"`, "{}"} {
		f.Add(text, 4000)
	}
	f.Fuzz(func(t *testing.T, text string, times int) {
		if text == "" {
			return
		}
		text = strings.Repeat(text, min(max(times, 1), shownText/len(text)+1))
		pagetest.Bounded(t, text, func() { _ = indented(text, &previewView{}) })
	})
}
