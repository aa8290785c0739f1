package page_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
)

// TestLargeTexts renders each text by every renderer.
func TestLargeTexts(t *testing.T) {
	for name, text := range pagetest.Bombs() {
		pagetest.Bounded(t, "document: "+name, func() { _, _ = page.RenderMarkdown(text) })
		pagetest.Bounded(t, "reply: "+name, func() { _ = page.RenderAnswer(text) })
		for _, language := range []string{"python", "json", "html", "yaml", "diff"} {
			pagetest.Bounded(t, language+": "+name, func() { _ = page.Highlight(language, text[:min(len(text), 32<<10)]) })
		}
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
			{"preview", func() bool { _, ok := page.RenderMarkdown(text); return ok }},
			{"reply", func() bool { return !strings.HasPrefix(string(page.RenderAnswer(text)), "<pre class=\"text\">") }},
		} {
			if !md.ok() {
				t.Errorf("%s as %s is not rendered", name, md.name)
			}
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, text := range pagetest.Bombs() {
		f.Add(text[:min(len(text), 4<<10)], 32)
	}
	f.Fuzz(func(t *testing.T, text string, times int) {
		if text == "" {
			return
		}
		text = strings.Repeat(text, min(max(times, 1), page.MaxMarkdown/len(text)+1))
		pagetest.Bounded(t, text, func() { _, _ = page.RenderMarkdown(text) })
		pagetest.Bounded(t, text, func() { _ = page.RenderAnswer(text) })
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
		text = strings.Repeat(text, min(max(times, 1), 32<<10/len(text)+1))
		pagetest.Bounded(t, text, func() { _ = page.Highlight(language, text) })
	})
}
