package executor

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// runningSandbox is a sandbox with a running program that other processes may enter. It is
// identified by the held workspace in which it runs.
type runningSandbox struct {
	box      *Box
	cell     Cell
	pid      int // of pid 1, in the executor's namespace
	freezer  *freezer
	entered  *entered
	confined chan struct{} // closed when the confinement is complete: no process may enter before
	once     sync.Once

	terminals    sync.Mutex
	hasTerminals bool // it sees its terminals; guarded by terminals
}

func newRunningSandbox(b *Box, w *watch) *runningSandbox {
	return &runningSandbox{box: b, cell: w.cell, pid: w.pid, freezer: &w.freezer,
		entered: &entered{all: map[int]Entered{}, waits: map[*pollSet]bool{}}, confined: make(chan struct{})}
}

// register records a sandbox. If two programs run in one workspace, others enter the
// sandbox of the first.
func (e *executor) register(s *runningSandbox) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, owner := s.box.Request.Held, s.box.Request.Owner
	if id != "" && !s.box.Request.Apart && e.sandboxes[id] == nil {
		e.sandboxes[id] = s
	}
	if h := e.held[id]; h != nil && owner != "" {
		h.owner = owner
	}
}

// allowEntry allows other processes to enter.
func (s *runningSandbox) allowEntry() { s.once.Do(func() { close(s.confined) }) }

// unregister kills the processes started in a sandbox, and waits until the executor has no
// more work in it.
func (e *executor) unregister(s *runningSandbox) {
	e.mu.Lock()
	if id := s.box.Request.Held; e.sandboxes[id] == s {
		delete(e.sandboxes, id)
	}
	e.mu.Unlock()
	s.entered.end()
	s.allowEntry()
}

// sandboxIn returns the sandbox of the program that runs in a workspace, once its
// confinement is complete. The caller must call leave afterwards.
func (e *executor) sandboxIn(id string) (_ *runningSandbox, leave func(), err error) {
	held, s, starting := e.findSandbox(id)
	for wait := time.Millisecond; s == nil && starting && wait < registerTime; wait *= 2 {
		<-time.After(wait) // its program may call the service before the sandbox is registered
		held, s, starting = e.findSandbox(id)
	}
	if held == nil {
		return nil, nil, errNotHeld
	}
	if s == nil {
		return nil, nil, ErrNoProgram
	}
	<-s.confined // or it has ended, within the time that its program has
	if !s.entered.addUser() {
		return nil, nil, ErrNoProgram
	}
	return s, s.entered.users.Done, nil
}

// registerTime exceeds the time from the first step of a program to the sandbox's registration.
const registerTime = 2 * time.Second

// findSandbox returns a held workspace and its sandbox, or whether a sandbox may soon be
// registered.
func (e *executor) findSandbox(id string) (held *heldWorkspace, s *runningSandbox, starting bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held, s = e.held[id], e.sandboxes[id]
	return held, s, held != nil && held.runs+held.live > 0
}

// entered are the processes started inside one sandbox: children of the executor, or of
// the sandbox's pid 1.
type entered struct {
	starting sync.Mutex // one at a time, so that the process limit holds
	jobs     int        // so far; guarded by starting
	users    sync.WaitGroup

	mu    sync.Mutex
	ended bool
	all   map[int]Entered   // by their pidfds, until they are reaped
	waits map[*pollSet]bool // of jobs whose process has ended
	used  time.Duration     // processor time of the executor's reaped ones
}

// addUser counts a user of the sandbox, unless the sandbox is ending.
func (n *entered) addUser() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return false
	}
	n.users.Add(1)
	return true
}

// isOver reports whether the sandbox is ending.
func (n *entered) isOver() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// end kills the processes and waits for all users of the sandbox.
func (n *entered) end() {
	n.mu.Lock()
	n.ended = true
	n.kill()
	for p := range n.waits {
		_ = p.file.SetReadDeadline(time.Now())
	}
	n.mu.Unlock()
	n.users.Wait()
}

// kill must be called with the lock held.
func (n *entered) kill() {
	for pidfd := range n.all {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	}
}

// awaitUntil has wait of a set return at a time, or when the sandbox ends. It reports false
// if it has ended.
func (n *entered) awaitUntil(p *pollSet, until time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return false
	}
	n.waits[p] = true
	return p.file.SetReadDeadline(until) == nil
}

// forget ends awaitUntil.
func (n *entered) forget(p *pollSet) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waits, p)
}

// start calls create, unless the sandbox is ending, and records the process. It holds no lock
// meanwhile: pid 1 may be slow, and those who watch the sandbox do not wait for it. If the
// sandbox has begun to end, start returns an error and the process, for the caller to end.
func (n *entered) start(create func() (Entered, error)) (Entered, error) {
	if n.isOver() {
		return Entered{}, ErrNoProgram
	}
	p, err := create()
	if err != nil {
		return Entered{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[p.Pidfd] = p
	if n.ended {
		err = ErrNoProgram
	}
	return p, err
}

// signal signals the group of a process unless the process was reaped, and reports
// whether it did: its pid cannot have been reused.
func (n *entered) signal(p Entered, signal unix.Signal) bool {
	n.mu.Lock()
	_, ok := n.all[p.Pidfd]
	if ok && p.By == nil {
		_ = unix.Kill(-p.PID, signal) // it may be ending
	}
	n.mu.Unlock()
	if ok && p.By != nil { // numbers in the sandbox are its own affair
		p.By.Signal(p.Inner, signal)
	}
	return ok
}

// reap waits for a process and removes it.
func (n *entered) reap(p Entered) (status unix.WaitStatus, used time.Duration) {
	AwaitPidfd(p.Pidfd)
	if p.By != nil {
		status, used = p.By.Reap(p.Inner)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.By == nil {
		var usage unix.Rusage
		for {
			if _, err := unix.Wait4(p.PID, &status, 0, &usage); err != unix.EINTR {
				break
			}
		}
		used = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		n.used += used
	}
	delete(n.all, p.Pidfd)
	unix.Close(p.Pidfd)
	return status, used
}

// list returns the processes of a sandbox without its pid 1, including those started
// inside and their descendants.
func (n *entered) list(init int) []int {
	all := Descendants(init)
	if n == nil {
		return all
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.all {
		if p.By == nil {
			all = append(append(all, p.PID), Descendants(p.PID)...)
		}
	}
	return all
}

// cpu returns the processor time of the processes of a sandbox, which pids lists.
func (n *entered) cpu(init int, pids []int) time.Duration {
	used := cpuTime(init, pids)
	if n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		used += n.used
	}
	return used
}
