package linux

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Where there is no machine code for it, a zygote makes sandboxes in Python,
// and pid 1 is one of its own copies: the same programs end the same way.
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
			executor := executors(t)[0]
			for name, p := range programs {
				r := sandboxtest.Run(t, s, sandboxtest.Python(p.code))
				if r.Stdout != p.stdout || r.Code() != p.exit {
					t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, r.Code(), r.Stdout, r.Stderr)
				}
			}
			asCopy := len(weaken) == 2
			copies := copiesAsInit(executor)
			for end := time.Now().Add(time.Minute); (copies > 0) != asCopy &&
				time.Now().Before(end); copies = copiesAsInit(executor) {
				time.Sleep(10 * time.Millisecond) // one that is being made is a copy until it executes init
			}
			if (copies > 0) != asCopy {
				t.Errorf("%d sandboxes have a copy of the zygote as pid 1", copies)
			}
		})
	}
}

// copiesAsInit counts sandboxes whose pid 1 is a copy of their zygote.
func copiesAsInit(executor int) (count int) {
	for _, pid := range descendants(executor) {
		command, _ := os.ReadFile(procOf(pid, "cmdline"))
		status, _ := os.ReadFile(procOf(pid, "status"))
		if strings.Contains(string(command), zygotePath) && insideNumber(string(status)) == "1" {
			count++
		}
	}
	return count
}

// A result lies where the step that it is filled into looks for it, and one
// that is passed on is loaded from where it lies.
func TestForkRequest(t *testing.T) {
	attr := make([]byte, 12)
	open := call("open", unix.SYS_OPENAT, unix.AT_FDCWD, "/proc", 0)
	open.result = new(int32)
	rule := call("rule", unix.SYS_LANDLOCK_ADD_RULE, os.Stderr, 1, attr, 0)
	rule.filled = filled{argument: 2, offset: 8, with: open.result}
	shut := call("close", unix.SYS_CLOSE, 0)
	shut.from = open.result

	body, files := (&forkRequest{setup: []step{open, rule}, main: []step{shut}, received: open.result,
		prepare: 2}).encode()
	if len(files) != 1 || files[0] != os.Stderr {
		t.Errorf("files %v", files)
	}
	buffer := append(make([]byte, bufferRequest), body...)
	word := func(at int) int { return int(binary.NativeEndian.Uint32(buffer[at:])) }
	arg := func(step, i int) int {
		return int(binary.NativeEndian.Uint64(buffer[bufferSteps+step*stepSize+16+8*i:]))
	}
	if head := [6]int{word(256), word(260), word(264), word(268), word(272), word(276)}; head != [6]int{
		2, 0, 1, 0, 2, arg(1, 2) + 8} {
		t.Errorf("head %v", head)
	}
	const kinds, result = 4, 8
	if path := arg(0, 1); string(buffer[path:path+6]) != "/proc\x00" || word(bufferSteps+kinds) != byAddress<<2 {
		t.Errorf("the path lies at %d; kinds %b", path, word(bufferSteps+kinds))
	}
	if at := word(bufferSteps + result); at != arg(1, 2)+8 {
		t.Errorf("the result of the first step is put at %d, looked for at %d", at, arg(1, 2)+8)
	}
	if got := word(bufferSteps + stepSize + kinds); got != byValue|byAddress<<4 || arg(1, 0) != 0 {
		t.Errorf("the file and the attributes have kinds %b", got)
	}
	if got := word(bufferSteps + 2*stepSize + kinds); got != byValue || arg(2, 0) != arg(1, 2)+8 {
		t.Errorf("the passed result has kind %b and lies at %d", got, arg(2, 0))
	}
}
