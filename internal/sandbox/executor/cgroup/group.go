package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A Group is the control group of one running program. It is created for the program
// and removed after it, or on version 1 recycled for another one (see groupPool): there
// creating and removing a group takes half a millisecond.
type Group struct {
	tree    *Tree
	limits  Limits
	folders []string   // one for each hierarchy
	join    []*os.File // see Tasks and Folder
	// quota is its share of the processors, in microseconds of each cpuPeriod.
	quota int
	enter *os.File // see Procs
	// yield is the file that makes the group idle: it gets processors only while no
	// other group wants them. It is nil if the kernel does not support that.
	yield    *os.File
	ended    bool // it was killed
	complete bool // it was created without an error
	// dirty is set when more than the limits was set, which must not reach another program.
	dirty  bool
	split  atomic.Bool // it has groups below it, or had: see Job
	idling *idling

	processesFile, refusedFile, cpuFile, peakFile, memoryFile, socketFile, oomFile *os.File // see openAccounts

	looked time.Time     // when its processor time was last checked,
	used   time.Duration // and its processor time then
}

// Limits are the limits that the kernel enforces on a group.
type Limits struct {
	Memory    int64   // bytes
	Processes int     // and threads
	CPUs      float64 // 0: no limit
}

// cpuPeriod is the kernel's default, in microseconds.
const cpuPeriod = 100_000

func (l Limits) quota() int {
	if l.CPUs == 0 {
		return -1
	}
	return int(l.CPUs * cpuPeriod)
}

// maxSocketMemory limits the memory of one group's socket buffers.
const maxSocketMemory = 64 << 20

// Create creates a group, or reuses a recycled one, which may be idle. On a tree
// without controllers it is empty.
func (t *Tree) Create(name string, limits Limits) (*Group, error) {
	if g := t.pool.get(limits); g != nil {
		return g, nil
	}
	g := &Group{tree: t, limits: limits, quota: limits.quota(), idling: &idling{}}
	for controller, base := range t.bases {
		if err := g.enterHierarchy(controller, base, name); err != nil {
			g.Remove()
			return nil, err
		}
	}
	g.complete = true
	return g, nil
}

// enterHierarchy creates the group's folder in the hierarchy of a controller, and opens
// its files.
func (g *Group) enterHierarchy(controller, base, name string) (err error) {
	t, folder := g.tree, base+"/"+name
	known := slices.Contains(g.folders, folder) // two controllers, one hierarchy
	if !known {
		if err := unix.Mkdir(folder, 0o755); err != nil {
			return &fs.PathError{Op: "mkdir", Path: folder, Err: err}
		}
		g.folders = append(g.folders, folder)
	}
	if err := t.limit(controller, folder, g.limits); err != nil {
		return err
	}
	g.openAccounts(controller, folder)
	if controller == "" || controller == "cpu" {
		g.yield, _ = openControl(folder, "cpu.idle", unix.O_WRONLY) // since Linux 5.15
	}
	if known {
		return nil
	}
	file, flag := "tasks", unix.O_WRONLY
	if t.Version == 2 {
		file, flag = ".", unix.O_RDONLY
	}
	f, err := openControl(folder, file, flag)
	if err != nil {
		return err
	}
	g.join = append(g.join, f)
	if t.Version == 2 {
		g.enter, err = openControl(folder, "cgroup.procs", unix.O_WRONLY)
	}
	return err
}

// limit writes the limits that one controller enforces.
func (t *Tree) limit(controller, folder string, l Limits) error {
	memory, processes := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Processes)
	quota := strconv.Itoa(l.quota())
	switch {
	case l == Limits{}:
		return nil
	case t.Version == 2:
		err := errors.Join(
			writeFile(folder, "memory.max", memory),
			writeFile(folder, "pids.max", processes),
			writeFile(folder, "memory.oom.group", "1"),
			optional(writeFile(folder, "memory.swap.max", "0")),
		)
		if l.CPUs > 0 {
			err = errors.Join(err, writeFile(folder, "cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod)))
		}
		return err
	case controller == memoryController:
		return errors.Join(
			writeFile(folder, "memory.limit_in_bytes", memory),
			// Memory and swap together: no swap. Absent where the kernel has no swap accounting.
			optional(writeFile(folder, "memory.memsw.limit_in_bytes", memory)),
			// Socket buffers of the loopback device are counted separately here. Otherwise they
			// are not limited: they could take gigabytes of the host's own socket memory.
			optional(writeFile(folder, "memory.kmem.tcp.limit_in_bytes",
				strconv.FormatInt(min(l.Memory/4, maxSocketMemory), 10))),
		)
	case controller == "pids":
		return writeFile(folder, "pids.max", processes)
	case controller == "cpu" && l.CPUs > 0:
		return writeFile(folder, "cpu.cfs_quota_us", quota)
	}
	return nil
}

// Remove removes or recycles the group. Its processes have exited by then.
func (g *Group) Remove() {
	g.tree.long.leave(g)
	if g.ended {
		g.tree.dying.add(g.tree, -1)
	}
	if !g.recycle() {
		g.destroy()
	}
}

// Folder returns the group's open folder, in which a process can be born
// (CLONE_INTO_CGROUP). It returns -1 on version 1, where the process has to join by Tasks.
func (g *Group) Folder() int {
	if g == nil || g.tree.Version != 2 {
		return -1
	}
	return int(g.join[0].Fd())
}

// Tasks returns the files, one for each hierarchy of version 1, by which a thread joins
// the group: it writes a 0 to each. Moving a whole process would wait for every other
// fork on the machine.
func (g *Group) Tasks() []*os.File {
	if g == nil || g.tree.Version != 1 {
		return nil
	}
	return g.join
}

// Procs returns the file by which a process joins the group if it could not be born in
// it, on version 2; else nil.
func (g *Group) Procs() *os.File {
	if g == nil {
		return nil
	}
	return g.enter
}

// Bounded reports whether the kernel limits the memory of all groups of the executor
// together.
func (g *Group) Bounded() bool { return g != nil && g.tree.bounded }

// destroy removes the group and closes its files.
func (g *Group) destroy() {
	g.closeFiles()
	for _, folder := range g.folders {
		if g.split.Load() {
			removeTree(folder)
			continue
		}
		removeGroup(folder)
	}
}

func (g *Group) closeFiles() {
	for _, f := range slices.Concat(g.join, g.counts(), []*os.File{g.yield, g.enter}) {
		f.Close() // nil if the kernel does not have the file
	}
}

// removeGroup removes a group's folder. The kernel may still count a process that was
// just reaped, so removeGroup retries for a while.
func removeGroup(folder string) {
	for wait := 50 * time.Microsecond; wait < 200*time.Millisecond; wait *= 2 {
		if err := unix.Rmdir(folder); !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(wait) //nolint:forbidigo // the kernel has nothing to wait for here
	}
}

// Freeze freezes or thaws the group's processes. It reports whether the kernel can. The
// freezer of version 1 is not used, because a frozen process cannot be killed. There
// Freeze leaves the group next to no processor time.
func (g *Group) Freeze(yes bool) bool {
	const (
		longestPeriod = 1_000_000 // µs, of which the group gets:
		leastQuota    = 1_000
	)
	if g == nil {
		return false
	}
	for _, folder := range g.folders {
		switch {
		case g.tree.Version == 2:
			value := "0"
			if yes {
				value = "1"
			}
			return writeFile(folder, "cgroup.freeze", value) == nil // since Linux 5.2
		case folder == g.folder("cpu"):
			if g.dirty = true; g.ended {
				return true // it has no quota left
			}
			if yes {
				return writeFile(folder, "cpu.cfs_period_us", fmt.Sprint(longestPeriod)) == nil &&
					writeFile(folder, "cpu.cfs_quota_us", fmt.Sprint(leastQuota)) == nil
			}
			return writeFile(folder, "cpu.cfs_quota_us", fmt.Sprint(g.quota)) == nil &&
				writeFile(folder, "cpu.cfs_period_us", fmt.Sprint(cpuPeriod)) == nil
		}
	}
	return false
}

// LimitProcesses bounds the processes and threads of the group more closely than at its
// creation; 0 returns to that bound. Those that exist stay.
func (g *Group) LimitProcesses(n int64) {
	if g == nil || g.ended {
		return
	}
	most := int64(g.limits.Processes)
	if n > 0 {
		most = min(n, most)
	}
	g.dirty = true
	_ = writeFile(g.folder("pids"), "pids.max", strconv.FormatInt(most, 10)) // it was written at the creation
}

// Kill sends SIGKILL to all processes of the group. On version 2 the kernel does it at
// once. On version 1 frozen processes could not die, so Kill stops forks and kills each
// process.
func (g *Group) Kill() {
	if g.tree.Version == 2 && writeFile(g.folders[0], "cgroup.kill", "1") == nil { // since Linux 5.14
		return
	}
	folder := g.folder("pids")
	_ = writeFile(folder, "pids.max", "0")
	g.dirty = true
	KillListed(func() []int { return g.processes(folder) })
}

// processes lists the processes of the group and of those below it.
func (g *Group) processes(folder string) []int {
	pids := processesIn(folder)
	if g.split.Load() {
		jobs, _ := os.ReadDir(folder)
		for _, job := range jobs {
			if job.IsDir() {
				pids = append(pids, processesIn(folder+"/"+job.Name())...)
			}
		}
	}
	return pids
}

// folder returns the group's folder in the hierarchy of a controller, "" if there is none.
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

// mostKillRounds bounds how often KillListed looks for processes that it has missed.
// Processes still alive then die with pid 1.
const mostKillRounds = 4

// KillListed sends SIGKILL to all processes of a list, and to those born meanwhile. The
// pid of an exited process may be reused by an unrelated one, so KillListed only kills
// processes that are on the list after it was opened.
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
