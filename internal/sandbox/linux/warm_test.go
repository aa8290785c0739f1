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
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// startWarm starts a sandbox whose zygotes are ready, for programs that import no packages.
func startWarm(t testing.TB) *Sandbox {
	t.Helper()
	return startWarmWith(t, sandboxtest.LiveRuntimesOf(t))
}

// startWarmWithPackages also starts the zygotes of packages.
func startWarmWithPackages(t testing.TB) *Sandbox {
	t.Helper()
	return startWarmWith(t, sandboxtest.Runtimes())
}

func startWarmWith(t testing.TB, runtimes string) *Sandbox {
	t.Helper()
	launcher := NewLauncher(LaunchOptions{Runtimes: runtimes, warmFirst: true})
	s, err := Start(t.Context(), Config{Launcher: launcher, Log: quiet})
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
	launcher := NewLauncher(LaunchOptions{Runtimes: sandboxtest.LiveRuntimesOf(t), Warm: true})
	s, err := Start(t.Context(), Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	executor := executors(t)[0]
	var first []int
	for end := time.Now().Add(time.Minute); len(first) == 0 && time.Now().Before(end); {
		first = zygotesOf(executor)
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
	ready := false
	for end := time.Now().Add(time.Minute); !ready && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		pools, err := s.Pools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ready = !slices.ContainsFunc(pools, func(p engine.Pool) bool { return !p.Ready })
	}
	if !ready {
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
	launcher := NewLauncher(LaunchOptions{Warm: true, weaken: []string{weakZygote},
		Log: slog.New(slog.NewJSONHandler(&log, nil))})
	s, err := Start(t.Context(), Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	const cause = "ValueError: non-hexadecimal number"
	for {
		pools, err := s.Pools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		of := func(name string) engine.Pool {
			return pools[slices.IndexFunc(pools, func(p engine.Pool) bool { return p.Name == name })]
		}
		if bare, standard := of("bare"), of("standard"); bare.Cold != "" && standard.Cold != "" && log.String() != "" {
			if bare.Ready || !strings.Contains(bare.Cold, cause) || !strings.Contains(standard.Cold, cause) {
				t.Errorf("%+v, %+v", bare, standard)
			}
			break
		}
		time.Sleep(10 * time.Millisecond)
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
	executor := executors(t)[0]
	before := zygotesOf(executor)
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
	for range 200 {
		if len(zygotesOf(executor)) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(zygotesOf(executor)) == 0 {
		t.Fatal("the zygote was not replaced")
	}
	left := 1
	for end := time.Now().Add(10 * time.Second); left > 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left = zombies(t, executor) // others have just ended
	}
	if left > 0 {
		t.Errorf("%d processes of the dead zygote were not reaped", left)
	}
}

func zygotesOf(executor int) (pids []int) {
	for _, pid := range descendants(executor) {
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
		for end := time.Now().Add(time.Second); os.Remove(folder) != nil && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	})
	s := startBare(t, true)
	executor := executors(t)[0]
	before := zygotesOf(executor)
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
	for i := range 2 * leastWaiting {
		if r := sandboxtest.Run(t, s, sandboxtest.Python("print('on')")); r.Stdout != "on\n" {
			t.Errorf("program %d: exit code %d, stdout %q, stderr %q", i, r.Code(), r.Stdout, r.Stderr)
		}
	}
	limit("max")
	sandboxtest.Run(t, s, sandboxtest.Python("print('on')"))
	for end := time.Now().Add(time.Minute); len(waitingPids(executor)) < leastWaiting && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if n := len(waitingPids(executor)); n < leastWaiting {
		t.Errorf("%d sandboxes wait", n)
	}
	if after := zygotesOf(executor); !slices.Equal(before, after) {
		t.Errorf("zygotes %v were replaced by %v", before, after)
	}
}

// Sandboxes that die while they wait do not affect answers.
func TestWaitingSandboxesDie(t *testing.T) {
	s := startWarm(t)
	executor := executors(t)[0]
	program := sandboxtest.Python("print('on')")
	sandboxtest.Run(t, s, program)
	for range 100 { // until those for the next programs wait
		if len(waitingPids(executor)) >= leastWaiting {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	pids := waitingPids(executor)
	if len(pids) == 0 {
		t.Fatal("nothing waits")
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
		for unix.Kill(pid, 0) == nil {
			time.Sleep(time.Millisecond)
		}
	}
	for range 5 {
		if r := sandboxtest.Run(t, s, program); r.Stdout != "on\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
		}
	}
}

// waitingPids returns the first processes of the sandboxes that zygotes have forked.
func waitingPids(executor int) (pids []int) {
	for _, pid := range descendants(executor) {
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

func zombies(t *testing.T, executor int) (count int) {
	t.Helper()
	for _, pid := range descendants(executor) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && strings.Contains(string(status), "State:\tZ") {
			count++
		}
	}
	return count
}

func TestTierOf(t *testing.T) {
	for code, want := range map[string]string{
		"print(1)": "bare", "import numpy as np": "numpy", "from pandas import DataFrame": "pandas",
		"import os, sys, matplotlib.pyplot":   "full",
		"def f():\n    import seaborn as sns": "full", "import numpy\nimport pandas": "pandas", "x = 'matplotlib'": "bare",
		"importpandas":    "bare",
		"import numpyish": "standard", "import os, json\nimport asyncio": "standard", "import os, json": "light",
		"import os, sys": "bare", "import json\nimport asyncio": "standard", "import asyncio, numpy": "numpy",
		"from scipy.stats import norm": "numpy",
	} {
		if got := tierOf(code); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
}

// The memory of a program in a waiting sandbox is prefaulted, as the zygote's warm-up
// determined: few page faults delay a request. Without that there are about twenty.
func TestMemoryIsThere(t *testing.T) {
	const few = 10 // reading its own count causes most of them
	s := startWarm(t)
	executor := executors(t)[0]
	for range 2 { // the first sandbox is forked before the warm-up
		sandboxtest.Run(t, s, sandboxtest.Python("print(1)"))
	}
	faults := func(stat string) int {
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		n, err := strconv.Atoi(fields[7]) // minflt
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var before []int
	for end := time.Now().Add(time.Minute); len(before) < leastWaiting &&
		time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		before = nil
		for _, init := range waitingPids(executor) {
			for _, pid := range descendants(init) {
				if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
					before = append(before, faults(string(stat)))
				}
			}
		}
	}
	if len(before) < leastWaiting {
		t.Fatalf("%d sandboxes wait", len(before))
	}
	r := sandboxtest.Run(t, s, sandboxtest.Python("print(open('/proc/self/stat').read())"))
	if n := faults(r.Stdout) - slices.Max(before); n > few {
		t.Errorf("%d page faults; those that wait had %v", n, before)
	}
}

// A waiting sandbox has little private memory, and its init next to none.
func TestWaitingIsSmall(t *testing.T) {
	s := startWarm(t)
	executor := executors(t)[0]
	sandboxtest.Run(t, s, sandboxtest.Python("print(1)"))
	own := func(pid int) int64 {
		return kernelfile.Value(kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "smaps_rollup"), "Private_Dirty:") << 10
	}
	var inits, programs []int64
	for end := time.Now().Add(time.Minute); len(programs) < leastWaiting &&
		time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		inits, programs = nil, nil
		for _, init := range waitingPids(executor) {
			if children := descendants(init); len(children) == 1 {
				inits, programs = append(inits, own(init)), append(programs, own(children[0]))
			}
		}
	}
	if len(programs) < leastWaiting {
		t.Fatalf("%d sandboxes wait", len(programs))
	}
	pools, err := s.Pools(t.Context())
	if err != nil || len(pools) == 0 || pools[0].Name != "bare" || !pools[0].Ready || pools[0].Waiting < leastWaiting ||
		pools[0].Wanted < leastWaiting {
		t.Errorf("pools: %+v, %v", pools, err)
	}
	mostInit, mostProgram := int64(64<<10), int64(4<<20)
	if len(spawn.InitProgram()) == 0 {
		mostInit = 2 << 20
	}
	if slices.Max(inits) > mostInit || slices.Max(programs) > mostProgram {
		t.Errorf("bytes of their own: inits %v, programs %v", inits, programs)
	}
}

// The memory that a zygote shares with its children is mostly huge pages. A fork copies
// one entry for each instead of 512.
func TestZygoteHasHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		sandboxtest.Skip(t, "this kernel makes no huge pages")
	}
	s := startWarmWithPackages(t)
	sandboxtest.Run(t, s, sandboxtest.Python("import matplotlib.pyplot"))
	const least = 16 << 20 // of about 80 MiB
	var most int64
	for end := time.Now().Add(time.Minute); most < least && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, pid := range zygotesOf(executors(t)[0]) {
			sizes := kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "smaps_rollup")
			most = max(most, kernelfile.Value(sizes, "AnonHugePages:")<<10)
		}
	}
	if most < least {
		t.Errorf("no zygote has more than %d bytes in huge pages", most)
	}
}
