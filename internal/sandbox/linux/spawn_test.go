package linux

import (
	"os"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Without machine code for the processor, a zygote creates sandboxes in Python, and pid
// 1 is a copy of the zygote. Programs have the same outcomes.
func TestSpawnInPython(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: only there can a layer be left out")
	}
	programs := map[string]struct {
		code, stdout string
		exit         int
	}{
		"output":    {"print(1)", "1\n", 0},
		"exit code": {"import sys\nsys.exit(3)", "", 3},
		"signal":    {"import os\nos.kill(os.getpid(), 15)", "", 143},
		"abort":     {"import os\nos.abort()", "", 134},
		"orphan": {"import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(60)\n" +
			"  os._exit(0)\nos.wait()\nprint('left')", "left\n", 0},
		"processors": {"import os, threading\nt = threading.Thread(target=print, args=(os.getpid(), os.getppid()))\n" +
			"t.start(); t.join()", "2 1\n", 0},
	}
	for path, weaken := range map[string][]string{
		"machine code":              nil,
		"Python":                    {weakSpawn},
		"Python, init a copy of it": {weakSpawn, "execute init"},
	} {
		t.Run(path, func(t *testing.T) {
			s := startWeak(t, weaken...)
			executorPID := executors(t)[0]
			for name, p := range programs {
				r := sandboxtest.Run(t, s, sandboxtest.Python(p.code))
				if r.Stdout != p.stdout || r.Code() != p.exit {
					t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, r.Code(), r.Stdout, r.Stderr)
				}
			}
			asCopy := len(weaken) == 2
			// One that is being made is a copy until it executes init.
			if !sandboxtest.Await(func() bool { return (copiesAsInit(executorPID) > 0) == asCopy }) {
				t.Errorf("%d sandboxes have a copy of the zygote as pid 1", copiesAsInit(executorPID))
			}
		})
	}
}

// copiesAsInit counts sandboxes whose pid 1 is a copy of their zygote.
func copiesAsInit(executorPID int) (count int) {
	for _, pid := range executor.Descendants(executorPID) {
		command, _ := os.ReadFile(procOf(pid, "cmdline"))
		status, _ := os.ReadFile(procOf(pid, "status"))
		if strings.Contains(string(command), guest.ZygotePath) && insideNumber(string(status)) == "1" {
			count++
		}
	}
	return count
}
