package reply

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// edit returns an item that replaces old by new.
func edit(old, new string) *Item {
	split := func(s string) []string {
		if s == "" {
			return nil
		}
		return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	}
	return &Item{Kind: KindEdit, Form: FormSearch, Verdict: VerdictOK, Path: "a",
		Hunks: []Hunk{{Lines: opsOf(split(old), split(new))}}}
}

// patched reads an envelope's or a diff's only item.
func patched(t *testing.T, text string) *Item {
	t.Helper()
	r := Parse([]byte(text))
	if len(r.Items) != 1 || !r.Items[0].OK() {
		b, _ := r.JSON()
		t.Fatalf("%s", b)
	}
	return r.Items[0]
}

func whole(content string) *Item {
	return &Item{Kind: KindFile, Form: FormFence, Verdict: VerdictOK, Path: "a", Content: []byte(content)}
}

func TestApply(t *testing.T) {
	envelope := func(body string) string {
		return "*** Begin Patch\n*** Update File: a.ts\n" + body + "*** End Patch\n"
	}
	diff := func(body string) string { return "```diff\n--- a/a.ts\n+++ b/a.ts\n" + body + "```\n" }
	for _, c := range []struct {
		name    string
		item    *Item
		current string
		want    string
		fuzz    Fuzz
		err     error
	}{
		{name: "exact", item: edit("b\n", "B\n"), current: "a\nb\nc\n", want: "a\nB\nc\n"},
		{name: "not there", item: edit("x\n", "y\n"), current: "a\n", err: ErrNoMatch},
		{name: "twice", item: edit("a\n", "y\n"), current: "a\nb\na\n", err: ErrManyMatches},
		{name: "overlapping is twice", item: edit("a\na\n", "y\n"), current: "a\na\na\n", err: ErrManyMatches},
		{name: "twice but for spaces, once exactly", item: edit("a\n", "y\n"), current: "a\na  \n", want: "y\na  \n"},
		{name: "trailing space", item: edit("a\nb\n", "a\nB\n"), current: "a  \nb\t\n", want: "a  \nB\n", fuzz: FuzzTrailing},
		{name: "indentation", item: edit("if x:\n  y\n", "if x:\n  z\n"), current: "def f():\n    if x:\n      y\n",
			want: "def f():\n    if x:\n      z\n", fuzz: FuzzIndent},
		{name: "indentation taken off", item: edit("    y\n", "    z\n      w\n"), current: "  y\n", want: "  z\n    w\n",
			fuzz: FuzzIndent},
		{name: "indentation with tabs", item: edit("y\nw\n", "z\n\nw\n"), current: "\ty\n\tw\n", want: "\tz\n\n\tw\n",
			fuzz: FuzzIndent},
		{name: "indentation not uniform", item: edit("x\n  y\n", "x\n  z\n"), current: "x\n      y\n", want: "x\n  z\n",
			fuzz: FuzzTrim},
		{name: "punctuation", item: edit("say(\"it's\") - now\n", "b\n"), current: "say(“it’s”) – now\n", want: "b\n",
			fuzz: FuzzPunctuation},
		{name: "no likeness is enough", item: edit("abcdefgh\n", "x\n"), current: "abcdefgx\n", err: ErrNoMatch},
		{name: "delete lines", item: edit("b\n", ""), current: "a\nb\nc\n", want: "a\nc\n"},
		{name: "delete all", item: edit("a\n", ""), current: "a\n", want: ""},
		{name: "empty search, empty file", item: edit("", "x\n"), current: "", want: "x\n"},
		{name: "empty search, file with content", item: edit("", "x\n"), current: "a\n", err: ErrExists},
		{name: "CRLF stays", item: edit("b\n", "B\nC\n"), current: "a\r\nb\r\nc\r\n", want: "a\r\nB\r\nC\r\nc\r\n"},
		{name: "mixed stays on lines that stay", item: edit("b\n", "B\n"), current: "a\r\nb\nc\nd\n", want: "a\r\nB\nc\nd\n"},
		{name: "context keeps its own ending", item: edit("a\nb\nc\n", "a\nB\nc\n"), current: "a\r\nb\r\nc\nd\r\n",
			want: "a\r\nB\r\nc\nd\r\n"},
		{name: "BOM stays", item: edit("a\n", "b\n"), current: "\xef\xbb\xbfa\n", want: "\xef\xbb\xbfb\n"},
		{name: "no final newline stays so", item: edit("b\n", "B\n"), current: "a\nb", want: "a\nB"},
		{name: "no final newline, more lines", item: edit("b\n", "b\nc\n"), current: "a\nb", want: "a\nb\nc"},
		{name: "no final newline, last line goes", item: edit("b\n", ""), current: "a\nb", want: "a"},
		{name: "lone carriage return", item: edit("b\n", "B\n"), current: "a\rx\nb\n", want: "a\rx\nB\n"},
		{name: "zero bytes", item: edit("a\n", "b\n"), current: "a\n\x00", err: ErrNotText},
		{name: "no UTF-8", item: edit("a\n", "b\n"), current: "a\n\xff", err: ErrNotText},

		{name: "file over LF", item: whole("x\ny\n"), current: "a\n", want: "x\ny\n"},
		{name: "file over CRLF", item: whole("x\ny\n"), current: "a\r\nb\r\n", want: "x\r\ny\r\n"},
		{name: "file over one line of CRLF", item: whole("x\ny\n"), current: "a\r\n", want: "x\r\ny\r\n"},
		{name: "file over BOM", item: whole("x\n"), current: "\xef\xbb\xbfa\n", want: "\xef\xbb\xbfx\n"},
		{name: "file over no final newline", item: whole("x\n"), current: "a", want: "x"},
		{name: "file over mixed keeps both ends", item: whole("a\nX\nd\n"), current: "a\r\nb\nc\nd\r\n",
			want: "a\r\nX\r\nd\r\n"},
		{name: "file over mixed, mostly LF", item: whole("a\nX\nd\n"), current: "a\r\nb\nc\nd\n", want: "a\r\nX\nd\n"},
		{name: "file over binary", item: whole("x\n"), current: "\x00\xff", want: "x\n"},
		{name: "empty file", item: whole(""), current: "a\r\n", want: ""},
		{name: "file over empty", item: whole("x\n"), current: "", want: "x\n"},

		{name: "diff", item: patched(t, diff("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")), current: "a\nb\nc\n", want: "a\nB\nc\n"},
		{name: "diff with wrong numbers", item: patched(t, diff("@@ -100,9 +7,2 @@\n a\n-b\n+B\n")), current: "a\nb\nc\n",
			want: "a\nB\nc\n"},
		{name: "diff, repeated lines, right numbers", item: patched(t, diff("@@ -3,2 +3,2 @@\n a\n-b\n+B\n")),
			current: "a\nb\na\nb\n", want: "a\nb\na\nB\n"},
		{name: "diff, repeated lines, wrong numbers", item: patched(t, diff("@@ -9,2 +9,2 @@\n a\n-b\n+B\n")),
			current: "a\nb\na\nb\n", err: ErrManyMatches},
		{name: "diff, hunks in order", item: patched(t, diff("@@ @@\n-x\n+y\n@@ @@\n-b\n+B\n")), current: "b\nx\nb\n",
			want: "b\ny\nB\n"},
		{name: "diff, hunks out of order", item: patched(t, diff("@@ @@\n-x\n+y\n@@ @@\n-b\n+B\n")), current: "b\nx\n",
			want: "B\ny\n"},
		{name: "diff with an empty line of context too many", item: patched(t, diff("@@ @@\n \n-b\n+B\n")), current: "a\nb\n",
			want: "a\nB\n"},
		{name: "diff takes the final newline away", item: patched(t, diff("@@ @@\n-b\n+B\n\\ No newline at end of file\n")),
			current: "a\nb\n", want: "a\nB"},
		{name: "diff adds the final newline", item: patched(t, diff("@@ @@\n-b\n\\ No newline at end of file\n+b\n")),
			current: "a\nb", want: "a\nb\n"},
		{name: "diff that only adds, behind a line", item: patched(t, diff("@@ -1,0 +2 @@\n+x\n")), current: "a\nb\n",
			want: "a\nx\nb\n"},
		{name: "diff that only adds, behind the end", item: patched(t, diff("@@ -3,0 +4 @@\n+x\n")), current: "a\nb\n",
			err: ErrExists},
		{name: "context by trailing space keeps the file's bytes", item: patched(t, diff("@@ @@\n a\n-b\n+B\n")),
			current: "a  \nb\n", want: "a  \nB\n", fuzz: FuzzTrailing},

		{name: "envelope", item: patched(t, envelope("@@ class B\n-x\n+y\n")), current: "class A\nx\nclass B\nx\n",
			want: "class A\nx\nclass B\ny\n"},
		{name: "envelope, two contexts", item: patched(t, envelope("@@ class B\n@@ def f\n-x\n+y\n")),
			current: "def f\nx\nclass B\ndef f\nx\n", want: "def f\nx\nclass B\ndef f\ny\n"},
		{name: "envelope, indented context", item: patched(t, envelope("@@ def f\n-  x\n+  y\n")), current: "  def f\n  x\n",
			want: "  def f\n  y\n"},
		{name: "envelope, context twice", item: patched(t, envelope("@@ def f\n-x\n+y\n")), current: "def f\nx\ndef f\nx\n",
			err: ErrManyMatches},
		{name: "envelope, context missing", item: patched(t, envelope("@@ def g\n-x\n+y\n")), current: "def f\nx\n",
			err: ErrNoMatch},
		{name: "envelope, insertion behind a context", item: patched(t, envelope("@@ def f\n+y\n")), current: "def f\nx\n",
			want: "def f\ny\nx\n"},
		{name: "envelope, at the end", item: patched(t, envelope("@@\n-x\n+y\n*** End of File\n")), current: "x\na\nx\n",
			want: "x\na\ny\n"},
		{name: "envelope, append", item: patched(t, envelope("@@\n+y\n*** End of File\n")), current: "x\n", want: "x\ny\n"},
		{name: "envelope, append without a final newline", item: patched(t, envelope("@@\n+y\n*** End of File\n")),
			current: "x", want: "x\ny"},
	} {
		t.Run(c.name, func(t *testing.T) {
			current := []byte(c.current)
			r, err := Apply(c.item, current)
			if string(current) != c.current {
				t.Error("the current content was changed")
			}
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(c.want, string(r.Content)); diff != "" {
				t.Error(diff)
			}
			if r.Fuzz != c.fuzz {
				t.Errorf("fuzz %v, want %v", r.Fuzz, c.fuzz)
			}
			if warned := len(r.Warnings) > 0 && r.Warnings[0].Code == "hunk.fuzz"; warned != (c.fuzz > FuzzTrailing) {
				t.Errorf("warnings %+v at fuzz %v", r.Warnings, r.Fuzz)
			}
		})
	}
}

func TestApplyToNoFile(t *testing.T) {
	if r, err := Apply(whole("x\n"), nil); err != nil || string(r.Content) != "x\n" {
		t.Errorf("a new file: %v, %v", r, err)
	}
	if _, err := Apply(edit("a\n", "b\n"), nil); !errors.Is(err, ErrMissing) {
		t.Errorf("an edit of no file: %v", err)
	}
	if r, err := Apply(edit("", "b\n"), nil); err != nil || string(r.Content) != "b\n" {
		t.Errorf("an edit that searches for nothing makes the file: %v, %v", r, err)
	}
	if _, err := Apply(&Item{Kind: KindDelete, Verdict: VerdictOK}, nil); !errors.Is(err, ErrMissing) {
		t.Errorf("deleting no file: %v", err)
	}
	if _, err := Apply(&Item{Kind: KindRename, Verdict: VerdictOK}, nil); !errors.Is(err, ErrMissing) {
		t.Errorf("renaming no file: %v", err)
	}
}

func TestApplyCreateOverAFile(t *testing.T) {
	it := whole("x\n")
	it.Create = true
	if _, err := Apply(it, []byte("y\n")); !errors.Is(err, ErrExists) {
		t.Errorf("another content: %v", err)
	}
	if _, err := Apply(it, []byte("x\n")); err != nil {
		t.Errorf("the same content: %v", err)
	}
	if _, err := Apply(it, []byte{}); !errors.Is(err, ErrExists) {
		t.Errorf("an empty file: %v", err)
	}
}

func TestApplyDeletesOnlyWhatItNames(t *testing.T) {
	it := patched(t, "```diff\n--- a/a.ts\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n```\n")
	if r, err := Apply(it, []byte("a\nb\n")); err != nil || r.Content != nil {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := Apply(it, []byte("a\nb\nmine\n")); !errors.Is(err, ErrNoMatch) {
		t.Errorf("a file with another line: %v", err)
	}
}

func TestApplyRefusesWhatIsNoWrite(t *testing.T) {
	for _, v := range []Verdict{VerdictPartial, VerdictTruncated, VerdictCitation, VerdictExample, VerdictRefused,
		VerdictSuperseded, VerdictInvalid} {
		it := whole("x\n")
		it.Verdict = v
		if _, err := Apply(it, nil); !errors.Is(err, ErrNotApplicable) {
			t.Errorf("%s: %v", v, err)
		}
	}
	if _, err := Apply(&Item{Kind: KindBlock, Verdict: VerdictOK}, nil); !errors.Is(err, ErrNotApplicable) {
		t.Errorf("a block: %v", err)
	}
}

func TestApplyErrorsHelp(t *testing.T) {
	_, err := Apply(edit("func f() {\n\treturn 1\n}\n", "x\n"), []byte("package a\n\nfunc f() {\n\treturn 2\n}\n"))
	var e *ApplyError
	if !errors.As(err, &e) || e.Hunk != 1 || len(e.Lines) != 1 || e.Lines[0] != 3 ||
		!strings.HasPrefix(e.Nearest, "func f() {\n\treturn 2") {
		t.Errorf("%v: %+v", err, e)
	}
	_, err = Apply(edit("a\n", "x\n"), []byte("a\nb\na\n"))
	if !errors.As(err, &e) || !cmp.Equal(e.Lines, []int{1, 3}) || !strings.Contains(err.Error(), "lines 1, 3") {
		t.Errorf("%v: %+v", err, e)
	}
}

// TestOneLineEditChangesOneLine: for each way of writing a file, all other lines
// keep their bytes.
func TestOneLineEditChangesOneLine(t *testing.T) {
	for _, eol := range []string{"\n", "\r\n"} {
		for _, bom := range []string{"", byteOrderMark} {
			for _, last := range []string{"", eol} {
				for n := range 5 {
					lines := []string{"zero", "one", "two", "three", "four"}
					current := bom + strings.Join(lines, eol) + last
					r, err := Apply(edit(lines[n]+"\n", "NEW\n"), []byte(current))
					if err != nil {
						t.Fatal(err)
					}
					lines[n] = "NEW"
					if want := bom + strings.Join(lines, eol) + last; string(r.Content) != want {
						t.Errorf("%q became %q, want %q", current, r.Content, want)
					}
				}
			}
		}
	}
}

// TestApplyIsLinear: a search with many near hits does not take the product of
// both lengths.
func TestApplyIsLinear(t *testing.T) {
	work := func(n int) func() {
		current := []byte(strings.Repeat("a\n", n))
		it := edit(strings.Repeat("a\n", n/2)+"b\n", "c\n")
		return func() {
			if _, err := Apply(it, current); !errors.Is(err, ErrNoMatch) {
				t.Fatal(err)
			}
		}
	}
	for attempt := 0; ; attempt++ {
		ratio := float64(fastest(work(20000))) / float64(fastest(work(5000)))
		if ratio < 10 {
			return
		}
		if attempt == 4 {
			t.Fatalf("four times as many lines take %.1f times as long", ratio)
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add("a\nb\nc\n", "b\n", "B\n", false)
	f.Add("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n", true)
	f.Add("\xef\xbb\xbf  a\n  b", "a\nb\n", "a\n", true)
	f.Add("", "", "x\n", false)
	f.Add("a\n\n\na\n", "\n\n", "\n", true)
	f.Fuzz(func(t *testing.T, current, old, new string, envelope bool) {
		it := edit(old, new)
		if envelope {
			it.Form = FormEnvelope
			it.Hunks[0].EOF = len(new)%2 == 0
		}
		r, err := Apply(it, []byte(current))
		if err != nil {
			return
		}
		if !utf8.ValidString(current) {
			if current != "" && len(it.Hunks[0].Lines) > 0 {
				t.Errorf("%q is no text and was edited", current)
			}
			return
		}
		checkUntouched(t, it, []byte(current), r)
	})
}

// checkUntouched checks that all bytes before and after the hunk are unchanged.
func checkUntouched(t *testing.T, it *Item, current []byte, r *Result) {
	if len(r.Hunks) != 1 || len(bytes.TrimSpace(current)) == 0 {
		return
	}
	at := r.Hunks[0]
	lines := bytes.SplitAfter(current, []byte("\n"))
	head := bytes.Join(lines[:at.Line-1], nil)
	tail := bytes.Join(lines[min(at.Line-1+at.Lines, len(lines)):], nil)
	if at.Line-1+at.Lines >= len(lines) && len(head) > 0 && head[len(head)-1] != '\n' || len(tail) == 0 {
		head = bytes.TrimRight(head, "\r\n") // the end of the file moved
	}
	if !bytes.HasPrefix(r.Content, head) || !bytes.HasSuffix(r.Content, tail) {
		t.Errorf("%q became %q by %s at %+v", current, r.Content, fmt.Sprint(it.Hunks), at)
	}
}
