package linux

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
)

// A program that waits, for a time, an answer or a child, needs no processor.
// The service is told, and lets another run in its place meanwhile. What counts
// is what its processes do, not how much they get: on a busy machine a program
// that computes gets little, but one of its threads is always ready to run.

const (
	firstRest  = 30 * time.Millisecond // after its start a program is looked at
	restLook   = 40 * time.Millisecond // and again,
	laterLook  = 200 * time.Millisecond
	restNews   = time.Second // less often when it has run for so long
	restPart   = 20          // it rests if it used less than one of so many parts of that time
	leastAside = 64 << 20    // memory that is set aside for one that rests
)

// rest is what is known of a program's rest.
type rest struct {
	resting bool
	began   time.Time
	looked  time.Time
	used    time.Duration
}

// restNotice tells the service that a program rests, or computes again.
type restNotice struct {
	Resting bool
	Memory  int64 // to be set aside for it while it rests
}

// lookAtRest sees whether the program rests, and tells the service when that has
// changed. It returns when to look again.
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
	resting := spent < window/restPart && !runnable(append(w.inside.entered.among(w.pid), w.pid))
	if resting != r.resting {
		r.resting = resting
		_ = w.link.send(answer{Rest: &restNotice{resting, w.aside(g)}}) // until notices a service that has exited
	}
	if now.Sub(r.began) > restNews {
		return now.Add(laterLook)
	}
	return now.Add(restLook)
}

// used is the processor time of the program so far.
func (w *watch) used(g *cgroup.Group) time.Duration {
	if g == nil {
		return w.inside.entered.cpu(w.pid, w.inside.entered.among(w.pid))
	}
	return g.CPUTime()
}

// aside is the memory to be set aside for a program that rests: what it has and
// a little. Whatever all of them then take at once is bounded by the kernel;
// where it is not, that is all that the program may have.
func (w *watch) aside(g *cgroup.Group) int64 {
	if !g.Bounded() {
		return w.memory
	}
	return min(g.MemoryInUse()+leastAside, w.memory)
}

// runnable reports whether a thread of one of some processes computes, or would. Before the
// program starts that is its first process.
func runnable(pids []int) bool {
	for _, pid := range pids {
		folder := procPath + "/" + strconv.Itoa(pid) + "/task"
		threads, _ := os.ReadDir(folder)
		for _, thread := range threads {
			if bytes.HasPrefix([]byte(afterName([]byte(kernelfile.Read(folder+"/"+thread.Name(), "stat")))), []byte("R")) {
				return true
			}
		}
	}
	return false
}

// deliver tells the host that a program has begun or ended to rest.
func (n *restNotice) deliver(host engine.Host) {
	h, ok := host.(engine.Restful)
	switch {
	case !ok:
	case n.Resting:
		h.Rest(n.Memory)
	default:
		h.Wake()
	}
}
