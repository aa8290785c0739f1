package setup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func show(terminal bool) string {
	var out strings.Builder
	p := NewProgress(&out, terminal)
	p.Step("Packages")
	for i := range 20 {
		p.Update(i+1, 20, "numpy")
	}
	p.Update(0, 0, "compiling "+strings.Repeat("é", 60))
	p.Warn("one is broken")
	p.Done("all there")
	return out.String()
}

func TestProgressInAPipe(t *testing.T) {
	var want strings.Builder
	want.WriteString("Packages ...\n")
	for _, n := range []string{"2", "4", "6", "8", "10", "12", "14", "16", "18", "20"} {
		want.WriteString("  " + n + " of 20: numpy\n")
	}
	want.WriteString("  compiling " + strings.Repeat("é", 60) + "\nwarning: one is broken\nPackages: all there\n")
	if diff := cmp.Diff(want.String(), show(false)); diff != "" {
		t.Error(diff)
	}
}

func TestProgressOnATerminal(t *testing.T) {
	out := show(true)
	if strings.Count(out, "\n") != 2 {
		t.Errorf("only the warning and the end stay: %q", out)
	}
	if !strings.Contains(out, "[############............] 10/20 numpy") {
		t.Errorf("there is no bar: %q", out)
	}
	for line := range strings.SplitSeq(out, "\x1b[K") {
		if len([]rune(line)) > 80 {
			t.Errorf("a line does not fit on 80 columns: %q", line)
		}
	}
}
