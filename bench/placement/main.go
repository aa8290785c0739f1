// Command placement simulates a cluster of a hundred workers with the code that places
// programs in it: the queue of an api and its choice of workers. Time is simulated, as
// are workers, network and database; what the code itself takes is measured and counts.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	doc := flag.String("doc", "", "write the table between the marks of this file, docs/cluster.md")
	seed := flag.Uint64("seed", 1, "of chance")
	flag.Parse()
	var out strings.Builder
	if err := simulate(&out, os.Stderr, *seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprint(os.Stdout, out.String())
	if *doc != "" {
		if err := writeBetween(*doc, "<!-- placement -->\n", "<!-- /placement -->", out.String()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// The cluster.
const (
	workerCount = 100
	slots       = 16 // of a worker: 8 cores
	apiCount    = 4
	ownerCount  = 1000
	offered     = 10_000 // runs a second
	oneWay      = 150 * time.Microsecond
	queueMost   = 256 // as by default
	queueOwner  = 64
	warm        = 3 * time.Second
	measured    = 10 * time.Second
)

// program is a kind of program: how long it holds its slot. The first three were
// measured, see docs/performance.md (warm, p50 and p99).
type program struct {
	share     float64
	tier      string
	p50, late time.Duration
}

var programs = []program{
	{0.50, "", 1600 * time.Microsecond, 2550 * time.Microsecond},      // print(1)
	{0.20, "current", 53 * time.Millisecond, 71 * time.Millisecond},   // plain plot
	{0.20, "current", 131 * time.Millisecond, 200 * time.Millisecond}, // examples/plot.py
	{0.10, "onyx", time.Second, 3 * time.Second},
}

func simulate(out, progress io.Writer, seed uint64) error {
	fmt.Fprintf(out, "%d workers of %d slots, %d apis, %d owners; %v to a worker and back. Half of the programs are\n"+
		"print(1), a fifth plain plots, a fifth examples/plot.py, a tenth takes a second.\n\n",
		workerCount, slots, apiCount, ownerCount, 2*oneWay)
	fmt.Fprintln(out, "| offered | utilisation | placed in, p50 | p99 | most | refused by workers | "+
		"waited in the queue, p99 | 503 |\n|---|---|---|---|---|---|---|---|")
	for _, load := range []float64{0.5, 1, 1.1} {
		w := newWorld(seed, func(time.Duration) float64 { return load * offered }, evenly)
		w.run(warm, measured)
		fmt.Fprintf(out, "| %.0f/s | %.1f %% | %v | %v | %v | %.1f in 1,000 | %v | %d |\n", load*offered, 100*w.utilisation(),
			percentile(w.placed, 50), percentile(w.placed, 99), percentile(w.placed, 100),
			1000*float64(w.refused)/float64(max(len(w.placed), 1)), percentile(w.waited, 99), w.rejected)
		fmt.Fprintf(progress, "%.0f/s done\n", load*offered)
	}
	// The load grows until a program is refused.
	w := newWorld(seed, func(at time.Duration) float64 { return 0.9*offered + 100*at.Seconds() }, evenly)
	w.untilRejected = true
	w.run(0, 2*time.Minute)
	fmt.Fprintf(out, "\nThe load grows by 100 runs a second each second: the first 503 comes at %.0f/s, with\n"+
		"%.1f %% of all slots taken in the second before it (must: over 90 %%).\n", 0.9*offered+100*w.now.Seconds(),
		100*w.lastSecond)

	w = newWorld(seed, func(time.Duration) float64 { return 1.5 * offered }, greedy)
	w.run(warm, measured)
	few, many := w.shares()
	fmt.Fprintf(out, "\nTen of %d owners ask for nine tenths of 1.5 times as much. Of what the others ask for\n"+
		"%.2f %% is served, and they wait %v at p99; of what the ten ask for, %.1f %%. Fairness (Jain's index)\n"+
		"between the others is %.4f, between the ten %.4f.\n", ownerCount, 100*many.served,
		percentile(many.waited, 99), 100*few.served, many.jain, few.jain)
	return nil
}

// evenly has all owners ask alike, greedy ten of them for nine tenths of all.
func evenly(r *rand.Rand) int { return r.IntN(ownerCount) }
func greedy(r *rand.Rand) int {
	if r.Float64() < 0.9 {
		return r.IntN(10)
	}
	return 10 + r.IntN(ownerCount-10)
}

func percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)].Round(10 * time.Microsecond)
}

func writeBetween(name, from, to, text string) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(raw), from)
	_, after, ended := strings.Cut(rest, to)
	if !found || !ended {
		return fmt.Errorf("%s has no %s", name, strings.TrimSpace(from))
	}
	return os.WriteFile(name, []byte(before+from+"\n"+text+"\n"+to+after), 0o644)
}
