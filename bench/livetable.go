package main

import (
	"fmt"
	"math"
)

// liveText is what live sessions take.
func (r *Results) liveText() string {
	text := r.besideTable()
	l := r.Live
	if l == nil {
		return text
	}
	return text + fmt.Sprintf(`
An interrupt of "while True: pass" is answered, with the cell ended, after %s ms (p99 %s ms of %d).
An idle interpreter has %.1f MB of its own. %d of them used %.6f s of a core in %.0f s, the service with executor
and zygotes %.3f s; a one-shot print(1) takes %s ms beside them and %s ms without them.
Of %d cells in one session and of %d sessions, the second half left: %s.
`, ms(l.Interrupt.P50), ms(l.Interrupt.P99), l.Interrupt.N, l.Private, l.Crowd, l.CPU, l.Idle, l.Keeping, ms(l.Beside.P50),
		ms(l.Alone.P50), l.Cells, l.Sessions, l.Growth)
}

// besideTable is what is measured in turn with others.
func (r *Results) besideTable() string {
	t := table{head: []string{"live sessions, ms", "p50", "p95", "p99", "runs", "against the other"}}
	pairs := [][3]string{{"new", nameLive, nameRun}, {"cell", nameLive, nameKernel}, {"figure", nameLive, nameKernel}}
	for _, pair := range pairs {
		for i, contestant := range pair[1:] {
			l, found := r.latency(pair[0], contestant)
			if !found {
				continue
			}
			against := "-"
			if ratio := r.ratio(pair[0], pair[1], pair[2]); ratio != nil && i == 0 {
				against = fmt.Sprintf("%.3gx", *ratio)
			}
			t.add(titles[pair[0]]+": "+contestant, ms(l.P50), ms(l.P95), ms(l.P99), fmt.Sprint(l.N), against)
		}
	}
	return t.orNothing()
}

// liveGoals are those of live sessions.
func (r *Results) liveGoals() []Goal {
	goals := []Goal{
		{
			Name: "new live session and 1+1, against a warm one-shot print(1)", Unit: "x", Must: 2, Aim: 1.3,
			Measured: r.ratio("new", nameLive, nameRun),
		},
		{
			Name: "next cell over HTTP, against jupyter_server and ipykernel", Unit: "x", Must: 0.2, Aim: 0.08,
			Measured: r.ratio("cell", nameLive, nameKernel),
		},
		{
			Name: "cell that draws a figure, against jupyter_server and ipykernel", Unit: "x", Must: 0.8, Aim: 0.6,
			Measured: r.ratio("figure", nameLive, nameKernel),
		},
		{Name: "private memory of an idle interpreter", Unit: "MB", Must: 8, Aim: 4},
		{Name: "processor time of 500 idle interpreters and the service in 60 s", Unit: "s", Must: 0.1, Aim: 0},
		{Name: "one-shot print(1) beside 500 idle interpreters", Unit: "x", Must: 1.2, Aim: 1.05},
		{Name: "p99 of an interrupt of a cell that computes", Unit: "ms", Must: 200, Aim: 50},
		{Name: "growth of service and executor in the second half of 10,000 cells and 2,000 sessions", Unit: "MB", Must: 1,
			Aim: 0},
		{Name: "files, processes and mounts left by them", Must: 0, Aim: 0},
	}
	l := r.Live
	if l == nil {
		return goals
	}
	left := math.Abs(float64(l.Growth.Files)) + math.Abs(float64(l.Growth.Processes)) + math.Abs(float64(l.Growth.Mounts))
	for i, measured := range []float64{
		l.Private, (l.CPU*500/float64(l.Crowd) + l.Keeping) * 60 / l.Idle, l.Beside.P50 / l.Alone.P50, l.Interrupt.P99,
		max(0, l.Growth.Live) + max(0, l.Growth.Executor), left,
	} {
		goals[3+i].Measured = &measured
	}
	return goals
}
