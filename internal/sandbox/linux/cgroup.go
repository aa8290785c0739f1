package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Every sandbox has a control group to itself, as long as it lives. It is made for
// it and removed after it, or on version 1 recycled for another (see
// groupPool): making and removing one takes half a millisecond there.

// cgroupTree makes the groups of one executor, under one folder in each
// hierarchy. The executor itself sits in a leaf beside them: while a process
// is there the folder is in use, and the next start sweeps those where none is.
type cgroupTree struct {
	version int               // 2, 1, or 0 where there are none to use
	bases   map[string]string // controller to the folder of this executor; version 2 has one entry, ""
	long    *demotedGroups    // of programs that have run for long
	pool    groupPool
	dying   dying
	bounded bool // the kernel bounds what all groups take together
}

const (
	cgroupParent   = "airlock"
	cgroupExecutor = "executor"
	cgroupService  = "service"

	memoryController = "memory"
)

// controllers that bound a run. The first two are what strict isolation asks
// for. On version 1 each is a hierarchy of its own.
var (
	requiredControllers = []string{memoryController, "pids"}
	cpuControllers      = []string{"cpu", "cpuacct"}
)

// openCgroups prepares the tree below root, which holds the mounted
// hierarchies. own is the content of /proc/self/cgroup. The error says why
// there is no tree; the caller decides whether to go on without.
func openCgroups(root, own, instance string) (*cgroupTree, error) {
	place := parseOwnGroups(own)
	if base, ok := unifiedBase(root, place[""]); ok {
		return openUnified(base, instance)
	}
	t := &cgroupTree{version: 1, bases: map[string]string{}, long: newDemotedGroups()}
	for _, controller := range append(append([]string(nil), requiredControllers...), cpuControllers...) {
		if err := t.open(controller, controllerBase(root, controller, place[controller]), instance); err != nil {
			if controller == memoryController || controller == "pids" {
				t.close()
				return nil, fmt.Errorf("cgroup controller %s: %w", controller, err)
			}
			delete(t.bases, controller)
		}
	}
	t.bound()
	if base, ok := t.bases["cpu"]; ok {
		_ = setWeight(1, filepath.Join(base, cgroupExecutor), weightOfOurs)
	}
	return t, nil
}

// controllerBase finds the group of this process in one hierarchy of version 1.
func controllerBase(root, controller, place string) string {
	top := filepath.Join(root, controller)
	// cpu and cpuacct are often two names of one hierarchy.
	if real, err := filepath.EvalSymlinks(top); err == nil {
		top = real
	}
	base := filepath.Join(top, place)
	if _, err := os.Stat(filepath.Join(base, "cgroup.procs")); err != nil {
		return top // seen from a cgroup namespace
	}
	return base
}

// unifiedBase finds the group of this process in a version 2 hierarchy that
// has the controllers we need.
func unifiedBase(root, place string) (string, bool) {
	base := filepath.Join(root, strings.TrimSuffix(place, "/"+unifiedService))
	if _, err := os.Stat(filepath.Join(base, "cgroup.controllers")); err != nil {
		base = root
	}
	have, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return "", false
	}
	set := strings.Fields(string(have))
	for _, need := range requiredControllers {
		if !slices.Contains(set, need) {
			return "", false
		}
	}
	return base, true
}

// openUnified makes our tree in a version 2 hierarchy, in a base that the
// launcher has emptied.
func openUnified(base, instance string) (*cgroupTree, error) {
	t := &cgroupTree{version: 2, bases: map[string]string{}, long: newDemotedGroups()}
	if err := enableControllers(base); err != nil {
		return nil, err
	}
	if err := makeFolder(filepath.Join(base, cgroupParent)); err != nil {
		return nil, err
	}
	if err := enableControllers(filepath.Join(base, cgroupParent)); err != nil {
		return nil, err
	}
	if err := t.open("", base, instance); err != nil {
		return nil, err
	}
	if err := enableControllers(t.bases[""]); err != nil {
		return nil, err
	}
	t.bound()
	_ = setWeight(2, filepath.Join(t.bases[""], cgroupExecutor), weightOfOurs)
	return t, nil
}

// restOfHost is the part of the machine's memory that programs, held workspaces
// and zygotes together leave to everything else: one of so many.
const restOfHost = 8

// bound lets the kernel bound what all groups of this executor take together, so
// that however many programs want all that they may have at the same time, it is
// one of them that is ended and not something else on this machine.
func (t *cgroupTree) bound() {
	all, err := totalMemory()
	if err != nil {
		return
	}
	most := strconv.FormatInt(all-all/restOfHost, 10)
	if t.version == 2 {
		t.bounded = writeFile(t.bases[""], "memory.max", most) == nil
		return
	}
	folder := t.bases[memoryController]
	if strings.TrimSpace(readSmall(folder, "memory.use_hierarchy")) == "0" {
		return // each group is counted for itself, before Linux 5.11
	}
	t.bounded = writeFile(folder, "memory.limit_in_bytes", most) == nil
}

func enableControllers(base string) error {
	return writeFile(base, "cgroup.subtree_control", "+memory +pids +cpu")
}

// open makes the instance's folder in one hierarchy, puts the executor into
// its leaf, and sweeps what dead executors left.
func (t *cgroupTree) open(controller, base, instance string) error {
	parent := filepath.Join(base, cgroupParent)
	if err := makeFolder(parent); err != nil {
		return err
	}
	sweepCgroups(parent)
	folder := filepath.Join(parent, instance)
	t.bases[controller] = folder
	leaf := filepath.Join(folder, cgroupExecutor)
	for _, f := range []string{folder, leaf} {
		if err := makeFolder(f); err != nil {
			return err
		}
	}
	return writeFile(leaf, "cgroup.procs", "0")
}

// sweepCgroups removes the folders of executors that are gone. The kernel
// refuses to remove a group that has processes, so a live one stays, and so
// does one that is being made.
func sweepCgroups(parent string) {
	instances, _ := os.ReadDir(parent)
	for _, instance := range instances {
		folder := filepath.Join(parent, instance.Name())
		info, err := instance.Info()
		if err != nil || !instance.IsDir() {
			continue
		}
		err = unix.Rmdir(filepath.Join(folder, cgroupExecutor))
		if err == nil || errors.Is(err, unix.ENOENT) && time.Since(info.ModTime()) > time.Minute {
			removeInstance(folder)
		}
	}
}

// removeInstance removes the folder of an executor that is gone, as far as
// nobody is in it.
func removeInstance(folder string) {
	groups, _ := os.ReadDir(folder)
	for _, group := range groups {
		if group.IsDir() {
			removeGroup(filepath.Join(folder, group.Name()))
		}
	}
	removeGroup(folder)
}

// close removes the tree's folders, as far as they are empty. That of the
// executor is not yet: its launcher removes it.
func (t *cgroupTree) close() {
	t.long.close()
	t.pool.close()
	for _, folder := range t.bases {
		groups, _ := os.ReadDir(folder)
		for _, group := range groups {
			if group.IsDir() && group.Name() != cgroupExecutor && group.Name() != cgroupService {
				removeGroup(filepath.Join(folder, group.Name()))
			}
		}
	}
}

// group is the control group of one sandbox.
type group struct {
	tree    *cgroupTree
	limits  groupLimits
	folders []string // one for each hierarchy
	// join is how a sandbox's first process gets in. On version 1 it writes to
	// each of these; the file for single threads, because moving a whole process
	// waits for every other fork on the machine. On version 2 it is born in the
	// one folder, if we make it ourselves.
	join []*os.File
	// quota is its share of the processors, in microseconds of each cpuPeriod.
	quota int
	// enter is where a process that could not be born in the group gets in, on
	// version 2: one that a zygote forked.
	enter *os.File
	// yield is where it is set that the group gets processors only while nobody
	// else wants them; nil where the kernel cannot.
	yield    *os.File
	ended    bool // it was killed
	complete bool // it was made to its end
	// dirty says that more than its limits was set, which must not reach another program.
	dirty  bool
	idling *idling

	processesFile, cpuFile, peakFile, memoryFile, socketFile, oomFile *os.File // see openAccounts

	looked time.Time     // when it was last looked at whether it computes,
	used   time.Duration // and what it had used then
}

// groupLimits are what the kernel enforces on a group.
type groupLimits struct {
	memory    int64
	processes int
	cpus      float64 // 0: no limit
}

// cpuPeriod is the kernel's default, in microseconds.
const cpuPeriod = 100_000

func (l groupLimits) quota() int {
	if l.cpus == 0 {
		return -1
	}
	return int(l.cpus * cpuPeriod)
}

// maxSocketMemory is what one sandbox may have waiting in sockets.
const maxSocketMemory = 64 << 20

// create makes a group, or takes one that was kept: that one may be idle. On a tree
// without controllers it is empty.
func (t *cgroupTree) create(name string, limits groupLimits) (*group, error) {
	if g := t.pool.get(limits); g != nil {
		return g, nil
	}
	g := &group{tree: t, limits: limits, quota: limits.quota(), idling: &idling{}}
	for controller, base := range t.bases {
		if err := g.enterHierarchy(controller, base, name); err != nil {
			g.remove()
			return nil, err
		}
	}
	g.complete = true
	return g, nil
}

// enterHierarchy makes the group's folder in the hierarchy of a controller, and opens
// what is needed of it.
func (g *group) enterHierarchy(controller, base, name string) (err error) {
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
	if t.version == 2 {
		file, flag = ".", unix.O_RDONLY
	}
	f, err := openControl(folder, file, flag)
	if err != nil {
		return err
	}
	g.join = append(g.join, f)
	if t.version == 2 {
		g.enter, err = openControl(folder, "cgroup.procs", unix.O_WRONLY)
	}
	return err
}

// limit writes the limits that one controller enforces. Pid 1 of a sandbox is
// ours, so one process is added for it.
func (t *cgroupTree) limit(controller, folder string, l groupLimits) error {
	memory, processes := strconv.FormatInt(l.memory, 10), strconv.Itoa(l.processes+1)
	quota := strconv.Itoa(l.quota())
	switch {
	case l == groupLimits{}:
		return nil
	case t.version == 2:
		err := errors.Join(
			writeFile(folder, "memory.max", memory),
			writeFile(folder, "pids.max", processes),
			writeFile(folder, "memory.oom.group", "1"),
			optional(writeFile(folder, "memory.swap.max", "0")),
		)
		if l.cpus > 0 {
			err = errors.Join(err, writeFile(folder, "cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod)))
		}
		return err
	case controller == memoryController:
		return errors.Join(
			writeFile(folder, "memory.limit_in_bytes", memory),
			// Memory and swap together: no swap. Absent where the kernel has no swap accounting.
			optional(writeFile(folder, "memory.memsw.limit_in_bytes", memory)),
			// What waits in sockets of the loopback device is counted apart here,
			// and else not at all: gigabytes, out of what the host's own sockets have.
			optional(writeFile(folder, "memory.kmem.tcp.limit_in_bytes",
				strconv.FormatInt(min(l.memory/4, maxSocketMemory), 10))),
		)
	case controller == "pids":
		return writeFile(folder, "pids.max", processes)
	case controller == "cpu" && l.cpus > 0:
		return writeFile(folder, "cpu.cfs_quota_us", quota)
	}
	return nil
}

// remove gives the group back. Its processes are gone by then.
func (g *group) remove() {
	g.tree.long.leave(g)
	if g.ended {
		g.tree.dying.add(g.tree, -1)
	}
	if !g.recycle() {
		g.destroy()
	}
}

// destroy removes the group and closes its files.
func (g *group) destroy() {
	g.closeFiles()
	for _, folder := range g.folders {
		removeGroup(folder)
	}
}

func (g *group) closeFiles() {
	for _, f := range slices.Concat(g.join, g.counts(), []*os.File{g.yield, g.enter}) {
		if f != nil {
			f.Close()
		}
	}
}

// removeGroup removes a group's folder. A process that was reaped a moment ago
// may still be counted, so it is tried for a while.
func removeGroup(folder string) {
	for wait := 50 * time.Microsecond; wait < 200*time.Millisecond; wait *= 2 {
		if err := unix.Rmdir(folder); !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(wait) //nolint:forbidigo // the kernel has nothing to wait for here
	}
}

// parseOwnGroups reads /proc/self/cgroup: controller to path; "" is version 2.
func parseOwnGroups(text string) map[string]string {
	place := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			place[controller] = parts[2]
		}
	}
	return place
}

func makeFolder(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// openControl opens a file of a group as the system does. A file of Go's would
// be watched for events, which is three more calls for each.
func openControl(folder, name string, flags int) (*os.File, error) {
	fd, err := unix.Open(folder+"/"+name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: folder + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), folder+"/"+name), nil
}

func writeFile(folder, name, value string) error {
	path := folder + "/" + name
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for {
		_, err := unix.Write(fd, []byte(value))
		switch {
		case errors.Is(err, unix.EINTR): // memory limits heed signals, which the runtime sends to itself
			continue
		case err != nil:
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
		return nil
	}
}

// optional forgives the absence of a control file.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
