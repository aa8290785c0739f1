package lab

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Row is one measurement.
type Row struct {
	Section, Of, By string // what was done, and by whom
	Unit            string
	N               int
	P50, P95, P99   float64 // of one value that value
}

// Goal is one promise, with its measurement. An aim above the must means that more is better.
type Goal struct {
	Section, Name, Unit string
	Must, Aim, Measured float64
}

// Verdict says whether the goal is met.
func (g *Goal) Verdict() string {
	within := func(limit float64) bool {
		return g.Measured <= limit && g.Aim <= g.Must || g.Measured >= limit && g.Aim > g.Must
	}
	switch {
	case within(g.Aim):
		return "aim met"
	case within(g.Must):
		return "must met"
	}
	return "missed"
}

func (g *Goal) format(v float64) string {
	if g.Unit == "x" {
		return fmt.Sprintf("%.3gx", v)
	}
	return fmt.Sprintf("%.4g %s", v, g.Unit)
}

// Report is all that a run found. Tables and pictures are made of it.
type Report struct {
	Section string // that is being measured
	Version string
	Quick   bool
	At      time.Time
	Seconds float64 // that the run took
	Machine Machine
	Rows    []Row
	Goals   []Goal

	missing []string
	samples strings.Builder // in the format of Go's benchmarks
}

// Row records a measurement.
func (r *Report) Row(of, by string, s Sample) {
	r.Rows = append(r.Rows, Row{Section: r.Section, Of: of, By: by, Unit: "ms", N: len(s), P50: s.P50(),
		P95: Millis(s.At(95)), P99: s.P99()})
	r.record(of, by, "ms", s.P50())
	for _, took := range s {
		r.sample(of, by, "ns/op", float64(took))
	}
}

// Value records one number.
func (r *Report) Value(of, by, unit string, v float64) {
	r.Rows = append(r.Rows, Row{Section: r.Section, Of: of, By: by, Unit: unit, N: 1, P50: v})
	r.record(of, by, unit, v)
	r.sample(of, by, strings.ReplaceAll(unit, " ", "_"), v)
}

func (r *Report) record(of, by, unit string, v float64) {
	fmt.Fprintf(os.Stderr, "   %-44s %-24s %9s %s\n", of, by, Digits(v), unit)
}

func (r *Report) sample(of, by, unit string, v float64) {
	name := strings.NewReplacer(" ", "_", "/", "_", ",", "").Replace("Benchmark/" + r.Section + "/" + of + "/" + by)
	fmt.Fprintf(&r.samples, "%s 1 %.6g %s\n", name, v, unit)
}

// Goal records a promise.
func (r *Report) Goal(name, unit string, must, aim, measured float64) {
	r.Goals = append(r.Goals, Goal{Section: r.Section, Name: name, Unit: unit, Must: must, Aim: aim, Measured: measured})
}

// Missing says that something is not measured, and why.
func (r *Report) Missing(what string, why error) {
	text := fmt.Sprintf("Not measured: %s, because %s.\n", what, strings.TrimSpace(why.Error()))
	if !slices.Contains(r.missing, text) {
		r.missing = append(r.missing, text)
		fmt.Fprint(os.Stderr, "   ", text)
	}
}

// Save leaves a file for benchstat in a folder.
func (r *Report) Save(dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, r.At.Format("2006-01-02T150405Z")+".txt"), []byte(r.samples.String()), 0o644))
}

// GoalsTable has the goals of a section, or of all.
func (r *Report) GoalsTable(section string) string {
	t := NewTable("goal", "measured", "must", "aim", "verdict")
	for _, g := range r.Goals {
		if section == "" || g.Section == section {
			t.Add(g.Name, g.format(g.Measured), g.format(g.Must), g.format(g.Aim), g.Verdict())
		}
	}
	return t.String()
}

// RowsTable has the measurements of a section, or of all.
func (r *Report) RowsTable(section string) string {
	t := NewTable("measured", "by", "p50", "p95", "p99", "unit", "times")
	for _, row := range r.Rows {
		if section == "" || row.Section == section {
			high, highest := "", ""
			if row.P99 > 0 {
				high, highest = Digits(row.P95), Digits(row.P99)
			}
			t.Add(row.Of, row.By, Digits(row.P50), high, highest, row.Unit, fmt.Sprint(row.N))
		}
	}
	return t.String()
}

// Head says what was measured on what.
func (r *Report) Head() string {
	kind := "A full run"
	if r.Quick {
		kind = "A quick run, good for a first impression only"
	}
	return fmt.Sprintf("%s of %.0f seconds on %s: %s.\n%s.\n%s", kind, r.Seconds, Day(r.At), r.Version, r.Machine,
		strings.Join(r.missing, ""))
}

// Machine is where a run was made. Times of two machines cannot be compared; their ratios can, with care.
type Machine struct {
	CPU, Kernel   string
	Cores         int
	MemoryBytes   uint64
	Before, After float64 // load averages
}

// ThisMachine looks at the machine.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown processors", Cores: runtime.NumCPU(), Before: LoadAverage()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryBytes = uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // narrower on 32 bits
	}
	text, _ := os.ReadFile("/proc/cpuinfo")
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
			m.CPU = strings.TrimSpace(value)
		}
	}
	return m
}

// String says what counts of it.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %.0f GB of memory, Linux %s, load average %.2f before and %.2f after", m.Cores,
		m.CPU, float64(m.MemoryBytes)/1e9, m.Kernel, m.Before, m.After)
}

// LoadAverage returns how many processes wanted a core in the last minute, or 0.
func LoadAverage() (load float64) {
	text, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(text), &load)
	return load
}

// Day writes the day of a measurement.
func Day(at time.Time) string { return at.UTC().Format("2 January 2006") }

// Table is a table that reads well as text and is one in Markdown.
type Table struct{ rows [][]string }

// NewTable returns a table with a head.
func NewTable(head ...string) *Table { return &Table{[][]string{head}} }

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// String aligns the first column to the left and all others to the right. A table without rows says so.
func (t *Table) String() string {
	if len(t.rows) < 2 {
		return "Not measured in this run.\n"
	}
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, row := range t.rows {
		for i, cell := range row {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				padding, cell = cell, padding
			}
			fmt.Fprintf(&b, "| %s%s ", padding, cell)
		}
		b.WriteString("|\n")
		if n == 0 {
			for i, width := range widths {
				fmt.Fprintf(&b, "|%s%s", strings.Repeat("-", width+1), map[bool]string{true: "-", false: ":"}[i == 0])
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// Fill replaces the text between two marks of a document, <!-- mark --> and <!-- /mark -->. Without them it is an
// error: the document would keep figures of another run, or be silent about some.
func Fill(name, mark, text string) error {
	before, _, after, err := cut(name, mark)
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(before+strings.TrimRight(text, "\n")+"\n"+after), 0o644)
}

// Filled returns the text between two marks.
func Filled(name, mark string) (string, error) {
	_, text, _, err := cut(name, mark)
	return text, err
}

func cut(name, mark string) (before, text, after string, err error) {
	document, err := os.ReadFile(name)
	if err != nil {
		return "", "", "", err
	}
	begin, end := "<!-- "+mark+" -->\n", "<!-- /"+mark+" -->"
	before, rest, found := strings.Cut(string(document), begin)
	text, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", "", "", fmt.Errorf("%s has no %s with its end", name, strings.TrimSpace(begin))
	}
	return before + begin, text, end + after, nil
}
