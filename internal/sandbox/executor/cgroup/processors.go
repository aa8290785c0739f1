package cgroup

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
)

// Priorities on a busy machine. Most programs are short, so programs that have run for
// a while yield to all others (docs/decisions/0045). They get no time while another
// process wants it: with a smaller share, others would still wait for their slices. The
// service and the executor are siblings of the programs' groups, since the kernel
// compares siblings, and weigh more.

// Weights of version 2. Version 1 counts in shares, of which 1024 equal a weight of
// 100.
const (
	weightOfOne   = 100  // the default of a group
	weightOfOurs  = 400  // the service and the executor
	weightOfEnded = 1000 // a killed process has to run once more to exit
	weightOfLong  = 5    // on kernels without idle groups
)

// demotedGroups are the groups of programs that have run for long. Later programs have
// priority, but demoted groups are not starved: together they get a share of the
// machine, and are boosted for a while if necessary.
type demotedGroups struct {
	mu      sync.Mutex
	groups  map[*Group]time.Duration // the processor time of each at the last check
	deficit deficit
	boosted bool // they have the default weight for now
	stop    chan struct{}
	watcher sync.WaitGroup
}

const (
	longShare = 0.25                   // of the machine, for all of them together
	longTick  = 50 * time.Millisecond  // interval of the checks
	longTurn  = 400 * time.Millisecond // they may get no time for so long
)

func newDemotedGroups() *demotedGroups { return &demotedGroups{groups: map[*Group]time.Duration{}} }

// join demotes a group until it leaves.
func (l *demotedGroups) join(g *Group) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups[g] = g.CPUTime()
	g.Idle(!l.boosted)
	if l.stop == nil {
		l.stop = make(chan struct{})
		l.watcher.Add(1)
		go l.watch(l.stop)
	}
}

// leave removes a group and restores its default weight.
func (l *demotedGroups) leave(g *Group) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.groups[g]; ok {
		delete(l.groups, g)
		g.Idle(false)
	}
	if len(l.groups) == 0 && l.stop != nil {
		close(l.stop)
		l.stop = nil
	}
}

// close stops the watcher and waits for it.
func (l *demotedGroups) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	if l.stop != nil {
		close(l.stop)
		l.stop = nil
	}
	l.mu.Unlock()
	l.watcher.Wait()
}

// watch checks at intervals whether the groups get their share.
func (l *demotedGroups) watch(stop chan struct{}) {
	defer l.watcher.Done()
	tick := time.NewTicker(longTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			l.look(now.Sub(last))
			last = now
		}
	}
}

func (l *demotedGroups) look(passed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var used time.Duration
	for g, before := range l.groups {
		now := g.CPUTime()
		used += now - before
		l.groups[g] = now
	}
	if turn := l.deficit.after(passed, used, runtime.NumCPU()); turn != l.boosted {
		l.boosted = turn
		for g := range l.groups {
			g.Idle(!turn)
		}
	}
}

// deficit is the part of their share that demoted groups have not had. It also grows
// while they do not want it: boosting them then costs no other group anything.
type deficit struct {
	time time.Duration
	turn bool
}

// after adds a period in which the groups used a time, and reports whether to boost
// them: from a deficit of longTurn on, until it is half of that. Time beyond their
// share does not count, because no other group wanted it.
func (o *deficit) after(passed, used time.Duration, processors int) bool {
	share := func(d time.Duration) time.Duration {
		return time.Duration(longShare * float64(processors) * float64(d))
	}
	o.time = min(max(o.time+share(passed)-used, 0), share(longTurn))
	switch {
	case o.time >= share(longTurn):
		o.turn = true
	case o.time <= share(longTurn)/2:
		o.turn = false
	}
	return o.turn
}

// ShortRun is how long a program keeps the default weight before DemoteIfBusy checks
// it. Most programs have ended by then. A program that computes is demoted. A program
// that waits, or does not get a processor anyway, is checked again.
const ShortRun = 100 * time.Millisecond

const (
	firstLook = 30 * time.Millisecond
	lastLook  = time.Second
	computing = 4 // it uses at least one of so many parts of a processor
)

// DemoteIfBusy demotes a program that has run for long if it computes. Otherwise it
// returns when to check again.
func (g *Group) DemoteIfBusy(now time.Time) (next time.Time) {
	if g == nil || g.ended {
		return time.Time{}
	}
	used, since := g.CPUTime(), now.Sub(g.looked)
	if !g.looked.IsZero() && used-g.used >= since/computing {
		g.demote()
		return time.Time{}
	}
	wait := min(2*since, lastLook)
	if g.looked.IsZero() {
		wait = firstLook
	}
	g.looked, g.used = now, used
	return now.Add(wait)
}

// Renew treats a program that waited, or is interrupted, as a new one: a live
// interpreter is as old as its session, but its cells are short. It returns the time of
// the next check.
func (g *Group) Renew(now time.Time) (next time.Time) {
	if g == nil || g.ended {
		return time.Time{}
	}
	if g.yield == nil {
		g.weigh(weightOfOne)
	} else {
		g.tree.long.leave(g)
	}
	g.looked = time.Time{}
	return now.Add(ShortRun)
}

// demote gives a group the lowest share of the processors.
func (g *Group) demote() {
	if g == nil || g.ended {
		return
	}
	if g.yield == nil {
		g.weigh(weightOfLong)
		return
	}
	g.tree.long.join(g)
}

// BoostForExit raises the weight of a killed group and lifts its quota: its exit must
// not wait for programs that compute, or for the next period.
func (g *Group) BoostForExit() {
	if g == nil {
		return
	}
	if !g.ended {
		g.ended = true
		g.tree.dying.add(g.tree, 1)
	}
	g.tree.long.leave(g)
	g.Idle(false)
	g.weigh(weightOfEnded)
	g.liftQuota()
}

// dying counts the killed groups that still have processes. While there is one, all of
// Airlock gets priority over other processes of the machine: a group's weight counts
// only among its siblings, and on a machine with many sessions all of Airlock together
// has the share of two. On version 2 the operator's service manager decides that.
type dying struct {
	mu    sync.Mutex
	count int
	usual string // shares otherwise
}

const weightOfEnding = 100 * weightOfOne

func (d *dying) add(t *Tree, n int) {
	const shares = "cpu.shares"
	parent := filepath.Dir(t.bases["cpu"])
	if t.Version != 1 || filepath.Base(parent) != parentName {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.count
	d.count += n
	switch {
	case before == 0:
		if d.usual == "" {
			d.usual = strings.TrimSpace(kernelfile.Read(parent, shares))
		}
		_ = setWeight(1, parent, weightOfEnding)
	case d.count == 0 && d.usual != "":
		_ = writeFile(parent, shares, d.usual)
	}
}

// liftQuota removes the group's processor quota.
func (g *Group) liftQuota() {
	if folder := g.folder("cpu"); folder == "" {
		return
	} else if g.tree.Version == 2 {
		_ = optional(writeFile(folder, "cpu.max", "max"))
	} else {
		_ = writeFile(folder, "cpu.cfs_quota_us", "-1")
	}
}

// CreateIdle creates an idle group for internal processes that must not delay a
// program. It counts nothing and limits nothing.
func (t *Tree) CreateIdle(name string) (*Group, error) {
	only := &Tree{Version: t.Version, bases: map[string]string{}}
	for _, controller := range []string{"", "cpu"} {
		if base, ok := t.bases[controller]; ok {
			only.bases[controller] = base
		}
	}
	g, err := only.Create(name, Limits{})
	if err != nil {
		return nil, err
	}
	g.Idle(true)
	return g, nil
}

// Idle sets whether the group gets processors only while no other process wants them.
// On a host that cannot do that, the group keeps its share.
func (g *Group) Idle(yes bool) {
	if g == nil || g.yield == nil {
		return
	}
	g.idling.set(g.yield, yes)
}

// idling records whether a group is idle, as last set. A new group is not. The programs
// that use a group one after the other share it: a late caller for the first program
// must not change the group without the next program's knowledge.
type idling struct {
	mu  sync.Mutex
	yes bool
}

// set writes the state to the kernel if it changed.
func (i *idling) set(f *os.File, yes bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.yes == yes {
		return
	}
	value := "0"
	if yes {
		value = "1"
	}
	if _, err := f.WriteAt([]byte(value), 0); err == nil {
		i.yes = yes
	}
}

// weigh sets the group's share of the processors. An idle group has none.
func (g *Group) weigh(weight int) {
	g.dirty = true
	for _, folder := range g.folders {
		if g.tree.Version == 2 || strings.HasPrefix(folder, g.tree.bases["cpu"]+"/") {
			_ = setWeight(g.tree.Version, folder, weight)
		}
	}
}

// setWeight sets a folder's share of the processors, beside its siblings.
func setWeight(version int, folder string, weight int) error {
	if version == 2 {
		return writeFile(folder, "cpu.weight", strconv.Itoa(weight))
	}
	return writeFile(folder, "cpu.shares", strconv.Itoa(weight*1024/weightOfOne))
}
