package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// TestSoak is the short form of the soak, for every push.
func TestSoak(t *testing.T) {
	o := testOptions(t)
	o.duration, o.clients, o.out = 15*time.Second, 4, t.TempDir()
	if err := run(t.Context(), o); err != nil {
		t.Error(err)
	}
	picture, err := os.ReadFile(filepath.Join(o.out, "soak.svg"))
	if err != nil || strings.Count(string(picture), "<polyline") != 8 {
		t.Errorf("the picture: %v", err)
	}
}

// TestTools is the short form of a number: between its rounds sandboxes wait that
// have plotted, in which such programs used to hang.
func TestTools(t *testing.T) {
	o := testOptions(t)
	if _, err := os.Stat(filepath.Join(o.runtimes, "python/lib/matplotlib")); o.runtimes == "" || err != nil {
		if os.Getenv("AIRLOCK_NO_SKIP") == "1" {
			t.Fatal("AIRLOCK_TEST_DATA must name a data directory after airlock setup")
		}
		t.Skip("needs the Python packages: AIRLOCK_TEST_DATA names a data directory after airlock setup")
	}
	o.number, o.runs = "tools", 450
	if err := run(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// testOptions builds an airlock to test.
func testOptions(t *testing.T) options {
	t.Helper()
	dir, err := os.MkdirTemp("", "airlock-soak-bin-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // another user executes it
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "airlock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/airlock-run/airlock/cmd/airlock")
	if made := os.Getenv("AIRLOCK_TEST_BINARY"); made != "" {
		build = exec.CommandContext(t.Context(), "cp", made, binary)
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := options{binary: binary, say: t.Output()}
	if data := os.Getenv("AIRLOCK_TEST_DATA"); data != "" {
		o.runtimes = filepath.Join(data, "runtimes")
	}
	return o
}

// A verdict has to be able to go against the service.
func TestJudge(t *testing.T) {
	series := func(of func(i int) sample) (all []sample) {
		for i := range 90 {
			s := of(i)
			s.at = time.Duration(i) * 5 * time.Second
			all = append(all, s)
		}
		return all
	}
	for name, tt := range map[string]struct {
		of func(i int) sample
		ok bool
	}{
		"flat":        {func(int) sample { return sample{serviceMemory: 100 << 20, serviceFiles: 40} }, true},
		"up and down": {func(i int) sample { return sample{serviceMemory: int64(50+i%20) << 20} }, true},
		"warm-up":     {func(i int) sample { return sample{serviceMemory: int64(min(i, 25)*8) << 20} }, true},
		"a leak":      {func(i int) sample { return sample{serviceMemory: int64(50+3*i) << 20} }, false},
		"a slow leak": {func(i int) sample { return sample{serviceMemory: 50<<20 + int64(i)*(slackMemory+1<<20)/30} },
			false},
		"a leak under load":  {func(i int) sample { return sample{serviceFiles: 40 + i%17*20 + i/3} }, false},
		"a burst at the end": {func(i int) sample { return sample{serviceFiles: 40 + max(i-70, 0)*20} }, true},
		"the executor's":     {func(i int) sample { return sample{executorMemory: int64(50+3*i) << 20} }, false},
		"its slow leak": {func(i int) sample { return sample{executorMemory: 10<<20 + int64(i)*(slackMemory+1<<20)/30} },
			false},
		"files":              {func(i int) sample { return sample{serviceFiles: 40 + 3*i} }, false},
		"the executor's too": {func(i int) sample { return sample{executorFiles: 300 + 8*i} }, false},
		"goroutines":         {func(i int) sample { return sample{goroutines: 30 + 6*i} }, false},
		"processes":          {func(i int) sample { return sample{processes: 30 + 6*i} }, false},
	} {
		if err := judgeGrowth(series(tt.of)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	warm := sample{live: 9 << 20, beyond: 16 << 20}
	for name, tt := range map[string]struct {
		end sample
		ok  bool
	}{
		"the same":        {warm, true},
		"less":            {sample{live: 8 << 20, beyond: 12 << 20}, true},
		"a leak":          {sample{live: 14 << 20, beyond: 16 << 20}, false},
		"beyond the heap": {sample{live: 9 << 20, beyond: 25 << 20}, false},
	} {
		if err := judgeRest(warm, tt.end); (err == nil) != tt.ok {
			t.Errorf("at rest, %s: %v", name, err)
		}
	}
	if judgeRest(sample{}, sample{}) == nil {
		t.Error("nothing of the memory at rest was seen, and nothing is said")
	}
	if judgeGrowth(nil) == nil {
		t.Error("nothing was seen, and nothing is said")
	}
	s := &service{}
	before := quietness{sample: sample{processes: 10, executorFiles: 100}, groups: 20, waiting: 3,
		kinds: map[string]bool{"init": true}}
	grown := before
	grown.waiting += 2
	grown.processes += 2 * waitingProcesses
	grown.groups += s.groupsOf(2)
	grown.executorFiles += s.filesOf(2)
	if left := s.leftovers(before, grown); len(left) > 0 {
		t.Errorf("two sandboxes more that wait: %v", left)
	}
	var q quietness
	q.executorFiles = 10
	var folders []string
	for _, hierarchy := range []string{"pids", "cpu", "cpuacct", "memory"} {
		for _, name := range []string{"", "/kept", "/waiting", "/busy"} {
			folders = append(folders, "/sys/fs/cgroup/"+hierarchy+"/airlock/own"+name)
		}
	}
	folders = append(folders, "/sys/fs/cgroup/pids/airlock/own/rest")
	q.countGroups(folders, func(folder string) bool {
		return !strings.HasSuffix(folder, "/waiting") && folder != "/sys/fs/cgroup/memory/airlock/own/busy"
	})
	if q.kept != 1 || q.groups != len(folders)-waitingGroups || q.executorFiles != 10-keptFiles {
		t.Errorf("%d groups, %d kept, %d files", q.groups, q.kept, q.executorFiles)
	}
	for name, change := range map[string]func(q *quietness){
		"a process":         func(q *quietness) { q.processes++ },
		"a strange process": func(q *quietness) { q.kinds = map[string]bool{"init": true, "sleep 100": true} },
		"a group":           func(q *quietness) { q.groups++ },
		"a file":            func(q *quietness) { q.executorFiles++ },
		"a kept group":      func(q *quietness) { q.kept = maxPooled + 1 },
		"a namespace":       func(q *quietness) { q.namespaces = 2*(q.waiting+spareNamespaces) + 1 },
		"a mount":           func(q *quietness) { q.mounts++ },
		"service files":     func(q *quietness) { q.serviceFiles += slackServiceFiles + 1 },
		"goroutines":        func(q *quietness) { q.goroutines += slackGoroutines + 1 },
		"half an upload":    func(q *quietness) { q.uploads = []string{"x"} },
		"a used sandbox":    func(q *quietness) { q.used = []string{"sandbox 7 with main.py"} },
		"half of a sandbox": func(
			q *quietness) {
			q.processes += waitingProcesses
			q.executorFiles += waitingFiles
			q.groups++
		},
	} {
		for _, start := range []quietness{before, grown} {
			after := start
			change(&after)
			if left := s.leftovers(before, after); len(left) == 0 {
				t.Errorf("%s: nothing is said", name)
			}
		}
	}
	l := &load{faults: map[string]int{}, done: map[string]int{}}
	l.perform(act{name: "liar", do: func(context.Context, *load, tenant) error { return os.ErrInvalid }}, tenant{})
	if l.verdict() == nil {
		t.Error("a wrong answer is no fault")
	}
}

// One number takes its own place in the document, and leaves the others as they were.
func TestFillNumbers(t *testing.T) {
	document := filepath.Join(t.TempDir(), "soak.md")
	first, second, last := numbers[0].what, numbers[1].what, numbers[len(numbers)-1].what
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(document, []byte("# Head\n<!-- soak:numbers -->\n"+text+"<!-- /soak:numbers -->\nTail\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	const head = "\n\n| promised | found | | on |\n|---|---|---|---|\n"
	write(machine + "." + head + "| " + first + " | a | kept | 1 May 2026 |\n| " + last + " | z | kept | 1 May 2026 |\n")
	for range 2 {
		if err := fillNumbers(document, map[string]string{second: "new | kept"}); err != nil {
			t.Fatal(err)
		}
	}
	want := "# Head\n<!-- soak:numbers -->\n" + machine + "." + head + "| " + first + " | a | kept | 1 May 2026 |\n| " +
		second + " | new | kept | " + lab.Day(time.Now()) + " |\n| " +
		last + " | z | kept | 1 May 2026 |\n<!-- /soak:numbers -->\nTail\n"
	if got, err := os.ReadFile(document); string(got) != want || err != nil {
		t.Errorf("%s %v", got, err)
	}
	write("Another machine." + head)
	if err := fillNumbers(document, map[string]string{second: "new | kept"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(document); !strings.Contains(string(got), "Another machine.") ||
		!strings.Contains(string(got), " | new | kept | "+lab.Day(time.Now())+", "+machine+" |") {
		t.Errorf("which machine a row is of is not said: %s", got)
	}
}
