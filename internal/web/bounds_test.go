package web

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// renderCeiling bounds the CPU time of one rendering, which a busy machine does not
// stretch. It leaves room for the race detector.
const renderCeiling = 5 * time.Second

// processorTime returns the CPU time of this process.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// bounded calls render and fails if it exceeds the ceilings. The total allocation is an
// upper bound of the peak.
func bounded(t testing.TB, what string, render func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := processorTime(t)
	render()
	took := processorTime(t) - began
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > renderMemory {
		t.Errorf("%.40s takes %d MiB, want at most %d", what, spent>>20, renderMemory>>20)
	}
	if took > renderCeiling {
		t.Errorf("%.40s takes %v, want at most %v", what, took, renderCeiling)
	}
}

// bombs returns small texts that make a careless renderer produce large output.
func bombs() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, maxMarkdown/len(s)) }
	return map[string]string{
		"wide table": strings.Repeat("a|", 2000) + "\n" + strings.Repeat("-|", 2000) + "\n" +
			strings.Repeat("a\n", 4000),
		"table in a quote": "> " + strings.Repeat("a|", 2000) + "\n> " + strings.Repeat("-|", 2000) + "\n" +
			strings.Repeat("> a\n", 4000),
		"table in a list": "- " + strings.Repeat("a|", 20000) + "\n  " + strings.Repeat("-|", 20000) + "\n" +
			strings.Repeat("  a\n", 10000),
		"many tables": fill(strings.Repeat("a|", 200) + "\n" + strings.Repeat("-|", 200) + "\n" +
			strings.Repeat("a\n", 200) + "\n"),
		"quotes":           fill(">"),
		"quotes and tabs":  fill(">\t"),
		"lists":            fill("- "),
		"mixed lists":      fill("* - "),
		"numbered lists":   fill("1. "),
		"deep quotes":      fill(strings.Repeat(">", maxDepth) + " a\n"),
		"deep tabs":        fill(strings.Repeat(">\t", maxDepth-1) + " a\n"),
		"indented lists":   indentedLists(),
		"links":            fill("["),
		"link ends":        fill("]("),
		"pictures":         fill("!["),
		"emphasis":         fill("*a_"),
		"emphasis heading": "# " + fill("*a_"),
		"setext heading":   fill("*a_\n") + "---\n",
		"code spans":       codeSpans(),
		"autolinks":        fill("<a"),
		"entities":         fill("&#1"),
		"references":       "[a]: /" + strings.Repeat("x", 60<<10) + "\n\n" + fill("[a]\n\n"),
		"definitions":      fill("[a]: b\n"),
		"brackets":         fill("["),
		"nested JSON":      strings.Repeat("[", 9990) + strings.Repeat("]", 9990),
		"nested objects":   strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
		"half JSON":        strings.Repeat("[[", 9990),
		"blocks of code":   fill("```python\n" + strings.Repeat("[*'", 100) + "\n```\n"),
		"escapes":          fill("\x1b["),
		"carriage returns": fill("a\r"),
	}
}

func indentedLists() string {
	var b strings.Builder
	for i := 0; b.Len() < maxMarkdown-1000; i++ {
		b.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	return b.String()
}

func codeSpans() string {
	var b strings.Builder
	for i := 1; b.Len() < maxMarkdown-1000; i++ {
		b.WriteString(strings.Repeat("`", i) + " ")
	}
	return b.String()
}

// TestLargeTexts renders each text by every renderer of the page.
func TestLargeTexts(t *testing.T) {
	for name, text := range bombs() {
		for _, kind := range []string{"markdown", "json", "text"} {
			bounded(t, kind+": "+name, func() {
				body := previewView{File: fileView{Kind: kind}}
				if err := readText(strings.NewReader(text), &body); err != nil {
					t.Errorf("%s as %s: %v", name, kind, err)
				}
				if invisible := name == "escapes" || name == "definitions"; !invisible && body.Text == "" && body.HTML == "" {
					t.Errorf("%s as %s: nothing is shown", name, kind)
				}
			})
		}
		bounded(t, "reply: "+name, func() { _ = renderAnswer(text) })
		for _, language := range []string{"python", "json", "html", "yaml", "diff"} {
			bounded(t, language+": "+name, func() { _ = highlight(language, text[:min(len(text), maxHighlight)]) })
		}
		bounded(t, "diff: "+name, func() { _ = diff(text, text[1:]) })
	}
}

// TestHonestDocuments checks that ordinary documents stay within the bounds.
func TestHonestDocuments(t *testing.T) {
	var list, table, badges strings.Builder
	table.WriteString("| a | b | c | d | e |\n|---|:--|--:|---|---|\n")
	for i := range 900 {
		fmt.Fprintf(&list, "- [#%d](https://example.com/issues/%d): **fixed** `code` by *somebody*\n", i, i)
		fmt.Fprintf(&table, "| %d | [x](https://example.com) | `y` | **z** | %d |\n", i, i)
	}
	for i := range 80 {
		fmt.Fprintf(&badges, "[![b%d](https://example.com/b.svg)](https://example.com)\n", i)
	}
	for name, text := range map[string]string{
		"list": list.String(), "table": table.String(), "badges": badges.String(),
		"rule":    "a\n\n" + strings.Repeat("- ", 50) + "\n\n" + strings.Repeat("*", 200) + "\n\nb",
		"quotes":  "> > > > a\n> > > b\n",
		"outline": "- a\n  - b\n    - c\n      1. d\n         - e\n",
	} {
		for _, md := range []struct {
			name string
			ok   func() bool
		}{
			{"preview", func() bool { _, ok := renderMarkdown(markdown, text); return ok }},
			{"reply", func() bool { _, ok := renderMarkdown(answers, text); return ok }},
		} {
			if !md.ok() {
				t.Errorf("%s as %s is not rendered", name, md.name)
			}
		}
	}
	body := previewView{File: fileView{Kind: "json"}}
	if err := readText(strings.NewReader(`{"a":["\"[[[[",{"b":[]}]}`), &body); err != nil || body.Problem != "" ||
		!strings.Contains(body.Text, "\n    {\n      \"b\": []") {
		t.Errorf("JSON is shown as %q, %q, %v", body.Text, body.Problem, err)
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, text := range bombs() {
		f.Add(text[:min(len(text), 4<<10)], 32)
	}
	f.Fuzz(func(t *testing.T, text string, times int) {
		if text == "" {
			return
		}
		text = strings.Repeat(text, min(max(times, 1), maxMarkdown/len(text)+1))
		bounded(t, text, func() { _, _ = renderMarkdown(markdown, text) })
		bounded(t, text, func() { _ = renderAnswer(text) })
	})
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
		bounded(t, text, func() { _ = indented(text, &previewView{}) })
	})
}

func FuzzHighlight(f *testing.F) {
	for _, text := range []string{"'", "\"\"\"", "$", "<!--", "{{", "/*", "\\", "f'{", "`${"} {
		f.Add("python", text, 1000)
		f.Add("javascript", text, 1000)
	}
	f.Fuzz(func(t *testing.T, language, text string, times int) {
		if text == "" {
			return
		}
		text = strings.Repeat(text, min(max(times, 1), maxHighlight/len(text)+1))
		bounded(t, text, func() { _ = highlight(language, text) })
	})
}
