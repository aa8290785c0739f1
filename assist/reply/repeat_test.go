package reply

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// eachOf are the texts of so many lines that differ in one of the first places.
func eachOf(places, lines int) string {
	var all []string
	for i := range places {
		all = append(all, strings.Repeat("a\n", i)+"y\n"+strings.Repeat("a\n", lines-i-1))
	}
	return strings.Join(all, "|")
}

// TestApplyEach: Apply never places a hunk that fits in several places or is repeated.
// ApplyEach returns each place in order, and reports it.
func TestApplyEach(t *testing.T) {
	hunk := func(old, new string) string {
		return "<<<<<<< SEARCH\n" + old + "=======\n" + new + ">>>>>>> REPLACE\n"
	}
	search := func(hunks string) string { return "a.ts\n```ts\n" + hunks + "```\n" }
	envelope := func(body string) string { return "*** Begin Patch\n*** Update File: a.ts\n" + body + "*** End Patch\n" }
	for _, c := range []struct {
		name, text, current string
		err                 error
		want                string
	}{
		{"two places", search(hunk("a\n", "y\n")), "a\nb\na\n", ErrManyMatches, "y\nb\na\n|a\nb\ny\n"},
		{"two places but for white space", search(hunk("a  b\n", "y\n")), " a  b\nx\n a  b\n", ErrManyMatches,
			" y\nx\n a  b\n| a  b\nx\n y\n"},
		{"both places, each with a hunk", search(hunk("a\n", "y\n") + hunk("a\n", "y\n")), "a\nb\na\n", ErrManyMatches,
			"y\nb\ny\n"},
		{"envelope, two places", envelope("@@\n-x\n+y\n"), "x\nb\nx\n", ErrManyMatches, "y\nb\nx\n|x\nb\ny\n"},
		{"envelope, two places behind another", envelope("@@\n-h\n+H\n@@\n-x\n+y\n"), "x\nh\nx\nx\n", ErrManyMatches,
			"x\nH\ny\nx\n|x\nH\nx\ny\n"},
		{"envelope, context twice", envelope("@@ def f\n-x\n+y\n"), "def f\nx\ndef f\nx\n", ErrManyMatches,
			"def f\ny\ndef f\nx\n|def f\nx\ndef f\ny\n"},
		{"two hunks, two places each", search(hunk("a\n", "y\n") + hunk("b\n", "z\n")), "a\nb\na\nb\n", ErrManyMatches,
			"y\nz\na\nb\n|y\nb\na\nz\n|a\nz\ny\nb\n|a\nb\ny\nz\n"},
		{"more places than are offered", search(hunk("a\n", "y\n")), strings.Repeat("a\n", 12), ErrManyMatches,
			eachOf(9, 12)},
		{"the same hunk twice", search(hunk("a\n", "y\n") + hunk("a\n", "y\n")), "a\nb\n", ErrRepeated, "y\nb\n"},
		{"the same hunk twice, with another between that moves lines",
			search(hunk("a\n", "a\ny\n") + hunk("z\n", "z\nz2\n") + hunk("a\n", "a\ny\n")), "z\na\nb\n", ErrRepeated,
			"z\nz2\na\ny\nb\n"},
		{"the same addition twice", search(hunk("a\n", "a\ny\n") + hunk("a\n", "a\ny\n")), "a\nb\n", ErrRepeated,
			"a\ny\nb\n"},
		{"the same addition in front twice", search(hunk("a\n", "y\na\n") + hunk("a\n", "y\na\n")), "a\nb\n", ErrRepeated,
			"y\na\nb\n"},
		{"envelope, the same hunk twice", envelope("@@\n x\n-a\n+y\n@@\n x\n-a\n+y\n"), "x\na\nb\n", ErrRepeated,
			"x\ny\nb\n"},
		{"envelope, the same addition at the end twice", envelope("@@\n+y\n*** End of File\n@@\n+y\n*** End of File\n"),
			"x\n", ErrRepeated, "x\ny\n"},
		{"diff, the same hunk twice",
			"```diff\n--- a/a.ts\n+++ b/a.ts\n@@ -1,1 +1,2 @@\n a\n+y\n@@ -1,1 +1,2 @@\n a\n+y\n```\n", "a\nb\n", ErrRepeated,
			"a\ny\nb\n"},
		{"nothing to find", search(hunk("q\n", "y\n")), "a\n", ErrNoMatch, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			it := patched(t, c.text)
			if _, err := Apply(it, []byte(c.current)); !errors.Is(err, c.err) {
				t.Errorf("Apply: %v, want %v", err, c.err)
			}
			each, err := ApplyEach(it, []byte(c.current))
			if c.want == "" {
				if !errors.Is(err, c.err) {
					t.Errorf("ApplyEach: %v", err)
				}
				return
			}
			var got []string
			for _, r := range each {
				if got = append(got, string(r.Content)); len(r.Guesses) == 0 {
					t.Errorf("it does not say what was decided: %+v", r)
				}
			}
			if diff := cmp.Diff(strings.Split(c.want, "|"), got); diff != "" || err != nil {
				t.Errorf("ApplyEach: %v\n%s", err, diff)
			}
		})
	}
	// The places that a diff's line numbers tell apart are not the same.
	it := patched(t, "```diff\n--- a/a.ts\n+++ b/a.ts\n@@ -1,1 +1,1 @@\n-a\n+y\n@@ -3,1 +3,1 @@\n-a\n+y\n```\n")
	if r, err := Apply(it, []byte("a\nb\na\n")); err != nil || string(r.Content) != "y\nb\ny\n" {
		t.Errorf("a hunk for each place: %v, %+v", err, r)
	}
}

// TestRepeatedEdits: an edit that the reply gives again is not placed again.
func TestRepeatedEdits(t *testing.T) {
	once := "src/a.ts\n```ts\n<<<<<<< SEARCH\na\n=======\na\nb\n>>>>>>> REPLACE\n```\n\n"
	r := Parse([]byte(once + "All of it:\n\n" + once + "```ts:src/a.ts\nx\na\n```\n\n" + once))
	if len(r.Items) != 4 || r.Items[0].Repeated || !r.Items[1].Repeated || r.Items[1].OK() || r.Items[3].Repeated ||
		!r.Items[3].OK() {
		b, _ := r.JSON()
		t.Fatalf("%s", b)
	}
	if _, err := Apply(r.Items[1], []byte("a\nb\n")); !errors.Is(err, ErrRepeated) {
		t.Errorf("%v", err)
	}
	if got, err := ApplyEach(r.Items[1], []byte("a\nb\n")); err != nil || len(got) != 1 ||
		string(got[0].Content) != "a\nb\n" || len(got[0].Guesses) != 1 {
		t.Errorf("%v: %+v", err, got)
	}
}
