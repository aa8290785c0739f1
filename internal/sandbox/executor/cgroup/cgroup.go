// Package cgroup limits and counts the resource usage of groups of processes, with
// control groups of version 1 or 2.
//
// A Tree is one executor's part of the host's groups (Open), with a Group for each
// program. A group has limits (Limits) and accounts (account.go). It can be frozen and
// killed as a whole (group.go), and its priority can be lowered or raised
// (processors.go). On version 1 groups are reused (reuse.go). The executor sees only
// its own processes, so its launcher calls Prepare and Remove for it (launcher.go).
//
// A nil Group stands for a host without control groups: it has no processes and no
// files to join by, and its methods do nothing. Only Kill, Remove and the accounts of
// time and memory require a group.
package cgroup

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

	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
)

// A Tree creates the groups of one executor, under one folder in each hierarchy. The
// executor itself is in a leaf beside them: while the leaf has a process the folder is
// in use. The next start sweeps folders without one.
type Tree struct {
	Version int // 2 or 1

	bases   map[string]string // controller to the folder of this executor; version 2 has one entry, ""
	long    *demotedGroups    // of programs that have run for long
	pool    groupPool
	dying   dying
	bounded bool // the kernel limits the memory of all groups together
}

const (
	parentName   = "airlock"
	executorName = "executor"
	serviceName  = "service"

	memoryController = "memory"
)

// Controllers that limit a run. Strict isolation requires the first two. On version 1
// each has its own hierarchy.
var (
	requiredControllers = []string{memoryController, "pids"}
	allControllers      = append(slices.Clone(requiredControllers), "cpu", "cpuacct")
)

// Open prepares the tree of this process, an instance of the executor, below root,
// which holds the mounted hierarchies. own is the content of /proc/self/cgroup. The
// error says why there is no tree; the caller decides whether to continue without one.
func Open(root, own, instance string) (*Tree, error) {
	place := parseOwnGroups(own)
	if base, ok := unifiedBase(root, place[""]); ok {
		return openUnified(base, instance)
	}
	t := &Tree{Version: 1, bases: map[string]string{}, long: newDemotedGroups()}
	for _, controller := range allControllers {
		if err := t.open(controller, controllerBase(root, controller, place[controller]), instance); err != nil {
			if slices.Contains(requiredControllers, controller) {
				t.Close()
				return nil, fmt.Errorf("cgroup controller %s: %w", controller, err)
			}
			delete(t.bases, controller)
		}
	}
	t.bound()
	if base, ok := t.bases["cpu"]; ok {
		_ = setWeight(1, filepath.Join(base, executorName), weightOfOurs)
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

// unifiedBase finds the group of this process in a version 2 hierarchy that has the
// required controllers.
func unifiedBase(root, place string) (string, bool) {
	base := filepath.Join(root, strings.TrimSuffix(place, "/"+unifiedServiceName))
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

// openUnified creates the executor's tree in a version 2 hierarchy, in a base that the
// launcher has emptied.
func openUnified(base, instance string) (*Tree, error) {
	t := &Tree{Version: 2, bases: map[string]string{}, long: newDemotedGroups()}
	if err := enableControllers(base); err != nil {
		return nil, err
	}
	if err := makeFolder(filepath.Join(base, parentName)); err != nil {
		return nil, err
	}
	if err := enableControllers(filepath.Join(base, parentName)); err != nil {
		return nil, err
	}
	if err := t.open("", base, instance); err != nil {
		return nil, err
	}
	if err := enableControllers(t.bases[""]); err != nil {
		return nil, err
	}
	t.bound()
	_ = setWeight(2, filepath.Join(t.bases[""], executorName), weightOfOurs)
	return t, nil
}

// restOfHost is the divisor of the machine's memory for the part that all groups
// together leave to other processes.
const restOfHost = 8

// bound sets a kernel limit on all groups of this executor together. If many programs
// use all the memory they may have at the same time, the kernel kills one of them and
// no other process of the machine.
func (t *Tree) bound() {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return
	}
	all := int64(info.Totalram) * int64(info.Unit)
	most := strconv.FormatInt(all-all/restOfHost, 10)
	if t.Version == 2 {
		t.bounded = writeFile(t.bases[""], "memory.max", most) == nil
		return
	}
	folder := t.bases[memoryController]
	if strings.TrimSpace(kernelfile.Read(folder, "memory.use_hierarchy")) == "0" {
		return // before Linux 5.11 each group is counted for itself
	}
	t.bounded = writeFile(folder, "memory.limit_in_bytes", most) == nil
}

// LimitsCPU reports whether the groups' processor limits are enforced.
func (t *Tree) LimitsCPU() bool { return t.Version == 2 || t.bases["cpu"] != "" }

func enableControllers(base string) error {
	return writeFile(base, "cgroup.subtree_control", "+memory +pids +cpu")
}

// open creates the instance's folder in one hierarchy, moves the executor into its
// leaf, and sweeps the folders of dead executors.
func (t *Tree) open(controller, base, instance string) error {
	parent := filepath.Join(base, parentName)
	if err := makeFolder(parent); err != nil {
		return err
	}
	sweep(parent)
	folder := filepath.Join(parent, instance)
	t.bases[controller] = folder
	for range 100 {
		err := enterLeaf(folder)
		// Another executor that starts may have swept the leaf while it was empty.
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	return fmt.Errorf("%s is removed again and again", folder)
}

// enterLeaf creates the instance's folder and moves the executor into its leaf.
func enterLeaf(folder string) error {
	leaf := filepath.Join(folder, executorName)
	for _, f := range []string{folder, leaf} {
		if err := makeFolder(f); err != nil {
			return err
		}
	}
	return writeFile(leaf, "cgroup.procs", "0")
}

// sweep removes the folders of executors that have exited. The kernel refuses to remove
// a group with processes, so a live executor's stays. One that is removed while it is
// being created is created again.
func sweep(parent string) {
	instances, _ := os.ReadDir(parent)
	for _, instance := range instances {
		folder := filepath.Join(parent, instance.Name())
		info, err := instance.Info()
		if err != nil || !instance.IsDir() {
			continue
		}
		err = unix.Rmdir(filepath.Join(folder, executorName))
		if err == nil || errors.Is(err, unix.ENOENT) && time.Since(info.ModTime()) > time.Minute {
			removeTree(folder)
		}
	}
}

// removeTree removes the folder of a group or of an executor that has exited, and those
// below it, except for groups that still have processes.
func removeTree(folder string) {
	groups, _ := os.ReadDir(folder)
	for _, group := range groups {
		if group.IsDir() {
			removeTree(filepath.Join(folder, group.Name()))
		}
	}
	removeGroup(folder)
}

// Close removes the tree's empty folders. The executor's own folder is not empty yet:
// its launcher removes it.
func (t *Tree) Close() {
	t.long.close()
	t.pool.close()
	for _, folder := range t.bases {
		groups, _ := os.ReadDir(folder)
		for _, group := range groups {
			if group.IsDir() && group.Name() != executorName && group.Name() != serviceName {
				removeTree(filepath.Join(folder, group.Name()))
			}
		}
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

// openControl opens a file of a group with a system call. os.OpenFile would register
// the file for polling, which takes three more calls.
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
		case errors.Is(err, unix.EINTR): // the runtime's own signals interrupt it
			continue
		case err != nil:
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
		return nil
	}
}

// optional ignores the absence of a control file.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
