package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

func percentile(times []time.Duration, at float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(at*float64(len(sorted))), len(sorted)-1)]
}

// line is one curve of the picture.
type line struct {
	name, colour, unit string
	of                 func(sample) float64
}

// charts are the pictures, from the top: what is in one has one scale.
var charts = []struct {
	title string
	lines []line
}{
	{"Private memory, MB", []line{
		{"service", "#1f6feb", "MB", func(s sample) float64 { return float64(s.serviceMemory) / (1 << 20) }},
		{"live heap", "#54aeff", "MB", func(s sample) float64 { return float64(s.live) / (1 << 20) }},
		{"executor", "#d29922", "MB", func(s sample) float64 { return float64(s.executorMemory) / (1 << 20) }},
	}},
	{"Open files", []line{
		{"service", "#1f6feb", "", func(s sample) float64 { return float64(s.serviceFiles) }},
		{"executor", "#d29922", "", func(s sample) float64 { return float64(s.executorFiles) }},
	}},
	{"Goroutines and processes", []line{
		{"goroutines", "#8957e5", "", func(s sample) float64 { return float64(s.goroutines) }},
		{"processes", "#238636", "", func(s sample) float64 { return float64(s.processes) }},
	}},
	{"Runs that have ended", []line{
		{"runs", "#57606a", "", func(s sample) float64 { return float64(s.finished) }},
	}},
}

const (
	width, height = 900, 150 // of one chart
	left, top     = 60, 28
)

// draw makes an SVG of the samples.
func draw(samples []sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+
		"\n", width+left+120, len(charts)*(height+top+16)+20)
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="white"/>`)
	if len(samples) == 0 {
		return b.String() + "</svg>\n"
	}
	whole := samples[len(samples)-1].at
	for i, chart := range charts {
		y0 := i*(height+top+16) + top
		most := 1.0
		for _, l := range chart.lines {
			for _, s := range samples {
				most = max(most, l.of(s))
			}
		}
		most *= 1.1
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", left, y0-8, chart.title)
		for tick := range 5 {
			y := float64(y0) + float64(height)*float64(tick)/4
			fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#d8dee4"/><text x="%d" y="%.1f" text-anchor="end" fill="#57606a">%.0f</text>`+"\n",
				left, left+width, y, y, left-6, y+4, most*float64(4-tick)/4)
		}
		for n, l := range chart.lines {
			fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, l.colour)
			for _, s := range samples {
				fmt.Fprintf(&b, "%.1f,%.1f ", left+float64(width)*float64(s.at)/float64(whole),
					float64(y0)+float64(height)*(1-l.of(s)/most))
			}
			fmt.Fprintf(&b, `"/><text x="%d" y="%d" fill="%s">%s</text>`+"\n", left+width+8, y0+14+16*n, l.colour, l.name)
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#57606a">%v</text>`+"\n</svg>\n", left+width,
		len(charts)*(height+top+16)+12, whole.Round(time.Second))
	return b.String()
}

// report says in words and rows what the picture shows.
func (l *load) report(samples []sample, before, warm, after quietness, verdict error) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs in %v; honest answers p50 %v, p99 %v; time limits overrun p99 %v of %d\n", l.ended,
		lastAt(samples).Round(time.Second),
		percentile(l.honest, 0.5).Round(10*time.Microsecond), percentile(l.honest, 0.99).Round(time.Millisecond),
		late(l.overdue).Round(time.Millisecond), len(l.overdue))
	fmt.Fprintf(&b, "slope of memory, without the first third: service %+.1f %%/h, its live heap %+.1f %%/h, executor "+
		"%+.1f %%/h\n\n",
		slope(samples, func(s sample) int64 { return s.serviceMemory }),
		slope(samples, func(s sample) int64 { return s.live }),
		slope(samples, func(s sample) int64 { return s.executorMemory }))
	for _, chart := range charts {
		for _, c := range chart.lines {
			fmt.Fprintf(&b, "%-26s %-11s %s\n", chart.title, c.name, sketch(samples, c.of))
		}
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

func lastAt(samples []sample) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	return samples[len(samples)-1].at
}

// sketch draws a curve in one line of text, with its least and its most.
func sketch(samples []sample, of func(sample) float64) string {
	const columns = 60
	bars := []rune("▁▂▃▄▅▆▇█")
	if len(samples) == 0 {
		return ""
	}
	least, most := of(samples[0]), of(samples[0])
	for _, s := range samples {
		least, most = min(least, of(s)), max(most, of(s))
	}
	var b strings.Builder
	for i := range min(columns, len(samples)) {
		s := samples[i*len(samples)/min(columns, len(samples))]
		at := 0
		if most > least {
			at = int((of(s) - least) / (most - least) * float64(len(bars)-1))
		}
		b.WriteRune(bars[at])
	}
	return fmt.Sprintf("%s %.0f to %.0f", b.String(), least, most)
}
