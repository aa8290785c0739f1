package linux

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The executor and each pid 1 request short slices, programs do not.
func TestShortSlices(t *testing.T) {
	before := executors(t)
	s := startBare(t, true)
	executor := slices.DeleteFunc(executors(t), func(pid int) bool { return slices.Contains(before, pid) })[0]
	slice := func(pid int) time.Duration {
		attr, err := unix.SchedGetAttr(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(attr.Runtime)
	}
	usual := slice(0)
	if usual == 0 {
		t.Log("this kernel has one slice for all")
		return
	}
	if got := slice(executor); got != shortSlice {
		t.Errorf("the executor has slices of %v", got)
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Code() != 0 {
		t.Fatal(r.Stderr)
	}
	// A waiting sandbox may be replaced between two looks: it is not counted.
	seen := 0
	for begin := time.Now(); seen == 0; time.Sleep(time.Millisecond) {
		for _, pid := range waitingPids(executor) {
			programs := ofInit(pid)
			if got := slice(pid); got != 0 && got != shortSlice {
				t.Errorf("pid 1 of a sandbox has slices of %v", got)
			}
			for _, program := range programs {
				got := slice(program)
				if got != 0 {
					seen++
				}
				if got != 0 && got != usual {
					t.Errorf("a program has slices of %v, not %v", got, usual)
				}
			}
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal("no sandbox waits")
		}
	}
}

// Without control groups pid 1 is in another session than its program.
func TestSessionOfInit(t *testing.T) {
	for way, run := range ways(t) {
		t.Run(way, func(t *testing.T) {
			r := run(t, ordinaryPython("import os\nprint(os.getsid(0) == os.getsid(1))"))
			if want := map[bool]string{true: "True\n", false: "False\n"}[os.Geteuid() == 0]; r.Stdout != want {
				t.Errorf("in pid 1's session: %q %s", r.Stdout, r.Stderr)
			}
		})
	}
}

// The guard kills living processes at their time, and not before.
func TestGuard(t *testing.T) {
	g, err := startGuard()
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	sleep := func(deadline time.Duration) (*exec.Cmd, time.Time) {
		t.Helper()
		command, pidfd := exec.Command("sleep", "600"), -1
		command.SysProcAttr = &unix.SysProcAttr{PidFD: &pidfd, Pdeathsig: unix.SIGKILL}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(deadline)
		g.end(pidfd, at)
		unix.Close(pidfd)
		return command, at
	}
	later, _ := sleep(time.Hour)
	ended, _ := sleep(10 * time.Millisecond)
	if err := ended.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ended.Wait() // killed
	for range 3 {
		command, at := sleep(20 * time.Millisecond)
		if err := command.Wait(); err == nil || err.Error() != "signal: killed" || time.Now().Before(at) {
			t.Errorf("%v, %v after its time", err, time.Since(at))
		}
	}
	if err := later.Process.Signal(unix.Signal(0)); err != nil {
		t.Error(err)
	}
	if err := later.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = later.Wait() // killed
}
