package executor

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Without control groups the executor itself polls the processes of all sandboxes, with
// the processor share of one session. A program with a hundred sessions can starve it,
// and would run past its time limit until the executor gets a processor. So the guard,
// a process with its own session, also ends sandboxes at their limits. It sleeps until
// then, so the kernel runs it at once, like pid 1, which it kills.

// guard is the executor's end of the guard's socket. A nil guard does nothing.
type guard struct{ socket int }

// guardName is the argument with which the executor executes itself as the guard.
const guardName = "guard"

// startGuard starts the guard before the executor leaves the host's files. The guard
// dies with the executor, whose pid namespace it is in.
func startGuard() (*guard, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	g := &guard{fds[0]}
	theirs := os.NewFile(uintptr(fds[1]), "guard")
	defer theirs.Close()
	command := exec.Command("/proc/self/exe", "executor", guardName)
	command.Args[0] = "airlock"
	command.Env = []string{"GOMAXPROCS=1"}
	command.Stderr = os.Stderr
	command.Dir = "/"
	command.ExtraFiles = []*os.File{theirs}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		g.close()
		return nil, err
	}
	go func() { _ = command.Wait() }() // it ends when its socket is closed
	theirs.Close()
	if _, err := unix.Read(g.socket, make([]byte, 1)); err != nil { // the guard is ready
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *guard) close() { unix.Close(g.socket) }

// end asks the guard to kill a process at a time, unless it has ended by then. If the
// guard does not accept it, the executor still checks the time limit.
func (g *guard) end(pidfd int, deadline time.Time) {
	if g == nil || deadline.IsZero() {
		return
	}
	left := time.Until(deadline)
	at := strconv.AppendInt(nil, int64(monotonic()+left), 10) // in this order it is not too early
	_ = unix.Sendmsg(g.socket, at, unix.UnixRights(pidfd), nil, unix.MSG_DONTWAIT)
}

// monotonic returns the time of a clock that all processes share.
func monotonic() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail
	return time.Duration(now.Nano())
}

// guarded is a process and the time at which to kill it.
type guarded struct {
	pidfd    *os.File
	deadline time.Duration
}

// sleepUntil waits for one of the files, or for a time, in the guard's only thread.
func sleepUntil(list []unix.PollFd, at time.Time) error {
	for {
		var left *unix.Timespec
		if !at.IsZero() {
			t := unix.NsecToTimespec(max(0, time.Until(at).Nanoseconds()))
			left = &t
		}
		if _, err := unix.Ppoll(list, left, nil); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// guardMain is the guard's main function. It needs no privileges: all processes have its user.
func guardMain() int {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &make([]unix.CapUserData, 2)[0]); err != nil {
		return 1
	}
	if _, err := unix.Write(executorSocket, []byte{0}); err != nil {
		return 1
	}
	executor, err := newLink(os.NewFile(executorSocket, "executor"))
	if err != nil {
		return 1
	}
	var all []guarded
	for {
		list := []unix.PollFd{{Fd: executorSocket, Events: unix.POLLIN}}
		var next time.Time
		for _, p := range all {
			list = append(list, unix.PollFd{Fd: int32(p.pidfd.Fd()), Events: unix.POLLIN})
			next = earlier(next, time.Now().Add(p.deadline-monotonic()))
		}
		if err := sleepUntil(list, next); err != nil {
			return 1
		}
		now, i := monotonic(), 0
		all = slices.DeleteFunc(all, func(p guarded) bool {
			i++
			ended := list[i].Revents != 0
			if !ended && now >= p.deadline {
				_ = unix.PidfdSendSignal(int(p.pidfd.Fd()), unix.SIGKILL, nil, 0) // it may just have ended
				ended = true
			}
			if ended {
				p.pidfd.Close()
			}
			return ended
		})
		if list[0].Revents != 0 {
			var at int64
			files, err := executor.Receive(&at)
			if err != nil || len(files) != 1 {
				return 0 // the executor has exited, or needs no guard
			}
			all = append(all, guarded{files[0], time.Duration(at)})
		}
	}
}
