package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

const (
	nameOwnKernel                = "airlock, own kernel"
	tierBare, tierFull, tierLive = "bare", "full", "live"
)

// measureOwnKernel compares services, each with one wall.
func (b *bench) measureOwnKernel(ctx context.Context) {
	if os.Geteuid() != 0 {
		b.Missing(nameOwnKernel, errors.New("it needs root"))
		return
	}
	if _, err := os.Stat(b.airlock + "-gvisor"); err != nil {
		b.Missing(nameOwnKernel, fmt.Errorf("make gvisor builds %s-gvisor", filepath.Base(b.airlock)))
		return
	}
	shared := b.startWarm(ctx)
	b.bothWalls(ctx, shared)
	own := b.serve(ctx, b.data(), nil, "--wall", "gvisor")
	filled(ctx, own, "")
	b.waitingKernels(ctx, shared, own)

	first := b.compare(ctx, "new session and first cell", b.full(20, 6),
		refilled(own, tierLive, newSessions(nameOwnKernel, own, "1+1")))
	b.Goal("new live session and first cell", "ms", 25, 12, first[0])
	next := b.compare(ctx, "next cell", b.full(100, 60), cells(nameOwnKernel, own, nextBefore, nextCode, nextWanted))
	b.Goal("next cell x+1", "ms", 2, 0.8, next[0])
	b.keptMemory(ctx, own)
	b.kernelRates(ctx, own)
	b.emptyPools(ctx, own)
}

// bothWalls measures the shared kernel in a service that has it alone, and in one whose sandboxes of gvisor wait too.
func (b *bench) bothWalls(ctx context.Context, shared *lab.Service) {
	both, other := b.startWarm(ctx), printing
	defer func() { _ = both.Stop() }() // nothing is measured any more
	other.wall = "gvisor"
	lab.Turns(ctx, 1, airlock(nameOwnKernel, both, &other))
	took := b.compare(ctx, "print(1) with the shared kernel", b.full(200, 50),
		refilled(shared, tierBare, airlock("in a service that has it alone", shared, &printing)),
		refilled(both, tierBare, airlock("in a service with both walls", both, &printing)))
	b.Goal("print(1) with the shared wall, in a service with both", "x", 1.02, 1, took[1]/took[0])
}

// waitingKernels measures programs for which a sandbox waits, and the memory of the sandboxes.
func (b *bench) waitingKernels(ctx context.Context, shared, own *lab.Service) {
	took := b.compare(ctx, "print(1), a sandbox waits", b.full(100, 25),
		refilled(shared, tierBare, airlock(nameWarm, shared, &printing)),
		refilled(own, tierBare, airlock(nameOwnKernel, own, &printing)))
	b.Goal("print(1) over HTTP, a sandbox waits", "ms", 10, 6, took[1])
	b.Goal("the same against the shared wall", "x", 8, 8, took[1]/took[0])
	took = b.compare(ctx, "examples/plot.py, a sandbox waits", b.full(10, 3), b.coldPython(&b.plot),
		refilled(own, tierFull, airlock(nameOwnKernel, own, &b.plot)))
	b.Goal("examples/plot.py over HTTP against cold python3", "x", 0.35, 0.25, took[1]/took[0])
	least, most := waitingMemory(own)
	b.Value("memory of a waiting sandbox", "bare", "MiB", least)
	b.Value("memory of a waiting sandbox", "full", "MiB", most)
	b.Goal("memory of a waiting sandbox, bare", "MiB", 30, 22, least)
	b.Goal("memory of a waiting sandbox, full", "MiB", 130, 60, most)
}

// waitingMemory returns what a waiting sandbox of the smallest and of the largest tier takes, in MiB, by its control
// group, which counts the kernel, its file server and the program.
func waitingMemory(s *lab.Service) (least, most float64) {
	tiers := map[string][]float64{} // by the stored sandbox of which they are copies
	for _, p := range lab.Processes().Below(s.Cmd.Process.Pid) {
		if _, stored, is := strings.Cut(strings.Join(p.Argv, " "), "--stored="); is {
			stored, _, _ = strings.Cut(stored, " ")
			tiers[stored] = append(tiers[stored], groupMemory(p.PID))
		}
	}
	var medians []float64
	for _, tier := range tiers {
		medians = append(medians, lab.Median(tier))
	}
	if len(medians) < 2 {
		lab.Fail("no sandboxes of several tiers wait")
	}
	return slices.Min(medians), slices.Max(medians)
}

// groupMemory returns what the control group of a process takes, in MiB.
func groupMemory(pid int) float64 {
	for line := range strings.Lines(string(lab.Must(os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))))) {
		fields := append(strings.SplitN(strings.TrimSpace(line), ":", 3), "", "")
		file := "/sys/fs/cgroup" + fields[2] + "/memory.current"
		if slices.Contains(strings.Split(fields[1], ","), "memory") {
			file = "/sys/fs/cgroup/memory" + fields[2] + "/memory.usage_in_bytes"
		}
		if text, err := os.ReadFile(file); err == nil {
			return lab.Must(strconv.ParseFloat(strings.TrimSpace(string(text)), 64)) / mebibyte
		}
	}
	lab.Fail("the memory of a waiting sandbox is counted by no control group")
	return 0
}

// kernelRates finds how many programs a second the service runs when it makes a sandbox for each: those that wait at
// the beginning are a small part of all.
func (b *bench) kernelRates(ctx context.Context, own *lab.Service) {
	full := program{name: "full", code: "import pandas, matplotlib.pyplot\nprint(1)", stdout: "1\n"}
	for _, one := range []struct {
		of        *program
		tier      string
		must, aim float64
	}{{&printing, tierBare, 8, 13}, {&full, tierFull, 3, 6}} {
		filled(ctx, own, one.tier)
		var l lab.Load
		l.Saturate(ctx, airlock(nameOwnKernel, own, one.of), 4, time.Duration(b.full(10, 5))*time.Second)
		lab.Check(l.Failed)
		b.Value("programs with refill", one.tier, "a second", l.Rate())
		b.Goal("programs a second, with refill, "+one.tier, "a second", one.must, one.aim, l.Rate())
	}
}

// emptyPools measures programs for which no sandbox waits: their memory limits differ from that of the program before,
// for which those in the pool are.
func (b *bench) emptyPools(ctx context.Context, own *lab.Service) {
	for _, one := range []struct {
		of        *program
		tier      string
		must, aim float64
	}{{&printing, tierBare, 200, 110}, {&b.plot, tierFull, 500, 300}} {
		var both []lab.Contestant // two that take turns
		for i := range 2 {
			other := *one.of
			other.memory = int64(300+i) * mebibyte
			both = append(both, refilled(own, one.tier, airlock(nameOwnKernel, own, &other)))
		}
		var all lab.Sample
		for range b.full(5, 2) { // a round begins with the other contestant than the one before
			times := lab.Turns(ctx, 1, both...)
			all = append(append(all, times[0]...), times[1]...)
		}
		b.Row(one.of.name+", no sandbox waits", nameOwnKernel, all)
		b.Goal(one.of.name+", no sandbox waits", "ms", one.must, one.aim, all.P50())
	}
}

// keptForks is how many sessions are made of one with its memory.
const keptForks = 10

// keptMemory measures pauses and forks of a session with pandas loaded, in a service with kernels of their own.
func (b *bench) keptMemory(ctx context.Context, s *lab.Service) {
	c := b.caller(s)
	path := c.session(ctx)
	lab.Must(c.cell(ctx, path, `import pandas; t = pandas.DataFrame({"a": range(1000)}); t.describe(); None`))
	has := func(ctx context.Context, path string) (time.Duration, error) {
		return newCaller(s.URL).cell(ctx, path, "len(t)", `"text/plain":"1000"`)
	}
	var pauses, resumes, forks lab.Sample
	for range b.full(10, 3) {
		pauses = append(pauses, lab.Must(c.do(ctx, "POST", path+"/pause", `{}`)))
		resumes = append(resumes, lab.Must(has(ctx, path)))
		lab.Pause(ctx, lab.Rest)
	}
	for range b.full(5, 2) {
		began := time.Now()
		var all struct{ Sessions []made }
		c.decode(ctx, "POST", path+"/fork", fmt.Sprintf(`{"count":%d}`, keptForks), &all)
		if len(all.Sessions) != keptForks {
			lab.Fail("there are %d forks", len(all.Sessions))
		}
		answered := make(chan error, keptForks)
		for _, fork := range all.Sessions {
			go func() {
				_, err := has(ctx, sessionsPath+"/"+fork.ID)
				answered <- err
			}()
		}
		for range all.Sessions {
			lab.Check(<-answered)
		}
		forks = append(forks, time.Since(began))
		for _, fork := range all.Sessions {
			lab.Must(c.do(ctx, "DELETE", sessionsPath+"/"+fork.ID, nil))
		}
	}
	b.Row("pause of a session with pandas loaded", nameOwnKernel, pauses)
	b.Row("resume of it, and a cell", nameOwnKernel, resumes)
	b.Row(fmt.Sprint(keptForks, " forks of it, until each has answered"), nameOwnKernel, forks)
	b.Goal("pause of a session with pandas loaded", "ms", 800, 400, pauses.P50())
	b.Goal("resume of it, and a cell", "ms", 500, 150, resumes.P50())
	b.Goal(fmt.Sprint(keptForks, " forks of it, until each has answered a cell"), "ms", 3000, 1000, forks.P50())
	lab.Must(c.do(ctx, "DELETE", path, nil))
}

// pool is what a service says of its waiting sandboxes of a tier.
type pool struct {
	Name, Cold      string
	Ready           bool
	Waiting, Wanted int
}

// awaitPools waits until the pools of a service are as they should be.
func awaitPools(ctx context.Context, s *lab.Service, good func([]pool) bool) {
	c := newCaller(s.URL)
	defer c.close()
	var status struct{ Pools []pool }
	if !lab.Until(ctx, lab.StartTime, func() bool {
		status.Pools = nil
		c.decode(ctx, "GET", "/api/v1/status", nil, &status)
		return good(status.Pools)
	}) {
		lab.Fail("its pools do not fill: %+v", status)
	}
}

// filled waits until as many sandboxes of a tier wait as the service wants. If tier is empty, it waits until there are
// interpreters of all.
func filled(ctx context.Context, s *lab.Service, tier string) {
	awaitPools(ctx, s, func(list []pool) bool {
		for _, p := range list {
			if p.Cold != "" {
				lab.Fail("no sandbox waits for %s: %s", p.Name, p.Cold)
			}
			if !p.Ready || p.Name == tier && p.Waiting < p.Wanted {
				return false
			}
		}
		return len(list) > 0
	})
}

// refilled is a contestant whose pool of a tier is full at each call: the refill is no part of it, and takes nothing
// from the others.
func refilled(s *lab.Service, tier string, c lab.Contestant) lab.Contestant {
	return lab.Contestant{Name: c.Name, Open: func(ctx context.Context) (lab.Call, func()) {
		do, done := c.Open(ctx)
		return func(ctx context.Context) (time.Duration, error) {
			took, err := do(ctx)
			filled(ctx, s, tier)
			return took, err
		}, done
	}}
}
