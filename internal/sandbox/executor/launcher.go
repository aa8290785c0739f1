package executor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
	"github.com/airlock-run/airlock/internal/trick"
)

// Launcher starts executors.
type Launcher interface {
	// Launch starts an executor that makes a wall, of this name or, if it is empty, the launcher's
	// own. It returns the socket to the executor. Closing the socket ends it.
	Launch(ctx context.Context, wall string) (*os.File, error)
	// Close waits for all executors to exit. Their sockets must be closed by then.
	Close() error
}

// LaunchOptions configure an executor.
type LaunchOptions struct {
	Runtimes   string // folder of installed runtimes; may be missing or empty
	Images     string // folder of images; empty: that below Runtimes
	Packages   string // the set of Python packages for programs that name none; empty: current if installed
	Log        *slog.Logger
	Lending    string   // as in Config
	WarmImages []string // IDs of images whose interpreters are kept ready too
	Fetched    string   // folder of images that the service fetches; empty: it fetches none
	Mounts     Folders  // that programs may ask for
	Volumes    string   // folder of the volumes; empty: there are none
	// Warm keeps interpreters with imported packages ready, and sandboxes forked from
	// them. A single program does not benefit from it.
	Warm bool
	Wall string // name of the wall where Launch is told none; empty: the shared kernel's
	// Service is the process that serves, which programs must not delay; 0 if this
	// process runs a single program.
	Service int

	WarmFirst bool     // tests only: be ready when all zygotes are
	Weaken    []string // tests only
	Binary    string   // tests only: executed in place of this one, which the race detector makes slow
}

// images returns the folder of images, or "" for none.
func (o LaunchOptions) images() string {
	if o.Images == "" && o.Runtimes != "" {
		return filepath.Join(o.Runtimes, "images")
	}
	return o.Images
}

func (o LaunchOptions) warm() string {
	switch {
	case o.WarmFirst:
		return warmFirst
	case o.Warm:
		return warmBackground
	}
	return ""
}

// NewLauncher returns a Launcher that starts executors as children of this
// process: with the rights of root, or in a user namespace.
func NewLauncher(o LaunchOptions) Launcher { return &localLauncher{options: o} }

type localLauncher struct {
	options  LaunchOptions
	children sync.WaitGroup

	mu   sync.Mutex
	left []string // exited instances whose control groups were still in use
}

func (l *localLauncher) Close() error {
	l.children.Wait()
	for _, instance := range l.left { // the service has exited by now
		cgroup.Remove(cgroup.Root, instance)
	}
	return nil
}

// errNamespaceRoot is for root of a container with remapped users. To the machine it is an
// ordinary user, and its programs have that user's number. But that user owns all of the
// container: a program that escaped its sandbox could change more than as another user.
var errNamespaceRoot = errors.New("root of a user namespace does not run programs: they would have its own number")

// executorNamespaces are the executor's own namespaces: it sees no network and no other
// processes. Because it is pid 1 of its namespace, every sandbox dies with it, however
// it ends.
const executorNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// WeakNetwork names the network namespace of the executor and of sandboxes, which is no
// step.
const WeakNetwork = "network namespace"

func (l *localLauncher) Launch(_ context.Context, wall string) (*os.File, error) {
	if os.Geteuid() == 0 && inUserNamespace() {
		return nil, &engine.Error{
			Op: "start the sandbox executor", Kind: engine.ErrUnavailable, Err: errNamespaceRoot,
			Hint: "run Airlock as another user there, as its image does: docker run --user airlock",
		}
	}
	instance := engine.NewID().String()
	var users *userBlock
	settings := executorConfig{
		Runtimes: l.options.Runtimes, Images: l.options.images(),
		Fetched: l.options.Fetched, Instance: instance, Packages: l.options.Packages,
		Lending:    lendingOf(l.options.Lending, wall),
		WarmImages: l.options.WarmImages, Mounts: l.options.Mounts, Volumes: l.options.Volumes,
		Wall: cmp.Or(wall, l.options.Wall), Warm: l.options.warm(), Weaken: l.options.Weaken,
	}
	if os.Geteuid() == 0 {
		var err error
		if users, err = takeUsers(usersFolder); err != nil {
			return nil, err
		}
		settings.Users = users.Users
	}
	config, err := json.Marshal(settings)
	if err != nil {
		users.Close()
		return nil, err
	}
	if err := cgroup.Prepare(cgroup.Root, instance, l.options.Service); err != nil && l.options.Log != nil {
		l.options.Log.Debug("control groups", "error", err) // the executor reports the consequences
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		users.Close()
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "executor"), os.NewFile(uintptr(fds[1]), "service")
	defer theirs.Close()
	// This path names the same program even if its file has been replaced.
	command := exec.Command(cmp.Or(l.options.Binary, "/proc/self/exe"), "executor", string(config))
	command.Args[0] = "airlock"
	command.Env = append(trick.Environment(), "GOMAXPROCS="+fmt.Sprint(executorThreads*runtime.GOMAXPROCS(0)))
	command.Stderr, command.WaitDelay = l.stderr(), time.Second
	command.Dir = "/"
	command.ExtraFiles = []*os.File{theirs}
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: executorNamespaces, Pdeathsig: unix.SIGKILL, Setsid: true}
	if slices.Contains(l.options.Weaken, WeakNetwork) {
		command.SysProcAttr.Cloneflags &^= unix.CLONE_NEWNET
	}
	if os.Geteuid() != 0 {
		inOwnNamespace(command.SysProcAttr)
	}
	if err := l.startAndReap(command, instance, users); err != nil {
		ours.Close()
		return nil, &engine.Error{
			Op: "start the sandbox executor", Kind: engine.ErrUnavailable, Err: err,
			Hint: "this host does not allow the namespaces that the sandbox needs; run `airlock doctor`", Doctor: true,
		}
	}
	return ours, nil
}

// stderr returns where the executor writes: the log, if there is one.
func (l *localLauncher) stderr() io.Writer {
	if l.options.Log == nil {
		return os.Stderr
	}
	return &lineLogger{log: l.options.Log}
}

// lineLogger logs the lines of an executor: what it says as warnings, and whatever else
// its runtime writes as errors.
type lineLogger struct {
	log  *slog.Logger
	rest []byte // an unfinished line
}

// Prefix of the lines that an executor itself writes.
const executorPrefix = "airlock executor: "

// maxLine bounds a line of the log.
const maxLine = 4 << 10

// Write implements io.Writer.
func (l *lineLogger) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte{'\n'})
		if !whole && len(line) < maxLine {
			return len(p), nil
		}
		if !whole {
			line, rest = line[:maxLine], line[maxLine:]
		}
		if text, own := strings.CutPrefix(string(line), executorPrefix); own {
			l.log.Warn(text, "component", "sandbox executor")
		} else {
			l.log.Error(text, "component", "sandbox executor")
		}
		l.rest = append(l.rest[:0], rest...)
	}
}

// inOwnNamespace gives the executor of an ordinary user its privileges, which apply
// only to its own namespaces.
func inOwnNamespace(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: userUIDs.First, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: userUIDs.First, HostID: os.Getegid(), Size: 1}}
	// It is not uid 0 there, and without ambient capabilities would lose its own on execve.
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		attr.AmbientCaps = append(attr.AmbientCaps, uintptr(c))
	}
}

// executorThreads is how many threads of the executor may run for each processor: a
// thread that waits for a program counts as running for a while.
const executorThreads = 8

// processors returns how many processors the service may use, from within the executor: those of its container.
func processors() int { return max(1, runtime.GOMAXPROCS(0)/executorThreads) }

// calm is the timer slack of internal timers.
const calm = time.Millisecond

// RestCalmly lets timers of what this thread starts from now on fire together.
// Go's runtime checks its threads every 20 microseconds while one is busy or waits in
// the kernel, which it takes for busy. That is about ten wake-ups during each short
// program, on the processor that the program needs. With the slack it is one. Sandboxes
// get the kernel's default slack again.
func RestCalmly() {
	// It cannot fail with these arguments, and only performance depends on it.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(calm.Nanoseconds()), 0, 0, 0)
}

// startAndReap starts a command from a thread that lives as long as the command: the
// kernel ties a child's life to the thread that created it.
func (l *localLauncher) startAndReap(command *exec.Cmd, instance string, users *userBlock) error {
	started := make(chan error)
	l.children.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer users.Close() // no process of the executor is left
		RestCalmly()
		err := command.Start()
		started <- err
		if err == nil {
			if err := command.Wait(); err != nil && l.options.Log != nil {
				l.options.Log.Warn("the sandbox executor ended", "error", err)
			}
		}
		if !cgroup.Remove(cgroup.Root, instance) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.left = append(l.left, instance)
		}
	})
	return <-started
}

// launchRequest asks for an executor.
type launchRequest struct {
	Wall string `json:",omitempty"`
}

// ServeLauncher answers the requests of a RemoteLauncher at the other end of conn until
// that end closes. The privileged parent calls it for the service, which runs as an
// ordinary user.
func ServeLauncher(ctx context.Context, conn *os.File, l Launcher) error {
	remote, err := newLongLink(conn)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { remote.Close() })
	defer stop()
	defer l.Close()
	defer remote.Close()
	for {
		var asked launchRequest
		files, err := remote.Receive(&asked)
		CloseAll(files...)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		socket, err := l.Launch(ctx, asked.Wall)
		if err != nil {
			if err := remote.Send(answer{Error: describe(err)}); err != nil {
				return err
			}
			continue
		}
		err = remote.Send(answer{}, socket)
		socket.Close()
		if err != nil {
			return err
		}
	}
}

// RemoteLauncher returns a Launcher that calls the ServeLauncher at the other end of conn.
func RemoteLauncher(conn *os.File) Launcher { return &remoteLauncher{conn: conn} }

type remoteLauncher struct {
	mu   sync.Mutex // held for one request at a time
	conn *os.File
	link *Link
}

// Close tells the process at the other end that no more executors are needed.
func (r *remoteLauncher) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == nil {
		return r.conn.Close()
	}
	return r.link.Close()
}

func (r *remoteLauncher) Launch(_ context.Context, wall string) (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == nil {
		l, err := newLongLink(r.conn)
		if err != nil {
			return nil, err
		}
		r.link = l
	}
	if err := r.link.Send(launchRequest{wall}); err != nil {
		return nil, err
	}
	var a answer
	files, err := r.link.Receive(&a)
	if err != nil {
		return nil, err
	}
	if a.Error != nil || len(files) != 1 {
		CloseAll(files...)
		return nil, fromFailure("start the sandbox executor", a.Error)
	}
	return files[0], nil
}
