package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The executor sees only its own processes, so its launcher does some work on control
// groups for it. It moves the service to where the kernel can compare it with programs,
// and removes the executor's own group.

// Root is where the host mounts its hierarchies.
const Root = "/sys/fs/cgroup"

// unifiedServiceName is the leaf for the processes of a version 2 group that has to
// delegate controllers.
const unifiedServiceName = parentName + "-service"

// Prepare makes the host's groups below root ready for an instance of the executor. service is the process that serves;
// 0 if it needs no place beside the programs.
func Prepare(root, instance string, service int) error {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	place := parseOwnGroups(string(own))
	if base, ok := unifiedBase(root, place[""]); ok {
		return emptyBase(base)
	}
	base := controllerBase(root, "cpu", place["cpu"])
	if _, err := os.Stat(filepath.Join(base, "cpu.shares")); service == 0 || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	folder := filepath.Join(base, parentName, instance, serviceName)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	// All of Airlock weighs as much as the service and the programs did separately.
	return errors.Join(setWeight(1, filepath.Join(base, parentName), 2*weightOfOne), setWeight(1, folder, weightOfOurs),
		writeFile(folder, "cgroup.procs", strconv.Itoa(service)))
}

// emptyBase prepares a group of version 2 to delegate controllers, which a group that
// holds processes may not do.
func emptyBase(base string) error {
	if err := enableControllers(base); !errors.Is(err, unix.EBUSY) {
		return err
	}
	leaf := filepath.Join(base, unifiedServiceName)
	if err := makeFolder(leaf); err != nil {
		return err
	}
	list, err := os.ReadFile(filepath.Join(base, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(list)) {
		if err := writeFile(leaf, "cgroup.procs", pid); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move process %s to %s: %w", pid, leaf, err)
		}
	}
	return enableControllers(base)
}

// Remove removes the remaining control groups of an exited instance of the executor
// below root, and reports whether it removed all of them.
func Remove(root, instance string) bool {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return true
	}
	place := parseOwnGroups(string(own))
	bases := []string{}
	if base, ok := unifiedBase(root, place[""]); ok {
		bases = append(bases, base)
	}
	for _, controller := range allControllers {
		bases = append(bases, controllerBase(root, controller, place[controller]))
	}
	all := true
	for _, base := range bases {
		folder := filepath.Join(base, parentName, instance)
		if _, err := os.Stat(folder); err != nil {
			continue
		}
		removeTree(folder)
		if _, err := os.Stat(folder); err == nil {
			all = false
		}
	}
	return all
}
