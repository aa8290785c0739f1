package executor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/trick"
)

// shape holds the properties of a waiting sandbox that cannot change after its
// creation. None of them comes from a caller's program.
type shape struct {
	workspace  int64
	inodes     int
	memory     int64
	processes  int
	cpus       float64
	cpuTime    time.Duration
	env        *Environment
	root, home string // of a Node; otherwise empty
}

func shapeOf(r *RunRequest) shape {
	return shape{workspace: r.Workspace, inodes: r.Inodes, memory: r.Memory, processes: r.Processes, cpus: r.CPUs,
		cpuTime: r.CPUTime, env: r.env}
}

func (s shape) request() *RunRequest {
	return &RunRequest{Workspace: s.workspace, Inodes: s.inodes, Memory: s.memory, Processes: s.processes, CPUs: s.cpus,
		CPUTime: s.cpuTime, env: s.env}
}

// waitingList holds the waiting sandboxes of a pool.
type waitingList struct {
	mu      sync.Mutex
	ready   []*waiting
	missed  time.Time // when a request last found the list empty
	filling bool
	closed  bool
	expiry  *time.Timer // ends the waiting sandboxes
}

// claim removes and returns the first matching sandbox that has not ended, or nil if
// there is none.
func (p *waitingList) claim(matches func(*waiting) bool) *waiting {
	for {
		w := p.remove(matches)
		if w == nil {
			return nil
		}
		if w.alive() {
			w.Group.Idle(false)
			return w
		}
		w.close() // it was killed while it waited
	}
}

func (p *waitingList) remove(matches func(*waiting) bool) *waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.ready, matches)
	if i < 0 {
		return nil
	}
	w := p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	return w
}

// fill closes stale sandboxes, then creates missing ones, one at a time. It calls next
// with the lock held. next returns a function that creates a sandbox, or nil if there
// are enough.
func (p *waitingList) fill(stale func(*waiting) bool, next func() func() (*waiting, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling {
		return
	}
	p.filling = true
	defer func() { p.filling = false }()
	for !p.closed {
		if i := slices.IndexFunc(p.ready, stale); i >= 0 {
			w := p.ready[i]
			p.ready = slices.Delete(p.ready, i, i+1)
			p.mu.Unlock()
			w.close()
			p.mu.Lock()
			continue
		}
		create := next()
		if create == nil {
			return
		}
		p.mu.Unlock()
		w, err := create()
		p.mu.Lock()
		switch {
		case err != nil:
			return
		case p.closed:
			p.mu.Unlock()
			w.close()
			p.mu.Lock()
		default:
			p.ready = append(p.ready, w)
			slices.SortStableFunc(p.ready, func(a, b *waiting) int { return a.place() - b.place() })
		}
	}
}

// empty ends the waiting sandboxes.
func (p *waitingList) empty() {
	p.mu.Lock()
	ready := p.ready
	p.ready = nil
	p.mu.Unlock()
	for _, w := range ready {
		w.close()
	}
}

// close ends the waiting sandboxes and stops the list from filling.
func (p *waitingList) close() {
	p.mu.Lock()
	p.closed = true
	if p.expiry != nil {
		p.expiry.Stop()
	}
	p.mu.Unlock()
	p.empty()
}

func (p *waitingList) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// pool keeps a zygote for one tier and a few sandboxes forked from it. Each sandbox is
// used once; the next is forked after the answer to the request that took it. The pool
// works only while no program wants the processor, unless a request waits for it.
type pool struct {
	waitingList
	executor *executor
	env      *Environment
	tier     Tier
	group    *cgroup.Group // the zygote's; nil without control groups

	// launching is held while a zygote's process is created, which uses the group.
	// Closing the pool waits for it before it removes the group.
	launching sync.Mutex

	// Guarded by mu:
	zygote   Zygote    // nil while there is none
	size     int       // how many should wait
	lent     time.Time // when a program with lent inputs last arrived
	free     int64     // free memory of the machine at the last reading
	looked   time.Time // time of that reading
	wanted   int       // requests that wait for the zygote
	failures int       // consecutive zygotes that failed to start, or died soon afterwards
	since    time.Time // start of the zygote
	cold     string    // why there is no zygote; empty: there is one, or it is being started
	// For environments other than the default one, and for live interpreters:
	awake   bool          // the zygote exists or is being started
	started chan struct{} // closed when its start has succeeded or failed
	began   time.Time     // when that start began

	habits learning // of a tier's own pool
}

// These bound the waiting sandboxes of a tier. The number grows after a burst that
// emptied the pool, and shrinks later. A sandbox of the largest tier has about 2 MiB of
// its own.
const (
	LeastWaiting = 3
	MostWaiting  = 16
	longAgo      = time.Minute
	LittleMemory = 512 << 20 // if the machine has less left, only one sandbox waits
)

// zygotePause is the time between the death of a zygote and the next start. It doubles
// with each failure, and mostFailures end the attempts. A zygote that has lived for
// steadyTime starts the count anew: it may have been killed, which says nothing of the next.
const (
	zygotePause  = time.Second
	mostFailures = 5
	steadyTime   = time.Minute
)

// newPools creates a pool of an environment for each tier that preloads modules.
func (e *executor) newPools(env *Environment) {
	env.pools = map[string]*pool{}
	for _, t := range tiers {
		if e.machine.can.Tiers != nil && !slices.Contains(e.machine.can.Tiers, t.Name) {
			continue
		}
		if len(t.serves) > 0 && !env.hasPackage(t.serves[0]) || t.Live && (!env.live || !e.machine.can.Live) {
			continue
		}
		p := &pool{executor: e, env: env, tier: env.preloads(t), size: LeastWaiting}
		if e.machine.Groups != nil {
			var err error
			if p.group, err = e.zygoteGroup(env, t.Name); err != nil {
				fmt.Fprintln(os.Stderr, "airlock executor: no control group for a zygote:", err)
				if env.IsImage() {
					continue // nothing would bound it
				}
			}
		}
		env.pools[t.Name] = p
	}
}

// boundZygote bounds an interpreter that imports what its image, or programs, have chosen, with all that it
// starts beside sandboxes.
var boundZygote = cgroup.Limits{Memory: 1 << 30, Processes: 64}

// zygoteGroup creates the group of a zygote, without limits if its interpreter is the machine's own.
func (e *executor) zygoteGroup(env *Environment, tier string) (*cgroup.Group, error) {
	if !env.IsImage() {
		return e.machine.Groups.CreateIdle("zygote-" + strings.TrimPrefix(env.Name+"-"+tier, "-"))
	}
	return e.boundGroup()
}

// boundGroup creates the group of such an interpreter.
func (e *executor) boundGroup() (*cgroup.Group, error) {
	g, err := e.machine.Groups.Create(engine.NewID().String(), boundZygote)
	g.Idle(true)
	return g, err
}

// startPools starts the zygotes of the default environment: the smallest, which is ready at once, and beside it the
// largest, which serves the programs of all others until they are ready, and then those one after the other.
func (e *executor) startPools() {
	defer e.startWarmImages()
	pools := e.environments[""].pools
	var smallest sync.WaitGroup
	defer smallest.Wait()
	if p := pools[tiers[0].Name]; p != nil {
		smallest.Go(p.start)
	}
	largest := slices.IndexFunc(tiers, func(t Tier) bool { return t.plots })
	for _, t := range slices.Concat(tiers[largest:], tiers[1:largest]) {
		switch p := pools[t.Name]; {
		case p == nil:
		case t.Live:
			p.wake() // a request may have done so
		default:
			p.start()
		}
	}
}

// describePools lists the pools: the smallest tier of Python first, then other environments and
// other languages while they are in use.
func (e *executor) describePools() (list []engine.Pool) {
	for _, env := range e.allEnvironments() {
		for _, t := range tiers {
			p := env.pools[t.Name]
			if p == nil {
				continue
			}
			for ; p != nil; p = p.learned() {
				p.mu.Lock()
				if env.Name == "" || p.awake {
					list = append(list, engine.Pool{Name: p.title(), Ready: p.zygote != nil, Waiting: len(p.ready),
						Wanted: p.enough(), Cold: p.cold})
				}
				p.mu.Unlock()
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.processes)) {
		p := e.processes[name]
		p.mu.Lock()
		if len(p.ready) > 0 {
			list = append(list, engine.Pool{Name: p.title(), Ready: true, Waiting: len(p.ready), Wanted: p.enough()})
		}
		p.mu.Unlock()
	}
	return list
}

// start starts a zygote. If that fails, programs start cold.
func (p *pool) start() {
	z, err := p.newZygote()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed || p.zygote != nil:
		if z != nil {
			z.Close()
		}
	case err != nil:
		p.noteFailure(err)
	default:
		p.zygote, p.since, p.cold = z, time.Now(), ""
		p.group.Idle(p.wanted == 0)
	}
}

// newZygote starts a zygote and waits until it has imported its packages.
func (p *pool) newZygote() (Zygote, error) {
	z, err := p.launchZygote()
	if err != nil {
		return nil, err
	}
	if err := z.Ready(); err != nil {
		z.Close()
		return nil, err
	}
	return z, nil
}

func (p *pool) launchZygote() (Zygote, error) {
	p.launching.Lock()
	defer p.launching.Unlock()
	if p.isClosed() {
		return nil, errors.New("the executor ends")
	}
	options := ZygoteOptions{Tier: p.tier, Environment: p.env, Group: p.group}
	if e := p.executor; p.tier.Live && e.machine.can.Kernel != "" {
		h, err := e.newHeld(TmpSize, TmpInodes)
		if err != nil {
			return nil, err
		}
		defer e.discard(h)
		options.UID = h.uid
		if options.Layers, err = e.layersOver(h, p.env.Root); err != nil {
			return nil, err
		}
		defer CloseAll(options.Layers...)
	}
	return p.executor.wall.StartZygote(options)
}

// noteFailure records and logs why there is no zygote, and schedules the next attempt.
// The same cause is logged once, whichever tiers it affects. The caller holds the lock.
func (p *pool) noteFailure(err error) {
	p.cold = err.Error()
	again := "restart the service to try again"
	if p.failures++; p.failures < mostFailures {
		pause := zygotePause << (p.failures - 1)
		again = fmt.Sprintf("the next attempt is in %v", pause)
		time.AfterFunc(pause, p.start)
	}
	if _, logged := p.executor.coldCauses.LoadOrStore(p.cold, true); !logged {
		fmt.Fprintf(os.Stderr, "airlock executor: programs of the %s tier start cold: %s; %s\n",
			p.title(), p.cold, again)
	}
}

// takeOrFork returns a waiting sandbox of that shape, or a fresh fork. If it returns
// nil, the program starts cold.
func (p *pool) takeOrFork(s shape) *waiting {
	p.executor.pace.note(time.Now())
	p.wake()
	if w := p.claim(func(w *waiting) bool { return w.shape == s }); w != nil {
		return w
	}
	p.noteMiss()
	w, _ := p.fork(s, nil, nil) // fork has logged the error
	return w
}

// noteMiss raises the number of sandboxes that wait.
func (p *pool) noteMiss() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missed = time.Now()
	p.size = min(p.size+1, MostWaiting)
}

// fork creates a sandbox that a request waits for. It uses the given workspace if there
// is one. It returns nil without a zygote.
func (p *pool) fork(s shape, held *heldWorkspace, made *Workspace) (*waiting, error) {
	p.mu.Lock()
	z := p.zygote
	p.mu.Unlock()
	if z == nil {
		p.group.Idle(false) // a starting zygote has been idle for long enough
		return nil, nil
	}
	p.addWaiter(z, +1)
	defer p.addWaiter(z, -1)
	w, err := p.executor.forkWaiting(z, p.tier.Live, s, OnDemand, held, made)
	if err != nil {
		p.failed(z, err)
		return nil, err
	}
	return w, nil
}

// addWaiter counts the requests that wait for the zygote. While there is one, the
// zygote and the sandbox that it creates have the default priority.
func (p *pool) addWaiter(z Zygote, more int) {
	z.AddWaiter(more)
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.wanted
	p.wanted += more
	if (before == 0) != (p.wanted == 0) {
		p.group.Idle(p.wanted == 0)
	}
}

// failed logs why a fork failed, and replaces a dead zygote.
func (p *pool) failed(z Zygote, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !z.Dead():
		fmt.Fprintln(os.Stderr, "airlock executor:", err)
	case p.zygote == z && !p.closed:
		p.zygote = nil
		z.Close()
		if time.Since(p.since) > steadyTime {
			p.failures = 0
		}
		p.noteFailure(err)
	}
}

// refill forks the missing sandboxes in the shape requested last, and evicts those of
// another shape.
func (p *pool) refill(s shape) {
	p.fill(func(w *waiting) bool {
		return p.zygote != nil && (w.shape != s || w.prewarmed && w.Workspace.loan == nil && p.lends(true))
	}, func() func() (*waiting, error) {
		z, how, lends := p.zygote, p.usualMode(), p.lends(false)
		switch {
		case z == nil:
			return nil
		case len(p.ready) < p.enough() || lends:
		case !p.mayPrewarm():
			return nil
		default:
			how, lends = Prewarmed, p.lends(true)
		}
		return func() (*waiting, error) {
			w, err := p.forkIdle(z, s, how, lends)
			if err != nil {
				p.failed(z, err)
			}
			return w, err
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stayAwake()
}

// usualMode returns the mode for creating a sandbox that will wait. Other programs use a tenth
// of the memory of plots: one sandbox has all of it (mayPrewarm), the others have none.
func (p *pool) usualMode() StartMode {
	if p.tier.Live { // its start is long, and it is used for long
		return Background
	}
	if p.tier.plots || p.executor.isBusy() || !trick.On(trick.Learning) {
		return Eager
	}
	return Background
}

// isBusy reports whether the processors are rarely idle: because programs run, each
// with as much work done for it beside it, or because many short programs arrive.
func (e *executor) isBusy() bool {
	return 2*int(e.running.Load()+e.ending.Load()) >= processors() ||
		e.pace.interval(time.Now())*time.Duration(processors()) < twiceShortest
}

// twiceShortest is twice the processor time of the shortest programs.
const twiceShortest = 12 * time.Millisecond

// pace records when the last sandboxes were taken.
type pace struct {
	mu    sync.Mutex
	times [8]time.Time
	next  int // index of the oldest
}

func (p *pace) note(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times[p.next] = now
	p.next = (p.next + 1) % len(p.times)
}

// interval returns the mean time between them.
func (p *pace) interval(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.times[p.next]) / time.Duration(len(p.times))
}

// mayPrewarm reports whether there is time and memory to prefault the memory of plots
// in a waiting sandbox, and none has it yet. The caller holds the lock.
func (p *pool) mayPrewarm() bool {
	return trick.On(trick.Plots) && p.tier.plots && p.executor.running.Load() == 0 && p.free > 4*LittleMemory &&
		!slices.ContainsFunc(p.ready, func(w *waiting) bool { return w.prewarmed })
}

// enough returns how many sandboxes should wait now. The caller holds the lock.
func (p *pool) enough() int {
	if p.size > LeastWaiting && time.Since(p.missed) > longAgo {
		p.size--
		p.missed = time.Now()
	}
	if time.Since(p.looked) > time.Second {
		p.looked, p.free = time.Now(), availableMemory()
	}
	if p.free > 0 && p.free < LittleMemory {
		return 1
	}
	return p.size
}

// close ends the waiting sandboxes and the zygote.
func (p *pool) close() {
	p.waitingList.close()
	p.mu.Lock()
	z, learned := p.zygote, p.habits.pool
	p.zygote, p.habits.pool = nil, nil
	p.mu.Unlock()
	if learned != nil {
		learned.close()
	}
	if z != nil {
		z.Close()
	}
	p.launching.Lock()
	defer p.launching.Unlock()
	if p.group != nil {
		p.group.Remove()
	}
}
