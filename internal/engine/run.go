package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Status is the state of a run.
type Status string

// A run is queued, then running, then in one of the other states, which are final.
const (
	StatusQueued      Status = "queued"
	StatusRunning     Status = "running"
	StatusOK          Status = "ok"          // exit code 0
	StatusError       Status = "error"       // any other exit code
	StatusTimeout     Status = "timeout"     // over Limits.Timeout
	StatusKilled      Status = "killed"      // ended by a signal that Airlock did not send
	StatusOOM         Status = "oom"         // over Limits.Memory
	StatusCancelled   Status = "cancelled"   // the caller left or cancelled it
	StatusInterrupted Status = "interrupted" // the service or its executor died in mid-run: the outcome is unknown
)

// Final reports whether a run in this state has ended.
func (s Status) Final() bool { return s != StatusQueued && s != StatusRunning }

var statusWords = map[Status]string{
	StatusQueued: "waiting", StatusOK: "OK", StatusError: "failed", StatusTimeout: "timed out",
	StatusKilled: "killed by a signal", StatusOOM: "out of memory",
}

// Words returns the status as every surface shows it to a person.
func (s Status) Words() string { return cmp.Or(statusWords[s], string(s)) }

// RunRequest asks for one program to be run. Its zero fields take the
// language's and the service's defaults.
type RunRequest struct {
	Language string        // a name or alias of the language table
	Code     string        // the source, UTF-8
	Args     []string      // argv after the script
	Stdin    []byte        // nil: end of file at once
	Files    []FileRef     // placed into the workspace before the start
	Session  ID            // zero: a session of its own
	Packages string        // set of Python packages; empty: what Config.Packages says
	Image    string        `json:",omitempty"` // name of an image; empty: as the key or Config.Images says; excludes Packages
	Wall     Wall          `json:",omitempty"` // empty: as the key, the session and the service say
	Mounts   []string      `json:",omitzero"`  // folders of the host that it sees, see MountName; nil: those of the key
	Volumes  []VolumeMount `json:",omitempty"`
	Network  *Network      `json:",omitempty"` // destinations it may contact; nil: as the caller's key says
	Secrets  []Secret      `json:",omitempty"` // for hosts that the network includes; the history does not keep them
	Profile  Profile       // differences between the protocols

	// Attended reports that a client waits for the run, which is refused if it gets no slot
	// within Config.QueueTime. StartAttended sets it.
	Attended bool

	DropCode bool `json:",omitempty"` // History does not keep the code

	// IdempotencyKey, if set, makes a second request of the same owner with
	// the same key and content return the first one's run, and one with other
	// content fail with ErrConflict.
	IdempotencyKey string
}

// FileRef places a stored file into the workspace.
type FileRef struct {
	ID       ID
	Owner    Owner  // of the file; empty: the caller. Only an edge that has checked the caller's access sets it
	Path     string // relative; empty: the file's name
	ReadOnly bool   // the program cannot change, replace or remove it
}

// field names the reference in an error.
func (r *FileRef) field(i int) string { return fmt.Sprintf("%s[%d].id %s", fieldFiles, i, r.ID) }

// FolderMark is the name of the empty file that stands for an empty folder.
const FolderMark = ".dirkeep"

// TreeMark is the name of the file with what the files of a held workspace do not have: links, modes
// and empty folders. Only sandboxes write and read it, and no list has it.
const TreeMark = ".airlock-tree"

// Origin is the protocol through which an object came to be. Lists show an
// owner's objects of one origin; a get by id works across all.
type Origin string

// The protocols of Airlock.
const (
	OriginNative    Origin = "native"
	OriginOnyx      Origin = "onyx"
	OriginLibreChat Origin = "librechat"
	OriginLive      Origin = "live" // of the runs that are interpreters
	OriginMCP       Origin = "mcp"
	OriginDify      Origin = "dify"
	OriginJupyter   Origin = "jupyter"
	OriginE2B       Origin = "e2b"
	OriginTerminal  Origin = "terminal"
	OriginOpenAI    Origin = "openai"
	OriginHeld      Origin = "session"             // of held sessions, which are restored from them
	OriginWorkspace Origin = "librechat.workspace" // of the sessions of LibreChat's workspaces, kept as files
	OriginResponse  Origin = "openai.response"     // of OpenAI's responses, kept as files
	OriginPreview   Origin = "preview"             // of the runs that read a file for a page
	OriginUpload    Origin = "openai.upload"       // of OpenAI's uploads that are not complete
)

// Limits bound what one run may use.
type Limits struct {
	Timeout   time.Duration // wall clock
	CPUTime   time.Duration // of one process; zero: no limit
	Memory    int64         // bytes, all processes together, workspace included
	Processes int           // processes and threads
	CPUs      float64       // cores; zero: all
	Workspace int64         // bytes on disk
	Inodes    int           // files and directories
	Output    OutputLimit   // stdout and stderr, each
	Files     FileLimit     // bounds the kept files of the program
}

// TmpBytes is the size of a program's /tmp.
const TmpBytes = 64 << 20

// OutputLimit bounds the text kept of one output stream. The program is not
// stopped at the limit: the rest of its output is dropped.
type OutputLimit struct {
	Bytes    int    // kept
	HeadOnly bool   // keep the head only; false: the head and the tail
	Marker   string // printed where text is missing; "%d" in it becomes the number of bytes dropped
}

// FileLimit bounds the files captured after a run.
type FileLimit struct {
	Count int
	Bytes int64 // each
	Total int64 // together
}

// Run is one execution: its request, its state, its result.
type Run struct {
	ID        ID
	Owner     Owner
	Origin    Origin
	Session   ID
	Language  string
	Image     string // name of the image that it ran in; empty: none
	Wall      Wall   // that it has; empty: not known
	Status    Status
	ExitCode  *int   // nil unless the program ended by itself; 128+n after signal n, 137 after SIGXCPU
	Signal    string // "SIGKILL"; empty unless a signal ended the program
	Stdout    string // valid UTF-8; each byte that was not is U+FFFD
	Stderr    string
	Truncated bool // output over OutputLimit was dropped
	Duration  time.Duration
	CPU       time.Duration
	// MemoryPeak is in bytes; 0 where the host cannot measure it.
	MemoryPeak int64
	Start      Start         // empty: not known
	Files      []File        // new and changed files, in order of path
	Inputs     []InputState  // the state of each staged file
	Dropped    []DroppedFile // files that were not kept, and why
	Message    string        // for a person: why the run ended as it did; empty when it is obvious
	Hint       string        // what can be done about what the program missed; also a line of its output; empty: nothing
	Contacts   []Contact     // if it had a network grant, in order of their ends
	Timings    []Timing      // of its parts, in order; only for a caller that waited for it
	NoRoom     bool          // it was not run: there was no memory for its workspace; not recorded
	Name       string        // that its owner gave it; empty: none
	Keyed      bool          // begun with an idempotency key; only known until it is recorded
	Node       Epoch         // that has the run, or had it if it is final
	Generation int64         // of its session's place, at which alone its files may be recorded; not recorded; 0: any
	Source     *Source       // source of the run; nil: not stored, or not requested by a list
	SourceKept bool          // Source is stored; only in a list that requests it
	CreatedAt  time.Time
	StartedAt  time.Time // zero while queued
	FinishedAt time.Time // zero until final
}

// Start is how a program started.
type Start string

// With a warm start an interpreter waited for the program; with a cold one it was started for it.
const (
	StartWarm Start = "warm"
	StartCold Start = "cold"
)

// InputState is what a run did to one of its input files.
type InputState struct { // the index stores it with these tags
	ID      ID     `json:"id"`
	Path    string `json:"path"`
	Changed bool   `json:"changed,omitempty"` // the new content is among Run.Files, under the same path
	Deleted bool   `json:"deleted,omitempty"`
}

// DroppedFile is a file that the program left and that was not kept.
type DroppedFile struct { // the index stores it with these tags
	Path   string `json:"path"`
	Reason string `json:"reason"`         // DropTooLarge and the others
	More   int    `json:"more,omitempty"` // further files that were not kept for the same reason, and are not named
}

// Why a file was not kept. Clients and the index have these words.
const (
	DropName       = "name"
	DropSpelling   = "its name is not valid UTF-8, and another file has the name that stands for it"
	DropPath       = "its path is too long"
	DropDepth      = "too many folders deep"
	DropTooMany    = "too many files"
	DropTooLarge   = "too large"
	DropTotal      = "all files together are too large"
	DropNotRegular = "not a regular file"
	DropUnreadable = "unreadable"
	DropDiskFull   = "disk full"
	DropQuotaFull  = "quota full"
	DropSlow       = "storing took too long"
	DropUnstored   = "it could not be stored"
	DropWorkspace  = "no room in the workspace"
	DropMoved      = "another node has the session by now"
)

// EventType tells the events of a run apart.
type EventType string

// A run's events: one started (none if the run ended before its program began),
// any number of output, one result.
const (
	EventStarted EventType = "started"
	EventOutput  EventType = "output"
	EventResult  EventType = "result"
)

// Event is one entry of a run's log. Joining the Data of all output events of
// one stream gives the run's Stdout or Stderr exactly.
type Event struct {
	Seq    int // 1, 2, 3, ...: what a client that lost its connection resumes after
	Type   EventType
	Stream Stream // with EventOutput
	Data   string // with EventOutput: whole characters, never empty
	Run    *Run   // with EventStarted and EventResult
}

// CallHandler answers calls that a program makes from inside its sandbox.
// Input and answer are JSON documents. An error's text reaches the program.
type CallHandler interface {
	Call(ctx context.Context, name string, input []byte) ([]byte, error)
}

// RunQuery selects runs for a list, newest first.
type RunQuery struct {
	Owner    Owner
	Origin   Origin // empty: every origin
	Session  ID     // zero: every session
	Page     Page
	Text     string // words that all are in the run; empty: any run
	Programs bool   // without interpreters and preview runs
	Source   bool   // include Run.Source
	Kept     bool   // include Run.SourceKept
	Output   int    // leading bytes of each stream to include for ended runs; zero: none
}

// Page bounds a list. Lists are in descending order of creation.
type Page struct {
	Limit int // at most; zero: 100
	After ID  // the last item of the page before; zero: the first page
}
