package linux

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
	"github.com/airlock-run/airlock/internal/sandbox/linux/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// A zygote is a Python process that has imported the modules of a tier. Sandboxes
// forked from it start at the point that a cold interpreter reaches after a second. It
// executes the same list of system calls as a cold sandbox; see zygote.py and server.py
// for its side.

// Executables that package spawn generates.
const (
	initPath    = runtimesPath + "/init"
	commandPath = runtimesPath + "/command"
)

type zygote struct {
	tier   tier
	link   *link
	stderr *os.File

	mu   sync.Mutex // one fork at a time
	dead bool

	// A zygote blocks until pid 1 of its fork runs on its own, so a request that waits
	// for the zygote also waits for that group.
	making  atomic.Pointer[cgroup.Group]
	hurried atomic.Int32
}

// startZygote starts a zygote and waits until it has imported its packages.
func (p *pool) startZygote() (*zygote, error) {
	ours, theirs, err := newLinkPair()
	if err != nil {
		return nil, err
	}
	z := &zygote{tier: p.tier, link: ours}
	if z.stderr, err = newErrorFile(); err == nil {
		err = p.launchZygote(theirs, z.stderr)
	}
	theirs.Close() // so that its end is noticed
	if err == nil {
		err = z.greet(p.executor.host, p.executor.config.Weaken)
	}
	if err != nil {
		z.close()
		return nil, err
	}
	return z, nil
}

// close ends the zygote. It must not be called twice.
func (z *zygote) close() {
	z.link.close()
	z.stderr.Close()
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

// maxErrorLine bounds a line that lastError returns.
const maxErrorLine = 300

// launchZygote starts the process: in the image, with the executor's rights.
func (p *pool) launchZygote(socket, stderr *os.File) error {
	p.launching.Lock()
	defer p.launching.Unlock()
	if p.isClosed() {
		return errors.New("the executor ends")
	}
	e := p.executor
	tmp, err := newTmpfs(tmpSize, tmpInodes, e.host.uids.first, "1777")
	if err != nil {
		return err
	}
	defer tmp.Close()
	s := &sandbox{host: e.host, tmp: tmp, uid: e.host.uids.first, group: p.group}
	if err := s.linkFontCache(); err != nil {
		return err
	}
	null, err := os.OpenFile(imagePath+"/dev/null", os.O_RDWR, 0)
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
	python, _ := language.Find("python")
	argv := []string{python.Run[0], guest.ZygotePath}
	// Libraries resolve symbols at their first call by default. They are resolved here, once.
	env := append([]string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8", "LD_BIND_NOW=1"}, python.Env...)
	image := imageOf(p.tier.live)
	script := &spawn.Script{
		Group: s.group.Folder(), Flags: unix.CLONE_NEWNS, Report: int(report.Fd()),
		Setup: join(s.joinGroup(), sliceOfInit(), e.host.bindPackages(p.set, image), []spawn.Step{
			moveMount("mount /tmp", tmp, image+"/tmp"),
			mount("mount /proc", "proc", image+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		}, enter(image)),
		Init: []spawn.Step{closeFrom(0, int(report.Fd())-1), closeFrom(int(report.Fd())+1, lastFile)},
		Main: join([]spawn.Step{
			spawn.Call("place stdin", unix.SYS_DUP3, null, 0, 0),
			spawn.Call("place stdout", unix.SYS_DUP3, null, 1, 0),
			spawn.Call("place stderr", unix.SYS_DUP3, stderr, 2, 0),
			spawn.Call("place the socket", unix.SYS_DUP3, control, 3, 0),
			closeFrom(4, int(report.Fd())-1), closeFrom(int(report.Fd())+1, lastFile),
		}, resetInherited(), []spawn.Step{
			spawn.Call("execute "+argv[0], unix.SYS_EXECVE, argv[0], spawn.Strings(argv), spawn.Strings(env)),
		}),
	}
	pid, pidfd, err := script.Start()
	if err != nil {
		return err
	}
	unix.Close(pidfd)
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
	return nil // greet shows whether it executes Python
}

// greet sends a zygote its configuration and waits until it is ready.
func (z *zygote) greet(h *host, weak []string) error {
	hello := guest.Hello{
		Filter: hex.EncodeToString(filterBytes(h.filterFor(z.tier))), Clone: unix.SYS_CLONE,
		Flags:  unix.CLONE_NEWPID | unix.CLONE_PIDFD | int(unix.SIGCHLD),
		Finish: finishCall, Rseq: unix.SYS_RSEQ, Madvise: unix.SYS_MADVISE, Getrandom: unix.SYS_GETRANDOM,
		Sigaction: unix.SYS_RT_SIGACTION, Preload: append([]string{}, z.tier.preload...), Env: usualEnvironment(),
		Live: z.tier.live,
	}
	if !slices.Contains(weak, weakSpawn) {
		hello.Spawn = hex.EncodeToString(spawn.Code())
	}
	if slices.Contains(weak, weakZygote) {
		hello.Spawn = "none"
	}
	if h.root && hello.Spawn != "" {
		// A process that shares its memory cannot create a user namespace.
		hello.Flags |= unix.CLONE_VM | unix.CLONE_VFORK
	}
	if err := z.link.send(hello); err != nil {
		return err
	}
	// It cannot be done before execve: root's capabilities would not survive it.
	confine := &spawn.Script{Setup: (&sandbox{host: h}).dropBounding()}
	weaken(confine, weak)
	request, _ := (&spawn.Request{Setup: confine.Setup}).Encode()
	if err := z.link.sendRaw(request); err != nil {
		return err
	}
	var ready guest.Ready
	files, err := z.link.receive(&ready)
	closeAll(files...)
	if err != nil {
		return fmt.Errorf("their interpreter ended while it imported packages: %w", z.lastError(err))
	}
	for name, reason := range ready.LeftOut {
		fmt.Fprintf(os.Stderr, "airlock executor: the %s zygote goes without %s: %s\n", z.tier.name, name, reason)
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

func (z *zygote) isDead() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.dead
}

// addWaiter counts the requests that wait for the zygote.
func (z *zygote) addWaiter(more int) {
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
	if err := z.link.sendRaw(request, files...); err != nil {
		z.dead = true
		return 0, nil, fmt.Errorf("their interpreter ended: %w", z.lastError(err))
	}
	var answer int32
	files, err = z.link.receive(&answer)
	if err == nil && answer < 0 && len(files) == 0 {
		return 0, nil, fmt.Errorf("the %s zygote cannot fork: %w", z.tier.name, unix.Errno(-answer))
	}
	if err != nil || len(files) != 1 {
		closeAll(files...)
		z.dead = true
		return 0, nil, fmt.Errorf("their interpreter ended in a fork: %w",
			z.lastError(errors.Join(err, errors.New("no answer"))))
	}
	return int(answer), files[0], nil
}
