package linux

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// standing is a sandbox with a running program that other processes may enter. It is
// identified by the held workspace in which it runs.
type standing struct {
	sandbox *sandbox
	pid     int // of pid 1, in the executor's namespace
	pidfd   int // of pid 1
	still   *freezer
	entered *entered
	walls   chan struct{} // closed when the confinement is complete: no process may enter before
	once    sync.Once
}

func newStanding(s *sandbox, w *watch) *standing {
	return &standing{sandbox: s, pid: w.pid, pidfd: w.pidfd, still: &w.still, entered: &entered{pids: map[int]int{}},
		walls: make(chan struct{})}
}

// stand registers a sandbox. If two programs run in one workspace, others enter the
// sandbox of the first.
func (e *executor) stand(s *standing) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, owner := s.sandbox.request.Held, s.sandbox.request.Owner
	if id != "" && !s.sandbox.request.Apart && e.standing[id] == nil {
		e.standing[id] = s
	}
	if h := e.held[id]; h != nil && owner != "" {
		h.owner = owner
	}
}

// complete allows other processes to enter.
func (s *standing) complete() { s.once.Do(func() { close(s.walls) }) }

// fall kills the processes started in a sandbox, and waits until the executor has no
// more work in it. It reports whether there was any.
func (e *executor) fall(s *standing) (visited bool) {
	e.mu.Lock()
	if id := s.sandbox.request.Held; e.standing[id] == s {
		delete(e.standing, id)
	}
	e.mu.Unlock()
	s.entered.end()
	s.complete()
	return s.entered.visited
}

// standingIn returns the sandbox of the program that runs in a workspace, once its
// walls are complete. The caller must call leave afterwards.
func (e *executor) standingIn(id string) (_ *standing, leave func(), err error) {
	held, s, begins := e.lookIn(id)
	for wait := time.Millisecond; s == nil && begins && wait < standTime; wait *= 2 {
		<-time.After(wait) // its program may call the service before the sandbox is registered
		held, s, begins = e.lookIn(id)
	}
	if held == nil {
		return nil, nil, errNotHeld
	}
	if s == nil {
		return nil, nil, errNoProgram
	}
	<-s.walls // or it has ended, within the time that its program has
	if !s.entered.begin() {
		return nil, nil, errNoProgram
	}
	return s, s.entered.users.Done, nil
}

// standTime exceeds the time from the first step of a program to the sandbox's registration.
const standTime = 2 * time.Second

// lookIn returns a held workspace and its sandbox, or whether a sandbox may soon be
// registered.
func (e *executor) lookIn(id string) (held *heldWorkspace, s *standing, begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held, s = e.held[id], e.standing[id]
	return held, s, held != nil && held.runs+held.live > 0
}

// entered are the processes started inside one sandbox. They are the executor's
// children, not those of the sandbox's pid 1.
type entered struct {
	starting sync.Mutex // one at a time, so that the process limit holds
	users    sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	visited bool          // a process or a request was in the sandbox's namespaces
	pids    map[int]int   // to pidfds, until they are reaped
	used    time.Duration // processor time of the reaped ones
}

// begin counts a user of the sandbox, unless the sandbox is ending.
func (n *entered) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return false
	}
	n.visited = true
	n.users.Add(1)
	return true
}

// end kills the processes and waits for all users of the sandbox.
func (n *entered) end() {
	n.mu.Lock()
	n.ended = true
	n.kill()
	n.mu.Unlock()
	n.users.Wait()
}

// kill must be called with the lock held.
func (n *entered) kill() {
	for _, pidfd := range n.pids {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	}
}

// make calls start, unless the sandbox is ending, and records the process.
func (n *entered) make(start func() (pid, pidfd int, err error)) (pid, pidfd int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return 0, 0, errNoProgram
	}
	if pid, pidfd, err = start(); err == nil {
		n.pids[pid] = pidfd
	}
	return pid, pidfd, err
}

// signal signals the group of a process that has not been reaped: its pid cannot have
// been reused.
func (n *entered) signal(pid int, signal unix.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.pids[pid]; ok {
		_ = unix.Kill(-pid, signal) // it may be ending
	}
}

// reap waits for a process and removes it.
func (n *entered) reap(pid, pidfd int) (status unix.WaitStatus, used time.Duration) {
	awaitPidfd(pidfd)
	n.mu.Lock()
	defer n.mu.Unlock()
	var usage unix.Rusage
	for {
		if _, err := unix.Wait4(pid, &status, 0, &usage); err != unix.EINTR {
			break
		}
	}
	delete(n.pids, pid)
	unix.Close(pidfd)
	used = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	n.used += used
	return status, used
}

// among lists the processes of a sandbox without its pid 1, including those started
// inside and their descendants.
func (n *entered) among(init int) []int {
	all := descendants(init)
	if n == nil {
		return all
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for pid := range n.pids {
		all = append(append(all, pid), descendants(pid)...)
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
