package main

import (
	"fmt"
	"maps"
	"slices"
)

// goals are what was promised about growth.
func (g *Grown) goals() []Goal {
	var list []Goal
	for _, row := range g.Rows {
		if row.Count < 1_000_000 {
			continue
		}
		of := fmt.Sprintf("%d M runs and as many files in %s: ", row.Count/1_000_000, row.Database)
		must := []float64{20, 5, 100}
		if row.Database == namePostgres {
			must = []float64{50, 50, 50}
		}
		list = append(list,
			Goal{Name: of + "start to the first print(1)", Unit: "s", Must: 2, Aim: 0.5, Measured: new(row.Start.P50 / 1000)},
			Goal{Name: of + "p99 of a list", Unit: "ms", Must: must[0], Aim: 5, Measured: &row.List.P99},
			Goal{Name: of + "p99 of one by its id", Unit: "ms", Must: must[1], Aim: 2, Measured: &row.Get.P99},
			Goal{Name: of + "p99 of a search in outputs", Unit: "ms", Must: must[2], Aim: 30, Measured: &row.Search.P99})
	}
	if m := g.Sessions; m != nil {
		list = append(list, Goal{Name: fmt.Sprintf("a run in one of %d sessions with files, against the only one", m.Count),
			Unit: "x", Must: 1.1, Aim: 1, Measured: new(m.Beside.P50 / m.Alone.P50)})
	}
	if c := g.Crowd; c != nil {
		of := fmt.Sprintf("%d clients with one request each in flight: ", c.Clients)
		list = append(list,
			Goal{Name: of + "p99 until answered or refused", Unit: "s", Must: 3, Aim: 1, Measured: new(c.P99 / 1000)},
			Goal{Name: of + "memory of the service", Unit: "MB", Must: 150, Aim: 80, Measured: &c.Service})
	}
	return list
}

// captions are of the pictures.
var captions = map[string]string{
	"-rows":     "Curves: 99th percentile of list, get and search against rows",
	"-load":     "Curves: time of print(1) against requests a second, up to twice the most",
	"-sessions": "Curve: memory against live sessions",
}

// growthText is the document's part about growth.
func (r *Results) growthText() string {
	g := r.Grown
	if g == nil {
		return ""
	}
	t := table{head: []string{"ms", "rows of each", "MB", "start", "list p99", "get p99", "search p50", "search p99",
		"service MB"}}
	for _, row := range g.Rows {
		size := "-"
		if row.Size > 0 {
			size = fmt.Sprintf("%.0f", row.Size)
		}
		t.add(row.Database, fmt.Sprint(row.Count), size, ms(row.Start.P50), ms(row.List.P99), ms(row.Get.P99),
			ms(row.Search.P50), ms(row.Search.P99), fmt.Sprintf("%.0f", row.Service))
	}
	text := r.machineText() + "\n" + r.goalsTable()
	pictures := r.pictures()
	for _, name := range slices.Sorted(maps.Keys(pictures)) {
		text += fmt.Sprintf("\n![%s](performance%s.svg)\n", captions[name], name)
	}
	if len(t.rows) > 0 {
		text += "\n" + t.String()
	}
	text += g.upgradesText()
	if m := g.Sessions; m != nil {
		text += fmt.Sprintf("\nA run in one of %d sessions, each with a file: %s ms (p99 %s); "+
			"in the only one %s ms (p99 %s).\n",
			m.Count, ms(m.Beside.P50), ms(m.Beside.P99), ms(m.Alone.P50), ms(m.Alone.P99))
	}
	if c := g.Crowd; c != nil {
		text += fmt.Sprintf("\n%d clients that send one print(1) each at the same time: %d answered, %d refused; p50 %s ms, "+
			"p99 %s ms; the service took %.0f MB at most.\n", c.Clients, c.Answered, c.Refused, ms(c.P50), ms(c.P99), c.Service)
	}
	return text
}
