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
func (b *bench) measureOwnKernel(ctx context.Context) error {
	if os.Geteuid() != 0 {
		b.missing(nameOwnKernel, errors.New("it needs root"))
		return nil
	}
	if _, err := os.Stat(b.airlock + "-gvisor"); err != nil {
		b.missing(nameOwnKernel, fmt.Errorf("make gvisor builds %s-gvisor", filepath.Base(b.airlock)))
		return nil
	}
	shared, err := b.startWarm(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = shared.Stop() }() // nothing is measured any more
	if err := b.bothWalls(ctx, shared); err != nil {
		return err
	}
	own, err := b.start(ctx, "--wall", "gvisor")
	if err == nil {
		err = filled(ctx, own, "")
	}
	if err != nil {
		return err
	}
	defer func() { _ = own.Stop() }() // the same
	if err := b.waitingKernels(ctx, shared, own); err != nil {
		return err
	}
	if err := b.kernelSessions(ctx, own); err != nil {
		return err
	}
	if err := b.keptMemory(ctx, own); err != nil {
		return err
	}
	if err := b.kernelRates(ctx, own); err != nil {
		return err
	}
	return b.emptyPools(ctx, own)
}

// bothWalls measures the shared kernel in a service that has it alone, and in one whose sandboxes of gvisor wait too.
func (b *bench) bothWalls(ctx context.Context, shared *lab.Service) error {
	both, err := b.startWarm(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = both.Stop() }() // nothing is measured any more
	other := printing
	other.wall = "gvisor"
	if _, err := turns(ctx, 1, airlock(nameOwnKernel, both, &other)); err != nil {
		return err
	}
	took, err := b.compare(ctx, "print(1) with the shared kernel", b.full(200, 50),
		refilled(shared, tierBare, airlock("in a service that has it alone", shared, &printing)),
		refilled(both, tierBare, airlock("in a service with both walls", both, &printing)))
	b.goal("print(1) with the shared wall, in a service with both", "x", 1.02, 1, took[1]/took[0])
	return err
}

// waitingKernels measures programs for which a sandbox waits, and the memory of the sandboxes.
func (b *bench) waitingKernels(ctx context.Context, shared, own *lab.Service) error {
	took, err := b.compare(ctx, "print(1), a sandbox waits", b.full(100, 25),
		refilled(shared, tierBare, airlock(nameWarm, shared, &printing)),
		refilled(own, tierBare, airlock(nameOwnKernel, own, &printing)))
	if err != nil {
		return err
	}
	b.goal("print(1) over HTTP, a sandbox waits", "ms", 10, 6, took[1])
	b.goal("the same against the shared wall", "x", 8, 8, took[1]/took[0])
	if took, err = b.compare(ctx, "examples/plot.py, a sandbox waits", b.full(10, 3), b.coldPython(&b.plot),
		refilled(own, tierFull, airlock(nameOwnKernel, own, &b.plot))); err != nil {
		return err
	}
	b.goal("examples/plot.py over HTTP against cold python3", "x", 0.35, 0.25, took[1]/took[0])
	least, most, err := waitingMemory(own)
	b.value("memory of a waiting sandbox", "bare", "MiB", least)
	b.value("memory of a waiting sandbox", "full", "MiB", most)
	b.goal("memory of a waiting sandbox, bare", "MiB", 30, 22, least)
	b.goal("memory of a waiting sandbox, full", "MiB", 130, 60, most)
	return err
}

// waitingMemory returns what a waiting sandbox of the smallest and of the largest tier takes, in MiB, by its control
// group, which counts the kernel, its file server and the program.
func waitingMemory(s *lab.Service) (least, most float64, err error) {
	tiers := map[string][]float64{} // by the stored sandbox of which they are copies
	for _, p := range lab.Processes().Below(s.Cmd.Process.Pid) {
		_, stored, is := strings.Cut(strings.Join(p.Argv, " "), "--stored=")
		if !is {
			continue
		}
		stored, _, _ = strings.Cut(stored, " ")
		used, err := groupMemory(p.PID)
		if err != nil {
			return 0, 0, err
		}
		tiers[stored] = append(tiers[stored], used)
	}
	var medians []float64
	for _, tier := range tiers {
		medians = append(medians, lab.Median(tier))
	}
	if len(medians) < 2 {
		return 0, 0, errors.New("no sandboxes of several tiers wait")
	}
	return slices.Min(medians), slices.Max(medians), nil
}

// groupMemory returns what the control group of a process takes, in MiB.
func groupMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := append(strings.SplitN(strings.TrimSpace(line), ":", 3), "", "")
		file := "/sys/fs/cgroup" + fields[2] + "/memory.current"
		if slices.Contains(strings.Split(fields[1], ","), "memory") {
			file = "/sys/fs/cgroup/memory" + fields[2] + "/memory.usage_in_bytes"
		}
		if text, err := os.ReadFile(file); err == nil {
			bytes, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			return bytes / mebibyte, err
		}
	}
	return 0, errors.New("the memory of a waiting sandbox is counted by no control group")
}

// kernelSessions measures live sessions.
func (b *bench) kernelSessions(ctx context.Context, own *lab.Service) error {
	first, err := b.compare(ctx, "new session and first cell", b.full(20, 6),
		refilled(own, tierLive, newSessions(nameOwnKernel, own)))
	if err != nil {
		return err
	}
	next, err := b.compare(ctx, "next cell", b.full(100, 60), cells(nameOwnKernel, own, nextBefore, nextCode, nextWanted))
	b.goal("new live session and first cell", "ms", 25, 12, first[0])
	b.goal("next cell x+1", "ms", 2, 0.8, next[0])
	return err
}

// kernelRates finds how many programs a second the service runs when it makes a sandbox for each: those that wait at
// the beginning are a small part of all.
func (b *bench) kernelRates(ctx context.Context, own *lab.Service) error {
	full := program{name: "full", code: "import pandas, matplotlib.pyplot\nprint(1)", stdout: "1\n"}
	for _, one := range []struct {
		of        *program
		tier      string
		must, aim float64
	}{{&printing, tierBare, 8, 13}, {&full, tierFull, 3, 6}} {
		if err := filled(ctx, own, one.tier); err != nil {
			return err
		}
		var s span
		if err := s.add(ctx, airlock(nameOwnKernel, own, one.of), 4, time.Duration(b.full(10, 5))*time.Second); err != nil {
			return err
		}
		if s.why != nil {
			return s.why
		}
		b.value("programs with refill", one.tier, "a second", 1/s.pace())
		b.goal("programs a second, with refill, "+one.tier, "a second", one.must, one.aim, 1/s.pace())
	}
	return nil
}

// emptyPools measures programs for which no sandbox waits: their memory limits differ from that of the program before,
// for which those in the pool are.
func (b *bench) emptyPools(ctx context.Context, own *lab.Service) error {
	for _, one := range []struct {
		of        *program
		tier      string
		must, aim float64
	}{{&printing, tierBare, 200, 110}, {&b.plot, tierFull, 500, 300}} {
		var both []contestant // two that take turns
		for i := range 2 {
			other := *one.of
			other.memory = int64(300+i) * mebibyte
			both = append(both, refilled(own, one.tier, airlock(nameOwnKernel, own, &other)))
		}
		var all lab.Sample
		for range b.full(5, 2) { // a round begins with the other contestant than the one before
			times, err := turns(ctx, 1, both...)
			if err != nil {
				return err
			}
			all = append(append(all, times[0]...), times[1]...)
		}
		b.row(one.of.name+", no sandbox waits", nameOwnKernel, all)
		b.goal(one.of.name+", no sandbox waits", "ms", one.must, one.aim, all.P50())
	}
	return nil
}
