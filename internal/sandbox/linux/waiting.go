package linux

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// waiting is a confined, unused sandbox that waits for a program. A zygote forked it,
// or its own process waits (waiting_process.go).
type waiting struct {
	*sandbox
	executor *executor
	script   *spawn.Script
	shape    shape
	pid      int
	pidfd    *os.File
	listener *os.File // reports the calls that the filter hands over; nil: there is none
	reports  *os.File
	control  *link

	// Of a sandbox that a zygote forked:
	forked    bool
	program   *os.File       // pidfd of the waiting process
	null      *os.File       // its stdin without input
	number    int            // pid of the waiting process
	prewarmed bool           // it has its own copy of the memory that plots use, about 20 MiB
	pristine  bool           // its reusable namespaces have not been used
	held      *heldWorkspace // workspace of a live interpreter, which it has entered; else nil
	unheld    bool           // held belongs to no session yet

	// Of a sandbox whose own process waits:
	language     language.Language // of a Node; else none
	compiler     *warmCompiler     // beside a Node, of a language that is compiled; else nil
	notification uint64            // id of the call in which it waits
	reportNumber int               // descriptor of the pipe for reports in the process
}

// startMode selects the priority and the preparation of a start.
type startMode int

const (
	onDemand   startMode = iota // a request waits for it
	eager                       // a request is expected: nothing is prepared
	background                  // while no program wants the processor
	prewarmed                   // in the background, and with the memory that plots use
)

func (h startMode) prepare() int {
	return [...]int{onDemand: prepareNothing, eager: prepareNothing, background: prepareMemory, prewarmed: preparePlots}[h]
}

// forkWaiting creates a sandbox with a zygote and waits until it is ready. A live
// interpreter's sandbox is created in the held workspace h, or in a new one if h is
// nil. Other sandboxes are created in the workspace made, if it is not nil.
func (e *executor) forkWaiting(
	z *zygote, s shape, how startMode, h *heldWorkspace, made *workspace,
) (_ *waiting, err error) {
	w := &waiting{sandbox: &sandbox{host: e.host, request: s.request()}, executor: e, shape: s, held: h, forked: true}
	w.prewarmed, w.workspace = how == prewarmed, made
	w.request.Live = z.tier.live
	if z.tier.live && h == nil {
		if w.held, err = e.newHeld(s.workspace, s.inodes); err != nil {
			return nil, err
		}
		w.held.entered.RLock()
		w.unheld = true
	}
	if err := w.takeWorkspace(); err != nil {
		if w.held != nil {
			w.leaveHeld()
		}
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := w.furnish(e.host); err != nil {
		return nil, err
	}
	w.group.Idle(how != onDemand)
	if e.host.reusesNamespaces(z.tier) {
		w.kept = e.namespaces.take()
	}
	if w.null, err = openNull(); err != nil {
		return nil, err
	}
	var theirs *os.File
	if w.control, theirs, err = newLinkPair(); err != nil {
		return nil, err
	}
	defer theirs.Close()
	if w.reports, w.report, err = reportPipe(); err != nil {
		return nil, err
	}
	w.script = w.forkedScript(theirs)
	weaken(w.script, e.config.Weaken)
	if w.pid, w.pidfd, err = z.fork(w.script, w.group, how.prepare()); err != nil {
		return nil, err
	}
	w.report.Close()
	theirs.Close()
	var ready struct{}
	files, err := w.control.receive(&ready)
	if err != nil {
		if r, ok := spawn.ReadReport(w.reports); ok {
			err = stepError(w.script, r)
		}
		return nil, fmt.Errorf("fork a sandbox: %w", err)
	}
	if len(files) > 0 {
		w.listener = files[0]
	}
	w.openNamespaces(z.tier)
	if w.number, w.program, err = onlyChild(w.pid); err != nil {
		return nil, err
	}
	return w, nil
}

// takeWorkspace creates a workspace, or uses the held one.
func (w *waiting) takeWorkspace() (err error) {
	if w.held != nil {
		w.uid = w.held.uid
		w.workspace, err = w.held.clone()
		return err
	}
	if w.workspace != nil {
		w.uid = w.workspace.uid
		return nil
	}
	if w.uid, err = w.executor.leaseUID(); err != nil {
		return err
	}
	if w.workspace, err = newWorkspace(w.shape.workspace, w.shape.inodes, w.uid); err == nil {
		python, _ := language.Find("python")
		if err = w.workspace.expect(python.Entry); err == nil {
			return nil
		}
		w.workspace.close()
	}
	w.executor.returnUID(w.uid)
	return err
}

// onlyChild opens the only child of a sandbox's init.
func onlyChild(init int) (int, *os.File, error) {
	children := ofInit(init)
	if len(children) != 1 {
		return 0, nil, fmt.Errorf("a new sandbox has %d processes beside its first", len(children))
	}
	fd, err := unix.PidfdOpen(children[0], 0)
	if err != nil {
		return 0, nil, err
	}
	return children[0], os.NewFile(uintptr(fd), "program"), nil
}

// maxSlowExits bounds the sandboxes that may exit at idle priority. More would hold
// memory that the next ones need.
const maxSlowExits = 2

// close ends the sandbox, waits until its processes have exited, and releases its
// resources.
func (w *waiting) close() {
	if w.compiler != nil {
		w.compiler.close()
	}
	ended := false
	if w.pidfd != nil {
		if w.executor.ending.Add(1) <= maxSlowExits {
			w.group.Idle(true)
		}
		defer w.executor.ending.Add(-1)
		_ = unix.PidfdSendSignal(int(w.pidfd.Fd()), unix.SIGKILL, nil, 0)
		ended = awaitPidfd(int(w.pidfd.Fd()))
		// Its zygote reaps it. If that one is dead, it has become our child.
		_ = unix.Waitid(unix.P_PIDFD, int(w.pidfd.Fd()), nil, unix.WEXITED|unix.WNOHANG, nil)
		w.pidfd.Close()
	}
	closeAll(w.program, w.listener, w.null, w.reports)
	if w.control != nil {
		w.control.close()
	}
	w.recycleNamespaces(ended)
	w.release()
	if w.workspace != nil {
		w.workspace.close()
	}
	if w.held != nil {
		w.leaveHeld()
		return
	}
	w.executor.returnUID(w.uid)
}

// leaveHeld leaves the workspace that stays, unless no session ever had it.
func (w *waiting) leaveHeld() {
	w.executor.leave(w.held, true)
	if w.unheld {
		w.executor.discard(w.held)
	}
}

// alive reports whether pid 1 of the sandbox has not ended.
func (w *waiting) alive() bool {
	return !hasEnded(int(w.pidfd.Fd()))
}

// hasEnded reports whether a process has ended.
func hasEnded(pidfd int) bool {
	n, err := pollNow([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}})
	return n > 0 || err != nil
}

// awaitPidfd waits until a process has ended. A pid 1 ends when the last process of its
// namespace has exited. It reports false if waiting failed.
func awaitPidfd(fd int) bool {
	n, err := pollUntil([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, time.Time{})
	return n > 0 && err == nil
}

// run runs a program in the sandbox that waited for it. It answers as soon as the
// program has finished and its files are sent. After that it ends the sandbox, and then
// refills the pool.
func (w *waiting) run(l *link, r *runRequest, files, ends []*os.File) error {
	switch pool := w.executor.poolOf(r); {
	case !w.forked: // the caller refills its pool
	case r.Live:
		w.executor.work.Go(func() { pool.refillLater(w.shape) })
	default:
		defer pool.refill(w.shape)
	}
	defer w.close()
	defer w.executor.running.Add(-1)
	w.request = r
	if err := w.receiveInputs(l); err != nil {
		return err
	}
	if ends[0] == nil {
		ends[0] = w.null
	}
	proxy, err := w.openNetwork()
	if err != nil {
		return err
	}
	hand := w.handOver
	if w.forked {
		hand = w.hand
	}
	if err := hand(r, ends); err != nil {
		closeAll(proxy)
		return retryable("the waiting sandbox died")
	}
	var meter []*os.File
	if r.Live {
		meter = w.group.Meter()
	}
	err = errors.Join(l.send(answer{Accepted: true}, meter...), l.sendProxy(proxy))
	closeAll(meter...)
	if err != nil {
		return err
	}
	closeAll(files...)
	watch := &watch{script: w.script, link: l, pid: w.pid, pidfd: int(w.pidfd.Fd()), executor: w.executor}
	if w.forked {
		watch.warm = w
	} else {
		watch.reaped = len(spawn.InitProgram()) > 0
	}
	done, err := watch.supervise(w.sandbox, w.reports)
	if err != nil {
		return err
	}
	return w.answer(l, done)
}
