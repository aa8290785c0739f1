package executor

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A program that waits for a time, an answer or a child needs no processor. The
// executor notifies the service, which runs another program meanwhile. Rest depends on
// the threads' states, not on the time they get: on a busy machine a program that
// computes gets little time, but one of its threads is always runnable.

// When the program is checked, and what counts as rest.
const (
	firstRest  = 30 * time.Millisecond // time of the first check after the start
	restLook   = 40 * time.Millisecond // time between checks,
	laterLook  = 200 * time.Millisecond
	restNews   = time.Second // longer when it has run for so long
	restPart   = 20          // it rests if it used less than one of so many parts of that time
	stillPart  = 2000        // it has done nothing if it used less than one of so many parts
	LeastAside = 64 << 20    // memory reserved for a resting program
)

// rest is the state of a program's rest.
type rest struct {
	resting bool
	idle    bool // at the last check
	began   time.Time
	looked  time.Time
	used    time.Duration
}

// restNotice tells the service that a program rests, or computes again.
type restNotice struct {
	Resting bool
	Memory  int64 // to reserve for it while it rests
}

// lookAtRest checks whether the program rests, and notifies the service of a change. It
// returns the time of the next check.
func (w *watch) lookAtRest(g *cgroup.Group, now time.Time) (next time.Time) {
	r := &w.rest
	used := w.used(g)
	window, spent := now.Sub(r.looked), used-r.used
	first := r.looked.IsZero()
	r.looked, r.used = now, used
	if first {
		r.began = now
		return now.Add(restLook)
	}
	// Looking at all threads takes long where there are many. Those of a program at rest that
	// has used no time since are where they were.
	still := r.resting && spent < window/stillPart
	idle := still || spent < window/restPart && !runnable(append(w.inside.entered.list(w.pid), w.pid))
	// On a busy machine a program that computes waits for moments too, as for a page of memory: not at two checks.
	resting := idle && r.idle
	r.idle = idle
	if resting != r.resting {
		r.resting = resting
		_ = w.link.Send(answer{Rest: &restNotice{resting, w.aside(g)}}) // until notices a service that has exited
	}
	if now.Sub(r.began) > restNews {
		return now.Add(laterLook)
	}
	return now.Add(restLook)
}

// used returns the processor time of the program so far.
func (w *watch) used(g *cgroup.Group) time.Duration {
	if g == nil {
		return w.inside.entered.cpu(w.pid, w.inside.entered.list(w.pid))
	}
	return g.CPUTime()
}

// aside returns the memory to reserve for a program that rests: its current memory and
// a little more. The kernel limits the memory of all of them together. If it does not,
// aside returns the program's limit.
func (w *watch) aside(g *cgroup.Group) int64 {
	if !g.Bounded() {
		return w.memory
	}
	return min(g.MemoryInUse()+LeastAside, w.memory)
}

// runnable reports whether any thread of pids is running or runnable. Before the
// program starts, that is its first process.
func runnable(pids []int) bool {
	for _, pid := range pids {
		folder := image.ProcPath + "/" + strconv.Itoa(pid) + "/task"
		threads, _ := os.ReadDir(folder)
		for _, thread := range threads {
			if bytes.HasPrefix([]byte(afterName([]byte(kernelfile.Read(folder+"/"+thread.Name(), "stat")))), []byte("R")) {
				return true
			}
		}
	}
	return false
}
