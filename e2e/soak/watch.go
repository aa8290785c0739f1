package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sample is the state of the service at one moment.
type sample struct {
	at                              time.Duration
	serviceMemory, executorMemory   int64 // private bytes
	serviceFiles, executorFiles     int
	goroutines, processes, finished int
}

// watch samples until it is stopped.
type watch struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup
	samples []sample
}

func startWatch(s *service, l *load, every time.Duration) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel}
	w.done.Go(func() {
		begin := time.Now()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				now := s.sample(ctx)
				now.at, now.finished = time.Since(begin), l.finished()
				if now.serviceMemory > 0 {
					w.samples = append(w.samples, now)
				}
			}
		}
	})
	return w
}

func (w *watch) stop() []sample {
	w.cancel()
	w.done.Wait()
	return w.samples
}

func (s *service) sample(ctx context.Context) (now sample) {
	now.serviceMemory, now.executorMemory = private(s.pid), private(s.executor)
	now.serviceFiles, now.executorFiles = openFiles(s.pid), openFiles(s.executor)
	now.processes = len(s.below())
	if values, err := s.scrape(ctx); err == nil {
		now.goroutines = int(values["go_goroutines"])
	}
	return now
}

// private is the memory that is a process's own, in bytes.
func private(pid int) (bytes int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

func openFiles(pid int) int {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(files)
}

// quietness is the state of a service that does nothing.
type quietness struct {
	sample
	groups, mounts int
	kinds          map[string]bool // command lines of the processes
	uploads        []string
}

// quiet waits until nothing runs and everything that waits for programs is in
// place again, and returns the state of that moment.
func (s *service) quiet(ctx context.Context) (q quietness, err error) {
	s.http.CloseIdleConnections()
	calm := 0
	last := quietness{}
	err = until(ctx, "nothing runs", func() bool {
		values, err := s.scrape(ctx)
		if err != nil || values["airlock_runs_running"] > 0 || values["airlock_runs_queued"] > 0 {
			return false
		}
		q = quietness{sample: s.sample(ctx), groups: len(s.groups())}
		if mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", s.executor)); err == nil {
			q.mounts = bytes.Count(mounts, []byte("\n"))
		}
		q.kinds = s.kinds()
		q.uploads, _ = filepath.Glob(filepath.Join(s.data, "files", "tmp", "*"))
		same := q.processes == last.processes && q.groups == last.groups && q.mounts == last.mounts && q.executorFiles == last.executorFiles
		last = q
		if calm++; !same {
			calm = 0
		}
		return calm >= 20 // a second without a change
	})
	return q, err
}

// kinds lists the command lines of the service's processes. Those of sandboxes
// that wait for a program are all alike.
func (s *service) kinds() map[string]bool {
	own := s.below()
	kinds := map[string]bool{}
	for _, p := range processes() {
		if slices.Contains(own, p.pid) {
			kinds[strings.Join(p.argv, " ")] = true
		}
	}
	return kinds
}

// What a sandbox that waits takes, at most: after a burst more of them wait
// than before, up to a bound, and then go together with what they have.
const (
	mostWaiting     = 64 // of all tiers
	waitingGroups   = 4
	waitingFiles    = 13
	waitingPrograms = 2
)

// leftovers compares two quiet moments of one service.
func (s *service) leftovers(before, after quietness) (left []string) {
	more := func(what string, before, after, slack int) {
		if after > before+slack {
			left = append(left, fmt.Sprintf("%d %s where there were %d", after, what, before))
		}
	}
	waiting := max((after.processes-before.processes+waitingPrograms-1)/waitingPrograms, 0)
	more("processes", before.processes, after.processes, waitingPrograms*mostWaiting)
	more("control groups", before.groups, after.groups, waitingGroups*waiting+2)
	more("open files of the executor", before.executorFiles, after.executorFiles, waitingFiles*waiting+8)
	more("mounts", before.mounts, after.mounts, 2)
	more("open files of the service", before.serviceFiles, after.serviceFiles, 4)
	more("goroutines", before.goroutines, after.goroutines, 6)
	for kind := range after.kinds {
		if !before.kinds[kind] {
			left = append(left, "process "+kind)
		}
	}
	for _, name := range after.uploads {
		left = append(left, "part of an upload: "+filepath.Base(name))
	}
	return left
}

func leftError(left []string) error {
	if len(left) == 0 {
		return nil
	}
	return errors.New("left over: " + strings.Join(left, "; "))
}

// The growth that is no growth: noise of a garbage collector, and buffers that
// the first runs have not asked for yet.
const (
	slackMemory = 24 << 20
	slackFiles  = 40
)

// judgeGrowth compares the last third of a soak with the third before it. What
// grows without bound is higher there by as much as it was higher before.
func judgeGrowth(samples []sample) error {
	if len(samples) < 12 {
		return errors.New("too few samples to judge by: let it go on for longer")
	}
	middle, last := samples[len(samples)/3:2*len(samples)/3], samples[2*len(samples)/3:]
	var errs []error
	judge := func(what string, slack int64, of func(sample) int64) {
		was, is := medianOf(middle, of), medianOf(last, of)
		if is > was+was/5+slack {
			errs = append(errs, fmt.Errorf("%s grows: %d, and later %d", what, was, is))
		}
	}
	judge("the service's memory", slackMemory, func(s sample) int64 { return s.serviceMemory })
	judge("the executor's memory", slackMemory, func(s sample) int64 { return s.executorMemory })
	judge("the service's number of open files", slackFiles, func(s sample) int64 { return int64(s.serviceFiles) })
	judge("the executor's number of open files", slackFiles, func(s sample) int64 { return int64(s.executorFiles) })
	judge("the number of goroutines", 2*slackFiles, func(s sample) int64 { return int64(s.goroutines) })
	judge("the number of processes", slackFiles, func(s sample) int64 { return int64(s.processes) })
	return errors.Join(errs...)
}

func medianOf(samples []sample, of func(sample) int64) int64 {
	values := make([]int64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// slope fits a line to a series and returns its rise in percent of its mean an
// hour, without the first third.
func slope(samples []sample, of func(sample) int64) float64 {
	samples = samples[len(samples)/3:]
	var n, sx, sy, sxx, sxy float64
	for _, s := range samples {
		x, y := s.at.Hours(), float64(of(s))
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 && sy > 0 {
		return (n*sxy - sx*sy) / d / (sy / n) * 100
	}
	return 0
}
