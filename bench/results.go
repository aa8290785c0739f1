package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// results is all that a run found: what is kept as JSON, and all that tables and pictures are made of.
type results struct {
	lab.Report
	Curves   []lab.Chart `json:"curves,omitempty"`
	Ablation []ablated   `json:"ablation,omitempty"`

	samples strings.Builder // in the format of Go's benchmarks
}

// row records a measurement.
func (b *bench) row(of, by string, s lab.Sample) {
	b.results.Rows = append(b.results.Rows, lab.Row{Section: b.section, Of: of, By: by, Unit: "ms", N: len(s),
		P50: s.P50(), P95: lab.Millis(s.At(95)), P99: s.P99()})
	fmt.Fprintf(os.Stderr, "   %-44s %-24s %9s ms\n", of, by, lab.Digits(s.P50()))
	name := strings.NewReplacer(" ", "_", "/", "_", ",", "").Replace("Benchmark/" + b.section + "/" + of + "/" + by)
	for _, took := range s {
		fmt.Fprintf(&b.results.samples, "%s 1 %d ns/op\n", name, took.Nanoseconds())
	}
}

// value records one number.
func (b *bench) value(of, by, unit string, v float64) {
	b.results.Rows = append(b.results.Rows, lab.Row{Section: b.section, Of: of, By: by, Unit: unit, N: 1, P50: v})
	fmt.Fprintf(os.Stderr, "   %-44s %-24s %9s %s\n", of, by, lab.Digits(v), unit)
}

// goal records a promise. An aim above the must means that more is better.
func (b *bench) goal(name, unit string, must, aim, measured float64) {
	b.results.Goals = append(b.results.Goals, lab.Goal{Section: b.section, Name: name, Unit: unit, Must: must, Aim: aim,
		Measured: measured})
}

// missing says that something is not measured.
func (b *bench) missing(what string, why error) {
	b.results.Missing[what] = strings.TrimSpace(why.Error())
	fmt.Fprintf(os.Stderr, "   not measured: %s, because %v\n", what, why)
}

func load(name string) (*results, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &results{}
	return r, json.Unmarshal(text, r)
}

func (r *results) save(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	named := filepath.Join(dir, r.At.Format("2006-01-02T150405Z"))
	return errors.Join(os.WriteFile(named+".json", text, 0o644),
		os.WriteFile(filepath.Join(dir, "latest.json"), text, 0o644),
		os.WriteFile(named+".txt", []byte(r.samples.String()), 0o644))
}

// text is what a run prints.
func (r *results) text() string {
	if len(r.Ablation) > 0 {
		return r.ablationTable()
	}
	text := r.head() + "\n" + r.RowsTable("")
	if len(r.Goals) > 0 {
		text += "\n" + r.GoalsTable("")
	}
	return text
}

func (r *results) head() string {
	text := r.Head()
	for _, what := range slices.Sorted(maps.Keys(r.Missing)) {
		text += fmt.Sprintf("Not measured: %s, because %s.\n", what, r.Missing[what])
	}
	return text
}

// document writes the tables and the pictures. Of a run of some sections it writes their tables alone.
func (r *results) document(name string, list []section, some bool) error {
	picture := func(suffix, text string) error {
		return os.WriteFile(strings.TrimSuffix(name, ".md")+suffix+".svg", []byte(text), 0o644)
	}
	switch {
	case len(r.Ablation) > 0:
		return lab.Fill(name, "bench:ablation", r.ablationTable())
	case len(r.Curves) > 0:
		return errors.Join(lab.Fill(name, "bench:growth", r.text()),
			picture("-growth", lab.DrawCurves("What grows", r.Curves...)))
	case some:
		var err error
		for _, s := range list {
			if !slices.ContainsFunc(sections, func(known section) bool { return known.name == s.name }) {
				return fmt.Errorf("%s is in no table of the document", s.name)
			}
			err = errors.Join(err, lab.Fill(name, "bench:"+s.name, r.sectionText(s.name, some)))
		}
		return err
	}
	err := errors.Join(lab.Fill(name, "bench:machine", r.head()), lab.Fill(name, "bench:goals", r.felt()),
		picture("", r.chart()))
	for _, s := range list {
		err = errors.Join(err, lab.Fill(name, "bench:"+s.name, r.sectionText(s.name, false)))
	}
	return err
}

// sectionText has the goals and the measurements of one section.
func (r *results) sectionText(name string, alone bool) string {
	text := ""
	if slices.ContainsFunc(r.Goals, func(g lab.Goal) bool { return g.Section == name }) {
		text = r.GoalsTable(name) + "\n"
	}
	text += r.RowsTable(name)
	if alone {
		text += fmt.Sprintf("\nOf a run of this section alone, `make bench ARGS='-only %s'`, on %s: %v.\n", name,
			lab.Day(r.At), r.Machine)
	}
	return text
}

// felt are the sections whose goals a person feels: they are at the top of the document.
func (r *results) felt() string {
	var all lab.Report
	for _, g := range r.Goals {
		if slices.Contains([]string{"start", "programs", "live", "load"}, g.Section) {
			all.Goals = append(all.Goals, g)
		}
	}
	return all.GoalsTable("")
}

// chart draws the medians of programs.
func (r *results) chart() string {
	var panels []lab.Panel
	for _, of := range []string{printing.name, plotting} {
		p := lab.Panel{Title: of + ", one at a time: median in ms, logarithmic scale"}
		for _, row := range r.Rows {
			if row.Section == "programs" && row.Of == of {
				class := ""
				switch row.By {
				case nameWarm, nameCold:
					class = "ours"
				case nameFork, nameResident:
					class = "floor"
				}
				p.Bars = append(p.Bars, lab.Bar{Name: row.By, Class: class, Value: row.P50})
			}
		}
		panels = append(panels, p)
	}
	return lab.DrawBars("How long one program takes, by who runs it", fmt.Sprintf("%v; %s", r.Machine, lab.Day(r.At)),
		panels...)
}

func newResults(version string, quick bool) *results {
	return &results{Report: lab.Report{At: time.Now().UTC().Truncate(time.Second), Version: version, Quick: quick,
		Machine: lab.ThisMachine(), Missing: map[string]string{}}}
}
