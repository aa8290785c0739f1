package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/bench/lab"
)

// text is what a run prints.
func (b *bench) text() string {
	if len(b.tricks) > 0 {
		return b.ablationTable()
	}
	text := b.Head() + "\n" + b.RowsTable("")
	if len(b.Goals) > 0 {
		text += "\n" + b.GoalsTable("")
	}
	return text
}

// document writes the tables and the pictures. Of a run of some sections it writes their tables alone.
func (b *bench) document(list []section) error {
	picture := func(suffix, title string, charts []lab.Chart) error {
		return os.WriteFile(strings.TrimSuffix(b.doc, ".md")+suffix+".svg", []byte(lab.DrawCurves(title, charts...)), 0o644)
	}
	var err error
	fill := func(mark, text string) { err = errors.Join(err, lab.Fill(b.doc, "bench:"+mark, text)) }
	switch {
	case b.ablation:
		fill("ablation", b.ablationTable())
		return err
	case b.growth:
		fill("growth", b.text())
		return errors.Join(err, picture("-growth", "What grows", b.curves))
	case b.only == "":
		fill("machine", b.Head())
		fill("goals", b.felt())
		err = errors.Join(err, picture("", "How long one program takes, by who runs it", b.charts()))
	}
	for _, s := range list {
		fill(s.name, b.sectionText(s.name))
	}
	return err
}

// sectionText has the goals and the measurements of one section.
func (b *bench) sectionText(name string) string {
	text := ""
	if slices.ContainsFunc(b.Goals, func(g lab.Goal) bool { return g.Section == name }) {
		text = b.GoalsTable(name) + "\n"
	}
	text += b.RowsTable(name)
	if b.only != "" {
		text += fmt.Sprintf("\nOf a run of this section alone, `make bench ARGS='-only %s'`, on %s: %v.\n", name,
			lab.Day(b.At), b.Machine)
	}
	return text
}

// felt are the sections whose goals a person feels: they are at the top of the document.
func (b *bench) felt() string {
	var all lab.Report
	for _, g := range b.Goals {
		if slices.Contains([]string{"start", "programs", "live", "load"}, g.Section) {
			all.Goals = append(all.Goals, g)
		}
	}
	return all.GoalsTable("")
}

// charts are the medians of programs.
func (b *bench) charts() (list []lab.Chart) {
	classes := map[string]string{nameWarm: "ours", nameCold: "ours", nameFork: "floor", nameResident: "floor"}
	for _, of := range []string{printing.name, plotting} {
		c := lab.Chart{Title: of + ", one at a time: median in ms, logarithmic scale"}
		for _, row := range b.Rows {
			if row.Section == "programs" && row.Of == of {
				c.Bars = append(c.Bars, lab.Bar{Name: row.By, Class: classes[row.By], Value: row.P50})
			}
		}
		list = append(list, c)
	}
	return list
}
