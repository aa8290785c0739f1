package executor

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
)

// A Wall confines programs. The executor decides what a sandbox is given, which program runs
// in it and when it ends, and it accounts for it: a wall only makes the sandbox. All walls
// have the same root (package image), the same control groups and the same workspaces.
//
// Several goroutines call the methods of a Wall at once, but for Begin, Open and Close. If
// one that makes a sandbox fails, the wall leaves nothing of it, and the caller releases
// the box.
type Wall interface {
	// Begin is called first, before the executor has opened any other file. It returns the
	// wall's own executables, by their paths in the image.
	Begin(weaken []string) (programs map[string][]byte, err error)
	// Open is called once, when the executor has left the host's root, and before the first
	// sandbox.
	Open(m *Machine) (Capabilities, error)
	// Layers returns the layers that keep a program in, in the words for an operator. The
	// limits of memory, processes and processors are the executor's.
	Layers() []engine.Layer
	// Owner returns a user namespace in which root is a user of sandboxes. The mount of what
	// is root's can give it to that user. It is called only as root of the machine.
	Owner(uid int) (*os.File, error)
	// Make makes a sandbox for the program of b, which has not started.
	Make(b *Box) (Cell, error)
	// Await makes a sandbox in which a process waits for its program: one of a language that
	// Node runs, or any command if l is zero. It returns when the process waits.
	Await(b *Box, l language.Language) (Cell, error)
	// StartZygote begins to start an interpreter from which sandboxes are forked. The caller
	// calls Ready next.
	StartZygote(z ZygoteOptions) (Zygote, error)
	// Close releases what the wall keeps for later sandboxes. None is left.
	Close()
}

// Capabilities are what a wall can do on this machine.
type Capabilities struct {
	Name     string   // of the wall, for operators
	Kernel   string   // that each sandbox has for itself; empty: the machine's
	Commands bool     // Await, for any command
	Live     bool     // live sessions: Enter, Dial, terminals and layers
	Jobs     bool     // what enters has a Job of the wall's; else a control group or a namespace tells what it starts
	Tiers    []string // that have zygotes; nil: all
	Own      Overhead
	// Sealed are the mounts of the host in which programs that waited reach no socket.
	Sealed map[string]bool
}

// Overhead is what each sandbox takes for itself, beside its program.
type Overhead struct {
	Memory    int64
	Processes int
}

// ZygoteOptions say what a zygote is for.
type ZygoteOptions struct {
	Tier        Tier
	Environment *Environment
	Group       *cgroup.Group // for its own process; nil without control groups
	Layers      []*os.File    // as those of a Box, of a live session that no one has; only where copies have kernels
	UID         int           // whose they are
}

// A Zygote is a process, or a stored image of one, that has imported packages. Sandboxes
// that start from it wait where a cold interpreter is after a second.
type Zygote interface {
	// Ready waits until the packages are imported.
	Ready() error
	// Fork makes a sandbox in which an interpreter waits for its program, and returns when
	// it waits.
	Fork(b *Box, how StartMode) (Cell, error)
	// AddWaiter counts the requests that wait for the zygote, which then has priority.
	AddWaiter(more int)
	// Dead reports whether no more sandboxes can be forked.
	Dead() bool
	// Close ends the zygote, but no sandbox. It must not be called twice.
	Close()
}

// A Cell is one sandbox that a wall has made. It has one program, which is started once.
// One goroutine at a time calls its methods, but for Enter, ShowTerminals and Dial, which several may call
// while the program runs. None of these calls is under way when Close is called.
type Cell interface {
	// Proxy returns a socket that listens at ProxyPort of the sandbox's own loopback. It is
	// called before Start, and only if the program has a network grant.
	Proxy() (*os.File, error)
	// Mount mounts the folders of the box's Mounts in a sandbox that waits. One that starts cold
	// has them from its start.
	Mount() error
	// Start starts the program of the box, or hands it to the process that waits for it.
	// files become the program's stdin, stdout, stderr and, if it calls out, those from
	// guest.AnswersFD on; the caller still owns them. If the sandbox waited, an error means
	// that no code of the program has run.
	Start(files []*os.File) error
	// First returns the first process of the sandbox. All others of the sandbox are its
	// descendants or were entered, and end with it.
	First() (pid, pidfd int)
	// Polled returns the files that are readable when Next has an event, nil if there is
	// none of a kind.
	Polled() [PolledKinds]*os.File
	// Next returns the event of a polled file. It does not wait.
	Next(kind int) Event
	// Finish ends a program that has finished, so that it runs no more code. It is called
	// if the program is the only process beside the first, and reports success.
	Finish() bool
	// Reap returns when the first process has ended, with the processor time of the
	// sandbox if that is known.
	Reap() time.Duration
	// Interrupt sends SIGINT to the program's foreground, like Ctrl-C in a terminal.
	Interrupt()
	// Enter starts a process in the sandbox and returns when it has executed its command.
	// create calls its argument, which makes the process, unless the sandbox ends. If
	// Enter fails, the caller ends a process that was created.
	Enter(c *Command, create Creator) error
	// ShowTerminals uncovers the box's Terminals, at /dev/pts. It is called once.
	ShowTerminals() error
	// Dial connects to a port of the sandbox's loopback.
	Dial(port int) (*os.File, error)
	// Store writes the sandbox, with its memory and its files outside the workspace, to a pipe, for a request that
	// Resumes. It stops the sandbox, until Settle says whether it goes on or ends.
	Store(to *os.File) error
	Settle(goOn bool) error
	// Close kills what is left of the sandbox, waits for its end and releases what the wall
	// has for it. The caller releases the box.
	Close()
}

// A Creator calls a function that creates a process and records the process.
type Creator func(create func() (Entered, error)) error

// An Entered is a process that was started in a sandbox.
type Entered struct {
	Pidfd int    // or, of a process that only its wall knows, another file that is readable when it has ended
	PID   int    // in the executor's namespace, whose child it is; 0 if it has a parent
	Inner int    // in the sandbox; 0: PID tells
	By    Parent // nil: the executor
	Job   Job    // nil if the wall has none
}

// A Job is a process that has entered a sandbox with all that it starts, also after its end.
type Job interface {
	// Empty reports whether no process of the job is left.
	Empty() bool
	// SignalAll sends a signal to all processes of the job.
	SignalAll(signal unix.Signal)
}

// A Parent is the process that has started others in a sandbox for the executor.
type Parent interface {
	// Signal sends a signal to the group of a process, by its number in the sandbox.
	Signal(pid int, signal unix.Signal)
	// Reap returns how a process has ended. It is called when the pidfd says that it has, and
	// does not wait long for the rest.
	Reap(pid int) (status unix.WaitStatus, used time.Duration)
}

// Kinds of files on which a cell tells something.
const (
	PolledReports = iota // of the first process
	PolledCalls          // system calls that are handed over to the executor
	PolledKinds
)

// An Event is something that a cell tells about its program.
type Event struct {
	Kind   EventKind
	Status int32 // of exited and finished; as wait(2) gives it
	Alone  bool  // with exited: no process is left that runs code of the program's
	Err    error // with failed
}

// EventKind is what has happened to a cell.
type EventKind int

// Kinds of events.
const (
	nothing  EventKind = iota // nothing that concerns the executor
	Started                   // the program runs
	Exited                    // the program has ended
	Failed                    // it could not be started
	Ended                     // the sandbox has ended, with all processes
	Finished                  // the program has nothing more to do, and waits to be ended
	Served                    // a call that took the executor's time
	Deaf                      // there are no more events of this kind
	Stored                    // of a wall's own
)
