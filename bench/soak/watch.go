package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// The gauges of a sample.
const (
	serviceMemory  = iota // private bytes
	liveHeap              // bytes of the service
	otherMemory           // private bytes of the service outside of its heap
	executorMemory        // private bytes
	serviceFiles          // that are open
	executorFiles         // without those of namespaces and pooled groups
	goroutines
	processes
	groups       // folders, without pooled ones
	pooledGroups // which wait for the next sandbox
	namespaces   // pooled ones: without those of sandboxes that wait
	mounts       // of the executor
	sandboxes    // that wait for a program
	finished     // runs
	collections  // of garbage
	gauges
)

// sample is the state of the service at one moment.
type sample struct {
	at time.Duration
	of [gauges]int
}

// A sandbox that waits for a program has these. After a burst more of them wait than before, which is no leak if each
// is complete: what is counted at the end may exceed what was there by whole sandboxes, and by nothing else.
const (
	waitingProcesses = 2  // its init, and the one that becomes the program
	waitingFiles     = 13 // at most, without those of its group: an interpreter has three more

	pooledFolders = 4  // of a control group on version 1: memory, pids, cpu, cpuacct; version 2 has no pool
	pooledFiles   = 12 // one for each, and what is counted and set there

	burst = 8 // sandboxes by which pools may grow late in a soak
)

// sizes returns how many folders the control group of a sandbox is, and how many files the executor has open there.
func sizes() (folders, files int) {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return 1, 6
	}
	return pooledFolders, pooledFiles
}

// rules say how each gauge is shown, and when it has grown. A bound of 0 is none.
var rules = [gauges]struct {
	name        string
	unit        int  // in which it is shown
	climb       int  // under load, from one third of a soak to the next
	most, young int  // under load, ever; and what it may reach in a short soak, which has few quiet moments
	rests       bool // it is judged at rest
	slack       int  // by which it may grow at rest
	floor       int  // which it may reach at rest: caches, pools, connections
}{
	serviceMemory: {"MB of the service", lab.Megabyte, 4 << 20, 256 << 20, 128 << 20, false, 0, 0},
	liveHeap:      {"MB of its live heap", lab.Megabyte, 0, 0, 0, true, 4 << 20, 0},
	otherMemory:   {"MB beyond its heap", lab.Megabyte, 0, 0, 0, true, 4 << 20, 20 << 20},
	// Its heap may be five times what lives in it, and nothing outside can have it collected.
	executorMemory: {"MB of the executor", lab.Megabyte, 4 << 20, 256 << 20, 40 << 20, false, 0, 0},
	serviceFiles:   {"open files of the service", 1, 8, 0, 100, true, 3, 0}, // a connection to the index has three
	executorFiles:  {"open files of the executor", 1, 8 + burst*(waitingFiles+pooledFiles), 0, 0, true, 0, 0},
	goroutines:     {"goroutines", 1, 16, 0, 128, true, 4, 0}, // for what is being closed
	processes:      {"processes", 1, burst * waitingProcesses, 0, 0, true, 0, 0},
	groups:         {"control groups", 1, 0, 0, 0, true, 0, 0},
	pooledGroups:   {"pooled control groups", 1, 0, 0, 0, true, 0, 6},
	namespaces:     {"pooled namespaces", 1, 0, 0, 0, true, 0, 2 * 16},
	mounts:         {"mounts of the executor", 1, 0, 0, 0, true, 0, 0},
	sandboxes:      {"sandboxes that wait", 1, 0, 0, 0, true, 0, 16 * 6}, // of six tiers
	finished:       {"runs", 1, 0, 0, 0, false, 0, 0},
	collections:    {"garbage collections", 1, 0, 0, 0, false, 0, 0},
}

// sample looks at the service, and reports whether it runs programs.
func (s *service) sample(ctx context.Context) (now sample, busy bool, err error) {
	values, err := s.metrics(ctx)
	if err != nil {
		return now, true, err
	}
	v := &now.of
	private := func(pid int) int { return int(lab.Status(pid, "status", "RssAnon")) << 10 }
	v[serviceMemory], v[executorMemory] = private(s.pid), private(s.executor)
	v[liveHeap], v[goroutines] = int(values["go_gc_heap_live_bytes"]), int(values["go_goroutines"])
	v[otherMemory] = v[serviceMemory] - int(values["go_memstats_heap_sys_bytes"]-values["go_memstats_heap_released_bytes"])
	v[serviceFiles], v[collections] = len(lab.OpenFiles(s.pid)), int(values["go_gc_duration_seconds_count"])
	own := s.processes()
	v[processes], v[sandboxes] = len(own), len(s.inits(own))
	for _, target := range lab.OpenFiles(s.executor) {
		if strings.HasPrefix(target, "net:[") || strings.HasPrefix(target, "ipc:[") {
			v[namespaces]++
		} else {
			v[executorFiles]++
		}
	}
	v[namespaces] = max(0, v[namespaces]-2*v[sandboxes])
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", s.executor)) // it may have ended
	v[mounts] = bytes.Count(list, []byte("\n"))
	folders, empty := s.groups(), map[string]int{} // by name: one is in each hierarchy of version 1
	for _, folder := range folders {
		if members, err := os.ReadFile(filepath.Join(folder, "cgroup.procs")); err == nil && len(members) == 0 {
			empty[filepath.Base(folder)]++
		}
	}
	for _, folder := range folders {
		delete(empty, filepath.Base(filepath.Dir(folder))) // it has others
	}
	for _, count := range empty {
		if count == pooledFolders {
			v[pooledGroups]++
		}
	}
	v[groups] = len(folders) - pooledFolders*v[pooledGroups]
	v[executorFiles] -= pooledFiles * v[pooledGroups]
	return now, values["airlock_runs_running"]+values["airlock_runs_queued"] > 0, nil
}

// inits returns the first processes of sandboxes: those with the number 1 in a namespace below the executor's.
func (s *service) inits(own []lab.Process) (pids []int) {
	numbers := func(pid int) []string {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
		_, numbers, _ := strings.Cut(string(status), "NSpid:")
		numbers, _, _ = strings.Cut(numbers, "\n")
		return strings.Fields(numbers)
	}
	outside := len(numbers(s.executor))
	for _, p := range own {
		if inside := numbers(p.PID); len(inside) == outside+1 && inside[outside] == "1" {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// rest is the state of a service that does nothing.
type rest struct {
	sample
	kinds map[string]bool // command lines of its processes: those of sandboxes that wait are all alike
	parts []string        // of programs and uploads, which no service at rest has
}

// quiet waits until nothing runs and everything that waits for programs is in place again, and returns that state.
func (s *service) quiet(ctx context.Context) (r rest, err error) {
	s.http.CloseIdleConnections()
	r.kinds = map[string]bool{}
	calm := 0
	if err := until(ctx, "nothing runs", func() bool {
		now, busy, _ := s.sample(ctx) // it fails while the service is busy
		for _, gauge := range []int{processes, groups, mounts, executorFiles} {
			busy = busy || now.of[gauge] != r.of[gauge]
		}
		if r.sample, calm = now, calm+1; busy {
			calm = 0
		}
		return calm >= 100 // a second without a change
	}); err != nil {
		return r, err
	}
	own := s.processes()
	for _, p := range own {
		r.kinds[strings.Join(p.Argv, " ")] = true
	}
	for _, pid := range s.inits(own) {
		// Only root may look into it. One that waits has a program's file, empty.
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/workspace/*", pid))
		for _, path := range files {
			if info, err := os.Lstat(path); err == nil && (info.Name() != "main.py" || info.Size() > 0) {
				r.parts = append(r.parts, path)
			}
		}
	}
	parts, err := filepath.Glob(filepath.Join(s.data, "files", "tmp", "*"))
	r.parts = append(r.parts, parts...)
	// Memory is that after two collections. Nothing outside can ask for one, but scrapes allocate.
	first := -1
	err = errors.Join(err, until(ctx, "two garbage collections", func() bool {
		now, _, err := s.sample(ctx)
		if err == nil && first < 0 {
			first = now.of[collections]
		}
		copy(r.of[:executorMemory+1], now.of[:])
		return err == nil && now.of[collections] >= first+2
	}))
	return r, err
}

// leftovers compares two moments at rest of one service.
func leftovers(before, after rest) (left []string) {
	folders, files := sizes()
	each := [gauges]int{processes: waitingProcesses, groups: folders, executorFiles: waitingFiles + files}
	more := max(after.of[sandboxes]-before.of[sandboxes], 0)
	for gauge, r := range rules {
		was, is := before.of[gauge], after.of[gauge]
		if r.rests && is > max(was, r.floor)+r.slack+each[gauge]*more {
			left = append(left, fmt.Sprintf("%s at rest: %d, and later %d", r.name, was, is))
		}
	}
	if after.of[liveHeap] <= 0 {
		left = append(left, "what lives on the heap was not seen")
	}
	for kind := range after.kinds {
		if !before.kinds[kind] {
			left = append(left, "process "+kind)
		}
	}
	return append(left, after.parts...)
}

// judge compares the last third of a soak with the third before it, each by its quiet moments: load comes and goes, and
// what leaks stays. The first third is for caches, pools and buffers to fill.
func judge(samples []sample) (verdict error) {
	if len(samples) < 12 {
		return errors.New("too few samples to judge by: let it go on for longer")
	}
	third := len(samples) / 3
	for gauge, r := range rules {
		was, is := quantile(samples[third:2*third], gauge, 0.1), quantile(samples[2*third:], gauge, 0.1)
		if samples[len(samples)-1].at < 5*time.Minute { // in longer ones the pace of a collector does not count
			was = max(was, r.young)
		}
		if r.climb > 0 && is > was+r.climb {
			verdict = errors.Join(verdict, fmt.Errorf("%s grows: %d, and later %d", r.name, was, is))
		}
		if most := quantile(samples, gauge, 1); r.most > 0 && most > r.most {
			verdict = errors.Join(verdict, fmt.Errorf("%s: %d, more than %d", r.name, most, r.most))
		}
	}
	return verdict
}

// quantile returns the value of a gauge that a part of the samples does not exceed.
func quantile(samples []sample, gauge int, part float64) int {
	values := []int{}
	for _, s := range samples {
		values = append(values, s.of[gauge])
	}
	if slices.Sort(values); len(values) == 0 {
		return 0
	}
	return values[min(int(part*float64(len(values))), len(values)-1)]
}

// watch samples the service under load.
func (l *load) watch(ctx context.Context) {
	every := max(l.options.duration/600, 200*time.Millisecond)
	for said := time.Now(); ctx.Err() == nil; lab.Pause(ctx, every) {
		now, _, err := l.service.sample(ctx)
		if err != nil {
			continue // it may be too busy to answer
		}
		now.at, now.of[finished] = time.Since(l.began), int(l.ended.Load())
		l.samples = append(l.samples, now)
		if time.Since(said) >= 30*time.Second {
			said = time.Now()
			fmt.Fprintf(l.options.say, "  %v: %v\n", now.at.Round(time.Second), now.of)
		}
	}
}
