package linux

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// newcomers are the processes that pid 1 of a sandbox has started for the executor; see
// spawn.EncodeNewcomer. They share its landlock domain, with the program and with one
// another, so that each may look at the others' memory, environment and open files.
type newcomers struct {
	link    *executor.Link
	asking  sync.Mutex // one at a time
	answers chan startAnswer
	closed  chan struct{} // by close
	over    chan struct{} // closed when pid 1 has gone

	patience time.Duration // with pid 1: its sandbox may have no turn, and that of an image may be another program

	mu      sync.Mutex
	listens bool                        // listen was called
	ends    map[int]chan spawn.Newcomer // by numbers in the sandbox
}

// startAnswer is the answer to a request.
type startAnswer struct {
	spawn.Newcomer
	pidfd *os.File // nil if there is none
}

// newNewcomers returns the socket to hand to pid 1, too. It returns nil if pid 1 starts no
// processes: without control groups each process gets a namespace first, and on other
// processors pid 1 has no program for it.
func (w *cell) newNewcomers() (_ *newcomers, theirs *os.File, err error) {
	if !w.Request.Enterable() || w.Group == nil || len(spawn.InitProgram()) == 0 ||
		slices.Contains(w.wall.weaken, weakProcesses) {
		return nil, nil, nil
	}
	n := &newcomers{answers: make(chan startAnswer, 1), closed: make(chan struct{}), over: make(chan struct{}),
		ends: map[int]chan spawn.Newcomer{}, patience: executor.EnterTime}
	n.link, theirs, err = executor.NewLinkPair()
	return n, theirs, err
}

// close is called when the sandbox has ended.
func (n *newcomers) close() {
	if n == nil {
		return
	}
	n.link.Close()
	close(n.closed)
	n.mu.Lock()
	listens := n.listens
	n.mu.Unlock()
	if listens {
		<-n.over
	}
}

// listenOnce has listen run.
func (n *newcomers) listenOnce() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.listens {
		n.listens = true
		go n.listen()
	}
}

// listen receives what pid 1 says, until it has gone.
func (n *newcomers) listen() {
	defer close(n.over)
	for {
		var body [spawn.NewcomerSize]byte
		size, files, err := n.link.ReceiveRaw(body[:])
		if err != nil || size != len(body) {
			executor.CloseAll(files...)
			return
		}
		said := spawn.DecodeNewcomer(body[:])
		if !said.Ended {
			answer := startAnswer{Newcomer: said}
			if len(files) == 1 {
				answer.pidfd = files[0]
				n.await(said.PID)
			}
			select {
			case n.answers <- answer:
			case <-n.closed: // that of an image may say what nobody has asked
				executor.CloseAll(files...)
				return
			}
			continue
		}
		if end := n.awaited(said.PID); end != nil {
			select {
			case end <- said:
			default: // it ends once
			}
		}
	}
}

// awaited returns where the end of a process is told, nil if there is no such process.
func (n *newcomers) awaited(pid int) chan spawn.Newcomer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ends[pid]
}

// await returns where the end of a process is told.
func (n *newcomers) await(pid int) chan spawn.Newcomer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ends[pid] == nil {
		n.ends[pid] = make(chan spawn.Newcomer, 1)
	}
	return n.ends[pid]
}

// start sends pid 1 the message that asks for a process.
func (n *newcomers) start(message []byte, files []*os.File) (executor.Entered, error) {
	n.asking.Lock()
	defer n.asking.Unlock()
	n.listenOnce()
	n.link.SetWriteDeadline(time.Now().Add(n.patience))
	if n.link.SendRaw(message, files...) != nil {
		return executor.Entered{}, executor.ErrNoProgram
	}
	late := time.NewTimer(n.patience)
	defer late.Stop()
	select {
	case a := <-n.answers:
		if a.pidfd == nil {
			return executor.Entered{}, cloneError(unix.Errno(-a.PID))
		}
		defer a.pidfd.Close()
		if err := unix.PidfdSendSignal(int(a.pidfd.Fd()), 0, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			// the interpreter of an image made pid 1
			return executor.Entered{}, errors.New("pid 1 does not start processes as it is told")
		}
		pidfd, err := unix.FcntlInt(a.pidfd.Fd(), unix.F_DUPFD_CLOEXEC, firstFree)
		return executor.Entered{Pidfd: pidfd, Inner: a.PID, By: n}, err
	case <-n.over:
	case <-late.C:
		n.link.Close() // what it may still start could not be told apart
	}
	return executor.Entered{}, executor.ErrNoProgram
}

// Signal implements Parent.
func (n *newcomers) Signal(pid int, signal unix.Signal) {
	n.asking.Lock()
	defer n.asking.Unlock()
	n.link.SetWriteDeadline(time.Now().Add(n.patience))
	_ = n.link.SendRaw(spawn.EncodeSignal(pid, signal)) // it may have gone
}

// Reap implements Parent.
func (n *newcomers) Reap(pid int) (unix.WaitStatus, time.Duration) {
	end := n.await(pid)
	defer n.forget(pid)
	late := time.NewTimer(n.patience)
	defer late.Stop()
	select {
	case said := <-end:
		return said.Status, said.CPU
	case <-n.over:
	case <-late.C:
	}
	select {
	case said := <-end:
		return said.Status, said.CPU
	default:
		return unix.WaitStatus(unix.SIGKILL), 0
	}
}

func (n *newcomers) forget(pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ends, pid)
}
