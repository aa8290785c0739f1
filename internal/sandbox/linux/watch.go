package linux

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// A watch supervises one sandbox.
type watch struct {
	script  *spawn.Script
	link    *link
	pid     int
	pidfd   int
	timeout time.Duration // zero: there is none
	warm    *waiting      // nil: it was started cold, as a child of the executor
	cold    bool          // its program starts later, and its first process reports that
	reaped  bool          // pid 1 only has to exit after it reports the program's end

	abandoned    bool // the service abandoned the request
	still        freezer
	spoofedExits int // reports of an exit that did not come from the program
	sockets      int // sockets created, less those forgiven for pauses

	rusage unix.Rusage
	poller *poller // nil with control groups
	memory int64   // its memory limit
	rest   rest

	nextCPUCheck  time.Time // when the group is checked for a program that computes for long
	nextRestCheck time.Time // when the program is checked for idleness

	executor *executor
	inside   *standing
}

// supervise stays with a sandbox until it has ended. For a sandbox made by a zygote, it
// stays until the program has ended and no other process is left.
func (w *watch) supervise(s *sandbox, reports *os.File) (*outcome, error) {
	w.memory, w.timeout = s.request.Memory, s.request.limit()
	w.inside = newStanding(s, w)
	entered := w.inside.entered
	w.still.group, w.still.pid, w.still.kill, w.still.entered = s.group, w.pid, w.end, entered
	w.still.tasks, w.still.most = s.request.tasks, s.request.tasksFor()
	if s.group == nil { // last: it may call kill at once
		w.poller = startPoller(w.pid, entered, s.request.Memory, s.host.most, w.kill)
	}
	if w.warm != nil {
		w.inside.complete()
	}
	w.executor.stand(w.inside)
	done, err := w.until(s.group, reports)
	if w.executor.fall(w.inside) && w.warm != nil {
		w.warm.pristine = false
	}
	freezeViolated := w.still.end()
	if w.still.stopped() {
		w.executor.running.Add(1) // the caller decrements it
	}
	if w.poller != nil {
		w.poller.finish()
	}
	if err != nil {
		return nil, err
	}
	done.TimedOut = done.TimedOut || freezeViolated && done.Lost
	w.account(s.group, done)
	if done.Lost && !done.TimedOut && !done.OOM && !w.abandoned {
		return nil, newFailure(engine.ErrUnavailable, "the sandbox was killed from outside",
			"try again")
	}
	return done, nil
}

// await returns when pid 1 has ended.
func (w *watch) await() {
	awaitPidfd(w.pidfd)
	for w.warm == nil {
		if _, err := unix.Wait4(w.pid, nil, 0, &w.rusage); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// until waits for the end of pid 1, and with it of all other processes. It kills the
// sandbox when the time limit is reached or the request is abandoned. It waits for all its
// files at once: waking a second goroutine would cost more than all its work.
func (w *watch) until(g *cgroup.Group, reports *os.File) (*outcome, error) {
	service, err := w.link.number()
	if err != nil {
		return nil, err
	}
	done := &outcome{Lost: true, Warm: !w.cold, Started: time.Now()}
	deadline := w.deadline(done.Started)
	w.nextCPUCheck, w.nextRestCheck = done.Started.Add(cgroup.ShortRun), done.Started.Add(firstRest)
	list := []unix.PollFd{
		polledReports: {Fd: int32(reports.Fd()), Events: unix.POLLIN},
		polledService: {Fd: int32(service), Events: unix.POLLIN},
		polledFinish:  {Fd: w.finishes(), Events: unix.POLLIN},
	}
	if !w.cold {
		w.executor.guard.end(w.pidfd, deadline)
	}
	var failed error
	polled, err := newPollSet(list)
	if err != nil {
		return nil, w.fail(err)
	}
	defer polled.close()
	for {
		next := earlier(earlier(w.nextCPUCheck, w.nextRestCheck), earlier(w.still.due, w.still.retryAt()))
		n, err := w.poll(polled, list, earlier(deadline, next))
		switch {
		case err == nil && n == 0 && !next.IsZero() && (deadline.IsZero() || next.Before(deadline)):
			w.carryOut(g, next)
			continue
		case err != nil:
			return nil, w.fail(err)
		case n == 0:
			done.TimedOut = done.Lost
			w.kill()
			deadline = time.Time{}
			continue
		case list[polledService].Revents != 0 && !w.handleControl():
			w.abandoned = true
			w.kill()
			list[polledService].Fd = -1
		case list[polledFinish].Revents != 0:
			if w.finished(&list[polledFinish], done) && w.quiet(g) {
				done.Duration = time.Since(done.Started)
				return done, failed
			}
			continue
		}
		if list[polledReports].Revents == 0 {
			continue
		}
		r, ok := spawn.ReadReport(reports)
		switch {
		case !ok: // every holder of the pipe's other end has exited
			w.gone(done, deadline)
			return done, failed
		case r.Kind == spawn.Started:
			deadline = w.began(done)
		case r.Kind == spawn.Exited && w.exited(r.Value, g.Processes, done):
			return done, failed
		case r.Kind != spawn.Exited:
			failed = stepError(w.script, r)
		}
	}
}

// fail kills the sandbox, which cannot be watched, and returns err.
func (w *watch) fail(err error) error {
	w.kill()
	w.await()
	return err
}

// carryOut runs the check due at a time.
func (w *watch) carryOut(g *cgroup.Group, next time.Time) {
	switch {
	case next.Equal(w.still.due):
		w.still.due = time.Time{}
		w.still.set(true)
	case next.Equal(w.still.retryAt()):
		w.move(func() bool { w.still.set(false); return true })
	case next.Equal(w.nextCPUCheck):
		w.nextCPUCheck = g.DemoteIfBusy(time.Now())
	default:
		w.nextRestCheck = w.lookAtRest(g, time.Now())
	}
}

// began records the program's start, and lets other processes enter.
func (w *watch) began(done *outcome) (deadline time.Time) {
	done.Started = time.Now()
	deadline = w.deadline(done.Started)
	w.executor.guard.end(w.pidfd, deadline)
	w.inside.complete()
	return deadline
}

// gone records that every process has exited.
func (w *watch) gone(done *outcome, deadline time.Time) {
	w.await()
	late := !deadline.IsZero() && !time.Now().Before(deadline) // the guard killed it first
	done.TimedOut = done.TimedOut || late && done.Lost
	done.Duration = time.Since(done.Started)
}

// deadline returns when a program started at began times out, zero if never.
func (w *watch) deadline(began time.Time) time.Time {
	if w.timeout == 0 {
		return time.Time{}
	}
	return began.Add(w.timeout)
}

// handleControl freezes or thaws the program.
func (w *watch) handleControl() bool {
	return w.move(func() bool { return w.still.handleControl(w.link) })
}

// move calls a function that may freeze or thaw the program, and returns its result. A
// frozen program has no idle checks: the service knows its state.
func (w *watch) move(set func() bool) bool {
	now, stood := time.Now(), w.still.stopped()
	heard := set()
	stands := w.still.stopped()
	w.rest, w.nextCPUCheck, w.nextRestCheck = rest{}, w.still.group.Renew(now), now.Add(firstRest)
	if stands {
		w.nextCPUCheck, w.nextRestCheck = time.Time{}, time.Time{}
	}
	switch {
	case stands && !stood:
		w.executor.running.Add(-1)
	case !stands && stood:
		w.executor.running.Add(1)
	}
	return heard
}

// Indexes of the polled files.
const (
	polledReports = iota
	polledService
	polledFinish
)

// finishes returns the file on which a warm program reports that it has finished; -1 if it
// cannot.
func (w *watch) finishes() int32 {
	if w.warm == nil || w.warm.listener == nil {
		return -1
	}
	return int32(w.warm.listener.Fd())
}

// finished reads that the program has finished, and its exit code. It counts and
// continues a call that creates a socket. A process other than the program that reports
// the program's end gets ENOSYS.
func (w *watch) finished(polled *unix.PollFd, done *outcome) bool {
	if polled.Revents&unix.POLLIN == 0 { // no process is left that could report
		polled.Fd = -1
		return false
	}
	listener := w.warm.listener
	n, err := readNotification(listener)
	switch {
	case err != nil: // a signal interrupted the caller, which may call again
		w.sockets++
		return false
	case notifies(n.nr):
		w.sockets++
		w.warm.markDirty()
		_ = continueSyscall(listener, n.id) // the process may have exited
		return false
	case n.nr == finishCall && int(n.pid) == w.warm.number:
		done.Status, done.Lost = int32(n.args[0]&0xff)<<8, false
		polled.Fd = -1
		return true
	default:
		_ = respond(listener, n.id, unix.ENOSYS) // the process may have exited
	}
	if w.spoofedExits++; w.spoofedExits == maxSpoofedExits {
		// Answering these calls takes the executor's time and is not charged to the
		// program. From here on the kernel answers, and init reports the program's end.
		w.warm.listener.Close()
		w.warm.listener = nil
		polled.Fd = -1
	}
	return false
}

// maxSpoofedExits bounds how many processes and threads other than the program may
// report its end.
const maxSpoofedExits = 64

// A program may create any number of sockets. After the first few they are handled in
// batches: the executor's work for them is not charged to the program, and must not
// delay its end.
const (
	fewSockets   = 256
	someSockets  = 32
	socketsPause = time.Millisecond
)

// poll waits for one of the files, the last of which reports system calls.
func (w *watch) poll(polled *pollSet, list []unix.PollFd, deadline time.Time) (int, error) {
	if w.sockets < fewSockets {
		return polled.until(list, deadline)
	}
	pause := time.Now().Add(socketsPause)
	list[polledFinish].Revents = 0
	if err := polled.listen(list[polledFinish], 0); err != nil {
		return 0, err
	}
	n, err := polled.until(list[:polledFinish], earlier(deadline, pause))
	if err := errors.Join(err, polled.listen(list[polledFinish], unix.POLLIN)); n > 0 || err != nil {
		return n, err
	}
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return 0, nil
	}
	w.sockets -= someSockets
	return polled.until(list, deadline)
}

// earlier returns the earlier of two times. A zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// quiet reports whether only a program that has finished is left. If there are other
// processes, quiet kills all of them. The program blocks in its last call, which one of
// its timers could interrupt: it gets SIGKILL, after which it runs no more code. How
// long its exit then takes does not matter: its files can be collected.
func (w *watch) quiet(g *cgroup.Group) bool {
	var alone bool
	if g != nil {
		alone = g.Processes() == 2 // and threads: init, and the program's only one
	} else {
		left := w.inside.entered.among(w.pid)
		alone = len(left) == 1 && tasks(left[0]) == 1
	}
	if alone {
		g.Idle(true)
		alone = unix.PidfdSendSignal(int(w.warm.program.Fd()), unix.SIGKILL, nil, 0) == nil
	}
	if !alone {
		w.kill()
	}
	return alone
}

// exited records how the program has ended, and reports whether only pid 1 is left: it
// has reaped the program and there is no other process. Then the time that pid 1 takes
// to exit, with all its mounts, does not matter.
func (w *watch) exited(status int32, processes func() int64, done *outcome) bool {
	done.Status, done.Lost = status, false
	if !w.reaped || processes() != 1 {
		return false
	}
	w.still.group.Idle(true)
	done.Duration = time.Since(done.Started)
	return true
}

// kill ends the sandbox, with priority over other processes.
func (w *watch) kill() {
	w.still.group.BoostForExit()
	w.end()
	w.still.thaw()
}

// end kills pid 1. The kernel then prevents forks in its namespace, kills all other
// processes, and lets pid 1 be reaped after the last has exited. The kernel does so
// when pid 1 gets a processor, so end also kills all others to free one for it.
func (w *watch) end() {
	_ = unix.PidfdSendSignal(w.pidfd, unix.SIGKILL, nil, 0)
	if g := w.still.group; g != nil {
		g.Kill()
		return
	}
	cgroup.KillListed(func() []int {
		if w.ended() {
			return nil
		}
		return w.inside.entered.among(w.pid)
	})
}

// ended reports whether pid 1, and with it all others, has ended.
func (w *watch) ended() bool {
	return hasEnded(w.pidfd)
}

// account reads the program's resource usage.
func (w *watch) account(g *cgroup.Group, done *outcome) {
	if g == nil {
		done.CPU = max(w.poller.cpu, time.Duration(w.rusage.Utime.Nano()+w.rusage.Stime.Nano()))
		done.MemoryPeak, done.OOM = w.poller.peak, w.poller.over && !done.TimedOut
		return
	}
	done.CPU, done.MemoryPeak, done.Refused = g.CPUTime(), g.MemoryPeak(), g.Refused() > 0
	status := unix.WaitStatus(done.Status)
	killed := done.Lost || status.Signaled() && status.Signal() == unix.SIGKILL
	done.OOM = killed && !done.TimedOut && g.OOMKills() > 0
}
