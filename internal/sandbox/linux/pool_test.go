package linux

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// More sandboxes wait after a burst that emptied the pool, fewer later, and one if
// memory is short.
func TestPoolSize(t *testing.T) {
	p := &pool{size: leastWaiting, looked: time.Now().Add(time.Hour)}
	for i := range 2 * mostWaiting {
		p.noteMiss()
		if want := min(leastWaiting+i+1, mostWaiting); p.enough() != want {
			t.Fatalf("after %d that found nothing %d are to wait, want %d", i+1, p.enough(), want)
		}
	}
	for want := mostWaiting - 1; want >= leastWaiting; want-- {
		p.missed = time.Now().Add(-2 * longAgo)
		for range 3 { // once for each while
			if got := p.enough(); got != want {
				t.Fatalf("long after the burst %d are to wait, want %d", got, want)
			}
		}
	}
	p.missed = time.Now().Add(-2 * longAgo)
	if got := p.enough(); got != leastWaiting {
		t.Errorf("%d are to wait, want never less than %d", got, leastWaiting)
	}
	p.free = littleMemory - 1
	if got := p.enough(); got != 1 {
		t.Errorf("with little memory %d are to wait", got)
	}
}

// A prewarmed sandbox takes memory and time that others may need, so there is only one.
func TestMayPrewarm(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(p *pool)
		may    bool
	}{
		"nothing runs":    {func(*pool) {}, true},
		"another tier":    {func(p *pool) { p.tier.plots = false }, false},
		"something runs":  {func(p *pool) { p.executor.running.Add(1) }, false},
		"memory is short": {func(p *pool) { p.free = 4 * littleMemory }, false},
		"one is there":    {func(p *pool) { p.ready = []*waiting{{}, {prewarmed: true}} }, false},
		"only plain ones": {func(p *pool) { p.ready = []*waiting{{}, {}} }, true},
	} {
		p := &pool{executor: &executor{}, tier: tier{plots: true}, free: 8 * littleMemory}
		tt.change(p)
		if got := p.mayPrewarm(); got != tt.may {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The executor is not busy while few programs run, few sandboxes end, and short
// programs are rare.
func TestIsBusy(t *testing.T) {
	half := int32(runtime.NumCPU()+1) / 2
	often := func(e *executor, interval time.Duration) {
		for i := range e.pace.times {
			e.pace.note(time.Now().Add(-time.Duration(len(e.pace.times)-i) * interval))
		}
	}
	each := twiceShortest / time.Duration(runtime.NumCPU()) // keeps half of the processors busy
	for name, tt := range map[string]struct {
		change func(e *executor)
		busy   bool
	}{
		"nothing":     {func(*executor) {}, false},
		"programs":    {func(e *executor) { e.running.Add(half) }, true},
		"ends":        {func(e *executor) { e.ending.Add(half) }, true},
		"a few of it": {func(e *executor) { e.running.Add(half - 1) }, false},
		"a stream":    {func(e *executor) { often(e, each/2) }, true},
		"drops":       {func(e *executor) { often(e, 2*each) }, false},
		"the first":   {func(e *executor) { e.pace.note(time.Now()) }, false},
	} {
		e := &executor{}
		tt.change(e)
		if got := e.isBusy(); got != tt.busy {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// After a program that plots, a prewarmed sandbox waits for the next one: few of about
// 5,000 page copies remain for its run.
func TestPrewarmed(t *testing.T) {
	s := startWarmWithPackages(t)
	spec := sandboxtest.Python(`import resource
first = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
import matplotlib.pyplot as plt
import pandas
plt.plot([1, 2])
plt.title("x")
plt.savefig("a.png")
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - first)`)
	const few = 1500
	var faults []string
	for range 10 { // another sandbox may be taken
		awaitPrewarmed(t, s)
		r := sandboxtest.Run(t, s, spec)
		n, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
		if err != nil {
			t.Fatalf("stdout %q, stderr %q", r.Stdout, r.Stderr)
		}
		if n <= few {
			return
		}
		faults = append(faults, strconv.Itoa(n))
	}
	t.Error("page faults:", faults)
}

// One of the sandboxes for programs that plot is prewarmed; the others have little of that memory.
func TestUsualMode(t *testing.T) {
	for name, tt := range map[string]struct {
		tier    tier
		running int32
		want    startMode
	}{
		"idle":           {tier{}, 0, background},
		"busy":           {tier{}, 100, eager},
		"plots":          {tier{plots: true}, 0, eager},
		"live, and busy": {tier{live: true}, 100, background},
	} {
		p := &pool{executor: &executor{}, tier: tt.tier}
		p.executor.running.Store(tt.running)
		if got := p.usualMode(); got != tt.want {
			t.Errorf("%s: %d, not %d", name, got, tt.want)
		}
	}
}

// Prewarming leaves a program most of its memory limit: without control groups, mapped
// memory counts, whether used or not.
func TestPrewarmedLeavesMemory(t *testing.T) {
	s := startWarmWithPackages(t)
	awaitPrewarmed(t, s)
	r := sandboxtest.Run(t, s, sandboxtest.Python(`import matplotlib.pyplot as plt
import pandas
plt.savefig
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData")][0])`))
	if kib, err := strconv.Atoi(strings.TrimSpace(r.Stdout)); err != nil || kib > 512<<10 {
		t.Errorf("a program begins with %q KiB of data: %v %s", r.Stdout, err, r.Stderr)
	}
}

// A program that calls out finds its channel at the documented descriptors in a
// prewarmed sandbox too, and no other open files.
func TestCallsAfterPrewarming(t *testing.T) {
	s := startWarmWithPackages(t)
	spec := sandboxtest.Python(`import os, stat
import matplotlib.pyplot as plt
numbers = [int(n) for n in os.environ["AIRLOCK_CALLS_FDS"].split()]
others = {int(n) for n in os.listdir("/proc/self/fd")} - {0, 1, 2, *numbers}
print([stat.S_ISFIFO(os.fstat(n).st_mode) for n in numbers], len(others))  # the folder itself
plt.plot([1, 2])
plt.title("x")
plt.savefig("a.png")`)
	spec.Calls = true
	awaitPrewarmed(t, s)
	r := sandboxtest.Run(t, s, spec)
	if r.Stdout != "[True, True] 1\n" || len(r.Files) != 1 {
		t.Fatalf("exit code %d, %d files, stdout %q, stderr %q", r.Code(), len(r.Files), r.Stdout, r.Stderr)
	}
}

// awaitPrewarmed waits until a prewarmed sandbox is ready.
func awaitPrewarmed(t *testing.T, s *Sandbox) {
	t.Helper()
	if _, err := os.Stat(sandboxtest.Runtimes() + "/python/lib/matplotlib"); err != nil {
		sandboxtest.Skip(t, "needs the Python packages: AIRLOCK_TEST_DATA names a data directory after airlock setup")
	}
	if free := kernelfile.Value(kernelfile.Read("/proc", "meminfo"), "MemAvailable:") << 10; free < 5*littleMemory {
		sandboxtest.Skip(t, fmt.Sprintf("needs %d MiB of memory", 5*littleMemory>>20))
	}
	const own = 12 << 20 // plots take about 20 MiB; another sandbox has at most 7
	executor := executors(t)[0]
	spec := sandboxtest.Python("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('a.png')")
	for range 2 {
		if r := sandboxtest.Run(t, s, spec); r.Code() != 0 || len(r.Files) != 1 {
			t.Fatalf("exit code %d, files %d: %s", r.Code(), len(r.Files), r.Stderr)
		}
	}
	var sizes []int64
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		sizes = nil
		prewarmed := 0
		for _, init := range waitingPids(executor) {
			for _, pid := range descendants(init) {
				size := kernelfile.Value(kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "smaps_rollup"), "Private_Dirty:") << 10
				if sizes = append(sizes, size); size > own {
					prewarmed++
				}
			}
		}
		if prewarmed == 1 {
			return
		}
	}
	t.Errorf("none that has the memory of plots waits: %v bytes of their own", sizes)
}
