package executor

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
)

// A watch supervises one sandbox.
type watch struct {
	cell    Cell
	link    *Link
	pid     int           // of the first process
	pidfd   int           // of the same
	timeout time.Duration // zero: there is none
	cold    bool          // its program starts later, and the wall tells that

	abandoned bool // the service abandoned the request
	freezer   freezer
	calls     int // calls served, less those forgiven for pauses

	reaped time.Duration // processor time that is known when the sandbox has ended
	poller *poller       // nil with control groups
	memory int64         // its memory limit
	rest   rest

	nextCPUCheck  time.Time // when the group is checked for a program that computes for long
	nextRestCheck time.Time // when the program is checked for idleness

	executor *executor
	program  *countedProgram
	inside   *runningSandbox
}

// supervise stays with a sandbox until it has ended. For a sandbox made by a zygote, it
// stays until the program has ended and no other process is left.
func (w *watch) supervise(b *Box) (*outcome, error) {
	w.pid, w.pidfd = w.cell.First()
	w.memory, w.timeout, w.program = b.Request.Memory, b.Request.limit(), b.Request.counted
	w.inside = newRunningSandbox(b, w)
	entered := w.inside.entered
	w.freezer.group, w.freezer.pid, w.freezer.kill, w.freezer.entered = b.Group, w.pid, w.killProcesses, entered
	w.freezer.tasks, w.freezer.most = b.Request.tasks, b.Machine.tasksFor(b.Request)
	w.freezer.cell = w.cell
	if b.Group == nil { // last: it may call kill at once
		w.poller = startPoller(w.pid, entered, b.Request.Memory, b.Machine.most, w.kill)
	}
	files := w.cell.Polled()
	if !w.cold {
		w.inside.allowEntry()
	}
	w.executor.register(w.inside)
	done, err := w.until(b.Group, files)
	w.executor.unregister(w.inside)
	freezeViolated := w.freezer.end()
	if w.poller != nil {
		w.poller.finish()
	}
	if err != nil {
		return nil, err
	}
	done.TimedOut = done.TimedOut || freezeViolated && done.Lost
	w.account(b.Group, done)
	if done.Lost && !done.TimedOut && !done.OOM && !w.abandoned {
		return nil, NewFailure(engine.ErrUnavailable, "the sandbox was killed from outside",
			"try again")
	}
	return done, nil
}

// until waits for the end of pid 1, and with it of all other processes. It kills the
// sandbox when the time limit is reached or the request is abandoned. It waits for all its
// files at once: waking a second goroutine would cost more than all its work.
func (w *watch) until(g *cgroup.Group, files [PolledKinds]*os.File) (*outcome, error) {
	service, err := w.link.number()
	if err != nil {
		return nil, err
	}
	done := &outcome{Lost: true, Warm: !w.cold, Started: time.Now()}
	deadline := w.deadline(done.Started)
	w.nextCPUCheck, w.nextRestCheck = done.Started.Add(cgroup.ShortRun), done.Started.Add(firstRest)
	list := []unix.PollFd{
		atReports: {Fd: numberOf(files[PolledReports]), Events: unix.POLLIN},
		atService: {Fd: int32(service), Events: unix.POLLIN},
		atCalls:   {Fd: numberOf(files[PolledCalls]), Events: unix.POLLIN},
	}
	if !w.cold {
		w.executor.guard.end(w.pidfd, deadline)
	}
	var unstarted error
	polled, err := newPollSet(list)
	if err != nil {
		return nil, w.fail(err)
	}
	defer polled.close()
	for {
		next := earlier(earlier(w.nextCPUCheck, w.nextRestCheck), earlier(w.freezer.due, w.freezer.retryAt()))
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
		case list[atService].Revents != 0 && !w.handleControl():
			w.abandoned = true
			w.kill()
			list[atService].Fd = -1
		case list[atCalls].Revents != 0:
			if w.finished(&list[atCalls], done) && w.killStragglers(g) {
				done.Duration = time.Since(done.Started)
				return done, unstarted
			}
			continue
		}
		if list[atReports].Revents == 0 {
			continue
		}
		switch event := w.cell.Next(PolledReports); event.Kind {
		case Ended:
			w.allExited(done, deadline)
			return done, unstarted
		case Started:
			deadline = w.started(done)
		case Exited:
			if w.exited(event, done) {
				return done, unstarted
			}
		case Failed:
			unstarted = event.Err
		}
	}
}

// numberOf returns a file's descriptor, -1 if there is no file.
func numberOf(f *os.File) int32 {
	if f == nil {
		return -1
	}
	return int32(f.Fd())
}

// fail kills the sandbox, which cannot be watched, and returns err.
func (w *watch) fail(err error) error {
	w.kill()
	w.cell.Reap()
	return err
}

// carryOut runs the check due at a time.
func (w *watch) carryOut(g *cgroup.Group, next time.Time) {
	switch {
	case next.Equal(w.freezer.due):
		w.freezer.due = time.Time{}
		w.freezer.set(true)
	case next.Equal(w.freezer.retryAt()):
		w.move(func() bool { w.freezer.set(false); return true })
	case next.Equal(w.nextCPUCheck):
		w.nextCPUCheck = g.DemoteIfBusy(time.Now())
	default:
		w.nextRestCheck = w.lookAtRest(g, time.Now())
	}
}

// started records the program's start, and lets other processes enter.
func (w *watch) started(done *outcome) (deadline time.Time) {
	done.Started = time.Now()
	deadline = w.deadline(done.Started)
	w.executor.guard.end(w.pidfd, deadline)
	w.inside.allowEntry()
	if w.inside.box.Request.Resumes {
		_ = w.link.Send(answer{Resumed: true}) // until notices a service that has exited
	}
	return deadline
}

// allExited records that every process has exited.
func (w *watch) allExited(done *outcome, deadline time.Time) {
	w.reaped = w.cell.Reap()
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
	return w.move(func() bool { return w.freezer.handleControl(w.link) })
}

// move calls a function that may freeze or thaw the program, and returns its result. A
// frozen program has no idle checks: the service knows its state.
func (w *watch) move(set func() bool) bool {
	now := time.Now()
	heard := set()
	stopped := w.freezer.stopped()
	w.rest, w.nextCPUCheck, w.nextRestCheck = rest{}, w.freezer.group.Renew(now), now.Add(firstRest)
	w.program.count(!stopped)
	if stopped {
		w.nextCPUCheck, w.nextRestCheck = time.Time{}, time.Time{}
	}
	return heard
}

// Indexes of the polled files.
const (
	atReports = iota
	atService
	atCalls
)

// finished reads that the program has finished, and its exit code.
func (w *watch) finished(polled *unix.PollFd, done *outcome) bool {
	if polled.Revents&unix.POLLIN == 0 { // no process is left that could report
		polled.Fd = -1
		return false
	}
	switch event := w.cell.Next(PolledCalls); event.Kind {
	case Finished:
		done.Status, done.Lost = event.Status, false
		polled.Fd = -1
		return true
	case Served:
		w.calls++
	case Deaf:
		polled.Fd = -1
	}
	return false
}

// A program may make any number of calls that the executor has to serve. After the first
// few they are handled in batches: the executor's work for them is not charged to the
// program, and must not delay its end.
const (
	fewCalls   = 256
	someCalls  = 32
	callsPause = time.Millisecond
)

// poll waits for one of the files, the last of which has the calls.
func (w *watch) poll(polled *pollSet, list []unix.PollFd, deadline time.Time) (int, error) {
	if w.calls < fewCalls {
		return polled.until(list, deadline)
	}
	pause := time.Now().Add(callsPause)
	list[atCalls].Revents = 0
	if err := polled.listen(list[atCalls], 0); err != nil {
		return 0, err
	}
	n, err := polled.until(list[:atCalls], earlier(deadline, pause))
	if err := errors.Join(err, polled.listen(list[atCalls], unix.POLLIN)); n > 0 || err != nil {
		return n, err
	}
	if !deadline.IsZero() && !time.Now().Before(deadline) {
		return 0, nil
	}
	w.calls -= someCalls
	return polled.until(list, deadline)
}

// earlier returns the earlier of two times. A zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// killStragglers reports whether only a program that has finished is left. If there are
// other processes, killStragglers kills all of them.
func (w *watch) killStragglers(g *cgroup.Group) bool {
	var alone bool
	if g != nil {
		alone = g.Processes() == 2 // and threads: init, and the program's only one
	} else {
		left := w.inside.entered.list(w.pid)
		alone = len(left) == 1 && tasks(left[0]) == 1
	}
	if alone {
		g.Idle(true)
		alone = w.cell.Finish()
	}
	if !alone {
		w.kill()
	}
	return alone
}

// exited records how the program has ended, and reports whether none of its processes is left. Then
// the time that the first process takes to exit, with all its mounts, does not matter.
func (w *watch) exited(event Event, done *outcome) bool {
	done.Status, done.Lost = event.Status, false
	if !event.Alone {
		return false
	}
	w.freezer.group.Idle(true)
	done.Duration = time.Since(done.Started)
	return true
}

// kill ends the sandbox, with priority over other processes.
func (w *watch) kill() {
	w.freezer.group.BoostForExit()
	w.killProcesses()
	w.freezer.thaw()
}

// killProcesses kills pid 1. The kernel then prevents forks in its namespace, kills all other
// processes, and lets pid 1 be reaped after the last has exited. The kernel does so
// when pid 1 gets a processor, so killProcesses also kills all
// others to free one for it.
func (w *watch) killProcesses() {
	_ = unix.PidfdSendSignal(w.pidfd, unix.SIGKILL, nil, 0)
	if g := w.freezer.group; g != nil {
		g.Kill()
		return
	}
	cgroup.KillListed(func() []int {
		if w.ended() {
			return nil
		}
		return w.inside.entered.list(w.pid)
	})
}

// ended reports whether pid 1, and with it all others, has ended.
func (w *watch) ended() bool {
	return hasEnded(w.pidfd)
}

// account reads the program's resource usage.
func (w *watch) account(g *cgroup.Group, done *outcome) {
	if g == nil {
		done.CPU = max(w.poller.cpu, w.reaped)
		done.MemoryPeak, done.OOM = w.poller.peak, w.poller.over && !done.TimedOut
		return
	}
	done.CPU, done.MemoryPeak, done.Refused = g.CPUTime(), g.MemoryPeak(), g.Refused() > 0
	status := unix.WaitStatus(done.Status)
	killed := done.Lost || status.Signaled() && status.Signal() == unix.SIGKILL
	done.OOM = killed && !done.TimedOut && g.OOMKills() > 0
}
