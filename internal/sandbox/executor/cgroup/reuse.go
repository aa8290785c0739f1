package cgroup

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/trick"
)

// A group of version 1 is a folder in each hierarchy. It is reused for another program
// with the same limits (docs/decisions/0056) once it has no processes, next to nothing
// is charged to it and its counters are reset.

const (
	// maxPooled bounds the number of groups in the pool.
	maxPooled = 6
	// mostCharged bounds the memory still charged to a reused group: the kernel charges
	// in advance, 256 KiB for each processor where a process of the group ran, and
	// frees some late. The next program has that much less, and it counts as used by
	// it.
	mostCharged = 1 << 20
)

// groupPool holds groups to reuse, the oldest first.
type groupPool struct {
	mu     sync.Mutex
	list   []*Group
	closed bool
}

// recycle puts a group into the pool, and reports whether it did. A group that came
// near its memory limit is not reused: it may have lost processes for want of memory,
// or leave the kernel much to reclaim. Killed and refused processes are counted, too. Version 2
// lacks some of the counters.
func (g *Group) recycle() bool {
	if !trick.On(trick.Groups) || slices.Contains(g.counts(), nil) || !g.complete || g.dirty || g.split.Load() ||
		g.MemoryPeak() > g.limits.Memory/2 || g.Refused() > 0 || !g.resetQuota() {
		return false
	}
	again := &Group{
		tree: g.tree, limits: g.limits, quota: g.quota, folders: g.folders, join: g.join, yield: g.yield, complete: true,
		idling:        g.idling,
		processesFile: g.processesFile, refusedFile: g.refusedFile, cpuFile: g.cpuFile, peakFile: g.peakFile,
		memoryFile: g.memoryFile, socketFile: g.socketFile, oomFile: g.oomFile,
	}
	oldest, ok := g.tree.pool.put(again)
	if oldest != nil {
		oldest.destroy()
	}
	return ok
}

// resetQuota restores a group's whole share of the present period: writing the quota
// does that, even if it is unchanged.
func (g *Group) resetQuota() bool {
	base, limited := g.tree.bases["cpu"]
	if !limited || g.quota < 0 {
		return true
	}
	for _, folder := range g.folders {
		if strings.HasPrefix(folder, base+"/") {
			return writeFile(folder, "cpu.cfs_quota_us", strconv.Itoa(g.quota)) == nil
		}
	}
	return false
}

// put adds a group, and returns the group that it evicted, if any.
func (p *groupPool) put(g *Group) (oldest *Group, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	if p.list = append(p.list, g); len(p.list) > maxPooled {
		oldest = p.list[0]
		p.list = slices.Delete(p.list, 0, 1)
	}
	return oldest, true
}

// get returns a group with these limits, nil if none can be reused yet. The last
// process of a pid namespace stays in its group until its parent reaps it. Its files
// stay charged until their file systems are unmounted.
func (p *groupPool) get(limits Limits) *Group {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, g := range p.list {
		if g.limits == limits && g.isReusable() && g.resetCounters() {
			p.list = slices.Delete(p.list, i, i+1)
			return g
		}
	}
	return nil
}

// isReusable reports whether the group holds nothing that could affect the next
// program. Without processes the charge only shrinks. Processes killed for want of
// memory stay counted, even if the host was short of it. A group with an unreadable
// counter is not reused.
func (g *Group) isReusable() bool {
	if kernelfile.ReadOpen(g.processesFile) != "0\n" || kernelfile.ReadOpen(g.socketFile) != "0\n" {
		return false
	}
	memory := kernelfile.ReadOpen(g.memoryFile)
	return memory != "" && kernelfile.Int(memory) <= mostCharged &&
		strings.Contains(kernelfile.ReadOpen(g.oomFile), "oom_kill 0\n")
}

// resetCounters resets a group's counters: writing any number does that.
func (g *Group) resetCounters() bool {
	for _, f := range []*os.File{g.cpuFile, g.peakFile} {
		if _, err := unix.Pwrite(int(f.Fd()), []byte("0"), 0); err != nil {
			return false
		}
	}
	return true
}

// close empties the pool. Closing the tree removes the folders.
func (p *groupPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, g := range p.list {
		g.closeFiles()
	}
	p.list = nil
}
