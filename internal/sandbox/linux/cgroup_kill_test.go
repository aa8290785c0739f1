package linux

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// All of a group is killed, without the help of a pid namespace: who is deaf, who has
// stopped, and who has no quota left. Nobody can be born any more.
func TestGroupIsKilled(t *testing.T) {
	tree := apartTree(t)
	g, err := tree.create("killed", groupLimits{memory: 64 << 20, processes: 60, cpus: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	defer g.remove()
	shell := exec.Command("/bin/sh", "-c", `for f in $*; do echo 0 > $f/tasks || exit; done
trap '' TERM HUP INT
for i in 1 2 3 4 5 6 7 8 9 10; do (while :; do :; done) & setsid sleep 600 & done
(kill -STOP $(exec sh -c 'echo $PPID')) &
while :; do sh -c 'sleep 0.01 &'; done`, "sh")
	shell.Args = append(shell.Args, g.folders...)
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); g.processes() < 20; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("only %d processes were started", g.processes())
		}
	}
	g.freeze(true)
	g.goFirst()
	g.freeze(false)
	if quota := read(t, filepath.Join(g.folder("cpu"), "cpu.cfs_quota_us")); quota != "-1\n" {
		t.Errorf("it still has a quota of %s", quota)
	}
	g.kill()
	if err := shell.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the first ended with %v", err)
	}
	folder := g.folder("pids")
	for begin := time.Now(); len(processesIn(folder)) > 0; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("%v are left", processesIn(folder))
		}
	}
	if born := read(t, filepath.Join(folder, "pids.max")); born != "0\n" {
		t.Errorf("%s could be born", born)
	}
	if g.keep() {
		t.Error("a group in which nobody can be born serves again")
	}
}

// The number of a process that has ended may be another's by the time it is killed.
func TestOnlyWhoIsListedIsKilled(t *testing.T) {
	sleeping := exec.Command("/bin/sleep", "600")
	if err := sleeping.Start(); err != nil {
		t.Fatal(err)
	}
	looks := 0
	killListed(func() []int {
		if looks++; looks%2 == 0 {
			return nil // it was of the list when it was opened, and is not any more
		}
		return []int{sleeping.Process.Pid}
	})
	if err := sleeping.Process.Signal(unix.Signal(0)); err != nil || looks == 0 {
		t.Errorf("who left the list was killed: %v, after %d looks", err, looks)
	}
	killListed(func() []int { return []int{sleeping.Process.Pid} })
	if err := sleeping.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}
