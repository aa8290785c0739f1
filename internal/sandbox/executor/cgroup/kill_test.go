package cgroup

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Kill kills all processes of a group, without the help of a pid namespace: those that
// ignore signals, are stopped, or have no quota left. No more processes can be born.
func TestGroupIsKilled(t *testing.T) {
	tree := apartTree(t)
	g, err := tree.Create("killed", Limits{Memory: 64 << 20, Processes: 60, CPUs: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	shell := exec.Command("/bin/sh", "-c", `for f in $*; do echo 0 > $f/tasks || exit; done
trap '' TERM HUP INT
for i in 1 2 3 4 5 6 7 8 9 10; do (while :; do :; done) & setsid sleep 600 & done
(kill -STOP $(exec sh -c 'echo $PPID')) &
(while :; do sh -c :; done) &
exec sleep 600`, "sh") // a shell would end by itself where it cannot fork
	shell.Args = append(shell.Args, g.folders...)
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	if !sandboxtest.Await(func() bool { return g.Processes() >= 20 }) {
		t.Fatalf("only %d processes were started", g.Processes())
	}
	g.Freeze(true)
	g.BoostForExit()
	g.Freeze(false)
	if quota := read(t, filepath.Join(g.folder("cpu"), "cpu.cfs_quota_us")); quota != "-1\n" {
		t.Errorf("it still has a quota of %s", quota)
	}
	g.Kill()
	if err := shell.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the first ended with %v", err)
	}
	folder := g.folder("pids")
	if !sandboxtest.Await(func() bool { return len(processesIn(folder)) == 0 }) {
		t.Fatalf("%v are left", processesIn(folder))
	}
	if born := read(t, filepath.Join(folder, "pids.max")); born != "0\n" {
		t.Errorf("%s could be born", born)
	}
	if g.recycle() {
		t.Error("a group in which no process can start is reused")
	}
}

// On version 2 the kernel kills the group, including frozen processes.
func TestGroupIsKilledByTheKernel(t *testing.T) {
	folder := unifiedFolder(t)
	g := &Group{tree: &Tree{Version: 2}, folders: []string{folder}}
	shell := exec.Command("/bin/sh", "-c", `echo 0 > $1/cgroup.procs || exit
for i in 1 2 3 4 5 6 7 8 9 10; do setsid sleep 600 & done
while :; do sh -c 'sleep 0.01 &'; done`, "sh", folder)
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	if !sandboxtest.Await(func() bool { return len(processesIn(folder)) >= 8 }) {
		t.Fatalf("only %v were started", processesIn(folder))
	}
	if !g.Freeze(true) {
		t.Fatal("it cannot be frozen")
	}
	g.Kill()
	if err := shell.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the first ended with %v", err)
	}
	if !sandboxtest.Await(func() bool { return len(processesIn(folder)) == 0 }) {
		t.Fatalf("%v are left", processesIn(folder))
	}
}

// unifiedFolder returns a new group of version 2. It needs no controllers.
func unifiedFolder(t *testing.T) string {
	t.Helper()
	name := "airlock-test-" + rand.Text()
	for _, root := range []string{Root, Root + "/unified"} {
		folder := filepath.Join(root, name)
		if _, err := os.Stat(root + "/cgroup.procs"); err != nil || os.Mkdir(folder, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { removeGroup(folder) })
		if _, err := os.Stat(folder + "/cgroup.kill"); err == nil {
			return folder
		}
	}
	sandboxtest.Skip(
		t, "needs root and control groups of version 2 on Linux 5.14 or later, mounted beside those of version 1 or alone")
	return ""
}

// The pid of a process that has ended may be reused before it is killed.
func TestOnlyWhoIsListedIsKilled(t *testing.T) {
	sleeping := exec.Command("/bin/sleep", "600")
	if err := sleeping.Start(); err != nil {
		t.Fatal(err)
	}
	looks := 0
	KillListed(func() []int {
		if looks++; looks%2 == 0 {
			return nil // it was of the list when it was opened, and is not any more
		}
		return []int{sleeping.Process.Pid}
	})
	if err := sleeping.Process.Signal(unix.Signal(0)); err != nil || looks == 0 {
		t.Errorf("who left the list was killed: %v, after %d looks", err, looks)
	}
	KillListed(func() []int { return []int{sleeping.Process.Pid} })
	if err := sleeping.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}
