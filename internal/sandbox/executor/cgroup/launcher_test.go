package cgroup

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Many hosts have cpu and cpuacct in one hierarchy, under two names.
func TestTwoControllersInOneHierarchy(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "cpu,cpuacct"), 0o755),
		os.Symlink("cpu,cpuacct", filepath.Join(root, "cpu")), os.Symlink(
			"cpu,cpuacct", filepath.Join(root, "cpuacct"))); err != nil {
		t.Fatal(err)
	}
	for _, controller := range allControllers[len(requiredControllers):] {
		if got, want := controllerBase(root, controller, "/of/nobody"), filepath.Join(root, "cpu,cpuacct"); got != want {
			t.Errorf("%s is in %s, want %s", controller, got, want)
		}
	}
	base := filepath.Join(Root, "cpu", "airlock-test-"+rand.Text())
	if err := os.Mkdir(base, 0o755); err != nil {
		sandboxtest.Skip(t, "needs control groups of version 1: "+err.Error())
	}
	defer removeGroup(base)
	tree := &Tree{Version: 1, bases: map[string]string{"cpu": base, "cpuacct": base}}
	g, err := tree.Create("run", Limits{Memory: 1 << 20, Processes: 1, CPUs: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	if len(g.folders) != 1 || len(g.join) != 1 || read(t, filepath.Join(base, "run", "cpu.cfs_quota_us")) != "50000\n" {
		t.Errorf("folders %v, %d files to join by", g.folders, len(g.join))
	}
}
