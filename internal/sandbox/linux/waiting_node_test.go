package linux

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// leftover is the visible result of a run.
type leftover struct {
	Ending ending
	Signal string
	Files  map[string]string
}

func nodeRun(t *testing.T, s *executor.Sandbox, spec *engine.Spec) leftover {
	t.Helper()
	r := sandboxtest.Run(t, s, spec)
	return leftover{ending{r.Code(), r.Stdout, r.Stderr}, r.Signal, r.Files}
}

func TestBehavesLikeColdNode(t *testing.T) {
	if len(nodeBehaviours) < 60 {
		t.Fatalf("only %d programs", len(nodeBehaviours))
	}
	cold, waiting := startBare(t, false), startBare(t, true)
	for language, programs := range map[string]map[string]string{"js": nodeBehaviours, "ts": typescripts} {
		for name, code := range programs {
			t.Run(language+"/"+name, func(t *testing.T) {
				want, got := nodeRun(t, cold, ordinary(language, code)), nodeRun(t, waiting, ordinary(language, code))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-cold +waiting)\n%s\n%s", diff, code)
				}
			})
		}
	}
}

// hasWaited prints whether the Node that runs it waited for it: then Node's own
// function does not count its uptime.
const hasWaited = "console.log(!String(process.uptime).includes('native code'))"

// A waiting Node does not serve programs that change the settings or limits that Node
// reads at its start.
func TestNodeStartsCold(t *testing.T) {
	s := startBare(t, true)
	for name, test := range map[string]struct {
		change func(*engine.Spec)
		want   bool
	}{
		"as usual":       {func(*engine.Spec) {}, true},
		"arguments":      {func(s *engine.Spec) { s.Args = []string{"a"} }, true},
		"input":          {func(s *engine.Spec) { s.Stdin = []byte("a") }, true},
		"environment":    {func(s *engine.Spec) { s.Env = map[string]string{"A": "b", "PATH": "/usr/bin"} }, true},
		"other root":     {func(s *engine.Spec) { s.Root, s.Home = image.RootData, image.RootData }, true},
		"known home":     {func(s *engine.Spec) { s.Home = "/" }, true},
		"home":           {func(s *engine.Spec) { s.Home = "/elsewhere" }, false},
		"options":        {func(s *engine.Spec) { s.Env = map[string]string{"NODE_OPTIONS": "--no-warnings"} }, false},
		"modules":        {func(s *engine.Spec) { s.Env = map[string]string{"NODE_PATH": "/tmp"} }, false},
		"language":       {func(s *engine.Spec) { s.Env = map[string]string{"LC_ALL": "de_DE.UTF-8"} }, false},
		"time zone":      {func(s *engine.Spec) { s.Env = map[string]string{"TZ": "Asia/Tokyo"} }, false},
		"dynamic linker": {func(s *engine.Spec) { s.Env = map[string]string{"LD_LIBRARY_PATH": "/tmp"} }, false},
		"entry":          {func(s *engine.Spec) { s.Entry = "other.js" }, false},
		"calls":          {func(s *engine.Spec) { s.Calls = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sandboxtest.Spec("js", hasWaited)
			test.change(spec)
			if r := sandboxtest.Run(t, s, spec); r.Code() != 0 || r.Stdout != fmt.Sprintln(test.want) {
				t.Errorf("exit code %d, waited: %swant %v\n%s", r.Code(), r.Stdout, test.want, r.Stderr)
			}
		})
	}
}

// A program's data never reaches the Node of the next program.
func TestWaitingNodeKnowsNobody(t *testing.T) {
	s := startBare(t, true)
	for range 3 {
		spec := sandboxtest.Spec("js", "console.log(process.argv[2], process.env.SECRET)")
		spec.Args, spec.Env, spec.Stdin = []string{"the secret"}, map[string]string{"SECRET": "the secret"},
			[]byte("the secret")
		if r := sandboxtest.Run(t, s, spec); r.Stdout != "the secret the secret\n" {
			t.Fatalf("stdout %q, stderr %q", r.Stdout, r.Stderr)
		}
		awaitNodes(t, 1)
		look := sandboxtest.Spec("js", "const fs = require('fs')\nconst all = process.argv + JSON.stringify(process.env) + "+
			"fs.readFileSync('/proc/self/environ') + fs.readFileSync('/proc/self/cmdline') + fs.readFileSync(0)\n"+
			"console.log(all.includes('the ' + 'secret'))\n"+hasWaited)
		if r := sandboxtest.Run(t, s, look); r.Stdout != "false\ntrue\n" {
			t.Errorf("stdout %q, stderr %q", r.Stdout, r.Stderr)
		}
	}
}

// nodes returns the processes of Node below an executor.
func nodes(executorPID int) (pids []int) {
	for _, pid := range executor.Descendants(executorPID) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasPrefix(string(command), executor.NodePath+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitNodes waits until some Nodes wait.
func awaitNodes(t *testing.T, count int) []int {
	t.Helper()
	executorPID := executors(t)[0]
	var pids []int
	if !sandboxtest.Await(func() bool { pids = nodes(executorPID); return len(pids) >= count }) {
		t.Fatalf("%d wait, not %d", len(pids), count)
	}
	return pids
}

// awaitAge waits until processes are of an age.
func awaitAge(t *testing.T, age time.Duration, pids ...int) {
	t.Helper()
	if !sandboxtest.Await(func() bool {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(pids, func(pid int) bool {
			stat := kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "stat")
			fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
			if len(fields) < 20 {
				return false // it has ended
			}
			started, _ := strconv.ParseInt(fields[19], 10, 64) // in hundredths of a second
			return time.Duration(now.Nano())-time.Duration(started)*10*time.Millisecond < age
		})
	}) {
		t.Fatalf("some of %v are younger than %v", pids, age)
	}
}

// After a program a Node waits for the next one, which takes it; then it is replaced. A
// Node that dies while it waits does not affect answers.
func TestNodesWait(t *testing.T) {
	s, err := executor.Start(t.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{Warm: true})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	when := sandboxtest.Spec("js", "console.log(performance.timeOrigin, performance.now() - process.uptime() * 1000)")
	if r := sandboxtest.Run(t, s, when); r.Code() != 0 {
		t.Fatalf("stderr %q", r.Stderr)
	}
	executorPID := executors(t)[0]
	for range 3 {
		pids := awaitNodes(t, executor.MostNodes)
		awaitAge(t, time.Second, pids...)
		before := time.Now()
		r := sandboxtest.Run(t, s, when)
		var started, waited float64 // in milliseconds; its time up begins when it is wanted
		if _, err := fmt.Sscan(r.Stdout, &started, &waited); err != nil || int64(started) > before.UnixMilli() ||
			waited < 100 {
			t.Errorf("it started at and waited for %s, and was wanted at %d", r.Stdout, before.UnixMilli())
		}
		if left := nodes(executorPID); !slices.ContainsFunc(pids, func(pid int) bool { return !slices.Contains(left, pid) }) {
			t.Errorf("of %v none was used: %v", pids, left)
		}
	}
	want := engine.Pool{Name: "JavaScript", Ready: true, Waiting: executor.MostNodes, Wanted: executor.MostNodes}
	var pools []engine.Pool
	if !sandboxtest.Await(func() bool { pools, err = s.Pools(t.Context()); return slices.Contains(pools, want) }) {
		t.Fatalf("pools: %+v, %v, want among them %+v", pools, err, want)
	}
	for _, pid := range awaitNodes(t, executor.MostNodes) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	for range 3 {
		r, err := s.Run(t.Context(), when, silent{})
		if err != nil || r.ExitCode == nil || *r.ExitCode != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// Any program can make the call by which a Node asks for its program. It has no effect
// in a program that already runs.
func TestQuestionIsNotTheEnd(t *testing.T) {
	code := fmt.Sprintf("import os\nfor question in (%d, %d):\n    try: os.ftruncate(%d, question)\n"+
		"    except OSError as e: print(e.strerror)\nprint('on')", language.NodeMayWait, language.NodeWaits,
		language.HandoffFD)
	for name, s := range paths(t) {
		r := sandboxtest.Run(t, s, sandboxtest.Python(code))
		if want := strings.Repeat("Function not implemented\n", 2) + "on\n"; r.Code() != 0 || r.Stdout != want {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, r.Code(), r.Stdout, r.Stderr)
		}
	}
}
