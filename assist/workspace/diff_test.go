package workspace

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func randomText(random *rand.Rand, n, kinds int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "line %d\n", random.IntN(kinds))
	}
	text := b.String()
	if random.IntN(4) == 0 {
		text = strings.TrimSuffix(text, "\n")
	}
	return text
}

// mutate changes some lines of a text.
func mutate(random *rand.Rand, text string, changes int, mark string) string {
	lines := splitLines(text)
	for range changes {
		i := random.IntN(len(lines) + 1)
		switch {
		case i == len(lines) || random.IntN(3) == 0:
			if i == len(lines) && i > 0 && !strings.HasSuffix(lines[i-1], "\n") {
				continue
			}
			lines = append(lines[:i:i], append([]string{fmt.Sprintf("%s %d\n", mark, random.IntN(1000))}, lines[i:]...)...)
		case random.IntN(2) == 0:
			lines = append(lines[:i:i], lines[i+1:]...)
		default:
			lines[i] = fmt.Sprintf("%s %d\n", mark, random.IntN(1000))
		}
	}
	return strings.Join(lines, "")
}

// TestDiffRoundTrip: all hunks of a difference turn one text into the other, no hunks leave
// it, and any subset followed by the rest gives the other.
func TestDiffRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 2000 {
		before := randomText(random, random.IntN(60), 1+random.IntN(5000))
		after := mutate(random, before, random.IntN(12), "new")
		if round%10 == 0 {
			after = randomText(random, random.IntN(60), 1+random.IntN(80))
		}
		hunks, added, removed := diffText(before, after)
		var all, some []string
		for _, h := range hunks {
			all = append(all, h.ID)
			if random.IntN(2) == 0 {
				some = append(some, h.ID)
			}
			checkHunk(t, before, after, h)
		}
		if got, err := applyHunks(before, hunks, all); err != nil || got != after {
			t.Fatalf("all hunks give %q, %v; want %q", got, err, after)
		}
		if got, err := applyHunks(before, hunks, nil); err != nil || got != before {
			t.Fatalf("no hunk gives %q, %v; want %q", got, err, before)
		}
		part, err := applyHunks(before, hunks, some)
		if err != nil {
			t.Fatal(err)
		}
		if len(splitLines(after))-len(splitLines(before)) != added-removed {
			t.Fatalf("+%d -%d between %q and %q", added, removed, before, after)
		}
		// Merging a partial result with the whole gives the whole. It is ambiguous for
		// lines that occur twice.
		if merged, conflicts := Merge(before, part, after); conflicts == 0 && merged != after && once(before) && once(after) {
			t.Fatalf("merge of a part with the whole is %q; want %q", merged, after)
		}
	}
}

func once(text string) bool {
	seen := map[string]bool{}
	for _, l := range splitLines(text) {
		if seen[l] {
			return false
		}
		seen[l] = true
	}
	return true
}

// checkHunk compares the lines of a hunk with the texts at its positions.
func checkHunk(t *testing.T, before, after string, h Hunk) {
	t.Helper()
	old, lines := splitLines(before), splitLines(after)
	i, j := h.OldStart-1, h.NewStart-1
	if h.OldLines == 0 {
		i++
	}
	if h.NewLines == 0 {
		j++
	}
	for _, l := range h.Lines {
		text := l.Text
		if !l.NoNewline {
			text += "\n"
		}
		if l.Op != "+" {
			if old[i] != text {
				t.Fatalf("%s: line %d is %q, and the text has %q", h.Header(), i+1, text, old[i])
			}
			i++
		}
		if l.Op != "-" {
			if lines[j] != text {
				t.Fatalf("%s: new line %d is %q, and the text has %q", h.Header(), j+1, text, lines[j])
			}
			j++
		}
	}
}

func TestDiffIsSmall(t *testing.T) {
	before, after := tenThousand()
	hunks, added, removed := diffText(before, after)
	if len(hunks) != 100 || added != 100 || removed != 100 {
		t.Errorf("%d hunks, +%d -%d; want 100 of one line", len(hunks), added, removed)
	}
}

func TestUnified(t *testing.T) {
	f := FileChange{Op: OpUpdate, Path: "a.txt"}
	f.Hunks, _, _ = diffText("1\n2\n3\n4\n5\n6\n7\nlast", "1\n2\n3\n4\nfive\n6\n7\nlast\n")
	want := `--- a/a.txt
+++ b/a.txt
@@ -2,7 +2,7 @@
 2
 3
 4
-5
+five
 6
 7
-last
\ No newline at end of file
+last
`
	if diff := cmp.Diff(want, f.Unified()); diff != "" {
		t.Error(diff)
	}
}

func TestWords(t *testing.T) {
	for _, tc := range []struct{ before, after, want string }{
		{"let x = foo(a, b)", "let y = foo(a, c)", "let [x] = foo(a, [b]) | let [y] = foo(a, [c])"},
		{"return err", "return fmt.Errorf(err)", "return err | return [fmt.Errorf(]err[)]"},
		{"one", "completely different text", "one | completely different text"},
		{"naïve café", "naïve cafés", "naïve [café] | naïve [cafés]"},
	} {
		removed, added := []Line{{Op: "-", Text: tc.before}}, []Line{{Op: "+", Text: tc.after}}
		refine(removed, added)
		if got := marked(removed[0]) + " | " + marked(added[0]); got != tc.want {
			t.Errorf("%s; want %s", got, tc.want)
		}
	}
}

func marked(l Line) string {
	var b strings.Builder
	at := 0
	for _, s := range l.Spans {
		b.WriteString(l.Text[at:s.Start] + "[" + l.Text[s.Start:s.End] + "]")
		at = s.End
	}
	return b.String() + l.Text[at:]
}

func TestMerge(t *testing.T) {
	const base = "1\n2\n3\n4\n5\n6\n7\n"
	for _, tc := range []struct {
		name, mine, theirs, want string
		conflicts                int
	}{
		{"one side", "1\n2\n3\n4\n5\n6\n7\n", "1\ntwo\n3\n4\n5\n6\n7\n", "1\ntwo\n3\n4\n5\n6\n7\n", 0},
		{"both sides", "one\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\n5\n6\nseven\n", "one\n2\n3\n4\n5\n6\nseven\n", 0},
		{"the same on both sides", "1\nX\n3\n4\n5\n6\n7\n", "1\nX\n3\n4\n5\n6\n7\n", "1\nX\n3\n4\n5\n6\n7\n", 0},
		{"insert and delete apart", "0\n1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\n5\n7\n", "0\n1\n2\n3\n4\n5\n7\n", 0},
		{"different on both sides", "1\nM\n3\n4\n5\n6\n7\n", "1\nT\n3\n4\n5\n6\n7\n",
			"1\n<<<<<<< in the folder\nM\n=======\nT\n>>>>>>> proposed\n3\n4\n5\n6\n7\n", 1},
		{"lines that touch", "1\nM\n3\n4\n5\n6\n7\n", "1\n2\nT\n4\n5\n6\n7\n",
			"1\n<<<<<<< in the folder\nM\n3\n=======\n2\nT\n>>>>>>> proposed\n4\n5\n6\n7\n", 1},
		{"two inserts in one place", "1\nM\n2\n3\n4\n5\n6\n7\n", "1\nT\n2\n3\n4\n5\n6\n7\n",
			"1\n<<<<<<< in the folder\nM\n=======\nT\n>>>>>>> proposed\n2\n3\n4\n5\n6\n7\n", 1},
		{"delete against edit", "1\n2\n3\n5\n6\n7\n", "1\n2\n3\nT\n5\n6\n7\n",
			"1\n2\n3\n<<<<<<< in the folder\n=======\nT\n>>>>>>> proposed\n5\n6\n7\n", 1},
	} {
		got, conflicts := Merge(base, tc.mine, tc.theirs)
		if got != tc.want || conflicts != tc.conflicts {
			t.Errorf("%s: %q, %d conflicts; want %q, %d", tc.name, got, conflicts, tc.want, tc.conflicts)
		}
	}
}

// TestMergeLosesNothing: lines that one side added are in every merge, also in conflicts. A
// merge with an unchanged side is the other side.
func TestMergeLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	clean := 0
	for range 3000 {
		base := randomText(random, 1+random.IntN(40), 1+random.IntN(50))
		mine := mutate(random, base, random.IntN(5), "mine")
		theirs := mutate(random, base, random.IntN(5), "theirs")
		merged, conflicts := Merge(base, mine, theirs)
		if conflicts == 0 {
			clean++
		}
		for _, side := range []string{mine, theirs} {
			for _, line := range splitLines(side) {
				if !strings.HasPrefix(line, "line") && !strings.Contains(merged, strings.TrimSuffix(line, "\n")) {
					t.Fatalf("%q is lost in\n%s", line, merged)
				}
			}
		}
		if got, conflicts := Merge(base, base, theirs); got != theirs || conflicts != 0 {
			t.Fatalf("merge with an unchanged side is %q; want %q", got, theirs)
		}
		if got, conflicts := Merge(base, mine, base); got != mine || conflicts != 0 {
			t.Fatalf("merge with an unchanged side is %q; want %q", got, mine)
		}
		back, n := Merge(base, theirs, mine)
		if n != conflicts || conflicts == 0 && back != merged {
			t.Fatal("the two sides are not treated the same")
		}
	}
	if clean < 500 {
		t.Errorf("only %d of 3000 merges are clean", clean)
	}
}
