package cgroup

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kill sends SIGKILL to all that is in the group. On version 2 the kernel does it at
// once. The freezer of version 1 would keep what it has frozen from dying, so there no
// process may be born any more, and each that is there is killed.
func (g *Group) Kill() {
	if g.tree.Version == 2 && writeFile(g.folders[0], "cgroup.kill", "1") == nil { // since Linux 5.14
		return
	}
	folder := g.folder("pids")
	_ = writeFile(folder, "pids.max", "0")
	g.dirty = true
	KillListed(func() []int { return processesIn(folder) })
}

// folder is the group's in the hierarchy of a controller; "" if there is none.
func (g *Group) folder(controller string) string {
	if g.tree.Version == 2 {
		return g.folders[0]
	}
	base, ok := g.tree.bases[controller]
	for _, folder := range g.folders {
		if ok && strings.HasPrefix(folder, base+"/") {
			return folder
		}
	}
	return ""
}

// processesIn lists the processes of a group.
func processesIn(folder string) (pids []int) {
	list, _ := os.ReadFile(folder + "/cgroup.procs")
	for field := range strings.FieldsSeq(string(list)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// mostKillRounds is how often KillListed looks for processes that it has missed.
// Whom it has not killed then dies with pid 1.
const mostKillRounds = 4

// KillListed sends SIGKILL to all processes of a list, and to those that are born
// meanwhile. The number of one that has ended may be another's, who has nothing to do
// with it, so only who is on the list after it was opened is killed.
func KillListed(list func() []int) {
	killed := map[int]bool{}
	for range mostKillRounds {
		opened := map[int]int{}
		for _, pid := range list() {
			if killed[pid] {
				continue
			}
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				opened[pid] = fd
			}
		}
		if len(opened) == 0 {
			return
		}
		for _, pid := range list() {
			if fd, ok := opened[pid]; ok {
				killed[pid] = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
			}
		}
		for _, fd := range opened {
			unix.Close(fd)
		}
	}
}
