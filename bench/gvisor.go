package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OwnKernel is what a kernel of its own costs a program: the wall gvisor, beside the shared one.
type OwnKernel struct {
	Print      Beside  `json:"print"`       // print(1) in a sandbox that waits, with the shared kernel and its own
	Plot       Beside  `json:"plot"`        // examples/plot.py with a cold python3, and in a sandbox that waits
	EmptyPrint Summary `json:"empty_print"` // none waits: it is made for the request
	EmptyPlot  Summary `json:"empty_plot"`
	Session    Summary `json:"session"` // a new one, and its first cell
	Cell       Summary `json:"cell"`    // x+1
	Pause      Summary `json:"pause"`   // of a session with pandas loaded, with its memory
	Resume     Summary `json:"resume"`  // of that, with a cell
	Forks      Summary `json:"forks"`   // of it, until each has answered a cell
	Bare       float64 `json:"bare_per_second"`
	Full       float64 `json:"full_per_second"`
	BareMemory float64 `json:"bare_mib"` // of a sandbox that waits, by its control group
	FullMemory float64 `json:"full_mib"`
	Both       Beside  `json:"both"` // print(1) with the shared kernel, in a service that has it alone, and in one with both
}

const (
	nameOwnKernel = "airlock, gvisor"
	tierBare      = "bare"
	tierFull      = "full"
)

// full is printing with the packages of the largest tier.
var full = workload{name: "full", code: "import pandas, matplotlib.pyplot\nprint(1)", stdout: "1\n", packages: true}

// measureOwnKernel compares services, each with one wall.
func (b *bench) measureOwnKernel(ctx context.Context) error {
	if os.Geteuid() != 0 {
		b.results.Missing[nameOwnKernel] = "it needs root"
		return nil
	}
	if _, err := os.Stat(b.options.airlock + "-gvisor"); err != nil {
		b.results.Missing[nameOwnKernel] = "make gvisor builds " + filepath.Base(b.options.airlock) + "-gvisor"
		return nil
	}
	shared, err := b.startWarm(ctx)
	if err != nil {
		return err
	}
	defer shared.stop()
	r := &OwnKernel{}
	if err := b.bothWalls(ctx, shared, r); err != nil {
		return err
	}
	own, err := b.startOwnKernel(ctx)
	if err != nil {
		return err
	}
	defer own.stop()
	for _, measure := range []func(context.Context, *server, *server, *OwnKernel) error{b.waitingKernels,
		b.kernelSessions, b.keptSessions, b.kernelRates, b.emptyPools} {
		if err := measure(ctx, shared, own, r); err != nil {
			return err
		}
	}
	b.results.OwnKernel = r
	fmt.Fprint(b.progress, "   "+strings.ReplaceAll(strings.TrimSpace(b.results.ownKernelText()), "\n", "\n   ")+"\n")
	return ctx.Err()
}

// startOwnKernel starts a service with the wall gvisor, and waits until its sandboxes wait.
func (b *bench) startOwnKernel(ctx context.Context) (*server, error) {
	s, err := b.startAirlock("--wall", "gvisor")
	if s, err = s.awaited(ctx, err); err != nil {
		return nil, err
	}
	if err := s.filled(ctx, ""); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// filled waits until as many sandboxes of a tier wait as the service wants. If tier is empty, it waits until there are
// interpreters of all.
func (s *server) filled(ctx context.Context, tier string) error {
	c, err := dial(s.address)
	if err != nil {
		return err
	}
	defer c.close()
	type pool struct {
		Name, Cold      string
		Ready           bool
		Waiting, Wanted int
	}
	var status struct{ Pools []pool }
	for deadline := time.Now().Add(readyTime); time.Now().Before(deadline) && ctx.Err() == nil; pause(ctx, rest) {
		if err := c.do(newRequest("GET", "/api/v1/status", s.address, nil)); err != nil {
			return err
		}
		if err := json.Unmarshal(c.body, &status); err != nil {
			return err
		}
		if i := slices.IndexFunc(status.Pools, func(p pool) bool { return p.Cold != "" }); i >= 0 {
			return fmt.Errorf("no sandbox waits for %s: %s", status.Pools[i].Name, status.Pools[i].Cold)
		}
		if len(status.Pools) > 0 && !slices.ContainsFunc(status.Pools, func(p pool) bool {
			return !p.Ready || p.Name == tier && p.Waiting < p.Wanted
		}) {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("its pools do not fill: %+v", status.Pools), ctx.Err())
}

// refilled is a contestant whose pool of a tier is full at each attempt: the refill is no part of it, and takes
// nothing from the others.
func refilled(s *server, tier string, c contestant) contestant {
	open := c.open
	c.open = func(ctx context.Context, w *workload) (*client, error) {
		one, err := open(ctx, w)
		if err != nil {
			return nil, err
		}
		after := one.after
		one.after = func() error {
			if after != nil {
				if err := after(); err != nil {
					return err
				}
			}
			return s.filled(ctx, tier)
		}
		return one, nil
	}
	return c
}

// compare measures two contestants in turn.
func (b *bench) compare(ctx context.Context, w *workload, rounds int, one, other contestant) (Beside, error) {
	times, err := takeTurns(ctx, w, rounds, []contestant{one, other})
	if err != nil {
		return Beside{}, err
	}
	return Beside{times[one.name].summary(), times[other.name].summary()}, nil
}

// bothWalls measures the shared kernel in a service that has it alone, and in one whose sandboxes of gvisor wait too.
func (b *bench) bothWalls(ctx context.Context, shared *server, r *OwnKernel) error {
	both, err := b.startWarm(ctx)
	if err != nil {
		return err
	}
	defer both.stop()
	other := printing
	other.wall = "gvisor"
	if _, err := takeTurns(ctx, &other, 1, []contestant{airlock(nameOwnKernel, both)}); err != nil {
		return err
	}
	r.Both, err = b.compare(ctx, &printing, 2*b.plan.prints, refilled(shared, tierBare, airlock(nameWarm, shared)),
		refilled(both, tierBare, airlock(nameOwnKernel, both)))
	return err
}

// waitingKernels measures programs for which a sandbox waits, and the memory of the sandboxes.
func (b *bench) waitingKernels(ctx context.Context, shared, own *server, r *OwnKernel) (err error) {
	ours := airlock(nameOwnKernel, own)
	theirs := refilled(shared, tierBare, airlock(nameWarm, shared))
	if r.Print, err = b.compare(ctx, &printing, b.plan.prints, theirs, refilled(own, tierBare, ours)); err != nil {
		return err
	}
	ours = refilled(own, tierFull, ours)
	if r.Plot, err = b.compare(ctx, &b.plot, b.plan.plots, b.python(), ours); err != nil {
		return err
	}
	r.BareMemory, r.FullMemory, err = waitingMemory(own)
	return err
}

// waitingMemory returns what a waiting sandbox of the smallest and of the largest tier takes by its control group,
// which counts the kernel, its file server and the program, in MiB.
func waitingMemory(s *server) (least, most float64, err error) {
	tiers := map[string][]float64{} // by the stored sandbox of which they are copies
	all := processes()
	for _, p := range all {
		_, stored, is := strings.Cut(p.command, "--stored=")
		if !is || !descends(all, p.pid, s.cmd.Process.Pid) {
			continue
		}
		stored, _, _ = strings.Cut(stored, " ")
		used, err := groupMemory(p.pid)
		if err != nil {
			return 0, 0, err
		}
		tiers[stored] = append(tiers[stored], used)
	}
	var medians []float64
	for _, tier := range tiers {
		medians = append(medians, median(tier))
	}
	if len(medians) < 2 {
		return 0, 0, errors.New("no sandboxes of several tiers wait")
	}
	return slices.Min(medians), slices.Max(medians), nil
}

// descends reports whether a process is below another.
func descends(all map[int]process, pid, ancestor int) bool {
	for pid > 1 && pid != ancestor {
		pid = all[pid].parent
	}
	return pid == ancestor
}

// groupMemory returns what the control group of a process takes, in MiB.
func groupMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		file := ""
		switch {
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			file = "/sys/fs/cgroup/memory" + fields[2] + "/memory.usage_in_bytes"
		case fields[0] == "0" && fields[1] == "":
			file = "/sys/fs/cgroup" + fields[2] + "/memory.current"
		}
		if text, err := os.ReadFile(file); err == nil {
			bytes, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			return bytes / mebibyte, err
		}
	}
	return 0, errors.New("the memory of a waiting sandbox is counted by no control group")
}

// emptyPools measures programs for which no sandbox waits: their memory limits differ from that of the program
// before, for which those in the pool are.
func (b *bench) emptyPools(ctx context.Context, _, own *server, r *OwnKernel) error {
	for _, one := range []struct {
		of   *workload
		tier string
		to   *Summary
	}{{&printing, tierBare, &r.EmptyPrint}, {&b.plot, tierFull, &r.EmptyPlot}} {
		var everybody []contestant
		for i := range 2 { // two that take turns
			other := *one.of
			other.memory = int64(300+i) * mebibyte
			c := refilled(own, one.tier, airlock(fmt.Sprint(nameOwnKernel, i), own))
			open := c.open
			c.open = func(ctx context.Context, _ *workload) (*client, error) { return open(ctx, &other) }
			everybody = append(everybody, c)
		}
		var all sample
		for range max(b.plan.plots/2, 2) { // a round begins with the other contestant than the one before
			times, err := takeTurns(ctx, one.of, 1, everybody)
			if err != nil {
				return err
			}
			for _, c := range everybody {
				all = append(all, times[c.name]...)
			}
		}
		*one.to = all.summary()
	}
	return nil
}

// kernelSessions measures live sessions.
func (b *bench) kernelSessions(ctx context.Context, _, own *server, r *OwnKernel) error {
	for _, one := range []struct {
		of     *workload
		rounds int
		by     contestant
		to     *Summary
	}{
		{&firstCell, b.plan.plots * 2, refilled(own, tierLive, newSessions(own)), &r.Session},
		{&nextCell, b.plan.cells, inSession(own, `"text/plain":"42"`), &r.Cell},
	} {
		times, err := takeTurns(ctx, one.of, one.rounds, []contestant{one.by})
		if err != nil {
			return err
		}
		*one.to = times[one.by.name].summary()
	}
	return nil
}

// kernelRates finds how many programs a second the service runs when it makes a sandbox for each.
func (b *bench) kernelRates(ctx context.Context, _, own *server, r *OwnKernel) error {
	for _, one := range []struct {
		of   *workload
		tier string
		to   *float64
	}{{&printing, tierBare, &r.Bare}, {&full, tierFull, &r.Full}} {
		if err := own.filled(ctx, one.tier); err != nil {
			return err
		}
		var s span
		// Those that wait at the beginning are a small part of all.
		if err := s.add(ctx, airlock(nameOwnKernel, own), one.of, 4, 5*b.plan.plotLoad); err != nil {
			return err
		}
		if s.failed > 0 {
			return fmt.Errorf("%s, %s: %d failed: %w", nameOwnKernel, one.of.name, s.failed, s.why)
		}
		*one.to = float64(len(s.times)) / s.length.Seconds()
	}
	return nil
}

// goals are those of the issue.
func (k *OwnKernel) goals() []Goal {
	goal := func(name, unit string, must, aim float64, of func() float64) Goal {
		g := Goal{Name: "gvisor: " + name, Unit: unit, Must: must, Aim: aim}
		if k != nil {
			if v := of(); v > 0 {
				g.Measured = &v
			}
		}
		return g
	}
	more := func(g Goal) Goal { g.More = true; return g }
	return []Goal{
		goal("print(1) over HTTP, a sandbox waits", "ms", 10, 6, func() float64 { return k.Print.Theirs.P50 }),
		goal("the same against the shared wall", "x", 8, 8, func() float64 {
			return k.Print.Theirs.P50 / k.Print.Native.P50
		}),
		goal("examples/plot.py over HTTP against cold python3", "x", 0.35, 0.25, func() float64 {
			return k.Plot.Theirs.P50 / k.Plot.Native.P50
		}),
		goal("new live session and first cell", "ms", 25, 12, func() float64 { return k.Session.P50 }),
		goal("next cell x+1", "ms", 2, 0.8, func() float64 { return k.Cell.P50 }),
		goal("pause of a session with pandas loaded", "ms", 800, 400, func() float64 { return k.Pause.P50 }),
		goal("resume of it, and a cell", "ms", 500, 150, func() float64 { return k.Resume.P50 }),
		goal(fmt.Sprint(keptForks, " forks of it, until each has answered a cell"), "ms", 3000, 1000, func() float64 {
			return k.Forks.P50
		}),
		goal("print(1), no sandbox waits", "ms", 200, 110, func() float64 { return k.EmptyPrint.P50 }),
		goal("examples/plot.py, no sandbox waits", "ms", 500, 300, func() float64 { return k.EmptyPlot.P50 }),
		more(goal("print(1) a second, with refill", "a second", 8, 13, func() float64 { return k.Bare })),
		more(goal("the same with pandas and Matplotlib", "a second", 3, 6, func() float64 { return k.Full })),
		goal("memory of a waiting sandbox, bare", "MiB", 30, 22, func() float64 { return k.BareMemory }),
		goal("memory of a waiting sandbox, full", "MiB", 130, 60, func() float64 { return k.FullMemory }),
		goal("print(1) with the shared wall, in a service with both", "x", 1.02, 1, func() float64 {
			return k.Both.Theirs.P50 / k.Both.Native.P50
		}),
	}
}

// ownKernelText has a table of the goals, and what the ratios are of.
func (r *Results) ownKernelText() string {
	if r.OwnKernel == nil {
		return "Not measured in this run.\n"
	}
	k := r.OwnKernel
	of := Results{Goals: k.goals()}
	for i := range of.Goals {
		of.Goals[i].judge()
	}
	return of.goalsTable() + fmt.Sprintf("\nprint(1) with the shared kernel takes %s ms, with a kernel of its own %s ms "+
		"(p95 %s). examples/plot.py takes a cold python3 %s ms, there %s ms (p95 %s).\n", ms(k.Print.Native.P50),
		ms(k.Print.Theirs.P50), ms(k.Print.Theirs.P95), ms(k.Plot.Native.P50), ms(k.Plot.Theirs.P50), ms(k.Plot.Theirs.P95))
}
