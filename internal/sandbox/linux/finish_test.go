package linux

import (
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The call with which a warm program says that it has finished is anybody's to
// make, and gets nobody further than ending the program does.
func TestFinishCall(t *testing.T) {
	ways := ways(t)
	call := fmt.Sprintf("import ctypes, os, time\nlibc = ctypes.CDLL(None, use_errno=True)\nfinish = lambda code: libc.syscall(%d, code)\n", finishCall)

	for way, run := range ways {
		// Made by a child it is a call that does not exist.
		t.Run(way+"/child", func(t *testing.T) {
			r := run(t, ordinaryPython(call+`
pid = os.fork()
if pid == 0:
    print(finish(0), os.strerror(ctypes.get_errno()), flush=True)
    os._exit(4)
print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
raise SystemExit(3)`))
			if r.Code != 3 || r.Stdout != "-1 Function not implemented\n4\n" {
				t.Errorf("exit code %d, stdout %q, stderr %q", r.Code, r.Stdout, r.Stderr)
			}
		})
	}

	// Made by the program it ends it, and what it left running.
	t.Run("early", func(t *testing.T) {
		spec := sandboxtest.Python(call + `
if os.fork() == 0:
    for i in range(10**6):
        with open("late.txt", "a") as file:
            file.write(f"{i}\n")
while not os.path.exists("late.txt"):
    time.sleep(0.001)
print("before", flush=True)
finish(5)
print("after", flush=True)
time.sleep(60)`)
		r := sandboxtest.Run(t, startWarm(t), spec)
		if r.Code() != 5 || r.Stdout != "before\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
		}
		if len(r.Files["late.txt"]) == 0 {
			t.Errorf("it left %v", r.Files)
		}
	})
}

// Timers inside a sandbox fire as punctually as anywhere, though ours do not.
func TestTimersArePunctual(t *testing.T) {
	const get = 30 // PR_GET_TIMERSLACK
	for way, run := range ways(t) {
		t.Run(way, func(t *testing.T) {
			r := run(t, ordinaryPython(fmt.Sprintf("import ctypes\nprint(ctypes.CDLL(None).prctl(%d, 0, 0, 0, 0))", get)))
			if strings.TrimSpace(r.Stdout) != fmt.Sprint(usualSlack.Nanoseconds()) {
				t.Errorf("timer slack %q", r.Stdout)
			}
		})
	}
}
