package reply

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// record parses a reply in chunks cut by next, and records the events.
func record(t testing.TB, text []byte, next func(left int) int) (*Reply, []string) {
	t.Helper()
	var events []string
	p := NewParser(Options{Events: func(e Event) {
		events = append(events, fmt.Sprintf("%s %d %s %s %q %s %v %q", e.Type, e.Item.Ordinal, e.Item.Kind, e.Item.Verdict,
			e.Item.Path, e.Item.Reason, e.Item.Span, e.Item.Content))
	}})
	for rest := text; len(rest) > 0; {
		n := next(len(rest))
		if _, err := p.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		if it, ok := p.Open(); ok && it.Verdict == VerdictOK {
			t.Fatal("an item that is still arriving is OK")
		}
		rest = rest[n:]
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return p.Reply(), events
}

func inOne(left int) int { return left }

// sound checks the invariants of every reply.
func sound(t testing.TB, text []byte) {
	t.Helper()
	whole, events := record(t, text, inOne)
	if diff := cmp.Diff(whole, Parse(text)); diff != "" {
		t.Errorf("Parse differs from a Parser:\n%s", diff)
	}
	for _, size := range []int{1, 3} {
		got, told := record(t, text, func(left int) int { return min(size, left) })
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Errorf("in chunks of %d:\n%s", size, diff)
		}
		if diff := cmp.Diff(events, told); diff != "" {
			t.Errorf("events in chunks of %d:\n%s", size, diff)
		}
	}
	for i, it := range whole.Items {
		switch {
		case it.Ordinal != i+1 || it.ID == "":
			t.Errorf("item %d has ordinal %d and id %q", i, it.Ordinal, it.ID)
		case it.Verdict == "" || it.Kind == "" || it.Form == "":
			t.Errorf("item %d has no verdict, kind or form: %+v", i, it)
		case it.Span.Start < 0 || it.Span.End > len(text) || it.Span.Start > it.Span.End || it.Body.Start > it.Body.End ||
			it.Body.End > len(text):
			t.Errorf("item %d stands at %v, its body at %v, in %d bytes", i, it.Span, it.Body, len(text))
		case it.Verdict != VerdictOK && it.Verdict != VerdictSuperseded && it.Verdict != VerdictDuplicate && it.Reason == "":
			t.Errorf("item %d is %s without a reason", i, it.Verdict)
		}
		if it.OK() && it.Kind != KindBlock && (it.Confidence < Threshold || it.Path == "" || refusal(it.Path) != "") {
			t.Errorf("item %d is OK with confidence %v and path %q", i, it.Confidence, it.Path)
		}
		if it.OK() && it.Kind == KindRename && refusal(it.To) != "" {
			t.Errorf("item %d is renamed to %q", i, it.To)
		}
		if it.Kind == KindBlock && it.Block == nil {
			t.Errorf("item %d is a block without a block", i)
		}
	}
}

// samples returns replies of all kinds.
func samples(t testing.TB) []string {
	var all []string
	for _, v := range variants(t) {
		all = append(all, v.Text)
	}
	for _, c := range unseen {
		all = append(all, c.text)
	}
	for _, c := range blockCases {
		all = append(all, c.text)
	}
	for i := range frames {
		all = append(all,
			frames[i].before+"# T\n\nRun:\n```\nnpm i\n```\n\n- x:\n  ```js\n  main.js\n  ```\n\n~~~\n```\n~~~\n"+
				frames[i].after)
	}
	return append(all, Prompt())
}

func TestChunksGiveTheSameItems(t *testing.T) {
	texts := samples(t)
	for _, text := range texts {
		sound(t, []byte(text))
		sound(t, []byte(strings.ReplaceAll(text, "\n", "\r\n")))
		sound(t, []byte(strings.TrimRight(text, "\n")))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		// Several replies in one, so that the open parts of one meet the next.
		var b strings.Builder
		for range 1 + random.IntN(4) {
			b.WriteString(texts[random.IntN(len(texts))])
		}
		text := []byte(b.String())
		whole, events := record(t, text, inOne)
		got, told := record(t, text, func(left int) int { return min(left, 1+random.IntN(40)) })
		if diff := cmp.Diff(whole, got) + cmp.Diff(events, told); diff != "" {
			t.Fatalf("%s\nfor %q", diff, text)
		}
	}
}

func TestIDsAreStable(t *testing.T) {
	text := []byte("```ts:src/a.ts\nx\n```\n```ts:src/b.ts\ny\n```\n")
	a, b := Parse(text), Parse(bytes.Clone(text))
	if a.Items[0].ID != b.Items[0].ID || a.Items[0].ID == a.Items[1].ID || a.Item(a.Items[1].ID) != a.Items[1] {
		t.Errorf("ids %q, %q and %q", a.Items[0].ID, b.Items[0].ID, a.Items[1].ID)
	}
	if c := Parse(append(text, '\n')); c.Items[0].ID == a.Items[0].ID {
		t.Error("another reply has the same id")
	}
}

func TestOpenShowsWhatArrives(t *testing.T) {
	p := NewParser(Options{})
	if _, err := p.Write([]byte("Here:\n```ts:src/a.ts\none\ntw")); err != nil {
		t.Fatal(err)
	}
	it, ok := p.Open()
	if !ok || it.Path != "src/a.ts" || string(it.Content) != "one\ntw" || it.OK() {
		t.Errorf("open is %v, %+v", ok, it)
	}
	_, _ = p.Write([]byte("o\n```\n"))
	if _, ok := p.Open(); ok {
		t.Error("it is still open behind its fence")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if err := p.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("Close after Close: %v", err)
	}
}

func TestEvents(t *testing.T) {
	var got []string
	ParseWith([]byte("```ts:src/a.ts\none\n```\n\n```ts:src/a.ts\ntwo\n```\n"), Options{Events: func(e Event) {
		got = append(got, fmt.Sprintf("%s %d %s", e.Type, e.Item.Ordinal, e.Item.Verdict))
	}})
	want := []string{"opened 1 truncated", "item 1 ok", "opened 2 truncated", "revised 1 superseded", "item 2 ok"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// hostile returns texts that make a careless parser slow.
func hostile(n int) map[string][]byte {
	fill := func(unit string) []byte { return bytes.Repeat([]byte(unit), n/len(unit)+1)[:n] }
	return map[string][]byte{
		"unclosed openers":        fill("```ts:src/a.ts\n"),
		"unclosed openers, bare":  fill("```\n\n"),
		"unclosed openers, lang":  fill("```ts\n"),
		"bare fences in markdown": append([]byte("```markdown:README.md\n"), fill("```\nx\n```\n\n")...),
		"markdown and markdown":   fill("```md:a.md\n```\nx\n```\n```\n\n"),
		"markdown in lists":       fill("- - - ```md:a.md\n      ```\n      x\n      ```\n      ```\n - "),
		"longer in markdown":      append([]byte("```md:a.md\n"), ladder(n)...),
		"unclosed markdown":       fill("```markdown:README.md\n"),
		"longer and longer":       ladder(n),
		"blocks without end":      fill("=== SUBMISSION ===\nassignment_id: A1\nsummary: x\n"),
		"same block":              fill("=== PROGRESS UPDATE ===\nassignment_id: A1\npercent: 5\n=== END ===\n"),
		"one endless block":       append([]byte("=== SUBMISSION ===\n"), fill("summary: x\n\n")...),
		"unclosed edits":          fill("<<<<<<< SEARCH\nx\n"),
		"edits":                   fill("src/a.ts\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n"),
		"edits in one fence": append([]byte("```ts:src/a.ts\n"),
			fill("<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n")...),
		"thoughts":        fill("<think>\n"),
		"orphan thoughts": fill("```ts:src/a.ts\nx\n```\n</think>\n"),
		"tags":            fill("<file path=\"src/a.ts\">\n"),
		"calls":           fill("<write_to_file>\n"),
		"calls, ended":    fill("<apply_diff>\n<path>a.ts</path>\n</apply_diff>\n"),
		"paths in a call": append([]byte("<apply_diff>\n"), fill("<path>a.ts</path>\n")...),
		"contents in a call": append([]byte("<write_to_file>\n<path>a.ts</path>\n"),
			fill("<content>\n</content>\n")...),
		"files in a line":          fill("<file path=\"a.ts\">x</file>"),
		"fences in tags":           fill("src/a.ts\n<source>\n"),
		"closing tags":             append([]byte("<file path=\"a.ts\">\n</file>\n"), fill("</file>\n")...),
		"envelopes":                fill("*** Begin Patch\n*** Update File: a.ts\n"),
		"envelope without end":     append([]byte("*** Begin Patch\n*** Update File: a.ts\n"), fill("@@\n-a\n+b\n")...),
		"diffs":                    fill("--- a/x.ts\n+++ b/x.ts\n@@ -1 +1 @@\n"),
		"same file":                fill("```ts:src/a.ts\nx\n```\n"),
		"same file, edited":        fill("```ts:src/a.ts\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```\n"),
		"one line":                 fill("a"),
		"one line of backticks":    fill("`"),
		"one line of angles":       fill("<"),
		"one line of closing tags": fill("</"),
		"spaces":                   fill(" "),
		"list marks":               fill("- "),
		"lists":                    fill("- - 1. "),
		"equals":                   fill("= "),
		"comments with dots":       append([]byte("```ts:src/a.ts\n"), fill("x // ...\n")...),
		"dots":                     append([]byte("```ts:src/a.ts\n"), fill("...")...),
		"file lists":               fill("### Move Files\n- `a.ts` → `b.ts`\n"),
		"file list":                append([]byte("### Remove Files\n"), fill("- `a.ts`\n")...),
		"wrapped":                  append([]byte("```markdown\n"), fill("```ts:src/a.ts\nx\n```\n")...),
		"wrapped, then more": append(append([]byte("```markdown\n"), fill("```ts:src/a.ts\nx\n```\n")...),
			"```\nmore\n"...),
		"fields":        append([]byte("=== PROGRESS UPDATE ===\n"), fill("percent: 5\n")...),
		"long headings": fill("# `a.ts` "),
		"attributes":    append([]byte("```ts "), fill("file=a.ts ")...),
		"annotations":   append([]byte("```ts:a.ts "), fill("(new) ")...),
		"dashes":        append([]byte("```ts:a.ts "), fill(" - a.ts")...),
	}
}

// ladder opens fences that are each longer than the one before.
func ladder(n int) []byte {
	var b bytes.Buffer
	for i := 3; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("`", min(i, 400)))
		b.WriteString("md\n")
	}
	return b.Bytes()
}

// TestLargeTextsTakeLinearTime compares the time for a text with that for one four times as long.
// Twice linear would be 8; quadratic is 16 and more.
func TestLargeTextsTakeLinearTime(t *testing.T) {
	n := 40_000
	if raceEnabled {
		n /= 2
	}
	small, large := hostile(n), hostile(4*n)
	for name := range small {
		t.Run(name, func(t *testing.T) {
			for attempt := 0; ; attempt++ {
				a, b := fastest(func() { Parse(small[name]) }), fastest(func() { Parse(large[name]) })
				ratio := float64(b) / float64(a)
				if ratio < 9 {
					return
				}
				if attempt == 4 { // a busy machine may be unlucky a few times
					t.Fatalf("%d bytes take %v, four times as many %v: %.1f times", n, a, b, ratio)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range samples(f) {
		f.Add([]byte(text))
	}
	for _, text := range hostile(200) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 20_000 {
			t.Skip()
		}
		sound(t, text)
	})
}
