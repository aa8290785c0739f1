package executor

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
)

// waiting is a confined, unused sandbox that waits for a program. A zygote forked it,
// or its own process waits.
type waiting struct {
	*Box
	executor *executor
	cell     Cell // nil if it could not be made
	shape    shape

	// Of a sandbox that a zygote forked:
	forked    bool
	null      *os.File       // its stdin without input
	prewarmed bool           // it has its own copy of the memory that plots use, about 20 MiB
	held      *heldWorkspace // workspace of a live interpreter, which it has entered; else nil
	unheld    bool           // held belongs to no session yet
}

// StartMode selects the priority and the preparation of a start.
type StartMode int

// The modes.
const (
	OnDemand   StartMode = iota // a request waits for it
	Eager                       // a request is expected: nothing is prepared
	Background                  // while no program wants the processor
	Prewarmed                   // in the background, and with the memory that plots use
)

// forkWaiting creates a sandbox with a zygote and waits until it is ready. A live
// interpreter's sandbox is created in the held workspace h, or in a new one if h is
// nil. Other sandboxes are created in the workspace made, if it is not nil.
func (e *executor) forkWaiting(
	z Zygote, live bool, s shape, how StartMode, h *heldWorkspace, made *Workspace,
) (_ *waiting, err error) {
	w := &waiting{Box: &Box{Machine: e.machine, Environment: s.env, Request: s.request()}, executor: e, shape: s,
		held: h, forked: true}
	w.prewarmed, w.Workspace = how == Prewarmed, made
	w.Request.Live = live
	if live && h == nil {
		if w.held, err = e.newHeld(s.workspace, s.inodes); err != nil {
			return nil, err
		}
		w.held.entered.RLock()
		w.held.live++
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
	if err := w.furnish(); err != nil {
		return nil, err
	}
	w.Group.Idle(how != OnDemand)
	if w.null, err = openNull(); err != nil {
		return nil, err
	}
	if w.cell, err = z.Fork(w.Box, how); err != nil {
		return nil, err
	}
	w.closeLayers()
	return w, nil
}

// takeWorkspace creates a workspace, or uses the held one.
func (w *waiting) takeWorkspace() (err error) {
	if w.held != nil {
		w.UID = w.held.uid
		if w.Layers, err = w.executor.layersOver(w.held, w.Environment.Root); err != nil {
			return err
		}
		w.Workspace, err = w.held.clone()
		return err
	}
	if w.Workspace != nil {
		w.UID = w.Workspace.uid
		return nil
	}
	if w.UID, err = w.executor.leaseUID(); err != nil {
		return err
	}
	if w.Workspace, err = newWorkspace(w.shape.workspace, w.shape.inodes, w.UID); err == nil {
		python, _ := language.Find("python")
		if err = w.Workspace.expect(python.Entry); err == nil {
			return nil
		}
		w.Workspace.close()
	}
	w.executor.returnUID(w.UID)
	return err
}

// maxSlowExits bounds the sandboxes that may exit at idle priority. More would hold
// memory that the next ones need.
const maxSlowExits = 2

// close ends the sandbox, waits until its processes have exited, and releases its
// resources.
func (w *waiting) close() {
	if w.cell != nil {
		if w.executor.ending.Add(1) <= maxSlowExits {
			w.Group.Idle(true)
		}
		defer w.executor.ending.Add(-1)
		w.cell.Close()
	}
	CloseAll(w.null)
	w.release()
	if w.Workspace != nil {
		w.Workspace.close()
	}
	if w.held != nil {
		w.leaveHeld()
		return
	}
	w.executor.returnUID(w.UID)
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
	_, pidfd := w.cell.First()
	return !hasEnded(pidfd)
}

// hasEnded reports whether a process has ended.
func hasEnded(pidfd int) bool {
	n, err := pollNow([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}})
	return n > 0 || err != nil
}

// AwaitPidfd waits until a process has ended. A pid 1 ends when the last process of its
// namespace has exited. It reports false if waiting failed.
func AwaitPidfd(fd int) bool {
	n, err := PollUntil([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, time.Time{})
	return n > 0 && err == nil
}

// run runs a program in the sandbox that waited for it. It answers as soon as the
// program has finished and its files are sent. After that it ends the sandbox, and then
// refills the pool.
func (w *waiting) run(l *Link, r *RunRequest, files, ends []*os.File) error {
	switch pool := r.poolOf(); {
	case !w.forked: // the caller refills its pool
	case r.Live:
		w.executor.work.Go(func() { pool.refillLater(w.shape) })
	default:
		defer pool.refill(w.shape)
	}
	defer w.close()
	defer r.counted.count(false) // before the pool is refilled
	w.Request = r
	if err := w.receiveInputs(l); err != nil {
		return err
	}
	if ends[0] == nil {
		ends[0] = w.null
	}
	if err := w.openMounts(); err != nil {
		return err
	}
	if len(w.Mounts) > 0 {
		if err := w.cell.Mount(); err != nil {
			return err
		}
	}
	proxy, err := w.openNetwork(w.cell)
	if err != nil {
		return err
	}
	w.ownPipes(ends)
	if err := w.cell.Start(ends); err != nil {
		CloseAll(proxy)
		return retryable("the waiting sandbox died")
	}
	var meter []*os.File
	if r.Live {
		meter = w.Group.Meter()
	}
	err = errors.Join(l.Send(answer{Accepted: true}, meter...), l.sendProxy(proxy))
	CloseAll(meter...)
	if err != nil {
		return err
	}
	CloseAll(files...)
	watch := &watch{link: l, cell: w.cell, executor: w.executor}
	done, err := watch.supervise(w.Box)
	if err != nil {
		return err
	}
	return w.answer(l, done)
}
