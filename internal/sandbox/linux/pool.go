package linux

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// shape is what a sandbox is built for: limits that cannot be changed once it
// stands.
type shape struct {
	workspace int64
	inodes    int
	memory    int64
	processes int
	cpus      float64
	cpuTime   time.Duration
}

func shapeOf(r *runRequest) shape {
	return shape{r.Workspace, r.Inodes, r.Memory, r.Processes, r.CPUs, r.CPUTime}
}

func (s shape) request() *runRequest {
	return &runRequest{Workspace: s.workspace, Inodes: s.inodes, Memory: s.memory, Processes: s.processes, CPUs: s.cpus, CPUTime: s.cpuTime}
}

// waiting is a sandbox that a zygote forked: confined, used by nobody before,
// and without a program yet.
type waiting struct {
	*sandbox
	executor *executor
	script   *script
	shape    shape
	pid      int
	pidfd    *os.File
	reports  *os.File
	control  *link
}

// pool keeps a zygote for one tier and a few sandboxes forked from it. Each is
// used once; the next is forked after the answer to the request that took one.
type pool struct {
	executor *executor
	tier     tier
	size     int

	mu      sync.Mutex
	zygote  *zygote // nil while there is none
	ready   []*waiting
	filling bool
	closed  bool
}

// poolSize is how many sandboxes of a tier wait. One of the largest tier has
// about 2 MiB of its own.
const poolSize = 3

// zygotePause is how long after the death of a zygote the next is tried.
const zygotePause = time.Second

// newPools makes the pools that have something to preload. Their zygotes are
// started one after the other, the smallest first.
func (e *executor) newPools() {
	e.pools = map[string]*pool{}
	for _, t := range tiers {
		if len(t.serves) > 0 {
			if _, err := os.Stat(imagePath + packagesPath + "/" + t.serves[0]); err != nil {
				continue
			}
		}
		e.pools[t.name] = &pool{executor: e, tier: t, size: poolSize}
	}
}

func (e *executor) startPools() {
	for _, t := range tiers {
		if p := e.pools[t.name]; p != nil {
			p.start()
		}
	}
}

// start starts a zygote. One that cannot is said, and programs start cold.
func (p *pool) start() {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return
	}
	z, err := p.executor.startZygote(p.tier)
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock executor: programs of the "+p.tier.name+" tier start cold:", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		z.link.close()
		return
	}
	p.zygote = z
}

// take returns a sandbox of that shape: one that waits, else a fresh fork, else
// nil, and then the program starts cold.
func (p *pool) take(s shape) *waiting {
	z, w := p.pick(s)
	for ; w != nil; z, w = p.pick(s) {
		if w.alive() {
			return w
		}
		w.close() // somebody ended it while it waited
	}
	if z == nil {
		return nil
	}
	forked, err := p.executor.forkWaiting(z, s)
	if err != nil {
		p.failed(z, err)
		return nil
	}
	return forked
}

// pick takes a sandbox of that shape off the list, nil if there is none, and
// tells the zygote.
func (p *pool) pick(s shape) (*zygote, *waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.ready, func(w *waiting) bool { return w.shape == s })
	if i < 0 {
		return p.zygote, nil
	}
	w := p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	return p.zygote, w
}

// failed says why a fork failed, and replaces a zygote that is dead.
func (p *pool) failed(z *zygote, err error) {
	fmt.Fprintln(os.Stderr, "airlock executor:", err)
	p.mu.Lock()
	mine := p.zygote == z && z.isDead() && !p.closed
	if mine {
		p.zygote = nil
	}
	p.mu.Unlock()
	if mine {
		z.link.close()
		time.AfterFunc(zygotePause, p.start)
	}
}

// refill forks what is missing, in the shape that was asked for last; those of
// another shape make room.
func (p *pool) refill(s shape) {
	p.mu.Lock()
	if p.filling || p.closed || p.zygote == nil {
		p.mu.Unlock()
		return
	}
	p.filling = true
	z := p.zygote
	p.mu.Unlock()
	for {
		p.mu.Lock()
		var stale *waiting
		have := 0
		for i, w := range p.ready {
			if w.shape == s {
				have++
			} else if stale == nil {
				stale = w
				p.ready = slices.Delete(p.ready, i, i+1)
				break
			}
		}
		if stale == nil && have >= p.size || p.closed {
			p.filling = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if stale != nil {
			stale.close()
			continue
		}
		w, err := p.executor.forkWaiting(z, s)
		if err != nil {
			p.failed(z, err)
		}
		p.mu.Lock()
		switch {
		case err != nil:
			p.filling = false
			p.mu.Unlock()
			return
		case p.closed:
			p.mu.Unlock()
			w.close()
			continue
		}
		p.ready = append(p.ready, w)
		p.mu.Unlock()
	}
}

// close ends what waits, and the zygote.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	ready, z := p.ready, p.zygote
	p.ready, p.zygote = nil, nil
	p.mu.Unlock()
	for _, w := range ready {
		w.close()
	}
	if z != nil {
		z.link.close()
	}
}

// forkWaiting makes a sandbox with a zygote and waits until it stands.
func (e *executor) forkWaiting(z *zygote, s shape) (_ *waiting, err error) {
	uid, err := e.leaseUID()
	if err != nil {
		return nil, err
	}
	w := &waiting{sandbox: &sandbox{host: e.host, request: s.request(), uid: uid}, executor: e, shape: s}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.workspace, err = newWorkspace(s.workspace, s.inodes, uid); err != nil {
		return nil, err
	}
	if err := w.furnish(e.host); err != nil {
		return nil, err
	}
	var theirs *os.File
	if w.control, theirs, err = newLinkPair(); err != nil {
		return nil, err
	}
	defer theirs.Close()
	if err := unix.SetNonblock(int(theirs.Fd()), false); err != nil {
		return nil, err
	}
	if w.reports, w.report, err = reportPipe(); err != nil {
		return nil, err
	}
	w.script = w.forkedScript()
	w.script.weaken(e.config.Weaken)
	if w.pid, w.pidfd, err = z.fork(w.script, w.report, theirs); err != nil {
		return nil, err
	}
	w.report.Close()
	w.report = nil
	theirs.Close()
	var ready struct{}
	if _, err := w.control.receive(&ready); err != nil {
		if r, ok := readReport(w.reports); ok {
			err = w.script.stepError(r)
		}
		return nil, fmt.Errorf("fork a sandbox: %w", err)
	}
	return w, nil
}

// close ends the sandbox, waits until it is gone, and gives everything back.
func (w *waiting) close() {
	if w.pidfd != nil {
		_ = unix.PidfdSendSignal(int(w.pidfd.Fd()), unix.SIGKILL, nil, 0)
		awaitPidfd(int(w.pidfd.Fd()))
		// Its zygote reaps it. If that one is dead, it has become our child.
		_ = unix.Waitid(unix.P_PIDFD, int(w.pidfd.Fd()), nil, unix.WEXITED|unix.WNOHANG, nil)
		w.pidfd.Close()
	}
	if w.control != nil {
		w.control.close()
	}
	if w.reports != nil {
		w.reports.Close()
	}
	w.release()
	if w.workspace != nil {
		w.workspace.close()
	}
	w.executor.returnUID(w.uid)
}

// alive reports whether pid 1 of the sandbox has not ended.
func (w *waiting) alive() bool {
	list := []unix.PollFd{{Fd: int32(w.pidfd.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(list, 0)
	return n == 0 && err == nil
}

// awaitPidfd waits until a process has ended. A pid 1 ends when the last
// process of its namespace is gone.
func awaitPidfd(fd int) {
	for {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(list, -1); n > 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}
