package linux

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A group of version 1 is a folder in each hierarchy. When nobody is in it, next
// to nothing is charged to it and its counts are set back, it is as new, and
// serves another program with the same limits (docs/decisions/0056).

const (
	// mostKept is how many wait for a next program.
	mostKept = 6
	// mostCharged is what a group that serves again may still be charged for: what
	// the kernel has charged in advance, 256 KiB for each processor where a process of
	// it ran, or frees late. The next program may have so much less, and it counts as
	// used by it.
	mostCharged = 1 << 20
)

// keptGroups are those that wait, the one that was kept first in front.
type keptGroups struct {
	mu     sync.Mutex
	list   []*group
	closed bool
}

// keep has a group serve again; false if it should go. One that came near its
// limit goes: it is the one that may have lost processes for want of memory, or
// that leaves the kernel much to take back. Who was killed was weighed, too.
// Version 2 does not have all of the counts.
func (g *group) keep() bool {
	if slices.Contains(g.counts(), nil) || !g.complete || g.dirty || g.memoryPeak() > g.limits.memory/2 || !g.refresh() {
		return false
	}
	again := &group{
		tree: g.tree, limits: g.limits, quota: g.quota, folders: g.folders, join: g.join, yield: g.yield, complete: true,
		idling:        g.idling,
		processesFile: g.processesFile, cpuFile: g.cpuFile, peakFile: g.peakFile, memoryFile: g.memoryFile,
		socketFile: g.socketFile, oomFile: g.oomFile,
	}
	oldest, ok := g.tree.kept.add(again)
	if oldest != nil {
		oldest.destroy()
	}
	return ok
}

// refresh gives a group its whole share of the present period again: setting
// the quota does, also to what it was.
func (g *group) refresh() bool {
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

// add keeps a group, and returns one that has to go for it, if any.
func (k *keptGroups) add(g *group) (oldest *group, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, false
	}
	if k.list = append(k.list, g); len(k.list) > mostKept {
		oldest = k.list[0]
		k.list = slices.Delete(k.list, 0, 1)
	}
	return oldest, true
}

// take returns one with these limits that is as new, nil if there is none. The
// last process of a sandbox stays in its group until its parent hears of its end,
// and what it had on its file systems until those are gone.
func (k *keptGroups) take(limits groupLimits) *group {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, g := range k.list {
		if g.limits == limits && g.isEmpty() && g.setBack() {
			k.list = slices.Delete(k.list, i, i+1)
			return g
		}
	}
	return nil
}

// isEmpty reports whether nothing is in the group that the next program could
// meet. When there is no process, what is charged only becomes less. What was killed
// for want of memory is counted for ever, also when it was the host that had too
// little. One with a count that cannot be read is not empty.
func (g *group) isEmpty() bool {
	if readAgain(g.processesFile) != "0\n" || readAgain(g.socketFile) != "0\n" {
		return false
	}
	memory := readAgain(g.memoryFile)
	return memory != "" && parseInt(memory) <= mostCharged && strings.Contains(readAgain(g.oomFile), "oom_kill 0\n")
}

// setBack sets a group's counts back: any number does.
func (g *group) setBack() bool {
	for _, f := range []*os.File{g.cpuFile, g.peakFile} {
		if _, err := unix.Pwrite(int(f.Fd()), []byte("0"), 0); err != nil {
			return false
		}
	}
	return true
}

// close forgets them: whoever closes the tree removes their folders.
func (k *keptGroups) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, g := range k.list {
		g.closeFiles()
	}
	k.list = nil
}
