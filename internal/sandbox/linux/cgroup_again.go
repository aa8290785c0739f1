package linux

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// On version 1 a group is a folder in each of four hierarchies. Only in that of
// memory is there anything that may outlive a program's processes: the pages
// that are still charged to it. Its folder there is always a new one. The rest
// counts processes and processor time; when nobody is in it and its count is set
// back it is as new, and serves another program with the same limits
// (docs/decisions/0054).

// mostKept is how many wait for a next program.
const mostKept = 6

// keptGroups are without their folder in the hierarchy of memory, the one that
// was kept first in front.
type keptGroups struct {
	mu     sync.Mutex
	list   []*group
	closed bool
}

// memoryApart reports whether memory has a hierarchy to itself, which is when
// the rest of a group can be kept.
func (t *cgroupTree) memoryApart() bool {
	memory, ok := t.bases[memoryController]
	if t.version != 1 || !ok {
		return false
	}
	for controller, base := range t.bases {
		if controller != memoryController && base == memory {
			return false
		}
	}
	return true
}

// keep removes a group's folder for memory and keeps the rest; false if it
// should go as a whole.
func (g *group) keep() bool {
	if !g.whole || g.unusual || g.ended || !g.tree.memoryApart() || g.cpuFile == nil || g.processesFile == nil || !g.refresh() {
		return false
	}
	last := len(g.folders) - 1
	rest := &group{
		tree: g.tree, limits: g.limits, quota: g.quota, folders: g.folders[:last:last], join: g.join[:last:last],
		yield: g.yield, processesFile: g.processesFile, cpuFile: g.cpuFile,
	}
	rest.idling.yes = g.idling.is()
	oldest, ok := g.tree.kept.add(rest)
	if !ok {
		return false
	}
	g.join[last].Close()
	if g.peakFile != nil {
		g.peakFile.Close()
	}
	removeGroup(g.folders[last])
	if oldest != nil {
		oldest.remove()
	}
	return true
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

// take returns one with these limits that nobody is in, its count set back; nil
// if there is none. The last process of a sandbox stays in its group until its
// parent hears of its end.
func (k *keptGroups) take(limits groupLimits) *group {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, g := range k.list {
		if g.limits != limits || readAgain(g.processesFile) != "0\n" {
			continue
		}
		if _, err := unix.Pwrite(int(g.cpuFile.Fd()), []byte("0"), 0); err != nil {
			return nil
		}
		k.list = slices.Delete(k.list, i, i+1)
		return g
	}
	return nil
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
