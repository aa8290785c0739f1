package linux

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// apartTree is a tree of version 1 with a hierarchy for each controller.
func apartTree(t *testing.T) *cgroupTree {
	t.Helper()
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	tree := &cgroupTree{version: 1, bases: map[string]string{}, long: newLongRuns()}
	name := "airlock-test-" + engine.NewID().String()
	for _, controller := range append([]string{"pids", memoryController}, cpuControllers...) {
		base := filepath.Join(groupRoot, controller, name)
		if err := os.Mkdir(base, 0o755); err != nil {
			sandboxtest.Skip(t, "needs control groups of version 1: "+err.Error())
		}
		tree.bases[controller] = base
		t.Cleanup(func() { removeInstance(base) })
	}
	t.Cleanup(tree.close)
	return tree
}

var smallLimits = groupLimits{memory: 64 << 20, processes: 4, cpus: 0.5}

// What is kept of a group is nothing that the next program could tell from new.
func TestGroupsAreUsedAgain(t *testing.T) {
	tree := apartTree(t)
	first, err := tree.create("first", smallLimits)
	if err != nil {
		t.Fatal(err)
	}
	busy := exec.Command("/bin/sh", "-c", "for f in $*; do echo 0 > $f/tasks; done; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done", "sh")
	busy.Args = append(busy.Args, first.folders...)
	if err := busy.Run(); err != nil {
		t.Fatal(err)
	}
	if first.cpu() == 0 || first.memoryPeak() == 0 {
		t.Fatalf("nothing was counted: %v, %d bytes", first.cpu(), first.memoryPeak())
	}
	first.idle(true)
	first.remove()
	if _, err := os.Stat(filepath.Join(tree.bases[memoryController], "first")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its memory is still counted: %v", err)
	}

	other, err := tree.create("other", groupLimits{memory: 64 << 20, processes: 5, cpus: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer other.remove()
	if slices.Contains(other.folders, first.folders[0]) {
		t.Error("one with other limits was taken")
	}
	second, err := tree.create("second", smallLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer second.remove()
	if !slices.Equal(second.folders[:3], first.folders[:3]) || second.folders[3] != filepath.Join(tree.bases[memoryController], "second") {
		t.Errorf("folders %v after %v", second.folders, first.folders)
	}
	if second.cpu() != 0 || second.memoryPeak() != 0 || second.processes() != 0 {
		t.Errorf("it starts at %v, %d bytes, %d processes", second.cpu(), second.memoryPeak(), second.processes())
	}
	second.idle(false)
	for _, f := range [][2]string{{"pids.max", "5\n"}, {"cpu.cfs_quota_us", "50000\n"}, {"memory.limit_in_bytes", "67108864\n"}, {"cpu.idle", "0\n"}} {
		for _, folder := range second.folders {
			if b, err := os.ReadFile(filepath.Join(folder, f[0])); err == nil && string(b) != f[1] {
				t.Errorf("%s is %q", f[0], b)
			}
		}
	}
}

func TestGroupsThatAreNotUsedAgain(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, *group){
		"given another weight": func(_ *testing.T, g *group) { g.weigh(weightOfLong) },
		"killed":               func(_ *testing.T, g *group) { g.goFirst() },
		"frozen":               func(_ *testing.T, g *group) { g.freeze(true) },
		"with somebody in it": func(t *testing.T, g *group) {
			sleeping := exec.Command("/bin/sleep", "60")
			if err := sleeping.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = sleeping.Process.Kill(), sleeping.Wait() })
			for _, folder := range g.folders[:3] {
				if err := writeFile(folder, "cgroup.procs", strconv.Itoa(sleeping.Process.Pid)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree := apartTree(t)
			first, err := tree.create("first", smallLimits)
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, first)
			first.remove()
			second, err := tree.create("second", smallLimits)
			if err != nil {
				t.Fatal(err)
			}
			defer second.remove()
			if slices.Contains(first.folders, second.folders[0]) {
				t.Error("it is used again")
			}
		})
	}
}

// As many are kept as are needed at once, and no more.
func TestKeptGroupsAreFew(t *testing.T) {
	tree := apartTree(t)
	var all []*group
	for range mostKept + 2 {
		g, err := tree.create(engine.NewID().String(), smallLimits)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	for _, g := range all {
		g.remove()
	}
	left, err := filepath.Glob(filepath.Join(tree.bases["pids"], "*", "pids.max"))
	if err != nil || len(left) != mostKept {
		t.Errorf("%d are left, %v", len(left), err)
	}
}
