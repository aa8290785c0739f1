package linux

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// standing is a sandbox with a program in it that others may enter: it is named
// by the held workspace that it runs in.
type standing struct {
	sandbox *sandbox
	pid     int // of pid 1, as the executor counts
	pidfd   int // of the same
	still   *freezer
	entered *entered
	walls   chan struct{} // closed when they are complete: no one may enter before
	once    sync.Once
}

func newStanding(s *sandbox, w *watch) *standing {
	return &standing{sandbox: s, pid: w.pid, pidfd: w.pidfd, still: &w.still, entered: &entered{pids: map[int]int{}},
		walls: make(chan struct{})}
}

// stand makes a sandbox known. Of two programs in one workspace the first is
// entered.
func (e *executor) stand(s *standing) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id := s.sandbox.request.Held; id != "" && !s.sandbox.request.Apart && e.standing[id] == nil {
		e.standing[id] = s
	}
}

// complete lets others enter.
func (s *standing) complete() { s.once.Do(func() { close(s.walls) }) }

// fall ends what was started in a sandbox, and returns when nothing of the
// executor's is at work in it any more. It reports whether anything was.
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

// standingIn returns the sandbox of the program that runs in a workspace, once
// its walls are complete. The caller calls leave when it is done with it.
func (e *executor) standingIn(id string) (_ *standing, leave func(), err error) {
	held, s, begins := e.lookIn(id)
	for wait := time.Millisecond; s == nil && begins && wait < standTime; wait *= 2 {
		<-time.After(wait) // its program may speak to the service before it is known here
		held, s, begins = e.lookIn(id)
	}
	if held == nil {
		return nil, nil, errNotHeld
	}
	if s == nil {
		return nil, nil, errNoProgram
	}
	<-s.walls // or it has ended, which a sandbox does in the time that its program has
	if !s.entered.begin() {
		return nil, nil, errNoProgram
	}
	return s, s.entered.users.Done, nil
}

// standTime is more than it takes from the first step of a program to its being known.
const standTime = 2 * time.Second

// lookIn returns a held workspace and the sandbox that stands in it, or whether one
// may be about to.
func (e *executor) lookIn(id string) (held *heldWorkspace, s *standing, begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held, s = e.held[id], e.standing[id]
	return held, s, held != nil && held.runs+held.live > 0
}

// maxEntered bounds the processes that are started inside one sandbox at a time,
// each of which costs the executor a thread.
const maxEntered = 64

// entered are the processes that were started inside one sandbox. They are the
// executor's children, not those of the sandbox's pid 1.
type entered struct {
	starting sync.Mutex // one at a time, so that the limit of processes is seen to hold
	users    sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	visited bool          // a process or a request was in the sandbox's namespaces
	pids    map[int]int   // to pidfds, until they are reaped
	used    time.Duration // processor time of those that were reaped
}

// begin counts a user of the sandbox, unless it ends.
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

// end kills them and waits for all users of the sandbox.
func (n *entered) end() {
	n.mu.Lock()
	n.ended = true
	n.kill()
	n.mu.Unlock()
	n.users.Wait()
}

// kill is called with the lock held.
func (n *entered) kill() {
	for _, pidfd := range n.pids {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	}
}

// make calls start, unless the sandbox ends, and remembers the process.
func (n *entered) make(start func() (pid, pidfd int, err error)) (pid, pidfd int, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return 0, 0, errNoProgram
	}
	if len(n.pids) >= maxEntered {
		return 0, 0, errTooMany
	}
	if pid, pidfd, err = start(); err == nil {
		n.pids[pid] = pidfd
	}
	return pid, pidfd, err
}

// signal signals the group of a process that has not been reaped: its number is
// no other's.
func (n *entered) signal(pid int, signal unix.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.pids[pid]; ok {
		_ = unix.Kill(-pid, signal) // it may be ending
	}
}

// reap waits for a process and forgets it.
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

// among lists the processes of a sandbox without its pid 1, those that were
// started inside and their descendants included.
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

// cpu is what the processes of a sandbox, which pids lists, have used.
func (n *entered) cpu(init int, pids []int) time.Duration {
	used := cpuTime(init, pids)
	if n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		used += n.used
	}
	return used
}
