package linux

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
	"github.com/airlock-run/airlock/internal/trick"
)

// A zygote is a Python process that has imported the modules of a tier. Sandboxes
// forked from it start at the point that a cold interpreter reaches after a second. It
// executes the same list of system calls as a cold sandbox; see zygote.py and server.py
// for its side.

// Executables that package spawn generates.
const (
	initPath    = image.RuntimesPath + "/init"
	commandPath = image.RuntimesPath + "/command"
)

type zygote struct {
	wall        *wall
	tier        executor.Tier
	environment *executor.Environment
	link        *executor.Link
	stderr      *os.File

	// Of an image:
	users  *imageUsers  // nil: it has the executor's rights
	keeper int          // pidfd of its parent; 0: none
	refs   atomic.Int32 // itself until it is closed, and its sandboxes

	mu    sync.Mutex // one fork at a time
	dead  bool
	forks int

	// A zygote blocks until pid 1 of its fork runs on its own, so a request that waits
	// for the zygote also waits for that group.
	making  atomic.Pointer[cgroup.Group]
	hurried atomic.Int32
}

// StartZygote implements Wall.
func (l *wall) StartZygote(options executor.ZygoteOptions) (executor.Zygote, error) {
	ours, theirs, err := executor.NewLinkPair()
	if err != nil {
		return nil, err
	}
	z := &zygote{wall: l, tier: options.Tier, environment: options.Environment, link: ours}
	z.refs.Store(1)
	if z.stderr, err = newErrorFile(); err == nil {
		if options.Environment.IsImage() && !slices.Contains(l.weaken, weakImage) {
			z.users, err = newImageUsers(l.Users)
		}
	}
	if err == nil {
		err = z.launch(options, theirs)
	}
	theirs.Close() // so that its end is noticed
	if err != nil {
		z.Close()
		return nil, err
	}
	return z, nil
}

// Close implements Zygote. That of an image ends with its last sandbox.
func (z *zygote) Close() {
	if z.users == nil {
		z.link.Close()
		z.stderr.Close()
		return
	}
	z.release()
}

// release is called when the zygote of an image is closed, and when a sandbox of it is.
func (z *zygote) release() {
	if z.refs.Add(-1) > 0 {
		return
	}
	z.link.Close()
	z.stderr.Close()
	z.users.close()
	if z.keeper != 0 { // its interpreter may do as it likes
		_ = unix.PidfdSendSignal(z.keeper, unix.SIGKILL, nil, 0)
		executor.AwaitPidfd(z.keeper) // so that its group can be removed
		unix.Close(z.keeper)
	}
}

// maxErrors bounds what a zygote can write to stderr.
const maxErrors = 64 << 10

// newErrorFile returns a file of fixed size, in memory, for the stderr of a zygote.
func newErrorFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("stderr", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstFree)
	unix.Close(fd)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(high), "stderr")
	if err := f.Truncate(maxErrors); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal stderr: %w", err)
	}
	return f, nil
}

// lastError returns the last line of the zygote's stderr: in a Python traceback the
// error itself. It returns err if there is none.
func (z *zygote) lastError(err error) error {
	said := make([]byte, maxErrors)
	n, _ := z.stderr.ReadAt(said, 0)
	said, _, _ = bytes.Cut(said[:n], []byte{0})
	said = bytes.TrimSpace(said)
	if len(said) == 0 {
		return err
	}
	line := said[bytes.LastIndexByte(said, '\n')+1:]
	return errors.New(string(line[:min(len(line), maxErrorLine)]))
}

// warn repeats what the zygote itself says is wrong. What libraries say when they are imported is not.
func (z *zygote) warn() {
	if said := z.lastError(nil); said != nil && strings.HasPrefix(said.Error(), guest.Warning) {
		fmt.Fprintf(os.Stderr, "airlock executor: the %s zygote: %s\n", z.tier.Name, said.Error()[len(guest.Warning):])
	}
}

// maxErrorLine bounds a line that lastError returns.
const maxErrorLine = 300

// launch starts the process, in the root that its sandboxes have. It has the executor's rights
// unless its interpreter is that of an image.
func (z *zygote) launch(options executor.ZygoteOptions, socket *os.File) error {
	users := z.wall.Users
	tmp, err := executor.NewTmpfs(executor.TmpSize, executor.TmpInodes, users.First, "1777")
	if err != nil {
		return err
	}
	defer tmp.Close()
	env := options.Environment
	box := &executor.Box{Machine: z.wall.Machine, Environment: env, Tmp: tmp, UID: users.First, Group: options.Group}
	s := &sandbox{Box: box, wall: z.wall}
	if err := s.LinkFontCache(); err != nil {
		return err
	}
	null, err := os.OpenFile(image.Path+"/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	reports, report, err := reportPipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	defer report.Close()
	high, err := unix.FcntlInt(socket.Fd(), unix.F_DUPFD_CLOEXEC, firstFree)
	if err != nil {
		return err
	}
	control := os.NewFile(uintptr(high), "zygote")
	defer control.Close()
	argv := []string{env.Python, guest.ZygotePath}
	root := env.Root.At(z.tier.Live)
	flags, proc, confine := uintptr(unix.CLONE_NEWNS), "", []spawn.Step(nil)
	if z.users != nil {
		flags |= unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		proc, confine = "hidepid=2", z.users.confine(z.wall)
	}
	script := &spawn.Script{
		Group: s.Group.Folder(), Flags: flags, Report: int(report.Fd()),
		Setup: join(s.joinGroup(), sliceOfInit(), z.wall.bindPackages(env.Set, root), []spawn.Step{
			moveMount("mount /tmp", tmp, root+"/tmp"),
			mount("mount /proc", "proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, proc),
		}, enter(root), confine),
		Init: []spawn.Step{closeFrom(0, int(report.Fd())-1), closeFrom(int(report.Fd())+1, lastFile)},
		Main: join([]spawn.Step{
			spawn.Call("place stdin", unix.SYS_DUP3, null, 0, 0),
			spawn.Call("place stdout", unix.SYS_DUP3, null, 1, 0),
			spawn.Call("place stderr", unix.SYS_DUP3, z.stderr, 2, 0),
			spawn.Call("place the socket", unix.SYS_DUP3, control, 3, 0),
			closeFrom(4, int(report.Fd())-1), closeFrom(int(report.Fd())+1, lastFile),
		}, resetInherited(), []spawn.Step{
			spawn.Call("execute "+argv[0], unix.SYS_EXECVE, argv[0], spawn.Strings(argv), spawn.Strings(variables(env))),
		}),
	}
	pid, pidfd, err := script.Start()
	if err != nil {
		return err
	}
	if z.keeper = pidfd; z.users == nil {
		unix.Close(pidfd)
	}
	report.Close()
	go func() { // its keeper ends with the zygote, and both at the latest with this process
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	r, ok := spawn.ReadReport(reports)
	if ok && r.Kind != spawn.Started {
		return stepError(script, r)
	}
	return nil // Ready shows whether it executes Python
}

// variables returns the variables of the zygote itself.
func variables(env *executor.Environment) []string {
	isHome := func(entry string) bool { return strings.HasPrefix(entry, "HOME=") }
	list := slices.DeleteFunc(slices.Clone(env.Usual), isHome)
	// Libraries resolve symbols at their first call by default. They are resolved here, once.
	return append(list, "HOME=/tmp", "LD_BIND_NOW=1")
}

// Ready implements Zygote. It sends the zygote its configuration first.
func (z *zygote) Ready() error {
	weak := z.wall.weaken
	hello := guest.Hello{
		Filter: hex.EncodeToString(filterBytes(z.wall.filterFor(z.tier))), Clone: unix.SYS_CLONE,
		Flags:  unix.CLONE_NEWPID | unix.CLONE_PIDFD | int(unix.SIGCHLD),
		Finish: finishCall, Rseq: unix.SYS_RSEQ, Madvise: unix.SYS_MADVISE, Getrandom: unix.SYS_GETRANDOM,
		Sigaction: unix.SYS_RT_SIGACTION, Preload: append([]string{}, z.tier.Preload...),
		Learned: append([]string{}, z.tier.Learned...), Env: z.environment.Usual,
		Live: z.tier.Live,
	}
	if trick.On(trick.Code) && !slices.Contains(weak, weakSpawn) {
		hello.Spawn = hex.EncodeToString(spawn.Code())
	}
	if slices.Contains(weak, weakZygote) {
		hello.Spawn = "none"
	}
	if z.wall.Root && hello.Spawn != "" {
		// A process that shares its memory cannot create a user namespace.
		hello.Flags |= unix.CLONE_VM | unix.CLONE_VFORK
	}
	if err := z.link.Send(hello); err != nil {
		return err
	}
	confine := &spawn.Script{}
	if z.users == nil { // it cannot be done before execve: root's capabilities would not survive it
		confine.Setup = (&sandbox{wall: z.wall}).dropBounding()
	} else {
		z.link.SetReadDeadline(time.Now().Add(imageReadyTime))
	}
	weaken(confine, weak)
	request, _ := (&spawn.Request{Setup: confine.Setup}).Encode()
	if err := z.link.SendRaw(request); err != nil {
		return err
	}
	var ready guest.Ready
	files, err := z.link.Receive(&ready)
	executor.CloseAll(files...)
	if err != nil {
		return fmt.Errorf("their interpreter ended while it imported packages: %w", z.lastError(err))
	}
	for name, reason := range ready.LeftOut {
		fmt.Fprintf(os.Stderr, "airlock executor: the %s zygote goes without %s: %s\n", z.tier.Name, name, reason)
	}
	if ready.Threads != 1 {
		return fmt.Errorf("the packages started %d threads, of which a fork keeps none", ready.Threads-1)
	}
	return nil
}

// filterBytes returns a filter's program in the kernel's format.
func filterBytes(f *unix.SockFprog) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(f.Filter)), int(f.Len)*int(unsafe.Sizeof(unix.SockFilter{})))
}

// Levels of a sandbox's work before its program arrives: none; prefault the memory that
// a program uses; also that of plots.
const (
	prepareNothing = iota
	prepareMemory
	preparePlots
)

// prepare returns the level of a start.
func prepare(how executor.StartMode) int {
	switch how {
	case executor.Background:
		return prepareMemory
	case executor.Prewarmed:
		return preparePlots
	}
	return prepareNothing
}

// Dead implements Zygote.
func (z *zygote) Dead() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.dead
}

// AddWaiter implements Zygote.
func (z *zygote) AddWaiter(more int) {
	if z.hurried.Add(int32(more)) > 0 {
		z.making.Load().Idle(false)
	}
}

// fork creates a sandbox in a group that waits for its program. Its pid 1 is the
// zygote's child, so the executor refers to it by the pidfd.
func (z *zygote) fork(script *spawn.Script, g *cgroup.Group, prepare int) (pid int, pidfd *os.File, err error) {
	request, files := (&spawn.Request{Setup: script.Setup, Init: script.Init, Main: script.Main, Wait: script.Wait,
		Received: script.Received, Prepare: prepare}).Encode()
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.dead {
		return 0, nil, errors.New("the zygote is dead")
	}
	z.making.Store(g)
	defer z.making.Store(nil)
	if z.hurried.Load() > 0 {
		g.Idle(false)
	}
	if z.users != nil {
		z.link.SetReadDeadline(z.answerTime())
	}
	if z.forks++; z.forks == 3 { // it learned after the first one
		z.warn()
	}
	if err := z.link.SendRaw(request, files...); err != nil {
		z.dead = true
		return 0, nil, fmt.Errorf("their interpreter ended: %w", z.lastError(err))
	}
	var answer int32
	files, err = z.link.Receive(&answer)
	if err == nil && answer < 0 && len(files) == 0 {
		return 0, nil, fmt.Errorf("the %s zygote cannot fork: %w", z.tier.Name, unix.Errno(-answer))
	}
	if err != nil || len(files) != 1 {
		executor.CloseAll(files...)
		z.dead = true
		return 0, nil, fmt.Errorf("their interpreter ended in a fork: %w",
			z.lastError(errors.Join(err, errors.New("no answer"))))
	}
	if z.users == nil {
		return int(answer), files[0], nil
	}
	if pid, err = pidOf(files[0]); err != nil { // it knows the number in its own namespace
		executor.CloseAll(files...)
		z.dead = true
		return 0, nil, fmt.Errorf("the interpreter of the image does not fork as it is told: %w", err)
	}
	return pid, files[0], nil
}

// The zygote of an image may be one that never answers.
const (
	imageReadyTime  = 2 * time.Minute // a process of low priority
	imageAnswerTime = 20 * time.Second
)

// weakAnswerTime shortens imageAnswerTime in tests.
const weakAnswerTime = "answer time"

// answerTime returns until when the zygote of an image has time to answer.
func (z *zygote) answerTime() time.Time {
	if slices.Contains(z.wall.weaken, weakAnswerTime) {
		return time.Now().Add(time.Second)
	}
	return time.Now().Add(imageAnswerTime)
}

// disobeys ends the use of a zygote.
func (z *zygote) disobeys() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.dead = true
}

// Fork implements Zygote.
func (z *zygote) Fork(b *executor.Box, how executor.StartMode) (_ executor.Cell, err error) {
	w := &cell{sandbox: &sandbox{Box: b, wall: z.wall, forked: true}}
	if z.users != nil {
		z.refs.Add(1)
		w.zygote = z
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err := w.makeRules(); err != nil {
		return nil, err
	}
	if err := w.takeNamespaces(z.tier); err != nil {
		return nil, err
	}
	var theirs *os.File
	if w.control, theirs, err = executor.NewLinkPair(); err != nil {
		return nil, err
	}
	defer theirs.Close()
	if w.reports, w.report, err = reportPipe(); err != nil {
		return nil, err
	}
	var ofInit *os.File
	if w.newcomers, ofInit, err = w.newNewcomers(); err != nil {
		return nil, err
	}
	if ofInit != nil {
		defer ofInit.Close()
	}
	w.script = w.forkedScript(theirs, ofInit)
	if z.users != nil {
		w.script.Setup = append(ownProc(), w.script.Setup...)
	}
	weaken(w.script, z.wall.weaken)
	if w.pid, w.child, err = z.fork(w.script, w.Group, prepare(how)); err != nil {
		return nil, err
	}
	w.pidfd = int(w.child.Fd())
	w.report.Close()
	theirs.Close()
	var ready struct{}
	if z.users != nil {
		w.control.SetReadDeadline(z.answerTime())
	}
	files, err := w.control.Receive(&ready)
	if err != nil {
		if r, ok := spawn.ReadReport(w.reports); ok {
			err = stepError(w.script, r)
		}
		return nil, fmt.Errorf("fork a sandbox: %w", err)
	}
	w.control.SetReadDeadline(time.Time{})
	if len(files) > 0 {
		w.listener = files[0]
		executor.CloseAll(files[1:]...)
	}
	if w.listener != nil && z.users != nil && !isListener(w.listener) {
		z.disobeys()
		return nil, errors.New("the interpreter of the image does not fork as it is told")
	}
	w.openNamespaces(z.tier)
	if w.number, w.program, err = onlyChild(w.pid); err != nil {
		return nil, err
	}
	return w, nil
}

// onlyChild opens the only child of a sandbox's init.
func onlyChild(init int) (int, *os.File, error) {
	children := executor.ChildrenOfInit(init)
	if len(children) != 1 {
		return 0, nil, fmt.Errorf("a new sandbox has %d processes beside its first", len(children))
	}
	fd, err := unix.PidfdOpen(children[0], 0)
	if err != nil {
		return 0, nil, err
	}
	return children[0], os.NewFile(uintptr(fd), "program"), nil
}

// hand sends a forked sandbox its program.
func (w *cell) hand(files []*os.File) error {
	message, err := w.Request.Message(w.Environment.Usual)
	if err != nil {
		return err
	}
	return w.control.SendRaw(message, files...)
}
