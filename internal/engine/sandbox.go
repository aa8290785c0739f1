package engine

import (
	"context"
	"os"
	"time"

	"github.com/airlock-run/airlock/internal/language"
)

// Stream is one of the two output streams of a program.
type Stream string

// The output streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Sandbox runs programs, each in its own isolation.
type Sandbox interface {
	// Run runs one program and returns when all its processes have ended. A
	// program that fails, or that a limit ends, is an Outcome, not an error.
	// When ctx ends the program is killed, and Run still returns an Outcome with
	// the results so far. The error is ErrUnavailable if the sandbox failed, so
	// that the program's end is unknown, ErrNoLanguage if the language's command
	// is missing, ErrNotFound if Spec.Held names a workspace that was lost, and
	// ErrInvalid with ErrNoWall if the wall is not to be had.
	Run(ctx context.Context, spec *Spec, host Host) (*Outcome, error)

	// Hold makes a workspace behind a wall that stays between runs, with files in it. Without
	// memory for it, Hold returns ErrFull, and so does Run without memory for a
	// held workspace to grow in. Several runs may be in one at once. See Spec.Generation.
	Hold(ctx context.Context, id ID, generation int64, wall Wall, inputs []Input, limits Limits) error

	// Release removes a held workspace of a generation, or of an earlier one, and kills its
	// programs. Releasing an unknown workspace is not an error.
	Release(ctx context.Context, id ID, generation int64) error

	// Changes opens the files that are new or changed in a held workspace since the last
	// call, or since it was made, and returns the usage of its interpreter. If there are paths, it opens
	// none but what is at or below them, and leaves others for later calls. If the workspace no longer
	// exists, it returns ErrNotFound.
	Changes(ctx context.Context, id ID, limits FileLimit, paths ...string) (*Changes, error)

	// Held returns how much memory each workspace reserves in which Run can start a program.
	Held(ctx context.Context) (map[ID]int64, error)

	Inside

	// Isolation returns what this host enforces on programs for which no wall was asked.
	Isolation(ctx context.Context) (Isolation, error)

	// Pools returns the pools of warm sandboxes; none where every program
	// starts cold.
	Pools(ctx context.Context) ([]Pool, error)

	// Distant reports that its programs run on other machines, which have bytes by their
	// digest: its inputs need not be open, and its outputs are stored before it reports them.
	Distant() bool

	// Close ends every run.
	Close() error
}

// A Pool holds warm sandboxes for programs of one kind.
type Pool struct {
	Name    string // of the kind: the packages that its programs have imported
	Ready   bool   // the interpreter that forks them has started
	Waiting int    // sandboxes
	Wanted  int    // the current target for Waiting
	Cold    string // why the interpreter does not start, so that every program starts cold; empty: it does
}

// Spec is one program to run, ready for the sandbox: every name checked,
// every default filled in.
type Spec struct {
	Owner     Owner // what it takes from pools of the kernel counts for this one
	Language  language.Language
	Wall      Wall     // at least; empty: the sandbox's own. A program in a held workspace has that of the workspace
	Packages  string   // set of Python packages; empty: the sandbox's default
	Image     *Image   // root of the program, and the languages in it; nil: the machine's own
	Mounts    []string // folders of the host that it sees; see MountName
	Volumes   []VolumePlace
	FileSize  int64 // of one file in a volume; zero: that of the workspace
	Code      string
	Args      []string
	Stdin     []byte // nil: end of file at once
	Root      string // /workspace or /mnt/data
	Entry     string // file name of the code, relative to Root
	Inline    bool
	Env       map[string]string
	Home      string
	Locale    string // $LANG where the machine has it; empty: C.UTF-8
	Limits    Limits
	Inputs    []Input
	Held      ID   // run in this held workspace; zero: in a fresh one
	Make      bool // of a live session: make that workspace, with Inputs in it
	Calls     bool // give the program a channel to Host.Call
	EchoLast  bool
	ShowPlots bool
	Globals   []string       // modules that a Python program has without importing them
	Merge     bool           // stderr goes to stdout
	Folders   bool           // an empty folder is an output: FolderMark in it
	Network   *ProxySettings // nil: nothing but its own loopback
	Live      bool           // the interpreter of a live session, in place of Code; its time is not limited
	Imports   []string       // modules that the first cell of that session imports
	Memory    *os.File       // it goes on as it was stored, which is read from here; nil: it is new
	Apart     bool           // Inside does not enter its sandbox: another interpreter runs in the same workspace

	// Generation is the Place.Generation of the session that Held is of. A distant sandbox may still have a
	// workspace of a former place of the session: that one has other files, and is never used.
	Generation int64
}

// ProxySettings configure a program with a network grant.
type ProxySettings struct {
	Env         map[string]string // of package tools
	Certificate []byte            // to be trusted, in PEM; empty: none
	Grant       *Grant            // for a distant sandbox, whose machines bound and serve it themselves
}

// Input is a file to place into the workspace. The sandbox reads it from the
// open file and never learns where it came from. The caller closes it.
type Input struct {
	Path     string   // relative, checked
	File     *os.File // nil: a distant sandbox gets the bytes by their digest
	Size     int64
	SHA256   Digest
	ReadOnly bool
}

// Host is the world outside a run, as its sandbox sees it.
type Host interface {
	// Output delivers bytes that the program wrote. It is called from one
	// goroutine for each stream, and must not retain the bytes after it returns.
	// While it blocks, the program's writes block.
	Output(stream Stream, data []byte)
	CallHandler
	// SetControls passes the means to control the program, before the program's first call.
	SetControls(controls Controls)
	// Rest reports that the program needs no processor, because it waits for a time, an
	// answer or a child, or that it computes again. While it rests, that much memory stays
	// reserved for it.
	Rest(resting bool, memory int64)
	// Listener takes the socket on the sandbox's loopback at which a program with a network
	// grant finds its proxy. The file becomes the callee's.
	Listener(file *os.File)
	// Contacted reports what the program contacts, if the sandbox is distant and so serves
	// the grant itself. A fault says why there was no network.
	Contacted(list []Contact, fault string)
}

// Controls are the means to control a program from outside of its sandbox. All but Freeze
// are those of a live interpreter.
type Controls struct {
	// Freeze stops or continues every process of the program. It returns when the sandbox
	// has been notified. It is nil if the sandbox cannot freeze.
	Freeze func(Motion) error
	// Store writes the sandbox of a live interpreter that waits for an order to a pipe, for Spec.Memory. It stops the
	// sandbox, until Settle says whether it goes on or ends. Both are nil if the sandbox is on another machine.
	Store     func(to *os.File) error
	Settle    func(goOn bool) error
	Interrupt func() error // sends SIGINT to it and its foreground children
	Drain     func()       // returns when its output until now is delivered
	// Usage returns the usage of all programs in its sandbox; nil if only SaveSession has it.
	Usage func() (cpu time.Duration, memoryPeak int64)
}

// Outcome is how a program ended, as seen from outside of it.
type Outcome struct {
	ExitCode   *int   // nil unless the program ended by itself; 128+n after signal n, 137 after SIGXCPU
	Signal     string // "SIGSEGV"; empty unless a signal ended the program
	TimedOut   bool
	OOM        bool
	Refused    bool  // it wanted more processes or threads than Limits.Processes
	Cancelled  bool  // ctx ended
	Start      Start // empty: it did not start
	Wall       Wall  // that it had; empty: that of Spec
	StartedAt  time.Time
	Duration   time.Duration // from the program's start to its end, by a monotonic clock
	CPU        time.Duration
	MemoryPeak int64

	// Outputs are the regular files that are new, and the inputs whose bytes
	// may have changed, in order of path. The caller closes each File.
	Outputs []Output
	Deleted []string // paths of inputs that the program removed
	Dropped []DroppedFile
}

// Output is a file that the program left.
type Output struct {
	Path  string   // relative, valid UTF-8, checked like any name from outside
	File  *os.File // nil: it is stored, as Blob, which is pinned, and begins with Head
	Blob  Blob
	Head  []byte
	Size  int64
	Input bool // it was staged as an input under this path
	// Respelled reports that the program's name for it is not UTF-8. Path has each
	// invalid byte as %XX.
	Respelled bool
}

// Changes describes the changes in a held workspace.
type Changes struct {
	Outputs []Output // as of an Outcome
	Deleted []string
	Dropped []DroppedFile

	CPU        time.Duration // used by all programs of its live interpreter; 0: it has none
	MemoryPeak int64
}

// Isolation describes the layers that separate a program from its host.
type Isolation struct {
	Backend string      // "linux"
	Strict  bool        // memory and process limits are enforced by the kernel, and a crash tells the host nothing
	Summary string      // one line for a person: "root, cgroup v1"
	Layers  []Layer     // most important first
	Wall    Wall        // empty: not known
	Others  []Isolation // of the other walls that are in use
}

// LayerState is the state of a layer of isolation on this host.
type LayerState string

// The states of a layer.
const (
	LayerEnforced LayerState = "enforced"
	LayerWeaker   LayerState = "weaker"
	LayerMissing  LayerState = "missing"
)

// Layer is one layer of isolation.
type Layer struct {
	Name   string // "memory limit"
	State  LayerState
	Detail string // how it is enforced, or what is weaker
	Cure   string // advice to the operator; empty when enforced
}
