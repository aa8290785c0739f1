package workspace

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchmarkCommit measures a durable commit of files of 10 KB that exist, from
// the approval to the receipt, and prints the median.
func benchmarkCommit(b *testing.B, files int) {
	old := strings.Repeat("the quick brown fox jumps over the lazy dog\n", 230)
	content := map[string]string{}
	for i := range files {
		content[fmt.Sprintf("dir%d/file%03d.txt", i%10, i)] = old
	}
	s := newSiteIn(b, b.TempDir(), content)
	var times []time.Duration
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		var changes []Change
		for name := range content {
			changes = append(changes, write(name, fmt.Sprintf("round %d of %s\n%s", round, name, old)))
		}
		p := s.plan(changes...)
		a, err := p.Approve()
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		start := time.Now()
		if _, err := s.w.Commit(b.Context(), p, a, CommitOptions{}); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms/median")
}

func BenchmarkCommit3(b *testing.B)   { benchmarkCommit(b, 3) }
func BenchmarkCommit100(b *testing.B) { benchmarkCommit(b, 100) }

// tenThousand returns a text of 10,000 lines, and one in which 1 % changed.
func tenThousand() (before, after string) {
	var old, lines strings.Builder
	for i := range 10000 {
		line := fmt.Sprintf("\tfunction call number %d with some %d arguments in it\n", i*7919%10007, i%13)
		old.WriteString(line)
		if i%100 == 50 {
			line = strings.Replace(line, "call", "changed call", 1)
		}
		lines.WriteString(line)
	}
	return old.String(), lines.String()
}

func BenchmarkDiff10000(b *testing.B) {
	before, after := tenThousand()
	for b.Loop() {
		if hunks, _, _ := diffText(before, after); len(hunks) != 100 {
			b.Fatal(len(hunks))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/op")
}

func BenchmarkDiffRewrite(b *testing.B) {
	before := lines(5000, "old")
	after := lines(5000, "new")
	for b.Loop() {
		diffText(before, after)
	}
}

func BenchmarkPlan100(b *testing.B) {
	content := map[string]string{}
	for i := range 100 {
		content[fmt.Sprintf("dir%d/file%03d.txt", i%10, i)] = lines(200, "x")
	}
	s := newSite(b, content)
	var changes []Change
	for name := range content {
		changes = append(changes, write(name, lines(201, "x")))
	}
	for b.Loop() {
		s.plan(changes...)
	}
}
