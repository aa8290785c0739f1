package linux

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The executor and each pid 1 request short slices, programs do not.
func TestShortSlices(t *testing.T) {
	before := executors(t)
	s := startBare(t, true)
	executorPID := slices.DeleteFunc(executors(t), func(pid int) bool { return slices.Contains(before, pid) })[0]
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
	if got := slice(executorPID); got != executor.ShortSlice {
		t.Errorf("the executor has slices of %v", got)
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Code() != 0 {
		t.Fatal(r.Stderr)
	}
	// A waiting sandbox may be replaced between two looks: it is not counted.
	seen := 0
	if !sandboxtest.Await(func() bool {
		for _, pid := range waitingPids(executorPID) {
			programs := executor.ChildrenOfInit(pid)
			if got := slice(pid); got != 0 && got != executor.ShortSlice {
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
		return seen > 0
	}) {
		t.Fatal("no sandbox waits")
	}
}

// Without control groups pid 1 is in another session than its program.
func TestSessionOfInit(t *testing.T) {
	for way, run := range ways(t) {
		t.Run(way, func(t *testing.T) {
			r := run(t, ordinaryPython("import os\nprint(os.getsid(0) == os.getsid(1))"))
			if got := r.Stdout == "True\n"; got != (os.Geteuid() == 0) {
				t.Errorf("in pid 1's session: %q %s", r.Stdout, r.Stderr)
			}
		})
	}
}
