package linux

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// startWarm starts a sandbox whose zygotes are ready, for programs that import no packages.
func startWarm(t testing.TB) *executor.Sandbox {
	t.Helper()
	return startWarmWith(t, sandboxtest.LiveRuntimesOf(t))
}

// startWarmWithPackages also starts the zygotes of packages.
func startWarmWithPackages(t testing.TB) *executor.Sandbox {
	t.Helper()
	return startWarmWith(t, sandboxtest.Runtimes())
}

func startWarmWith(t testing.TB, runtimes string) *executor.Sandbox {
	t.Helper()
	launcher := executor.NewLauncher(executor.LaunchOptions{Runtimes: runtimes, WarmFirst: true})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestSuiteWarm runs the suite in sandboxes forked from a zygote.
func TestSuiteWarm(t *testing.T) {
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open: func(t *testing.T) engine.Sandbox { return startWarm(t) },
		Root: os.Geteuid() == 0,
	})
}

// Sandboxes forked from one zygote have different random numbers.
func TestRandomNumbersDiffer(t *testing.T) {
	warm := startWarmWithPackages(t)
	code := "import random, os\nprint(random.random(), os.urandom(8))\n"
	if _, err := os.Stat(sandboxtest.Runtimes() + "/python/lib/numpy"); err == nil {
		code += "import numpy\nprint(numpy.random.rand(), numpy.random.default_rng().random())\n"
	}
	keys := "import multiprocessing, ssl, sqlite3, tempfile, uuid\n" +
		"print(multiprocessing.current_process().authkey.hex(), ssl.RAND_bytes(16).hex(), tempfile.mktemp(), uuid.uuid1(), " +
		"uuid.getnode())\n" +
		"print(sqlite3.connect(':memory:').execute('select hex(randomblob(16))').fetchone()[0])\n"
	for _, code := range []string{code, keys} {
		seen := map[string]bool{}
		for range 8 {
			r := sandboxtest.Run(t, warm, sandboxtest.Python(code))
			for line := range strings.Lines(r.Stdout) {
				for _, number := range strings.Fields(line) {
					if seen[number] {
						t.Errorf("%s came twice", number)
					}
					seen[number] = true
				}
			}
			if r.Code() != 0 {
				t.Error(r.Stderr)
			}
		}
		if len(seen) < 16 {
			t.Errorf("only %d numbers were drawn", len(seen))
		}
	}
}

// Processes of a program authenticate each other with a key that is new for each
// program.
func TestProcessesTrustOneAnother(t *testing.T) {
	r := sandboxtest.Run(t, startWarm(t), sandboxtest.Python(`import multiprocessing, multiprocessing.connection
if __name__ == "__main__":
    key = multiprocessing.current_process().authkey
    print(len(key), hash(key) == hash(bytes(key)), multiprocessing.current_process().authkey == bytes(key))
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        print(dict(shared))`))
	if want := "32 True True\n{'a': 1}\n"; r.Stdout != want {
		t.Errorf("%q, want %q\n%s", r.Stdout, want, r.Stderr)
	}
}

// A zygote that dies during its imports is reported and replaced.
func TestZygoteDiesEarly(t *testing.T) {
	launcher := executor.NewLauncher(executor.LaunchOptions{Runtimes: sandboxtest.LiveRuntimesOf(t), Warm: true})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	executorPID := executors(t)[0]
	var first []int
	for end := time.Now().Add(time.Minute); len(first) == 0 && time.Now().Before(end); {
		first = zygotesOf(executorPID)
	}
	if len(first) == 0 {
		t.Fatal("no zygote was started")
	}
	for _, pid := range first {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print('on')")); r.Stdout != "on\n" || r.Start != engine.StartCold {
		t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
	}
	if !sandboxtest.Await(func() bool {
		pools, err := s.Pools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(pools, func(p engine.Pool) bool { return !p.Ready })
	}) {
		t.Error("some tier has no zygote")
	}
}

// TestTiersAreWarm checks that the interpreter of each tier starts, with the packages that
// are installed.
func TestTiersAreWarm(t *testing.T) {
	s := startWarmWithPackages(t)
	pools, err := s.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(pools) < 3 {
		t.Errorf("there are only %d pools: %+v", len(pools), pools)
	}
	for _, p := range pools {
		if p.Cold != "" {
			t.Errorf("programs of the %s tier start cold: %s", p.Name, p.Cold)
		}
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Start != engine.StartWarm {
		t.Error("a program that an interpreter waited for is said to have started cold")
	}
}

// TestColdPools checks a service whose zygotes never get ready: its programs run, its
// pools say why they start cold, and the log does, once, with Python's own error.
func TestColdPools(t *testing.T) {
	var log syncBuffer
	launcher := executor.NewLauncher(executor.LaunchOptions{Warm: true, Weaken: []string{weakZygote},
		Log: slog.New(slog.NewJSONHandler(&log, nil))})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	const cause = "ValueError: non-hexadecimal number"
	var bare, standard engine.Pool
	if !sandboxtest.Await(func() bool {
		pools, err := s.Pools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		of := func(name string) engine.Pool {
			return pools[slices.IndexFunc(pools, func(p engine.Pool) bool { return p.Name == name })]
		}
		bare, standard = of("bare"), of("standard")
		return bare.Cold != "" && standard.Cold != "" && log.String() != ""
	}) || bare.Ready || !strings.Contains(bare.Cold, cause) || !strings.Contains(standard.Cold, cause) {
		t.Errorf("%+v, %+v, want both cold by %q", bare, standard, cause)
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print('on')")); r.Stdout != "on\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], `"level":"WARN"`) || !strings.Contains(lines[0], cause) {
		t.Errorf("the log: %q", lines)
	}
}

// syncBuffer is a buffer that several goroutines may use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A zygote that dies is replaced, and programs run meanwhile.
func TestZygoteDies(t *testing.T) {
	s := startWarm(t)
	executorPID := executors(t)[0]
	before := zygotesOf(executorPID)
	if len(before) == 0 {
		t.Fatal("there are no zygotes")
	}
	for _, pid := range before {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if r := sandboxtest.Run(t, s, sandboxtest.Python("print('on')")); r.Stdout != "on\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
		}
	}
	if !sandboxtest.Await(func() bool { return len(zygotesOf(executorPID)) > 0 }) {
		t.Fatal("the zygote was not replaced")
	}
	if !sandboxtest.Await(func() bool { return zombies(t, executorPID) == 0 }) { // others have just ended
		t.Errorf("%d processes of the dead zygote were not reaped", zombies(t, executorPID))
	}
}

func zygotesOf(executorPID int) (pids []int) {
	for _, pid := range executor.Descendants(executorPID) {
		command, _ := os.ReadFile(procOf(pid, "cmdline"))
		status, _ := os.ReadFile(procOf(pid, "status"))
		if strings.Contains(string(command), guest.ZygotePath) && insideNumber(string(status)) == "" {
			// else it is a sandbox, possibly still starting
			pids = append(pids, pid)
		}
	}
	return pids
}

// A zygote that temporarily cannot fork is not dead: programs start cold, and later its
// sandboxes wait again.
func TestZygoteCannotFork(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: a control group forbids the zygote to fork")
	}
	root := "/sys/fs/cgroup/pids"
	if _, err := os.Stat(root); err != nil { // version 2
		root = "/sys/fs/cgroup"
		if err := os.WriteFile(root+"/cgroup.subtree_control", []byte("+pids"), 0); err != nil {
			t.Fatal(err)
		}
	}
	folder := root + "/airlock-test-" + strconv.Itoa(os.Getpid())
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the zygotes have exited, which may still be counted
		sandboxtest.Await(func() bool { return os.Remove(folder) == nil })
	})
	s := startBare(t, true)
	executorPID := executors(t)[0]
	before := zygotesOf(executorPID)
	limit := func(most string) {
		if err := os.WriteFile(folder+"/pids.max", []byte(most), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range before {
		if err := os.WriteFile(folder+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	for i := range 2 * executor.LeastWaiting {
		if r := sandboxtest.Run(t, s, sandboxtest.Python("print('on')")); r.Stdout != "on\n" {
			t.Errorf("program %d: exit code %d, stdout %q, stderr %q", i, r.Code(), r.Stdout, r.Stderr)
		}
	}
	limit("max")
	sandboxtest.Run(t, s, sandboxtest.Python("print('on')"))
	if !sandboxtest.Await(func() bool { return len(waitingPids(executorPID)) >= executor.LeastWaiting }) {
		t.Errorf("%d sandboxes wait, want %d", len(waitingPids(executorPID)), executor.LeastWaiting)
	}
	if after := zygotesOf(executorPID); !slices.Equal(before, after) {
		t.Errorf("zygotes %v were replaced by %v", before, after)
	}
}

// Sandboxes that die while they wait do not affect answers.
func TestWaitingSandboxesDie(t *testing.T) {
	s := startWarm(t)
	executorPID := executors(t)[0]
	program := sandboxtest.Python("print('on')")
	sandboxtest.Run(t, s, program)
	var pids []int
	if !sandboxtest.Await(func() bool { pids = waitingPids(executorPID); return len(pids) >= executor.LeastWaiting }) {
		t.Fatalf("%d wait, want %d", len(pids), executor.LeastWaiting)
	}
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	// A program handed to a dying sandbox may be lost. The run then returns an error,
	// never an outcome.
	if _, err := s.Run(t.Context(), program, silent{}); err != nil && !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	for _, pid := range pids {
		if !sandboxtest.Await(func() bool { return unix.Kill(pid, 0) != nil }) {
			t.Fatalf("%d stays", pid)
		}
	}
	for range 5 {
		if r := sandboxtest.Run(t, s, program); r.Stdout != "on\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
		}
	}
}

// waitingPids returns the first processes of the sandboxes that zygotes have forked.
func waitingPids(executorPID int) (pids []int) {
	for _, pid := range executor.Descendants(executorPID) {
		command, _ := os.ReadFile(procOf(pid, "cmdline"))
		status, _ := os.ReadFile(procOf(pid, "status"))
		if strings.HasPrefix(string(command), "airlock init") && insideNumber(string(status)) == "1" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func procOf(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

// insideNumber returns a process's pid in a sandbox's namespace, "" if it is in none.
func insideNumber(status string) string {
	_, inside, _ := strings.Cut(status, "NSpid:")
	inside, _, _ = strings.Cut(inside, "\n")
	if fields := strings.Fields(inside); len(fields) == 3 {
		return fields[2]
	}
	return ""
}

func zombies(t *testing.T, executorPID int) (count int) {
	t.Helper()
	for _, pid := range executor.Descendants(executorPID) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && strings.Contains(string(status), "State:\tZ") {
			count++
		}
	}
	return count
}

// The memory of a program in a waiting sandbox is prefaulted, as the zygote's warm-up
// determined: few page faults delay a request. Without that there are about twenty.
func TestMemoryIsThere(t *testing.T) {
	const few = 10 // reading its own count causes most of them
	s := startBare(t, true)
	executorPID := executors(t)[0]
	faults := func(stat string) int {
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		n, err := strconv.Atoi(fields[7]) // minflt
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var before []int
	more := -1
	if !sandboxtest.Await(func() bool {
		sandboxtest.Run(t, s, sandboxtest.Python("print(1)")) // the first sandboxes are forked before the warm-up
		before, more = nil, -1
		for _, init := range waitingPids(executorPID) {
			for _, pid := range executor.Descendants(init) {
				if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
					before = append(before, faults(string(stat)))
				}
			}
		}
		if len(before) < executor.LeastWaiting || slices.Min(before) <= few {
			return false
		}
		r := sandboxtest.Run(t, s, sandboxtest.Python("print(open('/proc/self/stat').read())"))
		more = faults(r.Stdout) - slices.Max(before)
		return more <= few // on a busy machine those that wait were not ready yet
	}) {
		t.Errorf("%d page faults; those that wait had %v", more, before)
	}
}

// A waiting sandbox has little private memory, and its init next to none.
func TestWaitingIsSmall(t *testing.T) {
	s := startWarm(t)
	executorPID := executors(t)[0]
	sandboxtest.Run(t, s, sandboxtest.Python("print(1)"))
	own := func(pid int) int64 {
		return kernelfile.Value(kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "smaps_rollup"), "Private_Dirty:") << 10
	}
	var inits, programs []int64
	var pools []engine.Pool
	if !sandboxtest.Await(func() bool {
		inits, programs = nil, nil
		for _, init := range waitingPids(executorPID) {
			if children := executor.Descendants(init); len(children) == 1 {
				inits, programs = append(inits, own(init)), append(programs, own(children[0]))
			}
		}
		var err error
		if pools, err = s.Pools(t.Context()); err != nil || len(pools) == 0 {
			t.Fatalf("pools: %+v, %v", pools, err)
		}
		return len(programs) >= executor.LeastWaiting && pools[0].Waiting >= executor.LeastWaiting // others wait, too
	}) {
		t.Fatalf("%d sandboxes wait; pools: %+v", len(programs), pools)
	}
	if pools[0].Name != "bare" || !pools[0].Ready || pools[0].Wanted < executor.LeastWaiting {
		t.Errorf("pools: %+v", pools)
	}
	mostInit, mostProgram := int64(64<<10), int64(4<<20)
	if len(spawn.InitProgram()) == 0 {
		mostInit = 2 << 20
	}
	if slices.Max(inits) > mostInit || slices.Max(programs) > mostProgram {
		t.Errorf("bytes of their own: inits %v, programs %v", inits, programs)
	}
}
