package gvisor

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// soak returns how many runs and how many kills leave nothing. make test-gvisor asks for all of them.
func soak() (runs, kills int) {
	if os.Getenv("AIRLOCK_TEST_SOAK") == "all" {
		return 1000, 200
	}
	return 30, 9
}

// startSoaked starts an executor, cold or with interpreters that wait.
func startSoaked(t *testing.T, warm bool) *executor.Sandbox {
	t.Helper()
	return startWith(t, executor.LaunchOptions{Runtimes: t.TempDir(), WarmFirst: warm}) // without packages
}

// Runs leave no process, mount, control group, open file, folder or file.
func TestNothingIsLeftOfRuns(t *testing.T) {
	runs, _ := soak()
	for name, warm := range map[string]bool{"cold": false, "warm": true} {
		t.Run(name, func(t *testing.T) {
			before := look(t)
			s := startSoaked(t, warm)
			var half int
			for n := range runs / 2 {
				r := sandboxtest.Run(t, s, sandboxtest.Python("print(1); open('a', 'w').write('b')"))
				if r.Stdout != "1\n" || r.Files["a"] != "b" {
					t.Fatalf("run %d: %q %q", n, r.Stdout, r.Stderr)
				}
				if n == runs/4 {
					half = before.held(t)
				}
			}
			// Up to 16 sandboxes wait, each with some ten: more of these may wait than at half of the time.
			if !sandboxtest.Await(func() bool { return before.held(t) <= half+runs/8+100 }) {
				t.Errorf("it has %d open files and control groups, after half of the runs %d", before.held(t), half)
			}
			s.Close()
			before.compare(t)
		})
	}
}

// victims are the processes that are killed, by the beginnings of their command lines.
var victims = []string{"airlock\x00executor\x00", "runsc-sandbox", "runsc-gofer"}

// A kill of the executor, of a kernel or of its file server at any time is told in words, the next program runs,
// and nothing is left of what was killed.
func TestNothingIsLeftOfKills(t *testing.T) {
	_, kills := soak()
	for name, warm := range map[string]bool{"cold": false, "warm": true} {
		t.Run(name, func(t *testing.T) {
			before := look(t)
			s := startSoaked(t, warm)
			told := map[string]int{}
			for n := 0; n < (kills+1)/2; {
				former := before.executor(t)
				victim := victims[n%len(victims)]
				what, killed := killDuringRun(t, s, before, victim)
				if killed {
					told[strings.ReplaceAll(victim, "\x00", " ")+": "+what]++
					n++
				}
				r := sandboxtest.Run(t, s, sandboxtest.Python("print(2)"))
				if what == "exit code 0" && r.Signal == "SIGKILL" { // it waited, and was dying when this got it
					told["the next program: SIGKILL"]++
					r = sandboxtest.Run(t, s, sandboxtest.Python("print(2)"))
				}
				if r.Stdout != "2\n" {
					t.Fatalf("after a kill of %q (%s): %q %q %+v", victim, what, r.Stdout, r.Stderr, r.Outcome)
				}
				if now := before.executor(t); now != former && !sandboxtest.Await(func() bool { return before.isGone(former) }) {
					t.Fatalf("left of an executor that was killed: %v", before.remains(former))
				}
			}
			s.Close()
			before.compare(t)
			for _, what := range slices.Sorted(maps.Keys(told)) {
				t.Logf("%4d x %s", told[what], what)
			}
		})
	}
}

// killDuringRun kills a victim while a program runs, and returns how the caller is told. It reports false if the
// program had ended before.
func killDuringRun(t *testing.T, s *executor.Sandbox, of *traces, victim string) (what string, killed bool) {
	t.Helper()
	ended := make(chan struct{})
	var outcome *engine.Outcome
	var err error
	go func() {
		defer close(ended)
		spec := sandboxtest.Spec("bash", "echo up; sleep 0.2; echo down")
		outcome, err = s.Run(t.Context(), spec, &sandboxtest.Host{})
	}()
	wait := time.Duration(rand.Int64N(int64(200 * time.Millisecond))) // a point of the run, whichever
	for !killed {
		select {
		case <-ended:
			return "", false
		case <-time.After(wait):
		}
		wait = time.Millisecond
		if processes := of.processes(t, of.executor(t), victim); len(processes) > 0 {
			killed = syscall.Kill(processes[rand.IntN(len(processes))], syscall.SIGKILL) == nil
		}
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("a run does not end after a kill of %q", victim)
	}
	if err != nil {
		if engine.KindOf(err) == engine.ErrInternal || err.Error() == "" {
			t.Errorf("a kill of %q is told as %v", victim, err)
		}
		return err.Error(), true
	}
	switch {
	case outcome.Signal != "":
		return outcome.Signal, true
	case outcome.ExitCode != nil:
		return "exit code " + strconv.Itoa(*outcome.ExitCode), true
	}
	t.Errorf("a kill of %q is told as %+v", victim, outcome)
	return "", true
}

// traces is what a machine has before executors of this process start.
type traces struct {
	mounts  map[string]bool
	folders map[string]bool
	own     map[string]bool // the executors that have been seen, by instance
}

func look(t *testing.T) *traces {
	t.Helper()
	return &traces{mounts: mountsOfHost(t), folders: stateFolders(t), own: map[string]bool{}}
}

// executor returns the instance of the executor that this process has started. It waits until there is one.
func (b *traces) executor(t *testing.T) (instance string) {
	t.Helper()
	if !sandboxtest.Await(func() bool {
		groups, _ := os.ReadFile("/proc/" + strconv.Itoa(child(t)) + "/cgroup")
		if found := executorGroup.FindSubmatch(groups); found != nil {
			instance = string(found[1])
			if !strings.HasSuffix(string(found[0]), "/executor\n") {
				t.Fatalf("the executor is in the control group of a sandbox: %s", groups)
			}
		}
		return instance != ""
	}) {
		t.Fatal("there is no executor")
	}
	b.own[instance] = true
	return instance
}

// executorGroup matches the control group of a process of an executor.
var executorGroup = regexp.MustCompile(`/airlock/([^/\n]+)/[^/\n]+\n`)

// processes returns those of an instance whose command lines begin so.
func (b *traces) processes(t *testing.T, instance, command string) (pids []int) {
	t.Helper()
	if command == victims[0] {
		if pid := child(t); pid != 0 { // which would be all of this process's group
			pids = append(pids, pid)
		}
		return pids
	}
	for _, pid := range b.members(instance) {
		if line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); strings.HasPrefix(string(line), command) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// members returns the processes in the control groups of an instance.
func (b *traces) members(instance string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, name := range files {
		if text, _ := os.ReadFile(name); strings.Contains(string(text), "/"+instance) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// groups returns the control groups of an instance.
func (b *traces) groups(instance string) (list []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, "/"+instance) {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// held returns how many files the executor has open, and how many control groups there are.
func (b *traces) held(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/" + strconv.Itoa(child(t)) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files) + len(b.groups(b.executor(t)))
}

// remains lists what is left of an executor.
func (b *traces) remains(instance string) (left []string) {
	for _, pid := range b.members(instance) {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		left = append(left, strconv.Itoa(pid)+" "+strings.ReplaceAll(string(line[:min(len(line), 80)]), "\x00", " "))
	}
	return append(left, b.groups(instance)...)
}

func (b *traces) isGone(instance string) bool { return len(b.remains(instance)) == 0 }

// compare fails if anything is left of the executors.
func (b *traces) compare(t *testing.T) {
	t.Helper()
	for instance := range b.own {
		if !sandboxtest.Await(func() bool { return b.isGone(instance) }) {
			t.Errorf("left: %v", b.remains(instance))
		}
	}
	for _, path := range filesOfUsers() {
		t.Errorf("%s belongs to a user of sandboxes", path)
	}
	for mount := range mountsOfHost(t) {
		if !b.mounts[mount] {
			t.Errorf("a mount is left: %s", mount)
		}
	}
	for name := range stateFolders(t) {
		if !b.folders[name] {
			t.Errorf("%s is left", name)
		}
	}
}

// stateFolders returns what is where gVisor keeps its state, and makes roots.
func stateFolders(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"/run/runsc*", "/run/gvisor*", "/tmp/runsc*", "/tmp/gvisor*", "/var/run/runsc*",
		"/dev/shm/runsc*", folder, storedPath, commandPath} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			found[name] = true
		}
	}
	return found
}

// filesOfUsers returns files of the host that belong to users of programs and their kernels: those from 0x70000000 on.
func filesOfUsers() (paths []string) {
	for _, root := range []string{"/run", "/dev/shm", "/tmp"} {
		_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			var info unix.Stat_t
			if err == nil && unix.Lstat(path, &info) == nil && info.Uid >= 0x7000_0000 && info.Uid < 0x7000_0000+2*kernelUsers {
				paths = append(paths, path)
			}
			return nil
		})
	}
	return paths
}

// mountsOfHost returns the mounts of the machine that have a name or a place of ours, or of gVisor.
func mountsOfHost(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] == "airlock" || strings.Contains(fields[1], "gvisor") ||
			strings.Contains(fields[1], "runsc") || fields[1] == storedPath {
			found[strings.TrimSpace(line)] = true
		}
	}
	return found
}

// child returns the executor that this process has started, 0 if there is none.
func child(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, _ := os.ReadFile(name)
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			line, _ := os.ReadFile(filepath.Dir(name) + "/cmdline")
			if strings.HasPrefix(string(line), "airlock\x00executor\x00") {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
				return pid
			}
		}
	}
	return 0
}
