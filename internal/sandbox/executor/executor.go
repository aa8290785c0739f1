package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Folders are folders of the host that programs may ask for, by name.
type Folders = map[string]image.Folder

// executorConfig is the executor's configuration, passed by its parent as its one
// argument. It comes from the operator, never from the service.
type executorConfig struct {
	Runtimes   string      // folder of installed runtimes
	Images     string      // folder of images
	Fetched    string      `json:",omitempty"` // folder of images that the service fetches; may be missing
	Instance   string      // name of this executor's control groups
	Packages   string      // name of the default set of Python packages; empty: see defaultSet
	Lending    string      // lending folder of the service; empty: the service lends nothing
	WarmImages []string    `json:",omitempty"` // IDs of images whose zygotes always run
	Mounts     Folders     `json:",omitempty"` // folders of the host that programs may ask for
	Volumes    string      `json:",omitempty"` // folder of the volumes
	Users      image.Users // of root's sandboxes
	Wall       string      `json:",omitempty"` // name of the wall; empty: the default one
	Warm       string      // "": every program starts cold; or when zygotes are started: in the background, or first
	// Weaken names steps of a sandbox's script to leave out. Only tests set it, to
	// check that they fail without the protection.
	Weaken []string `json:",omitempty"`
}

// userUIDs is the one user of all sandboxes without root: the service's user under another number. As root each
// sandbox has its own, see takeUsers.
var userUIDs = image.Users{First: 1000, Count: 1}

// Machine holds the facts that the executor detected about the machine.
type Machine struct {
	Root      bool // uids and mounts of the machine itself, not of a user namespace
	Users     image.Users
	Sets      image.Sets   // of Python packages
	Groups    *cgroup.Tree // nil without control groups
	Mounts    Folders
	groupsErr error
	heldQuota int64     // bytes that all held workspaces together may grow to
	most      uncounted // used without control groups
	shares    *shares
	can       Capabilities // of the wall
}

// executor is the privileged half. It has no network, no keys, no database and no host
// file system. It takes requests from one socket.
type executor struct {
	config  executorConfig
	machine *Machine
	wall    Wall
	uids    chan int

	environments map[string]*Environment // the machine's own, by set; not modified after creation
	images       images
	processes    map[string]*processPool // waiting processes, by language; not modified after creation

	coldCauses sync.Map // why zygotes failed, as logged

	lender   *lender // nil: all inputs are copied
	noLayers error   // why live sessions cannot write to their root; nil: they can

	guard    *guard // nil where there are control groups
	notifier notifier
	gate     gate

	running  atomic.Int32 // programs that may compute; see countProgram
	giveBack *time.Timer  // returns unused memory to the system
	pace     pace
	ending   atomic.Int32 // sandboxes that are being ended

	mu        sync.Mutex
	held      map[string]*heldWorkspace
	sandboxes map[string]*runningSandbox // by the workspace that it is in; guarded by mu

	work sync.WaitGroup
}

// When zygotes are started.
const (
	warmBackground = "background"
	warmFirst      = "first" // tests want to know which path a program takes
)

// giveBackTime is how long after the last request the executor returns unused memory to
// the system: until then the next request may use it.
const giveBackTime = 2 * time.Second

// executorSocket is the descriptor of the socket to the service.
const executorSocket = 3

// Main is the main function of the executor's process. One of the walls makes its sandboxes. The
// service ends the process by closing the socket; its exit status is for its parent's log.
func Main(args []string, walls map[string]func() Wall) int {
	// The terminal's signals are meant for the service, which then tells the executor.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGQUIT)
	// A run leaves little garbage: collecting it after every few runs would cost more
	// than it frees.
	debug.SetGCPercent(400)
	e := &executor{held: map[string]*heldWorkspace{}, sandboxes: map[string]*runningSandbox{}}
	e.giveBack = time.AfterFunc(giveBackTime, debug.FreeOSMemory)
	if len(args) == 1 && args[0] == guardName {
		return guardMain()
	}
	if len(args) == 1 {
		fmt.Fprintln(os.Stderr, "airlock executor:", reexecute(args)) // it returns only with an error
		return 1
	}
	l, err := newLongLink(os.NewFile(executorSocket, "service"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock executor:", err)
		return 1
	}
	if err := e.prepare(args, walls); err != nil {
		// The socket carries the error, so that the service can tell its operator.
		_ = l.Send(answer{Error: describe(err)})
		return 1
	}
	if e.config.Warm != "" {
		for _, env := range e.environments {
			e.newPools(env)
		}
		if e.machine.can.Live {
			e.newProcessPools()
		}
	}
	if e.config.Warm == warmFirst {
		e.startPools()
	}
	report := e.isolation()
	if err := l.Send(answer{Report: &report}); err != nil {
		return 1
	}
	if e.config.Warm == warmBackground {
		go e.startPools()
	}
	for {
		var r request
		files, err := l.Receive(&r)
		if err != nil {
			break // the service has exited; pid 1's end takes every sandbox along
		}
		if len(files) == 0 {
			continue
		}
		e.work.Go(func() { e.serve(&r, files) })
	}
	e.shutdown()
	return 0
}

// configure reads the configuration, and makes the wall that it names.
func (e *executor) configure(args []string, walls map[string]func() Wall) error {
	if len(args) != 2 || args[1] != confined {
		return errors.New("the executor is started by airlock itself")
	}
	if err := json.Unmarshal([]byte(args[0]), &e.config); err != nil {
		return err
	}
	clear(unsafe.Slice(unsafe.StringData(args[0]), len(args[0]))) // a process that enters a sandbox begins as a copy
	wall, ok := walls[e.config.Wall]
	if !ok {
		return fmt.Errorf("there is no wall %q", e.config.Wall)
	}
	e.wall = wall()
	return nil
}

// prepare creates the executor's namespaces and image and moves into it.
func (e *executor) prepare(args []string, walls map[string]func() Wall) error {
	if err := e.configure(args, walls); err != nil {
		return err
	}
	programs, err := e.wall.Begin(e.config.Weaken)
	if err != nil {
		return err
	}
	h := &Machine{Root: !inUserNamespace(), Users: e.config.Users, Mounts: e.config.Mounts}
	if !h.Root {
		h.Users = userUIDs
	}
	place, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	h.shares = newShares(cgroup.Root, string(place), h.Root) // while it sees the host's groups
	from, err := image.Open(e.config.Runtimes, e.config.Images, e.config.Fetched, e.config.Packages,
		e.config.Volumes, e.config.Mounts)
	if err != nil {
		return err
	}
	h.Sets = from.Sets
	if !h.Root {
		if e.guard, err = startGuard(); err != nil {
			return fmt.Errorf("start the guard of time limits: %w", err)
		}
	}
	if h.Root { // an ordinary user's overlays cannot leave content where it is
		e.lender = lenderAt(e.config.Lending)
	}
	if err := from.Enter(h.Users, programs); err != nil {
		return err
	}
	if h.heldQuota, err = halfOfMemory(); err != nil {
		return err
	}
	own, err := os.ReadFile(image.ProcPath + "/self/cgroup")
	if err != nil {
		return err
	}
	e.notifier.start()
	h.Groups, h.groupsErr = cgroup.Open(image.GroupPath, string(own), e.config.Instance)
	if h.Groups != nil && e.guard != nil {
		e.guard.close()
		e.guard = nil
	}
	if h.Groups == nil {
		if h.most, err = newUncounted(); err != nil {
			return err
		}
	}
	if h.can, err = e.wall.Open(h); err != nil {
		return err
	}
	e.machine = h
	if err := e.newEnvironments(image.FontLists()); err != nil {
		return err
	}
	e.uids = make(chan int, h.Users.Count)
	for i := range h.Users.Count {
		e.uids <- h.Users.First + i
	}
	if !e.machine.can.Live {
		return nil
	}
	if e.noLayers = e.tryLayers(); e.noLayers != nil {
		fmt.Fprintln(os.Stderr, "airlock executor: the root of live sessions is read-only:", e.noLayers)
	}
	return nil
}

// serve answers one request and closes its files, the first of which is its socket.
func (e *executor) serve(r *request, files []*os.File) {
	l, err := newLink(files[0])
	if err != nil {
		CloseAll(files...)
		return
	}
	if r.Enter == nil {
		err = e.answer(l, r, files[1:])
		e.end(l, err, files[1:])
		return
	}
	p, err := e.enter(l, r.Enter, files[1:])
	if err != nil {
		e.end(l, err, files[1:])
		return
	}
	CloseAll(files[1:]...) // else the end of the process would not close them
	// Thousands of processes may run, each with a goroutine that waits for its end. The stack
	// of a new one is small.
	e.work.Go(func() { e.end(l, p.attend(l), nil) })
}

// end ends a request.
func (e *executor) end(l *Link, err error, files []*os.File) {
	if err != nil && !errors.Is(err, io.EOF) {
		_ = l.Send(answer{Error: describe(err)}) // it fails if the service has exited
	}
	l.discard()
	e.giveBack.Reset(giveBackTime)
	CloseAll(files...)
	l.Close()
}

// answer answers one request.
func (e *executor) answer(l *Link, r *request, files []*os.File) (err error) {
	switch {
	case r.Run != nil:
		err = e.run(l, r.Run, files)
		if err == nil {
			defer e.refillProcesses(r.Run)
		}
	case r.Hold != nil:
		err = e.hold(l, r.Hold)
	case r.Release != "":
		e.release(r.Release)
		err = l.Send(answer{})
	case r.Changes != nil:
		err = e.changes(l, r.Changes)
	case r.Measure != "":
		err = e.measureSandbox(l, r.Measure)
	case r.Dial != nil:
		err = e.dial(l, r.Dial)
	case r.Files != nil:
		err = e.files(l, r.Files)
	case r.Usage:
		err = e.usage(l)
	case r.Inspect:
		report := e.isolation()
		err = l.Send(answer{Report: &report, Pools: e.describePools()})
	default:
		err = errors.New("empty request")
	}
	return err
}

// describe converts an error into the failure sent to the service.
func describe(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	kind := engine.ErrUnavailable
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		kind = engine.ErrTooLarge
	}
	f := failureOf(kind, err)
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.Cause = fmt.Sprintf("the kernel, or a filter of this host, refused a step of it (%s)", unix.ErrnoName(errno))
	}
	return f
}

// leaseUID leases a user that no other sandbox has. If there is one user for all
// sandboxes, they share it.
func (e *executor) leaseUID() (int, error) {
	if e.machine.Users.Count == 1 {
		return e.machine.Users.First, nil
	}
	select {
	case uid := <-e.uids:
		return uid, nil
	default:
		return 0, NewFailure(engine.ErrBusy, "every sandbox user is taken")
	}
}

func (e *executor) returnUID(uid int) {
	if e.machine.Users.Count > 1 {
		e.uids <- uid
	}
}

// shutdown waits for every request to end. Their sockets are closed or will be soon,
// since the service has exited.
func (e *executor) shutdown() {
	e.mu.Lock()
	ids := slices.Collect(maps.Keys(e.held))
	e.mu.Unlock()
	for _, id := range ids {
		e.release(id)
	}
	for _, env := range e.environments {
		env.close()
	}
	for _, p := range e.processes {
		p.close()
	}
	e.work.Wait()
	e.images.close()
	e.wall.Close()
	if e.machine.Groups != nil {
		e.machine.Groups.Close()
	}
}

// availableMemory returns how much of the machine's memory is available without
// swapping, 0 if it is not known.
func availableMemory() int64 {
	return kernelfile.Value(kernelfile.Read(image.ProcPath, "meminfo"), "MemAvailable:") << 10
}

// halfOfMemory returns the quota of held workspaces on this machine: they use memory,
// and only their owner can end them before they expire.
func halfOfMemory() (int64, error) {
	all, err := totalMemory()
	return all / 2, err
}

// totalMemory returns the size of the machine's memory.
func totalMemory() (int64, error) {
	var info unix.Sysinfo_t
	err := unix.Sysinfo(&info)
	return int64(info.Totalram) * int64(info.Unit), err
}

// inUserNamespace reports whether uid 0 here is not the machine's uid 0.
func inUserNamespace() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true
	}
	fields := strings.Fields(string(b))
	return len(fields) != 3 || fields[0] != "0" || fields[1] != "0" || fields[2] != "4294967295"
}

// failureOf returns the failure of an error, with a remedy if it is a common one.
func failureOf(kind engine.Kind, err error) *Failure {
	f := &Failure{Kind: kind, Text: err.Error()}
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case ok && (errno == unix.EPERM || errno == unix.EACCES):
		f.Hint, f.Doctor = "the kernel refused; run `airlock doctor` to see what this host allows", true
	case ok && errno == unix.ENOSYS:
		f.Hint = "the kernel is older than Linux 5.12, or a filter of system calls hides what Airlock needs: a container " +
			"takes deploy/seccomp.json, a unit the calls that airlock.service names"
	case ok && errno == unix.ENOENT:
		f.Hint, f.Doctor = "run `airlock doctor` to see which language runtimes are installed", true
	}
	return f
}
