package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measureStart starts the service, several times, and looks at what the last
// one holds in memory, before anybody used it and after.
func (b *bench) measureStart(ctx context.Context) error {
	var first, ready sample
	for range b.plan.starts {
		if b.warm != nil {
			b.warm.stop()
		}
		var err error
		if b.warm, err = b.startAirlock(); err != nil {
			return err
		}
		took, err := b.firstAnswer(ctx)
		if err != nil {
			return err
		}
		first = append(first, took)
		full, err := zygotesReady(ctx, b.warm)
		if err != nil {
			return err
		}
		ready = append(ready, full)
	}
	b.results.Start = &Start{First: first.summary(), Ready: ready.summary()}
	fmt.Fprintf(b.progress, "   first answer after %.0f ms, all tiers after %.0f ms\n", b.results.Start.First.P50,
		b.results.Start.Ready.P50)
	return b.memory(ctx)
}

// firstAnswer is the time from the start of the service to its first answer.
func (b *bench) firstAnswer(ctx context.Context) (time.Duration, error) {
	if err := b.warm.await(ctx); err != nil {
		return 0, err
	}
	c, err := airlock(nameWarm, b.warm).open(ctx, &printing)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.attempt(ctx); err != nil {
		return 0, err
	}
	return time.Since(b.warm.began), nil
}

// A zygote that sleeps for so long without using a core has imported what it
// was to import.
const (
	still     = 400 * time.Millisecond
	readyTime = 60 * time.Second
)

// zygotesReady waits until every zygote waits, and returns how long after the
// start of the service the last one had become ready.
func zygotesReady(ctx context.Context, s *server) (time.Duration, error) {
	deadline := time.Now().Add(readyTime)
	var before string
	since := time.Now()
	for time.Now().Before(deadline) {
		asleep := true
		var now strings.Builder
		for _, z := range familyOf(s.cmd.Process.Pid, processes()).zygotes {
			asleep = asleep && z.state == 'S'
			fmt.Fprint(&now, z.pid, " ", z.ticks, "\n")
		}
		switch {
		case !asleep || now.String() != before:
			before, since = now.String(), time.Now()
		case now.Len() > 0 && time.Since(since) > still:
			return since.Sub(s.began), nil
		}
		pause(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return 0, errors.New("its zygotes do not become ready")
}

// memory reads what the service holds: at rest, and with sandboxes that wait
// in the smallest and the largest tier.
func (b *bench) memory(ctx context.Context) error {
	for _, w := range []*workload{&printing, &b.plot} {
		c, err := airlock(nameWarm, b.warm).open(ctx, w)
		if err != nil {
			return err
		}
		_, err = c.time(ctx)
		c.close()
		if err != nil {
			return err
		}
	}
	if _, err := zygotesReady(ctx, b.warm); err != nil { // they forked again behind the answers
		return err
	}
	var err error
	if b.results.Machine.Isolation, err = isolation(b.warm); err != nil {
		return err
	}
	b.results.Memory = familyOf(b.warm.cmd.Process.Pid, processes()).memory()
	for _, m := range b.results.Memory {
		fmt.Fprintf(b.progress, "   %-30s %2d x %7.1f MB of its own\n", m.Part, m.Count, m.Private)
	}
	return nil
}

// The names of parts in the results.
const (
	partParent   = "parent with root's rights"
	partService  = "service"
	partExecutor = "executor"
	partZygote   = "zygote, "
	partWaiting  = "waiting sandbox, "
)

// memory is what each part holds. What cannot be read is left out.
func (f family) memory() []Memory {
	var list []Memory
	add := func(part string, groups ...[]process) {
		var private, shared []float64
		for _, group := range groups {
			if own, pss, err := memoryOf(group); err == nil && len(group) > 0 {
				private, shared = append(private, own), append(shared, pss)
			}
		}
		if len(private) > 0 {
			list = append(list, Memory{Part: part, Count: len(private), Private: median(private), PSS: median(shared)})
		}
	}
	parent := partParent
	if len(f.service) == 0 { // without root the service is the first process
		parent = partService
	}
	add(parent, f.parent)
	add(partService, f.service)
	add(partExecutor, f.executor)
	for _, z := range f.zygotes {
		add(partZygote+z.tier, []process{z.process})
	}
	for _, z := range f.zygotes {
		add(partWaiting+z.tier, z.sandboxes...)
	}
	return list
}

// memoryOf is what a group of processes has of its own, and its proportional
// share of all, in MB.
func memoryOf(group []process) (private, pss float64, err error) {
	for _, p := range group {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid))
		if err != nil {
			return 0, 0, err
		}
		own, share := parseRollup(text)
		private, pss = private+own, pss+share
	}
	return private, pss, nil
}

// parseRollup reads /proc/PID/smaps_rollup. Private is what would be free if
// the process ended: pages that no other process maps.
func parseRollup(text []byte) (private, pss float64) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kibibytes, _ := strconv.ParseFloat(fields[1], 64)
		switch {
		case slices.Contains([]string{"Private_Clean:", "Private_Dirty:"}, fields[0]):
			private += kibibytes * 1024 / megabyte
		case fields[0] == "Pss:":
			pss += kibibytes * 1024 / megabyte
		}
	}
	return private, pss
}
