package main

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// machine says what was measured on.
var machine = fmt.Sprintf("%d processors, Linux %s", runtime.NumCPU(), lab.ThisMachine().Kernel)

// series are the curves of the picture, by the chart that they are in, from the top.
var series = []struct {
	chart, name string
	of          func(sample) float64
}{
	{"Private memory, MB", "service", func(s sample) float64 { return float64(s.serviceMemory) / (1 << 20) }},
	{"Private memory, MB", "live heap", func(s sample) float64 { return float64(s.live) / (1 << 20) }},
	{"Private memory, MB", "executor", func(s sample) float64 { return float64(s.executorMemory) / (1 << 20) }},
	{"Open files", "service", func(s sample) float64 { return float64(s.serviceFiles) }},
	{"Open files", "executor", func(s sample) float64 { return float64(s.executorFiles) }},
	{"Goroutines and processes", "goroutines", func(s sample) float64 { return float64(s.goroutines) }},
	{"Goroutines and processes", "processes", func(s sample) float64 { return float64(s.processes) }},
	{"Runs that have ended", "runs", func(s sample) float64 { return float64(s.finished) }},
}

// draw makes an SVG of the samples.
func draw(samples []sample) string {
	var charts []lab.Chart
	for _, one := range series {
		c := lab.Curve{Name: one.name}
		for _, s := range samples {
			c.Points = append(c.Points, [2]float64{s.at.Seconds(), one.of(s)})
		}
		if n := len(charts); n == 0 || !strings.HasPrefix(charts[n-1].Title, one.chart) {
			charts = append(charts, lab.Chart{Title: one.chart + ", against seconds"})
		}
		charts[len(charts)-1].Curves = append(charts[len(charts)-1].Curves, c)
	}
	return lab.DrawCurves("A soak", charts...)
}

// report says in words and rows what the picture shows.
func (l *load) report(samples []sample, before, warm, after quietness, verdict error) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := time.Duration(0)
	if len(samples) > 0 {
		took = samples[len(samples)-1].at
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs in %v; honest answers p50 %v, p99 %v; time limits overrun p99 %v of %d\n", l.ended,
		took.Round(time.Second), l.honest.At(50).Round(10*time.Microsecond), l.honest.At(99).Round(time.Millisecond),
		l.overdue.At(99).Round(time.Millisecond), len(l.overdue))
	fmt.Fprintf(&b, "slope of memory, without the first third: service %+.1f %%/h, its live heap %+.1f %%/h, executor "+
		"%+.1f %%/h\n\n",
		slope(samples, func(s sample) int64 { return s.serviceMemory }),
		slope(samples, func(s sample) int64 { return s.live }),
		slope(samples, func(s sample) int64 { return s.executorMemory }))
	for _, one := range series {
		least, most := 0.0, 0.0
		for i, s := range samples {
			if i == 0 {
				least = one.of(s)
			}
			least, most = min(least, one.of(s)), max(most, one.of(s))
		}
		fmt.Fprintf(&b, "%-26s %-11s %.0f to %.0f\n", one.chart, one.name, least, most)
	}
	fmt.Fprintf(&b, "\n%-28s %8s %8s %8s\n", "at rest", "before", "warm", "after")
	for _, row := range []struct {
		name                string
		before, warm, after int
	}{
		{"sandboxes that wait", before.waiting, warm.waiting, after.waiting},
		{"sandboxes that were used", len(before.used), len(warm.used), len(after.used)},
		{"processes", before.processes, warm.processes, after.processes},
		{"control groups", before.groups, warm.groups, after.groups},
		{"recycled groups", before.kept, warm.kept, after.kept},
		{"namespaces", before.namespaces, warm.namespaces, after.namespaces},
		{"mounts of the executor", before.mounts, warm.mounts, after.mounts},
		{"open files of the service", before.serviceFiles, warm.serviceFiles, after.serviceFiles},
		{"open files of the executor", before.executorFiles, warm.executorFiles, after.executorFiles},
		{"service's live heap, KiB", int(before.live >> 10), int(warm.live >> 10), int(after.live >> 10)},
		{"service beyond its heap, KiB", int(before.beyond >> 10), int(warm.beyond >> 10), int(after.beyond >> 10)},
		{"executor's memory, KiB", int(before.executorMemory >> 10), int(warm.executorMemory >> 10),
			int(after.executorMemory >> 10)},
		{"goroutines", before.goroutines, warm.goroutines, after.goroutines},
		{"parts of uploads", len(before.uploads), len(warm.uploads), len(after.uploads)},
	} {
		fmt.Fprintf(&b, "%-28s %8d %8d %8d\n", row.name, row.before, row.warm, row.after)
	}
	fmt.Fprintln(&b)
	for _, name := range slices.SortedFunc(maps.Keys(l.done),
		func(a, b string) int { return cmp.Compare(l.done[b], l.done[a]) }) {
		fmt.Fprintf(&b, "%-28s %8d\n", name, l.done[name])
	}
	if verdict == nil {
		fmt.Fprint(&b, "\nVerdict: nothing grew, nothing is left, every honest answer was right.\n")
	} else {
		fmt.Fprintf(&b, "\nVerdict: FAILED\n%v\n", verdict)
	}
	return b.String()
}
