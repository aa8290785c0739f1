package linux

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Any process may make the call by which a warm program reports its end. It has no
// other effect than ending the program.
func TestFinishCall(t *testing.T) {
	ways := ways(t)
	call := fmt.Sprintf(
		"import ctypes, os, time\nlibc = ctypes.CDLL(None, use_errno=True)\nfinish = lambda code: libc.syscall(%d, code)\n",
		finishCall)

	for way, run := range ways {
		// In a child the call does not exist.
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

	// In the program it ends the program and its remaining processes.
	t.Run("early", func(t *testing.T) {
		spec := sandboxtest.Python(call + `
if os.fork() == 0:
    for i in range(10**6):
        with open("late.txt", "a") as file:
            file.write(f"{i}\n")
while not os.path.exists("late.txt") or not os.path.getsize("late.txt"):
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

// Other processes that repeat the call cost the executor no work, and the program's end
// is still reported.
func TestFinishStorm(t *testing.T) {
	s := startWarm(t)
	executorPID := executors(t)[0]
	spec := sandboxtest.Python(fmt.Sprintf(`
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
for i in range(8):
    if os.fork() == 0:
        while True: libc.syscall(%d, 0)
time.sleep(2)
sys.exit(6)`, finishCall))
	before := usedBy(t, executorPID)
	r := sandboxtest.Run(t, s, spec)
	if r.Code() != 6 || r.TimedOut {
		t.Errorf("exit code %d, signal %q, stderr %q", r.Code(), r.Signal, r.Stderr)
	}
	// Eight processes call all the time: if each call reached it, the executor would compute for about as long.
	if used := usedBy(t, executorPID) - before; used > r.CPU/4 {
		t.Errorf("the executor computed for %v, the program for %v", used, r.CPU)
	}
}

// usedBy returns the processor time that a process has used.
func usedBy(t *testing.T, pid int) time.Duration {
	t.Helper()
	fields := strings.Fields(read(t, fmt.Sprintf("/proc/%d/stat", pid)))
	user, err := strconv.Atoi(fields[13])
	if err != nil {
		t.Fatal(err)
	}
	system, err := strconv.Atoi(fields[14])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / 100 // USER_HZ
}

// Timers inside a sandbox are punctual, unlike the executor's.
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
