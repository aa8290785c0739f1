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
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// sample is the state of the service at one moment.
type sample struct {
	at                              time.Duration
	serviceMemory, executorMemory   int64 // private bytes
	live, beyond                    int64 // bytes of the service's: in use on its heap, and private but not of its heap
	serviceFiles, executorFiles     int
	namespaces                      int // that the executor keeps
	goroutines, processes, finished int
}

// progress is how often a soak says how far it is.
const progress = 30 * time.Second

// watch samples until it is stopped.
type watch struct {
	cancel  context.CancelFunc
	paused  atomic.Bool
	done    sync.WaitGroup
	samples []sample
}

func startWatch(s *service, l *load, every time.Duration) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel}
	w.done.Go(func() {
		begin, said := time.Now(), time.Duration(0)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if w.paused.Load() {
					continue
				}
				now := s.sample(ctx)
				now.at, now.finished = time.Since(begin), l.finished()
				if now.serviceMemory > 0 {
					w.samples = append(w.samples, now)
				}
				if now.at-said >= progress {
					said = now.at
					fmt.Fprintf(l.options.say, "  %v: %d runs; service %d MiB, %d files; executor %d MiB, %d files; %d processes\n",
						now.at.Round(time.Second), now.finished,
						now.serviceMemory>>20, now.serviceFiles, now.executorMemory>>20, now.executorFiles, now.processes)
				}
			}
		}
	})
	return w
}

// pause keeps out of the series what is not under load.
func (w *watch) pause(on bool) { w.paused.Store(on) }

func (w *watch) stop() []sample {
	w.cancel()
	w.done.Wait()
	return w.samples
}

func (s *service) sample(ctx context.Context) (now sample) {
	now.serviceMemory, now.executorMemory = private(s.pid), private(s.executor)
	now.serviceFiles, _ = openFiles(s.pid)
	now.executorFiles, now.namespaces = openFiles(s.executor)
	now.processes = len(s.below())
	if values, err := s.scrape(ctx); err == nil {
		now.goroutines = int(values["go_goroutines"])
		now.memory(values)
	}
	return now
}

// private is the memory that is a process's own, in bytes.
func private(pid int) int64 { return int64(lab.Status(pid, "status", "RssAnon")) << 10 }

// openFiles counts a process's open files, and apart from them the namespaces that it keeps.
func openFiles(pid int) (files, namespaces int) {
	for _, target := range lab.OpenFiles(pid) {
		if strings.HasPrefix(target, "net:[") || strings.HasPrefix(target, "ipc:[") {
			namespaces++
		} else {
			files++
		}
	}
	return files, namespaces
}

// quietness is the state of a service that does nothing.
type quietness struct {
	sample
	groups, mounts int
	kept           int             // groups without a process, which are reused
	waiting        int             // sandboxes
	used           []string        // sandboxes that still hold something of a program
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
		q = quietness{sample: s.sample(ctx)}
		q.countGroups(s.groups(), hasNobody)
		if mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", s.executor)); err == nil {
			q.mounts = bytes.Count(mounts, []byte("\n"))
		}
		q.waiting, q.used = s.sandboxes()
		q.kinds = s.kinds()
		q.uploads, _ = filepath.Glob(filepath.Join(s.data, "files", "tmp", "*"))
		same := q.processes == last.processes && q.groups == last.groups && q.mounts == last.mounts &&
			q.executorFiles == last.executorFiles
		last = q
		if calm++; !same {
			calm = 0
		}
		return calm >= 100 // a second without a change
	})
	if err != nil {
		return q, err
	}
	return q, s.collected(ctx, &q.sample)
}

// countGroups counts control groups and, apart from them and their files, those
// in the pool: they are in every hierarchy of version 1, without a process. The
// service's own folder, which they are all in, is none of them.
func (q *quietness) countGroups(folders []string, hasNobody func(folder string) bool) {
	empty, parents := map[string]int{}, map[string]bool{}
	for _, folder := range folders {
		parents[filepath.Base(filepath.Dir(folder))] = true
		if hasNobody(folder) {
			empty[filepath.Base(folder)]++
		}
	}
	for name, count := range empty {
		if count == waitingGroups && !parents[name] {
			q.kept++
		}
	}
	q.groups = len(folders) - q.kept*waitingGroups
	q.executorFiles -= q.kept * keptFiles
}

// hasNobody reports whether there is no process in a control group.
func hasNobody(folder string) bool {
	list, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	return err == nil && len(list) == 0
}

// collected reads what the service's memory holds after two garbage collections
// from now. Nothing outside can ask for one, but scrapes allocate.
func (s *service) collected(ctx context.Context, now *sample) error {
	begin := -1.0
	return until(ctx, "two garbage collections", func() bool {
		values, err := s.scrape(ctx)
		if err != nil {
			return false
		}
		count := values["go_gc_duration_seconds_count"]
		if begin < 0 {
			begin = count
		}
		now.serviceMemory = private(s.pid)
		now.memory(values)
		return count >= begin+2
	})
}

// memory takes apart what the service's own memory is.
func (now *sample) memory(values map[string]float64) {
	now.live = int64(values["go_gc_heap_live_bytes"])
	now.beyond = now.serviceMemory - int64(values["go_memstats_heap_sys_bytes"]-values["go_memstats_heap_released_bytes"])
}

// kinds lists the command lines of the service's processes. Those of sandboxes
// that wait for a program are all alike.
func (s *service) kinds() map[string]bool {
	own := s.below()
	kinds := map[string]bool{}
	for _, p := range lab.Processes() {
		if slices.Contains(own, p.PID) {
			kinds[strings.Join(p.Argv, " ")] = true
		}
	}
	return kinds
}

// sandboxes counts those that there are by their first processes, and names
// those in whose workspace something is: that one has been used. One that waits
// has a program's file, empty.
func (s *service) sandboxes() (count int, used []string) {
	outside := len(numbersInside(s.executor))
	for _, pid := range s.below() {
		inside := numbersInside(pid)
		if len(inside) != outside+1 || inside[outside] != "1" {
			continue
		}
		count++
		// Only root may look into it.
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/workspace/*", pid))
		files = slices.DeleteFunc(files, func(path string) bool {
			info, err := os.Lstat(path)
			return err == nil && info.Name() == "main.py" && info.Size() == 0
		})
		if len(files) > 0 {
			used = append(used, fmt.Sprintf("sandbox %d with %s", pid, filepath.Base(files[0])))
		}
	}
	return count, used
}

// numbersInside are the numbers of a process in the pid namespaces that it is in.
func numbersInside(pid int) []string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	_, numbers, _ := strings.Cut(string(status), "NSpid:")
	numbers, _, _ = strings.Cut(numbers, "\n")
	return strings.Fields(numbers)
}

// What a sandbox that waits for a program consists of. After a burst more of
// them wait than before, which is no leak as long as each is complete: so what is
// counted at the end may exceed what was there by whole sandboxes, and by nothing
// else.
const (
	waitingProcesses = 2      // its init, and the one that becomes the program
	waitingGroups    = 4      // on version 1: memory, pids, cpu, cpuacct; one on version 2
	keptFiles        = 12     // of a recycled group: one for each folder, and what is counted and set there
	maxPooled        = 6      // of those
	waitingFiles     = 25     // at most, on version 1, with those of its group: an interpreter has three more
	mostWaiting      = 16 * 6 // what the pools of six tiers may grow to
	spareNamespaces  = 16     // pairs of them, beside one for each that waits
)

// What may differ between two quiet moments although nothing was left.
const (
	// The runtime keeps a few goroutines for connections that are being closed,
	// and the store a timer. A leak of one in a hundred runs is 100 at the end of
	// 10,000.
	slackGoroutines = 4
	// A connection to the index that was not open before, and its two files.
	slackServiceFiles = 3
)

// leftovers compares two quiet moments of one service.
func (s *service) leftovers(before, after quietness) (left []string) {
	more := func(what string, before, after, slack int) {
		if after > before+slack {
			left = append(left, fmt.Sprintf("%d %s where there were %d", after, what, before))
		}
	}
	waiting := max(after.waiting-before.waiting, 0)
	more("sandboxes", 0, after.waiting, mostWaiting)
	more("processes", before.processes+waitingProcesses*waiting, after.processes, 0)
	more("control groups", before.groups+s.groupsOf(waiting), after.groups, 0)
	more("open files of the executor", before.executorFiles+s.filesOf(waiting), after.executorFiles, 0)
	more("recycled groups", maxPooled, after.kept, 0)
	more("namespaces", 2*(after.waiting+spareNamespaces), after.namespaces, 0)
	more("mounts", before.mounts, after.mounts, 0)
	more("open files of the service", before.serviceFiles, after.serviceFiles, slackServiceFiles)
	more("goroutines", before.goroutines, after.goroutines, slackGoroutines)
	for kind := range after.kinds {
		if !before.kinds[kind] {
			left = append(left, "process "+kind)
		}
	}
	left = append(left, after.used...)
	for _, name := range after.uploads {
		left = append(left, "part of an upload: "+filepath.Base(name))
	}
	return left
}

// filesOf says how many files of the executor's so many sandboxes have.
func (s *service) filesOf(waiting int) int {
	if s.groupsOf(1) == 1 {
		return (waitingFiles - keptFiles + 6) * waiting // the folder, its list of processes, what is counted and set
	}
	return waitingFiles * waiting
}

// groupsOf says how many control groups so many sandboxes have.
func (s *service) groupsOf(waiting int) int {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return waiting
	}
	return waitingGroups * waiting
}

func leftError(left []string) error {
	if len(left) == 0 {
		return nil
	}
	return errors.New("left over: " + strings.Join(left, "; "))
}

// The growth that is no growth, between the quiet moments of two parts of a
// soak. What stays below it is not seen: in ten minutes, that is some 300 bytes
// for each run. A longer soak sees less.
const (
	slackMemory = 4 << 20 // how unevenly a garbage collector comes
	slackRest   = 4 << 20 // caches that were not quite full, and what pools keep from one collection to the next
	// beyond the heap: those of the index's connections, each of which is opened when it is needed
	fullCaches      = 20 << 20
	fullHeap        = 40 << 20 // of the executor, whose heap may be five times what lives in it
	slackOfFiles    = 8        // index connections, and clients that have not gone yet
	slackOfRoutines = 16       // two for each of those
)

// judgeRest compares what the service's memory holds at rest, after garbage
// collections, when a third of the load is done and at the end. By then pools,
// connections and caches are full; these grow no more.
func judgeRest(warm, end sample) error {
	var errs []error
	for _, part := range []struct {
		name    string
		was, is int64
	}{
		{"live heap", warm.live, end.live},
		{"memory beyond its heap", max(warm.beyond, fullCaches), end.beyond},
	} {
		if part.is > part.was+slackRest || part.was <= 0 {
			errs = append(errs, fmt.Errorf("the service's %s at rest grows: %d, and later %d", part.name, part.was, part.is))
		}
	}
	return errors.Join(errs...)
}

// judgeGrowth compares the last third of a soak with the third before it, each
// by its quiet moments: load comes and goes, and what leaks stays. The first
// third is for caches, pools and buffers to fill.
func judgeGrowth(samples []sample) error {
	if len(samples) < 12 {
		return errors.New("too few samples to judge by: let it go on for longer")
	}
	middle, last := samples[len(samples)/3:2*len(samples)/3], samples[2*len(samples)/3:]
	var errs []error
	judge := func(what string, slack int64, of func(sample) int64) {
		was, is := quietest(middle, of), quietest(last, of)
		if is > was+slack {
			errs = append(errs, fmt.Errorf("%s grows: %d, and later %d", what, was, is))
		}
	}
	// Whether the collector came ten times in a third, or twice, says more of the
	// service's memory in a short soak than a leak does: there, judgeRest sees it. On a
	// slow machine the executor's heap takes more than two thirds of a short soak to
	// fill, and nothing outside can have it collected: there, what is above is judged.
	full := int64(fullHeap)
	if samples[len(samples)-1].at >= longEnough {
		judge("the service's memory", slackMemory, func(s sample) int64 { return s.serviceMemory })
		full = 0
	}
	judge("the executor's memory", slackMemory, func(s sample) int64 { return max(s.executorMemory, full) })
	judge("the service's number of open files", slackOfFiles, func(s sample) int64 { return int64(s.serviceFiles) })
	// Pools may still grow by some sandboxes, after a burst.
	judge("the executor's number of open files", slackOfFiles+waitingFiles*slackWaiting,
		func(s sample) int64 { return int64(s.executorFiles) })
	judge("the number of goroutines", slackOfRoutines, func(s sample) int64 { return int64(s.goroutines) })
	judge("the number of processes", waitingProcesses*slackWaiting, func(s sample) int64 { return int64(s.processes) })
	return errors.Join(errs...)
}

// longEnough is a soak in which a collector's pace does not count.
const longEnough = 5 * time.Minute

// slackWaiting is by how many sandboxes the pools may grow late in a soak: their
// size is judged at its end, exactly.
const slackWaiting = 8

// quietest is a series' tenth percentile.
func quietest(samples []sample, of func(sample) int64) int64 {
	values := make([]int64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/10]
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
