package linux

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

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
func awaitPrewarmed(t *testing.T, s *executor.Sandbox) {
	t.Helper()
	if _, err := os.Stat(sandboxtest.Runtimes() + "/python/lib/matplotlib"); err != nil {
		sandboxtest.Skip(t, "needs the Python packages: AIRLOCK_TEST_DATA names a data directory after airlock setup")
	}
	free := kernelfile.Value(kernelfile.Read("/proc", "meminfo"), "MemAvailable:") << 10
	if free < 5*executor.LittleMemory {
		sandboxtest.Skip(t, fmt.Sprintf("needs %d MiB of memory", 5*executor.LittleMemory>>20))
	}
	const own = 12 << 20 // plots take about 20 MiB; another sandbox has at most 7
	executorPID := executors(t)[0]
	spec := sandboxtest.Python("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('a.png')")
	for range 2 {
		if r := sandboxtest.Run(t, s, spec); r.Code() != 0 || len(r.Files) != 1 {
			t.Fatalf("exit code %d, files %d: %s", r.Code(), len(r.Files), r.Stderr)
		}
	}
	var sizes []int64
	if !sandboxtest.Await(func() bool {
		sizes = nil
		prewarmed := 0
		for _, init := range waitingPids(executorPID) {
			for _, pid := range executor.Descendants(init) {
				size := kernelfile.Value(kernelfile.Read(fmt.Sprintf("/proc/%d", pid), "smaps_rollup"), "Private_Dirty:") << 10
				if sizes = append(sizes, size); size > own {
					prewarmed++
				}
			}
		}
		return prewarmed == 1
	}) {
		t.Errorf("none that has the memory of plots waits: %v bytes of their own", sizes)
	}
}
