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
	"github.com/airlock-run/airlock/internal/sandbox/executor"
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
func awaitPool(t *testing.T, s *executor.Sandbox, name string, count int) {
	t.Helper()
	waits := func(p engine.Pool) bool { return p.Name == name && p.Waiting >= count }
	if !sandboxtest.Await(func() bool {
		pools, err := s.Pools(t.Context())
		return err != nil || slices.ContainsFunc(pools, waits)
	}) {
		t.Fatalf("of %s none waits", name)
	}
}

// After a program a process waits for the next one, of any language, which takes it;
// then it is replaced. The program has its own arguments, variables, input and folder,
// and no state of the previous one.
func TestCommandsWait(t *testing.T) {
	needCommands(t)
	s, err := executor.Start(t.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{Warm: true})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sandboxtest.Run(t, s, sandboxtest.Spec("bash", "true"))
	for i := range 3 {
		awaitPool(t, s, "other languages", executor.MostCommands)
		awaitAge(t, time.Second, executor.Descendants(executors(t)[0])...)
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
	s, err := executor.Start(t.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{Warm: true})})
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
	s, err := executor.Start(t.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{Warm: true})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spec := ordinary("ts", "const x: number = 1\nconsole.log(x)\n"+hasWaited)
	sandboxtest.Run(t, s, spec)
	awaitPool(t, s, "TypeScript", executor.MostNodes)
	killed := 0
	for _, pid := range executor.Descendants(executors(t)[0]) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(command), "\x00"+language.CompilerWaits+"\x00") {
			killed++
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	if killed < executor.MostNodes {
		t.Errorf("%d compilers waited", killed)
	}
	for range executor.MostNodes {
		if r := sandboxtest.Run(t, s, spec); r.Code() != 0 || r.Stdout != "1\ntrue\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
		}
	}
}
