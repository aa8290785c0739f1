package command

import (
	"regexp"
	"strings"
	"testing"
)

const answer = "# Sales\n\nThe **total** is `3`, see [the docs](http://docs.example/x).\n\n- one\n- two\n\n" +
	"| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nprint(1)\n\nprint(2)\n```\n\nThe end"

// An answer is rendered whatever pieces it arrives in, and nothing is lost.
func TestMarkdown(t *testing.T) {
	var first string
	for _, size := range []int{1, 7, len(answer)} {
		var b strings.Builder
		m := NewMarkdown(&b, 80)
		for rest := answer; rest != ""; {
			n := min(size, len(rest))
			m.Write(rest[:n])
			rest = rest[n:]
		}
		m.Flush()
		plain := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(b.String(), "")
		for _, want := range []string{"Sales", "The total is", "docs.example/x", "• one", "print(1)", "print(2)", "The end"} {
			if !strings.Contains(plain, want) {
				t.Errorf("in pieces of %d: %q is not in\n%s", size, want, plain)
			}
		}
		if strings.Contains(plain, "**") || strings.Contains(plain, "```") {
			t.Errorf("marks are left in\n%s", plain)
		}
		if first == "" {
			first = plain
		} else if plain != first {
			t.Errorf("pieces of %d make another text:\n%s", size, plain)
		}
	}
}

// What a model writes cannot drive the terminal, in whatever way it is spelled.
func TestMarkdownIsHarmless(t *testing.T) {
	sequences := regexp.MustCompile("\x1b\\[[0-9;:]*m")
	for _, hostile := range []string{
		"\x1b]0;title\x07x", "a &#27;[2J &#x1b;]0;t&#7; &#155;2J &#8238;x &rlm; &#x202e", "`\x1b[2J`",
		"```\n\x1b[2J&#27;\n```", "[a](http://x/\x1b[2J \"\x9b2J\")",
		"![i](\x1b]8;;http://e\x07)", "a\rb\b", "<b>&#27;[8m</b>", "| \x1b[2J | &#27;[2J |\n|-|-|\n| \u202e | \u2066 |",
		"# \u009b2J", "&#0000027;[2J", "&#X1B;c",
	} {
		var b strings.Builder
		m := NewMarkdown(&b, 80)
		m.Write(hostile)
		m.Flush()
		if rest := sequences.ReplaceAllString(b.String(), ""); strings.ContainsAny(
			rest, "\x1b\x07\b\r\u009b\u202e\u2066\u200f") {
			t.Errorf("%q becomes %q", hostile, b.String())
		}
	}
	var b strings.Builder
	m := NewMarkdown(&b, 80)
	m.Write(strings.Repeat("> ", 200_000) + "deep\n\n" + strings.Repeat("[", 100_000))
	m.Flush()
	if !strings.Contains(b.String(), "deep") {
		t.Error("a long block is not shown")
	}
}

// TestMarkdownIsBounded shows as plain text what would take seconds or gigabytes to render, and
// renders ordinary long blocks.
func TestMarkdownIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		ok   bool
	}{
		"wide table": {strings.Repeat("a|", 300) + "\n" + strings.Repeat("-|", 300) + strings.Repeat("\na", 300), false},
		"quotes":     {strings.Repeat(">", 40) + " a", false},
		"lists":      {strings.Repeat("- ", 40) + "a", false},
		"brackets":   {strings.Repeat("[", maxProse+1), false},
		"long table": {"| a | b | c |\n|---|---|--:|\n" + strings.Repeat("| one | two | 3 |\n", 900), true},
		"long list":  {strings.Repeat("- **one** of `many`\n", 400), true},
		"long code":  {"```\n" + strings.Repeat("cat a | sort | uniq > b\n", 1000) + "```\n", true},
		"rules":      {strings.Repeat("-", 200) + "\n\n" + strings.Repeat("* ", 30), true},
		"deep":       {"- a\n  - b\n    > c\n    > > d\n", true},
	} {
		shown, ok := renderMarkdown(test.text, 80)
		if ok != test.ok || ok != (shown != "") {
			t.Errorf("%s: rendered %v, %d bytes", name, ok, len(shown))
		}
	}
}
