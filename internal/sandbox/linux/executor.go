package linux

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

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/cgroup"
	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// executorConfig is the executor's configuration, passed by its parent as its one
// argument. It comes from the operator, never from the service.
type executorConfig struct {
	Runtimes string // folder of installed runtimes
	Instance string // name of this executor's control groups
	Packages string // name of the default set of Python packages; empty: see defaultSet
	Lending  string // lending folder of the service; empty: the service lends nothing
	Warm     string // "": every program starts cold; or when zygotes are started: in the background, or first
	// Weaken names steps of a sandbox's script to leave out. Only tests set it, to
	// check that they fail without the protection.
	Weaken []string `json:",omitempty"`
}

// uidRange are the users that sandboxes run as.
type uidRange struct{ first, count int }

// As root each sandbox has its own user, from a range that no person, package,
// container or /etc/subuid uses. Otherwise all have one user, which is the service's
// user under another number.
var (
	rootUIDs = uidRange{0x70000000, 4096}
	userUIDs = uidRange{1000, 1}
)

// host holds the facts that the executor detected about the machine.
type host struct {
	root           bool // uids and mounts of the machine itself, not of a user namespace
	uids           uidRange
	landlock       int        // version, 0 without
	readable       []readable // with landlock
	filter         *unix.SockFprog
	notifyFilter   *unix.SockFprog // the same, with notifications of events in namespaces; nil where none is pooled
	lastCapability int
	hiding         map[string][]spawn.Step // by the path of the image
	fontLists      []string                // matplotlib's, created at setup
	set            string                  // name of the default set of Python packages
	sets           map[string]packageSet   // all, by name
	python         string                  // the file of the default interpreter
	groups         *cgroup.Tree            // nil without control groups
	groupsErr      error
	heldQuota      int64     // bytes that all held workspaces together may grow to
	most           uncounted // used without control groups
	shares         *shares
}

// executor is the privileged half. It has no network, no keys, no database and no host
// file system. It takes requests from one socket.
type executor struct {
	config executorConfig
	host   *host
	uids   chan int

	pools     map[string]*pool        // by poolName; not modified after creation
	processes map[string]*processPool // waiting processes, by language; not modified after creation

	coldCauses sync.Map // why zygotes failed, as logged

	usual []string // environment of a Python program

	lender *lender // nil: all inputs are copied

	namespaces namespacePool // for the next sandboxes
	guard      *guard        // nil where there are control groups
	notifier   notifier
	gate       gate

	running  atomic.Int32 // programs
	giveBack *time.Timer  // returns unused memory to the system
	pace     pace
	ending   atomic.Int32 // sandboxes that are being ended

	mu       sync.Mutex
	held     map[string]*heldWorkspace
	standing map[string]*standing // by the workspace that it is in; guarded by mu

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

// ExecutorMain is the main function of the executor's process. The service ends the
// process by closing the socket; its exit status is for its parent's log.
func ExecutorMain(args []string) int {
	// The terminal's signals are meant for the service, which then tells the executor.
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGQUIT)
	// A run leaves little garbage: collecting it after every few runs would cost more
	// than it frees.
	debug.SetGCPercent(400)
	e := &executor{held: map[string]*heldWorkspace{}, standing: map[string]*standing{}}
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
	if err := e.prepare(args); err != nil {
		// The socket carries the error, so that the service can tell its operator.
		_ = l.send(answer{Error: &failure{Kind: engine.ErrUnavailable, Text: err.Error(), Hint: hintFor(err)}})
		return 1
	}
	if e.config.Warm != "" {
		e.newPools()
		e.newProcessPools()
	}
	if e.config.Warm == warmFirst {
		e.startPools()
	}
	report := e.host.isolation()
	if err := l.send(answer{Report: &report}); err != nil {
		return 1
	}
	if e.config.Warm == warmBackground {
		go e.startPools()
	}
	for {
		var r request
		files, err := l.receive(&r)
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

// prepare creates the executor's namespaces and image and moves into it.
func (e *executor) prepare(args []string) error {
	if len(args) != 2 || args[1] != confined {
		return errors.New("the executor is started by airlock itself")
	}
	if err := json.Unmarshal([]byte(args[0]), &e.config); err != nil {
		return err
	}
	if !slices.Contains(e.config.Weaken, weakReserve) {
		if err := reserveNumbers(); err != nil {
			return err
		}
	}
	h := &host{root: !inUserNamespace(), uids: rootUIDs}
	if !h.root {
		h.uids = userUIDs
	}
	place, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	h.shares = newShares(cgroup.Root, string(place), h.root) // while it sees the host's groups
	from, err := openSources(e.config.Runtimes, e.config.Packages)
	if err != nil {
		return err
	}
	h.set, h.sets, h.python = from.set, from.sets, usualPython()
	if !h.root {
		if e.guard, err = startGuard(); err != nil {
			return fmt.Errorf("start the guard of time limits: %w", err)
		}
	}
	if h.root { // an ordinary user's overlays cannot leave content where it is
		e.lender = lenderAt(e.config.Lending)
	}
	if err := from.enter(h.uids); err != nil {
		return err
	}
	if err := h.look(); err != nil {
		return err
	}
	own, err := os.ReadFile(procPath + "/self/cgroup")
	if err != nil {
		return err
	}
	e.notifier.start()
	h.groups, h.groupsErr = cgroup.Open(groupPath, string(own), e.config.Instance)
	if h.groups != nil && e.guard != nil {
		e.guard.close()
		e.guard = nil
	}
	if h.groups == nil {
		if h.most, err = newUncounted(); err != nil {
			return err
		}
	}
	if err := h.makeFilters(e.config.Weaken); err != nil {
		return err
	}
	if err := openNumbers(e.config.Weaken); err != nil {
		return err
	}
	e.host, e.usual = h, usualEnvironment()
	e.uids = make(chan int, h.uids.count)
	for i := range h.uids.count {
		e.uids <- h.uids.first + i
	}
	return nil
}

// look notes what the kernel and the image offer.
func (h *host) look() (err error) {
	if h.landlock = landlockABI(); h.landlock > 0 {
		if h.readable, err = openReadable(); err != nil {
			return err
		}
	}
	h.lastCapability = lastCapability()
	masks := present(hidden)
	h.hiding = map[string][]spawn.Step{"": hiding("", masks), imagePath: hiding(imagePath, masks),
		homePath: hiding(homePath, masks)}
	h.fontLists = fontLists()
	h.heldQuota, err = halfOfMemory()
	return err
}

// makeFilters makes the filters of system calls.
func (h *host) makeFilters(weaken []string) (err error) {
	if h.filter, err = hostFilter(h.groups != nil); err != nil || !h.root || slices.Contains(weaken, weakKept) {
		return err
	}
	if h.notifyFilter, err = hostFilter(h.groups != nil, notifyRules...); err != nil {
		return err
	}
	if slices.Contains(weaken, weakNotices) {
		h.notifyFilter = h.filter
	}
	return nil
}

// serve answers one request and closes its files, the first of which is its socket.
func (e *executor) serve(r *request, files []*os.File) {
	defer closeAll(files...) // the first is the link's
	defer e.giveBack.Reset(giveBackTime)
	l, err := newLink(files[0])
	if err != nil {
		return
	}
	defer l.discard()
	files = files[1:]
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
		err = l.send(answer{})
	case r.Changes != nil:
		err = e.changes(l, r.Changes)
	case r.Measure != "":
		err = e.measureStanding(l, r.Measure)
	case r.Enter != nil:
		err = e.enter(l, r.Enter, files)
	case r.Dial != nil:
		err = e.dial(l, r.Dial)
	case r.Files != nil:
		err = e.files(l, r.Files)
	case r.Usage:
		err = e.usage(l)
	case r.Inspect:
		report := e.host.isolation()
		err = l.send(answer{Report: &report, Pools: e.describePools()})
	default:
		err = errors.New("empty request")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		_ = l.send(answer{Error: describe(err)}) // it fails if the service has exited
	}
}

// describe converts an error into the failure sent to the service.
func describe(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	kind := engine.ErrUnavailable
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		kind = engine.ErrTooLarge
	}
	f := &failure{Kind: kind, Text: err.Error(), Hint: hintFor(err)}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.Cause = fmt.Sprintf("the kernel, or a filter of this host, refused a step of it (%s)", unix.ErrnoName(errno))
	}
	return f
}

// leaseUID leases a user that no other sandbox has. If there is one user for all
// sandboxes, they share it.
func (e *executor) leaseUID() (int, error) {
	if e.host.uids.count == 1 {
		return e.host.uids.first, nil
	}
	select {
	case uid := <-e.uids:
		return uid, nil
	default:
		return 0, newFailure(engine.ErrBusy, "every sandbox user is taken")
	}
}

func (e *executor) returnUID(uid int) {
	if e.host.uids.count > 1 {
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
	for _, p := range e.pools {
		p.close()
	}
	for _, p := range e.processes {
		p.close()
	}
	e.work.Wait()
	e.namespaces.close()
	if e.host.groups != nil {
		e.host.groups.Close()
	}
}

// fontLists finds the lists of fonts created at setup.
func fontLists() (names []string) {
	entries, err := os.ReadDir(imagePath + fontsPath)
	if err != nil {
		return nil // no matplotlib
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".json") {
			names = append(names, entry.Name())
		}
	}
	return names
}

// availableMemory returns how much of the machine's memory is available without
// swapping, 0 if it is not known.
func availableMemory() int64 {
	return kernelfile.Value(kernelfile.Read(procPath, "meminfo"), "MemAvailable:") << 10
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

// hintFor returns a remedy for common errors.
func hintFor(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case ok && (errno == unix.EPERM || errno == unix.EACCES):
		return "the kernel refused; run `airlock doctor` to see what this host allows"
	case ok && errno == unix.ENOSYS:
		return "the kernel is older than Linux 5.12, or a filter of system calls hides what Airlock needs: a container " +
			"takes deploy/seccomp.json, a unit the calls that airlock.service names"
	case ok && errno == unix.ENOENT:
		return "run `airlock doctor` to see which language runtimes are installed"
	}
	return ""
}
