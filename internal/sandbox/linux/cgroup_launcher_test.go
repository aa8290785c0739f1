package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The service stands beside the programs, where the kernel lets it go first,
// and when all has ended no control group is left.
func TestServiceBesidePrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: without it there are no control groups")
	}
	service := exec.Command("sleep", "600")
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Process.Kill() }()
	launcher := NewLauncher(LaunchOptions{Service: service.Process.Pid})
	s, err := Start(t.Context(), Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	own := instance(t, executors(t)[1]) // the first is the service
	if own == "" {
		t.Fatalf("the executor has no control group: %v", executors(t))
	}
	place := read(t, fmt.Sprintf("/proc/%d/cgroup", service.Process.Pid))
	if want := "/" + own + "/" + cgroupService; !strings.Contains(place, want) &&
		!strings.Contains(place, "/"+unifiedService) {
		t.Errorf("the service is in\n%swant %s", place, want)
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Stdout != "1\n" {
		t.Errorf("stdout %q", r.Stdout)
	}
	_ = service.Process.Kill()
	_ = service.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left := groupsOf(t, own); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func groupsOf(t *testing.T, instance string) []string {
	t.Helper()
	return slices.DeleteFunc(groups(t), func(group string) bool { return !strings.Contains(group, instance) })
}

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
	for _, controller := range cpuControllers {
		if got, want := controllerBase(root, controller, "/of/nobody"), filepath.Join(root, "cpu,cpuacct"); got != want {
			t.Errorf("%s is in %s, want %s", controller, got, want)
		}
	}
	base := filepath.Join(groupRoot, "cpu", "airlock-test-"+engine.NewID().String())
	if err := os.Mkdir(base, 0o755); err != nil {
		sandboxtest.Skip(t, "needs control groups of version 1: "+err.Error())
	}
	defer removeGroup(base)
	tree := &cgroupTree{version: 1, bases: map[string]string{"cpu": base, "cpuacct": base}}
	g, err := tree.create("run", groupLimits{memory: 1 << 20, processes: 1, cpus: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	if len(g.folders) != 1 || len(g.join) != 1 || read(t, filepath.Join(base, "run", "cpu.cfs_quota_us")) != "50000\n" {
		t.Errorf("folders %v, %d files to join by", g.folders, len(g.join))
	}
}
