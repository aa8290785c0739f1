package executor

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
)

// A program that waits for an answer from outside has no slot, so none of its threads
// may compute. With control groups of version 2 the kernel freezes it. The freezer of
// version 1 is not used: a frozen process cannot be killed, not even by the executor's
// death. There the program gets the least share of a processor that can be set, a
// thousandth. Without control groups a signal stops its processes. Since a program has
// ways to wake itself, the executor watches it, and ends it if it continues to compute.
//
// A program that will be frozen soon does not count as running either.

// control is a message of the service to a running program.
type control struct {
	Motion    engine.Motion
	Interrupt bool `json:",omitempty"` // without a Motion
	Store     bool `json:",omitempty"` // the sandbox, to the pipe that comes with the message; without a Motion
	Settle    bool `json:",omitempty"` // after Store: the sandbox ends, or goes on
	GoOn      bool `json:",omitempty"`
}

// storeResult answers Store and Settle.
type storeResult struct{ Error *Failure }

// mover freezes and thaws a program, on the service's side.
type mover struct {
	link *Link

	thawing sync.Mutex
	thawed  chan struct{} // the executor's answers
	ended   chan struct{} // closed when no more of them come

	oneStore sync.Mutex
	stored   chan *storeResult

	resumed func() // called when a program that was stored goes on; nil: none was
}

func newMover(l *Link) *mover {
	return &mover{link: l, thawed: make(chan struct{}, 1), ended: make(chan struct{}),
		stored: make(chan *storeResult, 1)}
}

var errMoved = errors.New("the program has ended")

// freeze tells the executor to freeze a program, or to thaw it. It returns only when the program is thawed: with
// control groups of version 1 a frozen one has a little time, in which it could read an answer and not yet start a
// process.
func (m *mover) freeze(motion engine.Motion) error {
	if motion != engine.GoOn {
		return m.link.Send(control{Motion: motion})
	}
	m.thawing.Lock()
	defer m.thawing.Unlock()
	if err := m.link.Send(control{Motion: motion}); err != nil {
		return err
	}
	if _, ok := next(m.thawed, m.ended); !ok {
		return errMoved
	}
	return nil
}

// next receives from a channel until no more comes. What came before that is received, also if it is noticed later.
func next[T any](from <-chan T, ended <-chan struct{}) (v T, ok bool) {
	select {
	case v = <-from:
		return v, true
	case <-ended:
	}
	select {
	case v = <-from:
		return v, true
	default:
		return v, false
	}
}

// store tells the executor to store the sandbox, which must not be frozen, and waits until it has.
func (m *mover) store(to *os.File) error { return m.storing(control{Store: true}, to) }

// settle says whether the stored sandbox goes on.
func (m *mover) settle(goOn bool) error { return m.storing(control{Settle: true, GoOn: goOn}) }

func (m *mover) storing(c control, files ...*os.File) error {
	m.oneStore.Lock()
	defer m.oneStore.Unlock()
	if err := m.link.Send(c, files...); err != nil {
		return err
	}
	r, ok := next(m.stored, m.ended)
	switch {
	case !ok:
		return errMoved
	case r.Error != nil:
		return fromFailure("store a sandbox", r.Error)
	}
	return nil
}

// interrupt tells the executor to interrupt a live interpreter.
func (l *Link) interrupt() error { return l.Send(control{Interrupt: true}) }

// freezer freezes and thaws the processes of one sandbox, on the executor's side.
type freezer struct {
	group   *cgroup.Group // nil without control groups
	pid     int           // pid 1 of the sandbox
	kill    func()        // kills pid 1
	entered *entered

	cell Cell

	due time.Time // when to freeze the program; zero: it is frozen, or need not be

	tasks *holding // its processes and threads: all that it may have, and while it is frozen those that it has
	most  int64

	mu             sync.Mutex
	frozen         bool
	noRoom         error         // why it is not thawed yet: its owner has too many processes, or all have
	retry          time.Time     // when to try again; zero: it need not be thawed
	freezeViolated bool          // it was ended because it computed while frozen
	stop           chan struct{} // ends the watch; nil: there is no watch
	watching       sync.WaitGroup
}

// handleControl carries out a control message. It returns false if the service has
// closed the link instead.
func (s *freezer) handleControl(l *Link) bool {
	var c control
	files, err := l.Receive(&c)
	defer CloseAll(files...)
	if err != nil {
		return false
	}
	if c.Store || c.Settle {
		var failed *Failure
		if err := s.storeOrSettle(c, files); err != nil {
			failed = describe(err)
		}
		_ = l.Send(answer{Stored: &storeResult{failed}}) // until notices a service that has exited
		return true
	}
	if c.Interrupt {
		s.cell.Interrupt()
		return true
	}
	s.due = time.Time{}
	if c.Motion == engine.StopSoon {
		s.due = time.Now().Add(engine.StopDelay)
		return true
	}
	s.set(c.Motion == engine.Stop)
	if c.Motion == engine.GoOn {
		_ = l.Send(answer{Thawed: true}) // until notices a service that has exited
	}
	return true
}

// storeOrSettle stores the sandbox, or says what becomes of it.
func (s *freezer) storeOrSettle(c control, files []*os.File) error {
	if c.Settle {
		return s.cell.Settle(c.GoOn)
	}
	if len(files) != 1 {
		return errors.New("a pipe is needed")
	}
	s.due = time.Time{}
	s.set(false)
	return s.cell.Store(files[0])
}

// stopped reports whether the program is frozen, or will be soon.
func (s *freezer) stopped() bool { return !s.due.IsZero() || s.isFrozen() }

func (s *freezer) set(frozen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noRoom, s.retry = nil, time.Time{}
	if s.frozen == frozen {
		return
	}
	if !frozen {
		if s.noRoom = s.tasks.resize(s.most); s.noRoom != nil {
			s.retry = time.Now().Add(thawRetry)
			return
		}
		s.group.LimitProcesses(0)
	}
	s.frozen = frozen
	if frozen {
		defer s.reserveLess()
	}
	if s.group.Freeze(frozen) {
		return
	}
	if frozen {
		s.signal(unix.SIGSTOP)
		s.stop = make(chan struct{})
		s.watching.Go(func() { s.watch(s.stop) })
		return
	}
	s.endWatch()
	s.signal(unix.SIGCONT)
}

// thawRetry is how soon thawing is tried again if there was no room for the processes that
// a program may start.
const thawRetry = 50 * time.Millisecond

// reserveLess gives back what a frozen program cannot use: most of those that wait for a
// cell have three processes. The caller holds mu.
func (s *freezer) reserveLess() {
	n := s.group.Processes()
	if s.group == nil {
		for _, pid := range append(s.entered.list(s.pid), s.pid) {
			n += int64(tasks(pid))
		}
	}
	s.group.LimitProcesses(n)
	_ = s.tasks.resize(min(n+tasksBeside, s.most)) // less is never refused
}

// retryAt returns when to try to thaw the program again.
func (s *freezer) retryAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retry
}

// refused returns why the program is not thawed, nil if it is or need not be.
func (s *freezer) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noRoom
}

// isFrozen reports whether the program is frozen.
func (s *freezer) isFrozen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen
}

// end must be called when the sandbox has ended. It reports whether the sandbox ended
// because it computed while frozen.
func (s *freezer) end() (freezeViolated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endWatch()
	return s.freezeViolated
}

// thaw gives processes that are being killed the processor time to exit.
func (s *freezer) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen {
		s.group.Freeze(false)
	}
}

func (s *freezer) endWatch() {
	if s.stop != nil {
		close(s.stop)
		s.watching.Wait()
		s.stop = nil
	}
}

// signal sends a signal to every process of the program. A stopped process does not
// fork, so the second or third look finds all processes that the first has missed. The
// watch finds a process that escapes those.
func (s *freezer) signal(signal unix.Signal) {
	const looks = 4
	sent := map[int]bool{}
	for range looks {
		fresh := false
		for _, pid := range s.entered.list(s.pid) {
			if !sent[pid] {
				sent[pid], fresh = true, true
				_ = unix.Kill(pid, signal) // it may have ended
			}
		}
		if !fresh {
			return
		}
	}
}

// Limits of the watch on a frozen program. It may use a little time: one of its own
// signals may wake it for a moment.
const (
	watchEvery   = 500 * time.Millisecond
	maxFrozenCPU = 100 * time.Millisecond
)

func (s *freezer) watch(stop <-chan struct{}) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	began := s.entered.cpu(s.pid, s.entered.list(s.pid))
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		pids := s.entered.list(s.pid)
		if s.entered.cpu(s.pid, pids)-began > maxFrozenCPU {
			s.freezeViolated = true
			s.kill()
			return
		}
		s.signal(unix.SIGSTOP)
	}
}
