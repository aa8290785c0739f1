package workspace

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/assist/reply"
)

// The most that planning one reply may take of a processor and of the heap, on a slow machine
// and with the race detector. Without bounds it is minutes and gigabytes.
const (
	mostPlanTime  = time.Minute
	mostPlanBytes = 3 << 30
)

// planCost plans a reply for a file of a text, and fails if that costs too much.
func planCost(t *testing.T, file, text string) *Proposal {
	t.Helper()
	s := newSite(t, map[string]string{"same.txt": file})
	ctx, cancel := context.WithTimeout(t.Context(), mostPlanTime)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	p, err := s.w.Plan(ctx, Origin{}, FromReply(reply.Parse([]byte(text)))...)
	spent := time.Since(start)
	runtime.ReadMemStats(&after)
	made := after.TotalAlloc - before.TotalAlloc
	if err != nil || spent > mostPlanTime || made > mostPlanBytes {
		t.Fatalf("planned in %v, %d MiB were allocated: %v; want at most %v, %d MiB", spent, made>>20, err, mostPlanTime,
			mostPlanBytes>>20)
	}
	t.Logf("planned in %v, %d MiB were allocated", spent.Round(time.Millisecond), made>>20)
	return p
}

func searchBlock(path, old, next string) string {
	return path + "\n<<<<<<< SEARCH\n" + old + "\n=======\n" + next + "\n>>>>>>> REPLACE\n\n"
}

// TestLargeAmbiguous has few bytes of reply that fit in very many places.
func TestLargeAmbiguous(t *testing.T) {
	const many = 200_000
	same := strings.Repeat("x = 1\n", many)
	blocks := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(searchBlock("same.txt", "x = 1\nx = 1\nx = 1", fmt.Sprintf("x = %d", i+2)))
		}
		return b.String()
	}
	p := planCost(t, same, blocks(3))
	if f := &p.Files[0]; f.Verdict() != Ask || len(f.Readings) != maxReadings {
		t.Errorf("3 edits: %d readings, %v; want %d to choose from", len(f.Readings), f.Findings, maxReadings)
	}
	p = planCost(t, same, blocks(100))
	if f := &p.Files[0]; !f.has("edit.too_complex") {
		t.Errorf("100 edits: %v; want edit.too_complex", f.Findings)
	}
	// One edit with many hunks, each of which fits everywhere.
	p = planCost(t, same, "same.txt\n"+strings.ReplaceAll(blocks(2000), "same.txt\n", ""))
	if f := &p.Files[0]; !f.has("edit.failed") || !strings.Contains(fmt.Sprint(f.Findings), reply.ErrTooComplex.Error()) {
		t.Errorf("2,000 hunks: %v; want an edit that is too much work", f.Findings)
	}
}

// TestLargeEdits has replies that fit, as large as models with long answers write them.
func TestLargeEdits(t *testing.T) {
	const lines, edits = 100_000, 2000
	line := func(i int) string { return fmt.Sprintf("line %d has some text of about fifty characters", i) }
	var file, search, diff, envelope, files strings.Builder
	for i := range lines {
		file.WriteString(line(i) + "\n")
	}
	search.WriteString("same.txt\n")
	diff.WriteString("```diff\n--- a/same.txt\n+++ b/same.txt\n")
	envelope.WriteString("*** Begin Patch\n*** Update File: same.txt\n")
	for i := range edits {
		at := i * lines / edits
		search.WriteString(searchBlock("", line(at+5)+"\n"+line(at+6), line(at+5)+"\nnew")[1:])
		fmt.Fprintf(&diff, "@@ -%d,3 +%d,3 @@\n %s\n-%s\n+new\n %s\n", at+6, at+6, line(at+5), line(at+6), line(at+7))
		if i < edits/2 {
			fmt.Fprintf(&envelope, "@@\n %s\n-%s\n+new\n %s\n", line(at+5), line(at+6), line(at+7))
		}
		fmt.Fprintf(&files, "```txt:files/f%d.txt\nnew\n```\n\n", i)
	}
	diff.WriteString("```\n")
	envelope.WriteString("*** End Patch\n")
	for _, c := range []struct {
		name, text string
		changed    int
	}{
		{"2,000 SEARCH blocks", search.String(), edits},
		{"2,000 hunks of a diff", diff.String(), edits},
		{"1,000 hunks of an envelope", envelope.String(), edits / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := planCost(t, file.String(), c.text)
			if len(p.Files) != 1 || p.Files[0].Added != c.changed || p.Files[0].Removed != c.changed {
				t.Errorf("%d files, +%d -%d, %v; want 1, +%d -%d", len(p.Files), p.Files[0].Added, p.Files[0].Removed,
					p.Files[0].Findings, c.changed, c.changed)
			}
		})
	}
	t.Run("2,000 files", func(t *testing.T) {
		if p := planCost(t, "x\n", files.String()); worst(p.Findings) != Refuse || len(p.Files) != edits {
			t.Errorf("%d files, %v; want all shown, and refused for their number", len(p.Files), p.Findings)
		}
	})
}

// FuzzPlanCost looks for replies that cost more than they may.
func FuzzPlanCost(f *testing.F) {
	f.Add("x = 1\n", 100_000, searchBlock("same.txt", "x = 1\nx = 1", "x = 2"), 30)
	f.Add("\n", 100_000, searchBlock("same.txt", "a\n\n\nb", "x = 2"), 30)
	f.Add("  a\n", 50_000, searchBlock("same.txt", "a\na\na", "b"), 100)
	f.Add("a\n\n", 50_000, "```diff\n--- a/same.txt\n+++ b/same.txt\n@@ -1,2 +1,2 @@\n a\n-a\n+b\n```\n", 50)
	f.Add("a\n", 1000, "```txt:same.txt\n// b\n```\n", 50)
	f.Fuzz(func(t *testing.T, line string, lines int, text string, times int) {
		if line == "" || text == "" {
			t.Skip("nothing to repeat")
		}
		const file, replied = 1 << 20, 64 << 10
		planCost(t, strings.Repeat(line, min(max(lines, 1), file/len(line)+1)),
			strings.Repeat(text, min(max(times, 1), replied/len(text)+1)))
	})
}
