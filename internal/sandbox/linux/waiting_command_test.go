package linux

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/linux/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// needCommands skips a test on processors without processes that wait for a command.
func needCommands(t *testing.T) {
	t.Helper()
	if len(spawn.CommandProgram()) == 0 {
		sandboxtest.Skip(t, "no process waits for a command on this processor")
	}
}

// age prints the age of the shell's process in hundredths of a second.
const age = `read -r up _ </proc/uptime
read -r -a stat </proc/$$/stat
echo $((${up/./} - stat[21]))
`

// awaitPool waits until a number of processes wait.
func awaitPool(t *testing.T, s *Sandbox, name string, count int) {
	t.Helper()
	waits := func(p engine.Pool) bool { return p.Name == name && p.Waiting >= count }
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if pools, err := s.Pools(t.Context()); err != nil || slices.ContainsFunc(pools, waits) {
			return
		}
	}
	t.Fatalf("of %s none waits", name)
}

// After a program a process waits for the next one, of any language, which takes it;
// then it is replaced. The program has its own arguments, variables, input and folder,
// and no state of the previous one.
func TestCommandsWait(t *testing.T) {
	needCommands(t)
	s, err := Start(t.Context(), Config{Launcher: NewLauncher(LaunchOptions{Warm: true}), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sandboxtest.Run(t, s, sandboxtest.Spec("bash", "true"))
	for i := range 3 {
		awaitPool(t, s, "other languages", mostCommands)
		time.Sleep(500 * time.Millisecond)
		secret := fmt.Sprint("secret", i)
		spec := sandboxtest.Spec("bash", age+`echo "$1 $SECRET $(cat) $PWD $PPID"
ls -A /tmp . /proc/self/fd; echo x >/tmp/x; echo x >x`)
		spec.Args, spec.Stdin, spec.Env = []string{secret}, []byte(secret), map[string]string{"SECRET": secret}
		r := sandboxtest.Run(t, s, spec)
		waited, rest, _ := strings.Cut(r.Stdout, "\n")
		var hundredths int
		if _, err := fmt.Sscan(waited, &hundredths); err != nil || hundredths < 50 {
			t.Errorf("it waited for %q hundredths of a second", waited)
		}
		want := fmt.Sprintf("%s %[1]s %[1]s /workspace 1\n.:\nmain.sh\n\n/proc/self/fd:\n0\n1\n2\n3\n\n/tmp:\n", secret)
		if r.Code() != 0 || rest != want || r.Stderr != "" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), rest, r.Stderr)
		}
	}
}

// The sandbox's limits depend on the program, not on the waiting process.
func TestCommandHasItsShape(t *testing.T) {
	needCommands(t)
	s, err := Start(t.Context(), Config{Launcher: NewLauncher(LaunchOptions{Warm: true}), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, size := range []int64{100 << 20, 200 << 20, 100 << 20} {
		spec := sandboxtest.Spec("bash", "ulimit -f")
		spec.Limits.Workspace = size
		if r := sandboxtest.Run(t, s, spec); r.Stdout != fmt.Sprintln(size>>10) {
			t.Errorf("the largest file of a workspace of %d has %q KiB", size, r.Stdout)
		}
		awaitPool(t, s, "other languages", 1)
	}
}

// A command that cannot be executed is reported as in a cold start.
func TestNoSuchCommand(t *testing.T) {
	needCommands(t)
	for name, s := range paths(t) {
		spec := sandboxtest.Spec("bash", "true")
		spec.Language.Run = []string{"/usr/bin/bash/none", "{entry}"}
		_, err := s.Run(t.Context(), spec, silent{})
		if engine.KindOf(err) != engine.ErrNoLanguage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A compiler that dies while it waits does not affect answers.
func TestCompilerDiesWaiting(t *testing.T) {
	s, err := Start(t.Context(), Config{Launcher: NewLauncher(LaunchOptions{Warm: true}), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spec := ordinary("ts", "const x: number = 1\nconsole.log(x)\n"+hasWaited)
	sandboxtest.Run(t, s, spec)
	awaitPool(t, s, "TypeScript", mostNodes)
	killed := 0
	for _, pid := range descendants(executors(t)[0]) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(command), "\x00"+language.CompilerWaits+"\x00") {
			killed++
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	if killed < mostNodes {
		t.Errorf("%d compilers waited", killed)
	}
	for range mostNodes {
		if r := sandboxtest.Run(t, s, spec); r.Code() != 0 || r.Stdout != "1\ntrue\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
		}
	}
}

// A run is not answered early while a process other than pid 1 exists, or may exist.
func TestExitedAlone(t *testing.T) {
	for left, want := range map[int64]bool{1: true, 2: false, 0: false} {
		for _, reaped := range []bool{true, false} {
			w, done := &watch{reaped: reaped}, &outcome{Lost: true}
			if got := w.exited(7<<8, func() int64 { return left }, done); got != (want && reaped) || done.Lost ||
				done.Status != 7<<8 {
				t.Errorf("%d are left, reaped: %v: %v, %+v", left, reaped, got, done)
			}
		}
	}
	if (&watch{reaped: true}).exited(0, (*cgroup.Group)(nil).Processes, &outcome{}) {
		t.Error("without control groups")
	}
}
