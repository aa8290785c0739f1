package pagetest

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/page"
)

// ProcessorTime returns the CPU time of this thread: the collector of a busy process has others. The caller
// keeps the thread with runtime.LockOSThread.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Bounded calls render and fails if it exceeds the ceilings. The total allocation is an
// upper bound of the peak.
func Bounded(t testing.TB, what string, render func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := ProcessorTime(t)
	render()
	took := ProcessorTime(t) - began
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > renderMemory {
		t.Errorf("%.40s takes %d MiB, want at most %d", what, spent>>20, renderMemory>>20)
	}
	if took > renderCeiling {
		t.Errorf("%.40s takes %v, want at most %v", what, took, renderCeiling)
	}
}

// Bombs returns small texts that make a careless renderer produce large output.
func Bombs() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, page.MaxMarkdown/len(s)) }
	return map[string]string{
		"wide table": strings.Repeat("a|", 2000) + "\n" + strings.Repeat("-|", 2000) + "\n" +
			strings.Repeat("a\n", 4000),
		"table in a quote": "> " + strings.Repeat("a|", 2000) + "\n> " + strings.Repeat("-|", 2000) + "\n" +
			strings.Repeat("> a\n", 4000),
		"table in a list": "- " + strings.Repeat("a|", 20000) + "\n  " + strings.Repeat("-|", 20000) + "\n" +
			strings.Repeat("  a\n", 10000),
		"many tables": fill(strings.Repeat("a|", 200) + "\n" + strings.Repeat("-|", 200) + "\n" +
			strings.Repeat("a\n", 200) + "\n"),
		"quotes":           fill(">"),
		"quotes and tabs":  fill(">\t"),
		"lists":            fill("- "),
		"mixed lists":      fill("* - "),
		"numbered lists":   fill("1. "),
		"deep quotes":      fill(strings.Repeat(">", 32) + " a\n"),
		"deep tabs":        fill(strings.Repeat(">\t", 32-1) + " a\n"),
		"indented lists":   indentedLists(),
		"links":            fill("["),
		"link ends":        fill("]("),
		"pictures":         fill("!["),
		"emphasis":         fill("*a_"),
		"emphasis heading": "# " + fill("*a_"),
		"setext heading":   fill("*a_\n") + "---\n",
		"code spans":       codeSpans(),
		"autolinks":        fill("<a"),
		"entities":         fill("&#1"),
		"references":       "[a]: /" + strings.Repeat("x", 60<<10) + "\n\n" + fill("[a]\n\n"),
		"definitions":      fill("[a]: b\n"),
		"brackets":         fill("["),
		"nested JSON":      strings.Repeat("[", 9990) + strings.Repeat("]", 9990),
		"nested objects":   strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
		"half JSON":        strings.Repeat("[[", 9990),
		"blocks of code":   fill("```python\n" + strings.Repeat("[*'", 100) + "\n```\n"),
		"escapes":          fill("\x1b["),
		"carriage returns": fill("a\r"),
	}
}

func indentedLists() string {
	var b strings.Builder
	for i := 0; b.Len() < page.MaxMarkdown-1000; i++ {
		b.WriteString(strings.Repeat("  ", i) + "- a\n")
	}
	return b.String()
}

func codeSpans() string {
	var b strings.Builder
	for i := 1; b.Len() < page.MaxMarkdown-1000; i++ {
		b.WriteString(strings.Repeat("`", i) + " ")
	}
	return b.String()
}
