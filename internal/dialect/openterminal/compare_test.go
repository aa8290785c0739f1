package openterminal

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines of a comparison, one a line: numbers, sign, text with what is marked in brackets.
func shown(c comparison) string {
	var b strings.Builder
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	for _, h := range c.Hunks {
		fmt.Fprintln(&b, h.Header)
		for _, l := range h.Lines {
			fmt.Fprintf(&b, "%s %s %s ", number(l.Old), number(l.New), l.Type)
			all := ""
			for _, s := range l.Segments {
				all += s.Text
				if s.Changed {
					s.Text = "[" + s.Text + "]"
				}
				b.WriteString(s.Text)
			}
			if all != l.Content {
				fmt.Fprintf(&b, " IS NOT %s", l.Content)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// What difflib makes of the same files in the original.
func TestCompare(t *testing.T) {
	file := func(text string) (c compared) {
		if text != "" {
			c.lines = strings.Split(text, "|")
		}
		return c
	}
	for _, test := range []struct {
		before, after, want string
		spaces              bool
		added, removed      int
	}{
		{"a|b", "a|b", "", false, 0, 0},
		{"", "", "", false, 0, 0},
		{"", "a", "@@ -0,0 +1,1 @@\n- 1 added a\n", false, 1, 0},
		{"a", "", "@@ -1,1 +0,0 @@\n1 - removed a\n", false, 0, 1},
		{"1|2|3|4|x = f(1)|5|6|7|8", "1|2|3|4|x = f(2)|5|6|7|8", "@@ -2,7 +2,7 @@\n2 2 context 2\n3 3 context 3\n4 4 context 4\n" +
			"5 - removed x = f([1])\n- 5 added x = f([2])\n6 6 context 5\n7 7 context 6\n8 8 context 7\n", false, 1, 1},
		{"a  b|c", "a b|c", "@@ -1,2 +1,2 @@\n1 - removed a[  ]b\n- 1 added a[ ]b\n2 2 context c\n", false, 1, 1},
		{"a  b|c", "a b|d", "@@ -1,2 +1,2 @@\n1 1 context a  b\n2 - removed [c]\n- 2 added [d]\n", true, 1, 1},
	} {
		c := compare(file(test.before), file(test.after), test.spaces)
		if diff := cmp.Diff(test.want, shown(c)); diff != "" || c.Additions != test.added || c.Deletions != test.removed {
			t.Errorf("%q %q: +%d -%d %s", test.before, test.after, c.Additions, c.Deletions, diff)
		}
	}
	long := strings.Repeat("x ", longestMarked)
	if left, right := marked(long, long+"y"); len(left) != 1 || left[0].Changed || right[0].Changed {
		t.Error("words of a long line are marked")
	}
	raw, err := json.Marshal(compare(file("a"), file("b"), false).Hunks[0].Lines[0])
	if want := `{"type":"removed","oldNumber":1,"newNumber":null,"content":"a","segments":[{"text":"a","changed":true}]}`; err != nil || string(raw) != want {
		t.Errorf("%s %v", raw, err)
	}
}
