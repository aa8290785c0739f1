package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is drawn so that it reads well as text and is a table in Markdown.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// String aligns the first column to the left and all others to the right.
func (t *table) String() string {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	line := func(cells []string) {
		for i, cell := range cells {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprintf(&b, "| %s%s ", cell, padding)
			} else {
				fmt.Fprintf(&b, "| %s%s ", padding, cell)
			}
		}
		b.WriteString("|\n")
	}
	line(t.head)
	for i, width := range widths {
		if i == 0 {
			fmt.Fprintf(&b, "|-%s-", strings.Repeat("-", width))
		} else {
			fmt.Fprintf(&b, "|-%s:", strings.Repeat("-", width))
		}
	}
	b.WriteString("|\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// blocks are the parts of the document that are made of results, by name.
func (r *Results) blocks() map[string]string {
	if r.Grown != nil {
		return map[string]string{"growth": r.growthText()}
	}
	if r.Ablation != nil {
		return map[string]string{"ablation": r.ablationText()}
	}
	return map[string]string{
		"machine": r.machineText(), "goals": r.goalsTable(), "latency": r.latencyTable(namePython, "print", "plain", "plot"),
		"files": r.filesTable(), "languages": r.latencyTable(nameByHand, "js", "ts", "bash", "c"),
		"load": r.loadTable(), "constant": r.constantText(), "memory": r.memoryTable(), "start": r.startText(),
		"stages": r.stagesTable(), "stream": r.streamText(), "live": r.liveText(),
		"images": r.imagesText(), "computer": r.Computer.text(),
		"gvisor": r.ownKernelText(), "traces": r.Traces.text(),
	}
}

// blockOrder is the order in which they are printed.
var blockOrder = []string{"machine", "goals", "latency", "files", "languages", "load", "constant", "memory", "start",
	"stream", "images", "computer", "gvisor", "traces", "live", "stages", "growth", "ablation"}

func (r *Results) text() string {
	blocks := r.blocks()
	var b strings.Builder
	for _, name := range blockOrder {
		if block := blocks[name]; block != "" {
			fmt.Fprintf(&b, "\n%s", block)
		}
	}
	return b.String()
}

func (r *Results) machineText() string {
	m := r.Machine
	var b strings.Builder
	kind := "A full run"
	if r.Quick {
		kind = "A quick run, good for a first impression only"
	}
	fmt.Fprintf(&b, "%s of %.0f seconds on %s: %s, %d cores of %s (%s), %.0f GB of memory, Linux %s, %s.\n",
		kind, r.Seconds, r.At.Format("2 January 2006"), r.Version, m.Cores, m.CPU, m.Arch, float64(m.MemoryBytes)/1e9,
		m.Kernel, m.Python)
	if m.Isolation != "" {
		fmt.Fprintf(&b, "Isolation of the sandbox: %s.\n", m.Isolation)
	}
	fmt.Fprintf(&b, "Load average before it %.2f, after it %.2f.\n", m.LoadBefore, m.LoadAfter)
	for _, name := range slices.Sorted(maps.Keys(r.Missing)) {
		fmt.Fprintf(&b, "Not measured: %s, because %s.\n", name, strings.TrimSpace(r.Missing[name]))
	}
	return b.String()
}

func (r *Results) goalsTable() string {
	t := table{head: []string{"goal", "measured", "must", "aim", "verdict"}}
	for _, g := range r.Goals {
		measured := "-"
		if g.Measured != nil {
			measured = g.format(*g.Measured)
		}
		t.add(g.Name, measured, g.format(g.Must), g.format(g.Aim), g.Verdict)
	}
	return t.String()
}

// titles are what workloads are called in tables.
var titles = map[string]string{
	"print": "print(1)", "plain": "plain plot", "plot": "examples/plot.py", "copy": "10 MB in, 10 MB out",
	"transfer": "the same with upload and download",
	"kilobyte": "print of 1 KB", "js": "console.log(1)", "ts": "TypeScript", "bash": "echo", "c": "C, compiled and run",
	"new": "new, and a first result", "cell": "next cell", "figure": "figure of a table",
}

func (r *Results) latencyTable(baseline string, workloads ...string) string {
	t := table{head: []string{"one at a time, ms", "p50", "p95", "p99", "runs", "against " + baseline}}
	for _, workload := range workloads {
		for _, l := range r.Latency {
			if l.Workload != workload {
				continue
			}
			against := "-"
			if ratio := r.ratio(workload, l.Contestant, baseline); ratio != nil {
				against = fmt.Sprintf("%.3gx", *ratio)
			}
			t.add(titles[workload]+": "+l.Contestant, ms(l.P50), ms(l.P95), ms(l.P99), fmt.Sprint(l.N), against)
		}
	}
	return t.orNothing()
}

// orNothing says so where there is no row.
func (t *table) orNothing() string {
	if len(t.rows) == 0 {
		return "Not measured in this run.\n"
	}
	return t.String()
}

// ms writes milliseconds with three digits that count.
func ms(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *Results) filesTable() string {
	text := r.latencyTable(namePython, "copy", "transfer")
	if in := r.Inputs; in != nil {
		text += fmt.Sprintf(
			"\nA warm program with an input of 100 MiB answers in %s ms, with one of 100 bytes in %s ms: staging takes %s ms.\n",
			ms(in.Large.P50), ms(in.Small.P50), ms(in.Staging))
	}
	if out := r.Outputs; out != nil {
		text += fmt.Sprintf("\nAn output of 100 MiB is stored and recorded in %s ms and sent over HTTP in %s ms; "+
			"`cp` and `sha256sum` of such a file take %s ms.\n", ms(out.Store.P50), ms(out.Fetch.P50), ms(out.ByHand.P50))
	}
	return text
}

func (r *Results) loadTable() string {
	t := table{head: []string{"as fast as they can", "clients", "a second", "p50 ms", "p95 ms", "p99 ms", "failed"}}
	for _, l := range r.Load {
		t.add(titles[l.Workload]+": "+l.Contestant, fmt.Sprint(l.Clients), ms(l.PerSecond), ms(l.P50), ms(l.P95), ms(l.P99),
			fmt.Sprint(l.Failed))
	}
	text := t.orNothing()
	for _, workload := range []string{"print", "plain", "plot"} {
		ours, found := r.saturated(workload, nameWarm)
		for _, name := range []string{nameJudge, nameBwrap} {
			theirs, also := r.saturated(workload, name)
			if found && also {
				text += fmt.Sprintf("\nBest of all levels, %s: airlock %s a second, %s %s: %.1fx.\n", titles[workload], ms(ours),
					name, ms(theirs), ours/theirs)
			}
		}
	}
	return text
}

func (r *Results) constantText() string {
	c := r.Constant
	if c == nil {
		return "Not measured in this run.\n"
	}
	return fmt.Sprintf("print(1) at a constant %.0f a second, half of the most: %.0f a second answered, %d failed; p50 "+
		"%s ms, p95 %s ms, p99 %s ms of %d. "+
		"Meanwhile the host gave %.1f %% of the processors' time to others.\n",
		c.Rate, c.Reached, c.Failed, ms(c.P50), ms(c.P95), ms(c.P99), c.N, 100*c.Stolen)
}

func (r *Results) memoryTable() string {
	t := table{head: []string{"memory, MB", "of its own", "share of all", "of"}}
	for _, m := range r.Memory {
		t.add(m.Part, ms(m.Private), ms(m.PSS), fmt.Sprint(m.Count))
	}
	return t.orNothing()
}

func (r *Results) startText() string {
	s := r.Start
	if s == nil {
		return "Not measured in this run.\n"
	}
	return fmt.Sprintf("From the start of the service to the first answer to print(1): %s ms. All tiers are warm after "+
		"%s ms (medians of %d).\n",
		ms(s.First.P50), ms(s.Ready.P50), s.First.N)
}

func (r *Results) streamText() string {
	s := r.Stream
	if s == nil {
		return "Not measured in this run.\n"
	}
	return fmt.Sprintf("The first line of a program reaches the client %s ms after it was printed (p99 %s ms), later "+
		"lines %s ms (p99 %s ms).\n",
		ms(s.First.P50), ms(s.First.P99), ms(s.Later.P50), ms(s.Later.P99))
}

// stagesTable is the service's account of one print(1), and what is outside
// of it.
func (r *Results) stagesTable() string {
	s := r.Stages
	if s == nil {
		return "Not measured in this run.\n"
	}
	t := table{head: []string{"one print(1), warm", "p50 ms", "of the whole"}}
	add := func(name string, v float64) {
		t.add(name, fmt.Sprintf("%.3f", v), fmt.Sprintf("%.0f %%", 100*v/s.Whole.P50))
	}
	outside := s.Whole.P50
	for _, part := range s.Parts {
		add(part.Name, part.P50)
		outside -= part.P50
	}
	if len(s.Parts) > 0 {
		add("outside of that: HTTP, the kernel, the client", outside)
	}
	add("the whole, as the client sees it", s.Whole.P50)
	add("for comparison: a request that runs nothing", s.HTTP.P50)
	text := t.String()
	if len(s.Parts) == 0 {
		text += "\nThis service says nothing of its stages.\n"
	}
	return text
}
