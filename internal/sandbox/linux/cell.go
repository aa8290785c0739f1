package linux

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// wall is a Wall of namespaces, landlock and a filter of system calls. Its sandboxes share
// the kernel of the machine.
type wall struct {
	*executor.Machine // nil before Open
	weaken            []string

	landlock       int // version, 0 without
	filter         *unix.SockFprog
	notifyFilter   *unix.SockFprog // the same, with notifications of events in namespaces; nil where none is pooled
	imageFilter    *unix.SockFprog // of images' zygotes
	volumeFilter   *unix.SockFprog // of programs with volumes
	mountFilter    *unix.SockFprog // of programs with mounts that are not sealed
	lastCapability int
	masks          []hiddenPlace // of /proc
	shared         []image.Place // folders of the host that programs may ask for
	sealed         map[string]bool

	namespaces namespacePool // for the next sandboxes
}

// New returns the wall. One executor uses it.
func New() executor.Wall { return &wall{} }

// Begin implements Wall. It reserves the numbers of files at which steps place some.
func (l *wall) Begin(weaken []string) (programs map[string][]byte, err error) {
	l.weaken = weaken
	if !slices.Contains(weaken, weakReserve) {
		if err := reserveNumbers(); err != nil {
			return nil, err
		}
	}
	return map[string][]byte{initPath: spawn.InitProgram(), commandPath: spawn.CommandProgram()}, nil
}

// Open implements Wall.
func (l *wall) Open(m *executor.Machine) (executor.Capabilities, error) {
	l.Machine = m
	l.look()
	l.sealMounts()
	var err error
	if l.shared, err = image.SharedPlaces(); err != nil {
		return executor.Capabilities{}, err
	}
	if err := l.makeFilters(); err != nil {
		return executor.Capabilities{}, err
	}
	return executor.Capabilities{Name: "linux", Live: true, Commands: len(spawn.CommandProgram()) > 0,
		Sealed: l.sealed}, openNumbers(l.weaken)
}

// Close implements Wall.
func (l *wall) Close() { l.namespaces.close() }

// look notes what the kernel offers.
func (l *wall) look() {
	l.landlock, l.lastCapability, l.masks = landlockABI(), executor.LastCapability(), present(hidden)
}

// makeFilters makes the filters of system calls.
func (l *wall) makeFilters() (err error) {
	if err := l.makeImageFilter(); err != nil {
		return err
	}
	if l.volumeFilter, err = hostFilter(l.Groups != nil, volumeRules(l.weaken)...); err != nil {
		return err
	}
	if l.mountFilter, err = hostFilter(l.Groups != nil, mountRules(l.weaken)...); err != nil {
		return err
	}
	if l.filter, err = hostFilter(l.Groups != nil); err != nil || !l.Root || slices.Contains(l.weaken, weakKept) {
		return err
	}
	if l.notifyFilter, err = hostFilter(l.Groups != nil, notifyRules...); err != nil {
		return err
	}
	if slices.Contains(l.weaken, weakNotices) {
		l.notifyFilter = l.filter
	}
	return nil
}

// cell implements Cell. Its first process is a child of the executor or, if a zygote
// forked it, of the zygote.
type cell struct {
	*sandbox
	script   *spawn.Script
	pid      int
	pidfd    int      // 0: no process was created
	listener *os.File // reports the calls that the filter hands over; nil: there is none
	reports  *os.File
	control  *executor.Link // of a sandbox that waits

	newcomers *newcomers // nil: pid 1 starts none
	reaped    bool       // the first process has ended, and no longer exists

	// Of a sandbox that a zygote forked:
	zygote       *zygote     // of an image, which must outlive the sandbox; else nil
	child        *os.File    // the owner of pidfd
	program      *os.File    // pidfd of the waiting process
	number       int         // pid of the waiting process
	pristine     atomic.Bool // its reusable namespaces have not been used
	spoofedExits int         // reports of an exit that did not come from the program

	// Of a sandbox whose own process waits:
	waits        bool
	language     language.Language // of a Node; else none
	environment  []string          // of a Node
	compiler     *warmCompiler     // beside a Node, of a language that is compiled; else nil
	notification uint64            // id of the call in which it waits
	reportNumber int               // descriptor of the pipe for reports in the process
}

// Make implements Wall.
func (l *wall) Make(b *executor.Box) (executor.Cell, error) {
	w := &cell{sandbox: &sandbox{Box: b, wall: l}}
	if err := errors.Join(w.mapVolumes(), w.mapMounts(), w.makeRules()); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Mount implements Cell. A thread of the executor enters the sandbox's mount namespace, whose
// processes wait.
func (w *cell) Mount() error {
	return executor.InThread(func() error {
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(w.pidfd, unix.CLONE_NEWNS)); err != nil {
			return fmt.Errorf("enter the sandbox's mounts: %w", err)
		}
		for _, f := range w.Mounts {
			err := unix.MoveMount(int(f.Fd()), "", unix.AT_FDCWD, image.SharedIn(f.Name()), unix.MOVE_MOUNT_F_EMPTY_PATH)
			if err != nil {
				return fmt.Errorf("mount the host's %s: %w", f.Name(), err)
			}
		}
		return nil
	})
}

// Start implements Cell.
func (w *cell) Start(files []*os.File) error {
	switch {
	case w.forked:
		return w.hand(files)
	case w.waits:
		return w.handOver(files)
	}
	return w.startCold(files)
}

// startCold starts the sandbox with its program.
func (w *cell) startCold(files []*os.File) (err error) {
	if err := w.placeFiles(files); err != nil {
		return err
	}
	if w.reports, w.report, err = reportPipe(); err != nil {
		return err
	}
	var socket *os.File
	if w.newcomers, socket, err = w.newNewcomers(); err != nil {
		return err
	}
	w.script = w.sandbox.script()
	if socket != nil {
		defer socket.Close()
		w.executeInit(w.script, socket)
	}
	weaken(w.script, w.wall.weaken)
	if w.pid, w.pidfd, err = w.script.Start(); err != nil {
		return err
	}
	w.closeFiles()
	return nil
}

// First implements Cell.
func (w *cell) First() (pid, pidfd int) { return w.pid, w.pidfd }

// Polled implements Cell.
func (w *cell) Polled() (files [executor.PolledKinds]*os.File) {
	files[executor.PolledReports], files[executor.PolledCalls] = w.reports, w.listener
	return files
}

// Next implements Cell.
func (w *cell) Next(kind int) executor.Event {
	if kind == executor.PolledCalls {
		return w.nextCall()
	}
	r, ok := spawn.ReadReport(w.reports)
	switch {
	case !ok: // every holder of the pipe's other end has exited
		return executor.Event{Kind: executor.Ended}
	case r.Kind == spawn.Started:
		return executor.Event{Kind: executor.Started}
	case r.Kind == spawn.Exited:
		return executor.Event{Kind: executor.Exited, Status: r.Value, Alone: w.aloneAfter()}
	}
	return executor.Event{Kind: executor.Failed, Err: stepError(w.script, r)}
}

// aloneAfter reports whether pid 1, which has reaped the program, is the only process that is left.
func (w *cell) aloneAfter() bool {
	return w.waits && len(spawn.InitProgram()) > 0 && w.Group.Processes() == 1
}

// nextCall answers a call that the filter has handed over: the program has finished, with
// its exit code, or a process creates a socket, which goes on. A process other than the
// program that reports the program's end gets ENOSYS.
func (w *cell) nextCall() executor.Event {
	n, err := readNotification(w.listener)
	switch {
	case err != nil: // a signal interrupted the caller, which may call again
		return executor.Event{Kind: executor.Served}
	case notifies(n.nr):
		w.markDirty()
		_ = continueSyscall(w.listener, n.id) // the process may have exited
		return executor.Event{Kind: executor.Served}
	case n.nr == finishCall && int(n.pid) == w.number:
		return executor.Event{Kind: executor.Finished, Status: int32(n.args[0]&0xff) << 8}
	}
	_ = respond(w.listener, n.id, unix.ENOSYS) // the process may have exited
	if w.spoofedExits++; w.spoofedExits < maxSpoofedExits {
		return executor.Event{}
	}
	// Answering these calls takes the executor's time and is not charged to the
	// program. From here on the kernel answers, and init reports the program's end.
	w.listener.Close()
	w.listener = nil
	return executor.Event{Kind: executor.Deaf}
}

// maxSpoofedExits bounds how many processes and threads other than the program may
// report its end.
const maxSpoofedExits = 64

// Finish implements Cell. The program blocks in its last call, which one of its timers
// could interrupt: it gets SIGKILL. How long its exit then takes does not matter: its
// files can be collected.
func (w *cell) Finish() bool {
	return unix.PidfdSendSignal(int(w.program.Fd()), unix.SIGKILL, nil, 0) == nil
}

// Reap implements Cell.
func (w *cell) Reap() time.Duration {
	executor.AwaitPidfd(w.pidfd)
	if w.forked { // its zygote reaps it
		return 0
	}
	var usage unix.Rusage
	for {
		if _, err := unix.Wait4(w.pid, nil, 0, &usage); !errors.Is(err, unix.EINTR) {
			w.reaped = true
			return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		}
	}
}

// Interrupt implements Cell. The sandbox's first process leads the group of the foreground,
// and gets only signals for which it has a handler. Without control groups the program has
// its own session.
func (w *cell) Interrupt() {
	foreground := w.pid
	if w.Group == nil {
		if children := executor.ChildrenOfInit(w.pid); len(children) > 0 {
			foreground = children[0]
		}
	}
	_ = unix.Kill(-foreground, unix.SIGINT) // it may have ended
}

// Store implements Cell. This wall shares the machine's kernel, which has no way to store a sandbox.
func (w *cell) Store(*os.File) error {
	return executor.NewFailure(engine.ErrInvalid, "the shared kernel cannot keep the memory of a session")
}

// Settle implements Cell. Nothing was stored.
func (w *cell) Settle(bool) error { return nil }

// Close implements Cell.
func (w *cell) Close() {
	if w.compiler != nil {
		w.compiler.close()
	}
	isOver := w.reaped
	if w.pidfd != 0 && !isOver {
		_ = unix.PidfdSendSignal(w.pidfd, unix.SIGKILL, nil, 0)
		isOver = executor.AwaitPidfd(w.pidfd)
		// Its zygote reaps it. If that one is dead, it has become our child.
		_ = unix.Waitid(unix.P_PIDFD, w.pidfd, nil, unix.WEXITED|unix.WNOHANG, nil)
	}
	if w.child == nil && w.pidfd != 0 {
		unix.Close(w.pidfd)
	}
	w.newcomers.close()
	executor.CloseAll(w.child, w.program, w.listener, w.reports)
	if w.control != nil {
		w.control.Close()
	}
	w.recycleNamespaces(isOver)
	w.closeFiles()
	executor.CloseAll(w.network, w.ruleset)
	if w.zygote != nil {
		w.zygote.release()
	}
}
