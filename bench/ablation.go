package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// trick is something of package trick, which this command names to a service that is to go without it.
type trick struct {
	name  string // empty: none, so that its row shows what the machine alone does
	what  string
	lines int    // that would go with it, without tests, counted by hand
	in    string // where most of them are
	rows  string // what it may change
}

// What several tricks may change.
const (
	ofPython = "print prints plot plots"
	ofAll    = ofPython + " new cell mcp js ts bash list input"
)

var tricks = []trick{
	{"", "nothing", 0, "", ofAll},
	{"lending", "large inputs are lent", 540, "executor/borrow.go, lend.go", "print input"},
	{"lending-box", "a sandbox waits for lent inputs", 75, "executor/borrow.go, pool.go", "print input"},
	{"code", "zygotes fork in machine code", 290, "linux/spawn/spawn_amd64.s, guest/buffer.py", "print prints plots new"},
	{"namespaces", "namespaces are used again", 220, "linux/namespaces.go, notify.go", "print prints"},
	{"groups", "control groups are used again", 140, "executor/cgroup/reuse.go", "print prints plots bash"},
	{"commands", "a process waits for a command", 180, "linux/spawn/spawn_amd64.s, command.go", "bash"},
	{"node", "a Node waits", 235, "executor/node.go, language/waiting.cjs", "js ts"},
	{"compiler", "a compiler waits beside it", 120, "linux/waiting_node.go, typescript/wait.go", "ts"},
	{"learning", "a sandbox has the memory of print(1)", 110, "guest/server.py, warmup.py", "print prints"},
	{"plots", "one has the memory of plots", 50, "guest/server.py, executor/pool.go", "print plot plots"},
	{"specialize", "zygotes adapt their code", 20, "guest/warmup.py", ofPython},
	{"compact", "zygotes fill their gaps", 25, "guest/warmup.py", ofPython},
	{"sessions", "interpreters wait for sessions", 60, "executor/live.go, waiting.go", "new"},
	{"habits", "zygotes import what programs often do", 230, "executor/learn.go", "new own"},
	{"rehearsal", "an interpreter has taken orders", 20, "guest/live.py", "new"},
	{"ipython", "cells run less of IPython", 200, "guest/live.py", "new cell mcp"},
	{"marks", "the driver reports that no file changed", 60, "guest/live.py", "new cell mcp"},
	{"records", "short runs are recorded later", 120, "engine/record.go", "print prints bash list"},
}

// ablated is what a trick pays, by row.
type ablated struct {
	trick string
	ratio map[string]margin
}

// margin is the time without a trick by that with it, the median of all pairs of turns. In 95 of 100 measurements the
// true one is between least and most.
type margin struct{ median, least, most float64 }

// payoff is one row that a person or an operator feels.
type payoff struct {
	name, title string
	rounds      int // each with a turn of both; a tenth in a quick run
	clients     int // that ask as fast as they can for a while; 0: one asks once, after a rest
	segment     time.Duration
	open        func(b *bench, name string, s *lab.Service) lab.Contestant
}

// running returns what opens a program.
func running(p *program) func(*bench, string, *lab.Service) lab.Contestant {
	return func(_ *bench, name string, s *lab.Service) lab.Contestant { return airlock(name, s, p) }
}

func thePlot(b *bench, name string, s *lab.Service) lab.Contestant { return airlock(name, s, &b.plot) }

var largeInput = holding(100 * mebibyte)

var payoffs = []payoff{
	{"print", "print(1)", 200, 0, 0, running(&printing)},
	{"prints", "of 8", 30, 8, 300 * time.Millisecond, running(&printing)},
	{"plot", "plot.py", 20, 0, 0, thePlot},
	{"plots", "of 4", 10, 4, time.Second, thePlot},
	{"new", "new session", 60, 0, 0, func(_ *bench, name string, s *lab.Service) lab.Contestant {
		return newSessions(name, s, "1+1")
	}},
	{"own", "with pandas", 40, 0, 0, func(_ *bench, name string, s *lab.Service) lab.Contestant {
		return newSessions(name, s, "import pandas; 1+1")
	}},
	{"cell", "next cell", 150, 0, 0, func(_ *bench, name string, s *lab.Service) lab.Contestant {
		return cells(name, s, nextBefore, nextCode, nextWanted)
	}},
	{"mcp", "MCP's cell", 150, 0, 0, func(_ *bench, name string, s *lab.Service) lab.Contestant {
		return byMCP(name, overHTTP(s))
	}},
	{"js", "console.log(1)", 60, 0, 0, running(&spoken[0].program)},
	{"ts", "TypeScript", 60, 0, 0, running(&spoken[1].program)},
	{"bash", "echo", 150, 0, 0, running(&spoken[2].program)},
	{"list", "list", 100, 0, 0, func(_ *bench, name string, s *lab.Service) lab.Contestant {
		return lab.Ready(name, newCaller(s.URL).again("GET", runsPath, nil))
	}},
	{"input", "100 MiB in", 40, 0, 0, running(&largeInput)},
}

// ablationSections are the tricks.
func ablationSections() (list []section) {
	for _, t := range tricks {
		list = append(list, section{t.id(), t.what, func(b *bench, ctx context.Context) { b.ablate(ctx, t) }})
	}
	return list
}

func (t trick) id() string {
	if t.name == "" {
		return "nothing"
	}
	return t.name
}

// ablationSides is how many pairs of services are compared: two services alike differ by where their memory lies.
const ablationSides = 2

// ablate compares services with all tricks and services without this one.
func (b *bench) ablate(ctx context.Context, t trick) {
	ratios := map[string][]float64{}
	for side := range ablationSides {
		b.ablateOnce(ctx, t, side, ratios)
	}
	found := ablated{t.id(), map[string]margin{}}
	for _, p := range payoffs {
		if len(ratios[p.name]) > 0 {
			found.ratio[p.name] = medianOf(ratios[p.name])
			fmt.Fprintf(os.Stderr, "   %-14s %.2f\n", p.title, found.ratio[p.name])
		}
	}
	b.tricks = append(b.tricks, found)
}

// medianOf returns a median with the values that are two standard deviations of its rank away from it.
func medianOf(values []float64) margin {
	slices.Sort(values)
	n := float64(len(values))
	at := func(rank float64) float64 { return values[min(max(int(rank), 0), len(values)-1)] }
	return margin{at(n / 2), at(n/2 - math.Sqrt(n)), at(n/2 + math.Sqrt(n))}
}

// ablateOnce starts one service of each kind, and adds to the ratios of all rows. On every second side the one without
// the trick is started first.
func (b *bench) ablateOnce(ctx context.Context, t trick, side int, ratios map[string][]float64) {
	var both [2]*lab.Service // with all tricks, without this one
	for i := range both {
		k := (i + side) % 2
		both[k] = warmed(ctx, b.serve(ctx, b.data(), []string{"AIRLOCK_WITHOUT=" + []string{"", t.name}[k]},
			"--owner-rate=100000"))
		defer func() { _ = both[k].Stop() }() // nothing is measured any more
	}
	for _, p := range payoffs {
		if slices.Contains(strings.Fields(t.rows), p.name) {
			ratios[p.name] = append(ratios[p.name],
				p.ratios(ctx, b, p.open(b, "all", both[0]), p.open(b, "without", both[1]))...)
		}
	}
}

// ratios returns, of each pair of turns, the time of the second by that of the first.
func (p *payoff) ratios(ctx context.Context, b *bench, both ...lab.Contestant) (ratios []float64) {
	rounds := max(p.rounds*b.rounds/ablationSides, 1)
	if b.quick {
		rounds = max(rounds/10, 2)
	}
	if p.clients == 0 {
		times := lab.Turns(ctx, rounds, both...)
		for i := range times[0] {
			ratios = append(ratios, float64(times[1][i])/float64(times[0][i]))
		}
		return ratios
	}
	for round := range rounds {
		var each [2]lab.Load
		for i := range each {
			k := (i + round) % 2
			lab.Pause(ctx, 4*lab.Rest)
			each[k].Saturate(ctx, both[k], p.clients, p.segment)
			lab.Check(each[k].Failed)
		}
		ratios = append(ratios, each[0].Rate()/each[1].Rate())
	}
	return ratios
}

func (b *bench) ablationTable() string {
	head := []string{"without", "lines", "in"}
	for _, p := range payoffs {
		head = append(head, p.title)
	}
	t := lab.NewTable(head...)
	for _, found := range b.tricks {
		i := slices.IndexFunc(tricks, func(t trick) bool { return t.id() == found.trick })
		if i < 0 {
			continue // it has gone since
		}
		row := []string{tricks[i].what, fmt.Sprint(tricks[i].lines), tricks[i].in}
		for _, p := range payoffs {
			cell := ""
			if ratio, ok := found.ratio[p.name]; ok {
				cell = fmt.Sprintf("%.2f ±%.2f", ratio.median, (ratio.most-ratio.least)/2)
			}
			row = append(row, cell)
		}
		t.Add(row...)
	}
	return t.String()
}
