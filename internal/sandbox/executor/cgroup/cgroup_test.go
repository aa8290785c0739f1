package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Not every test machine has a version 2 hierarchy, so this test checks the values
// written to ordinary files. The suite tests that the kernel enforces them.
func TestUnifiedLimits(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"memory.max", "pids.max", "memory.oom.group", "cpu.max"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree := &Tree{Version: 2}
	if err := tree.limit("", folder, Limits{Memory: 1 << 30, Processes: 64, CPUs: 1.5}); err != nil {
		t.Fatal(err) // that memory.swap.max is missing is no error
	}
	for name, want := range map[string]string{"memory.max": "1073741824", "pids.max": "64", "memory.oom.group": "1",
		"cpu.max": "150000 100000"} {
		if got, _ := os.ReadFile(filepath.Join(folder, name)); string(got) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if err := tree.limit("", t.TempDir(), Limits{Memory: 1, Processes: 1}); err == nil {
		t.Error("a limit that cannot be written was taken for set")
	}
}

func TestUnifiedUsage(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{
		"cpu.stat": "usage_usec 1500000\nuser_usec 1\n", "memory.peak": "4096\n",
		"memory.events": "low 0\noom 2\noom_kill 1\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := &Group{tree: &Tree{Version: 2}, folders: []string{folder}}
	g.openAccounts("", folder)
	type usage struct {
		cpu            time.Duration
		peak, oomKills int64
	}
	if got, want := (usage{g.CPUTime(), g.MemoryPeak(), g.OOMKills()}),
		(usage{1500 * time.Millisecond, 4096, 1}); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

func TestParseOwnGroups(t *testing.T) {
	place := parseOwnGroups("4:memory:/a/b\n2:cpu,cpuacct:/c\n0::/d\nnonsense\n")
	for controller, want := range map[string]string{"memory": "/a/b", "cpu": "/c", "cpuacct": "/c", "": "/d"} {
		if place[controller] != want {
			t.Errorf("%q: %q, want %q", controller, place[controller], want)
		}
	}
}

// An executor that starts while others sweep gets its groups: without them it would have
// weaker limits.
func TestOpenBesideSweeps(t *testing.T) {
	const controller = "pids"
	base := apartTree(t).bases[controller]
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(Root, controller, parseOwnGroups(string(own))[controller])
	parent := filepath.Join(base, parentName)
	stop := make(chan struct{})
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				sweep(parent)
			}
		}
	})
	for i := range 300 {
		tree := &Tree{Version: 1, bases: map[string]string{}}
		if err := tree.open(controller, base, strconv.Itoa(i)); err != nil {
			t.Errorf("executor %d: %v", i, err)
		}
		if err := writeFile(home, "cgroup.procs", "0"); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	sweeping.Wait()
	sweep(parent)
	removeGroup(parent)
}
