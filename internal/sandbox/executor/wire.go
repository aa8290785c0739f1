package executor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// The service and the executor exchange messages over unix sockets that preserve packet
// boundaries (SOCK_SEQPACKET). Each packet is one JSON message with the open files that
// it names. One socket lives as long as both processes. Over it the service sends each
// request with a fresh socket, which carries the rest of the request. Closing a
// request's socket cancels the request and kills its processes.
//
// Neither side trusts the other: an unknown field, a wrong count of files or a value
// out of range ends the request.

const (
	maxPacket     = 128 << 10
	maxFiles      = 64 // open files in one packet; the kernel's limit is 253
	maxArguments  = 64 << 10
	maxInputs     = 10_000
	maxPathLength = 4096
	maxCode       = 24 << 10 // of a program that is sent with its request
)

// request is the first message of a request. Its first open file is the request's
// socket. Exactly one field is set.
type request struct {
	Run     *RunRequest     `json:",omitempty"`
	Hold    *holdRequest    `json:",omitempty"`
	Release string          `json:",omitempty"` // id of a held workspace
	Changes *changesRequest `json:",omitempty"`
	Inspect bool            `json:",omitempty"`
	Usage   bool            `json:",omitempty"` // of held workspaces
	Measure string          `json:",omitempty"` // id of a workspace whose sandbox is measured

	Enter *enterRequest `json:",omitempty"`
	Dial  *dialRequest  `json:",omitempty"`
	Files *filesRequest `json:",omitempty"`
}

// heldUse is the memory that a held workspace reserves.
type heldUse struct {
	ID     string
	Memory int64
}

const usesInPacket = 500

// RunRequest comes with the files stdout, stderr and, if there is one, stdin. If Calls
// is set, the program's two files for calls follow. Inputs follow in separate messages.
type RunRequest struct {
	Owner     string `json:",omitempty"` // against whose part of each share it counts
	Argv      []string
	Env       []string `json:",omitzero"` // nil: Environment.Usual
	Root      string   // /workspace or /mnt/data
	Packages  string   `json:",omitempty"` // set of Python packages; empty: the default one
	Image     string   `json:",omitempty"` // ID of the image that it runs in; empty: none
	Tier      string   // of the zygote to start from; empty: start cold
	Imports   []string `json:",omitempty"` // modules that the program seems to import, and no tier has by itself
	Entry     string   // the file that holds the code, never an output; may be empty
	Code      []byte   `json:",omitzero"` // the content of that file, unless it is long and comes as an input
	Stdin     bool     // not empty
	Held      string   // id of a held workspace; empty: a fresh one
	Make      bool     `json:",omitempty"` // create that workspace, with the inputs; else a live interpreter has none
	EchoLast  bool     // print the value of a Python program's last expression
	ShowPlots bool     // leave the plots that it shows as files
	Globals   []string `json:",omitempty"` // modules that a Python program has without importing them
	Folders   bool     // an empty folder is an output
	Calls     bool
	Network   bool                 `json:",omitempty"` // the program has a proxy; the service gets the proxy's socket
	Authority []byte               `json:",omitempty"` // certificate that the program trusts, in PEM
	Live      bool                 `json:",omitempty"` // an interpreter, in a held workspace; Timeout does not count
	Resumes   bool                 `json:",omitempty"` // it goes on as it was stored: the last file has that
	Apart     bool                 `json:",omitempty"` // its sandbox is not entered
	Mounts    []string             `json:",omitempty"` // as engine.MountName reads them
	Volumes   []engine.VolumePlace `json:",omitempty"`
	FileSize  int64                `json:",omitempty"` // of one file in a volume; 0: no more than in the workspace
	Inputs    int                  // that follow
	Lends     int                  `json:",omitzero"` // number of inputs that are lent; the others are copied
	Workspace int64
	Inodes    int
	Memory    int64
	Processes int
	CPUs      float64
	CPUTime   time.Duration
	Timeout   time.Duration
	Count     int   // outputs kept at most
	Bytes     int64 // each
	Total     int64 // together

	Node *nodeProgram `json:",omitempty"` // if Node runs it

	python string // path of Python in the environment

	env     *Environment    // on the executor's side
	cold    bool            // it gets no sandbox that waits
	tasks   *holding        // the same
	counted *countedProgram // the same
}

// holdRequest makes a held workspace; its inputs follow.
type holdRequest struct {
	ID        string
	Workspace int64
	Inodes    int
	Inputs    int
}

// changesRequest asks for the files of a held workspace that have changed.
type changesRequest struct {
	ID           string
	Count        int
	Bytes, Total int64
	Paths        []string `json:",omitempty"` // with what is below them; empty: everything
}

// inputs is one packet of input files, as many as are open with it.
type inputs struct {
	Inputs []input
}

type input struct {
	Path     string
	Size     int64
	ReadOnly bool
	Lent     string `json:",omitempty"` // its name in the lending folder
}

// answer is a message from the executor. A run gets one with Accepted before anything
// has happened, any number with Rest, any number with Outputs, Deleted and Dropped, and
// a last one with Done or Error.
type answer struct {
	Accepted bool              `json:",omitempty"`
	PID      int               `json:",omitempty"` // of an accepted process, in its sandbox
	Network  bool              `json:",omitempty"` // its file is the proxy's socket
	Outputs  []output          `json:",omitempty"` // their files are with the packet
	Deleted  []string          `json:",omitempty"`
	Dropped  []dropped         `json:",omitempty"`
	Done     *outcome          `json:",omitempty"`
	Report   *engine.Isolation `json:",omitempty"`
	Pools    []engine.Pool     `json:",omitempty"`
	Error    *Failure          `json:",omitempty"`
	Rest     *restNotice       `json:",omitempty"`
	Thawed   bool              `json:",omitempty"` // the program continues, or will when there is room for its processes
	Stored   *storeResult      `json:",omitempty"`
	Resumed  bool              `json:",omitempty"` // a program that was stored goes on
	Held     []heldUse         `json:",omitempty"` // the last answer has none
	Used     *used             `json:",omitempty"` // the last one of changes
	Ended    *processEnd       `json:",omitempty"`
	Entries  []entry           `json:",omitempty"`
	More     bool              `json:",omitempty"` // there are more entries
	Events   []fileEvent       `json:",omitempty"`
}

// used is the resource usage of a live interpreter.
type used struct {
	CPU        time.Duration
	MemoryPeak int64
	Memory     int64 `json:",omitzero"` // now; with Measure
	Workspace  int64 `json:",omitzero"` // size of its files; with Measure
}

type output struct {
	Path      string
	Size      int64
	Input     bool
	Respelled bool `json:",omitempty"`
}

// check rejects outputs that no honest executor sends. A process that goes on may have changed the size.
func (o output) check(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if err := checkPath(o.Path); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || o.Size < 0 || !utf8.ValidString(o.Path) {
		return fmt.Errorf("output %q is not the file that was announced", o.Path)
	}
	return nil
}

// outcome describes how a program ended.
type outcome struct {
	Status     int32 // as wait(2) gives it; meaningless if Lost
	Lost       bool  // the sandbox was killed from outside before the program ended by itself
	TimedOut   bool
	OOM        bool
	Refused    bool // it wanted more processes or threads than its limit
	Warm       bool // an interpreter waited for it
	Started    time.Time
	Duration   time.Duration
	CPU        time.Duration
	MemoryPeak int64
}

type dropped struct {
	Path, Reason string
	More         int `json:",omitempty"`
}

// A Failure is an error of the sandbox itself, or a rejected request.
type Failure struct {
	Kind   engine.Kind
	Text   string
	Hint   string
	Doctor bool `json:",omitempty"` // as in engine.Error
	// Cause is the part of the error that the program's owner may see.
	Cause string `json:",omitempty"`
	// Again means that the program has not started, and that the request may be retried.
	Again bool `json:",omitempty"`
	// NoProgram means that the cause is engine.ErrNoProgram.
	NoProgram bool   `json:",omitempty"`
	Field     string `json:",omitempty"` // of the request, that the text is about
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// NewFailure returns a failure, with a hint for the caller if one is given.
func NewFailure(kind engine.Kind, text string, hint ...string) *Failure {
	return &Failure{Kind: kind, Text: text, Hint: strings.Join(hint, "")}
}

// retryable returns a failure that occurred before the program started: the request may be
// retried.
func retryable(text string) *Failure {
	return &Failure{Kind: engine.ErrUnavailable, Text: text, Again: true}
}

// Failures that several requests may have.
var (
	errNotHeld   = NewFailure(engine.ErrNotFound, "no such workspace is held")
	errReleased  = NewFailure(engine.ErrUnavailable, "the workspace was released meanwhile", "try again")
	ErrNoProgram = &Failure{Kind: engine.ErrConflict, Text: engine.ErrNoProgram.Error(), Hint: "start one first",
		NoProgram: true}
	errHeldMemory = NewFailure(engine.ErrFull, "the memory for workspaces that stay between runs is used up",
		"delete sessions that are no longer used, or wait until they expire")
)

// TooMany returns the failure to start a process in a sandbox that has as many as it may have, or as the kernel makes.
func TooMany(why string) *Failure {
	return NewFailure(engine.ErrBusy, "as many processes as may be run in this sandbox: "+why,
		"end one of them, or wait until one has ended")
}

// Enterable reports whether other processes may enter the sandbox of the program.
func (r *RunRequest) Enterable() bool { return r.Live || r.Held != "" }

// check rejects requests that no honest service sends.
func (r *RunRequest) check() error {
	if err := checkStrings(r.Env, r.Argv, "the arguments or the environment"); err != nil {
		return err
	}
	switch {
	case len(r.Argv) == 0 || !path.IsAbs(r.Argv[0]):
		return errors.New("no command")
	case r.Root != image.RootWorkspace && r.Root != image.RootData:
		return errors.New("unknown root")
	case r.driven() && !r.isScript():
		return errors.New("only a Python script's last expression can be echoed, its plots be left, and globals be there")
	case r.Entry != "" && checkPath(r.Entry) != nil, r.Entry == "" && r.Code != nil:
		return errors.New("bad entry path")
	case r.Live && (!heldID().MatchString(r.Held) || r.Entry != "" || !r.Calls):
		return errors.New("a live interpreter without a workspace or a channel")
	case r.Resumes && !r.Live:
		return errors.New("only a live interpreter goes on as it was stored")
	case r.Make && !r.Live, r.Live && !r.Make && r.Inputs > 0:
		return errors.New("only a live interpreter's workspace is made with it, and has inputs only then")
	case r.Memory < 1<<20 || r.Processes < 1 || r.Processes > 1<<16 || r.Timeout <= 0 || !r.Live &&
		r.Timeout > 24*time.Hour:
		return errors.New("a limit is out of range")
	case r.CPUs < 0 || r.CPUTime < 0 || r.Count < 0 || r.Bytes < 0 || r.Total < 0:
		return errors.New("a negative limit")
	case len(r.Imports) > maxImports:
		return errors.New("too many imports")
	case r.Inputs < 0 || r.Inputs > maxInputs || r.Lends < 0 || r.Lends > min(r.Inputs, maxLent):
		return errors.New("too many inputs")
	case len(r.Mounts) > engine.MaxMounts:
		return errors.New("too many folders of the host")
	case len(r.Volumes) > engine.MaxVolumes || slices.ContainsFunc(r.Volumes, badPlace) || r.FileSize < 0:
		return errors.New("volumes in places where there can be none")
	case len(r.Authority) > maxCertificate || len(r.Authority) > 0 && !r.Network:
		return errors.New("a certificate without a network")
	}
	return checkWorkspace(r.Workspace, r.Inodes)
}

// checkStrings rejects strings that execve would not accept, because they contain a NUL
// or are too long together.
func checkStrings(env, others []string, where string) error {
	size := 0
	for _, s := range slices.Concat(env, others) {
		size += len(s) + 1
		if strings.ContainsRune(s, 0) {
			return errors.New("a NUL in " + where)
		}
	}
	if slices.ContainsFunc(env, func(s string) bool { return strings.IndexByte(s, '=') < 1 }) {
		return errors.New("an environment entry without a name")
	}
	if size > maxArguments+maxPathLength {
		return errors.New("arguments and environment are too long")
	}
	return nil
}

func checkWorkspace(size int64, inodes int) error {
	if size < 1<<12 || size > 1<<40 || inodes < 1 || inodes > 1<<24 {
		return errors.New("workspace size out of range")
	}
	return nil
}

// checkPath accepts a relative path that has one spelling.
func checkPath(p string) error {
	if p == "" || len(p) > maxPathLength || p == "." || p == ".." || path.IsAbs(p) || path.Clean(p) != p ||
		strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
		return fmt.Errorf("bad path %q", p)
	}
	return nil
}

// receiveInputs reads the announced number of inputs and hands each to place.
func (l *Link) receiveInputs(count int, place func(input, *os.File) error) error {
	for count > 0 {
		var batch inputs
		files, err := l.Receive(&batch)
		if err != nil {
			return err
		}
		err = placeInputs(batch.Inputs, files, count, place)
		CloseAll(files...)
		if err != nil {
			return err
		}
		count -= len(files)
	}
	return nil
}

func placeInputs(list []input, files []*os.File, count int, place func(input, *os.File) error) error {
	if len(files) == 0 || len(files) != len(list) || len(files) > count {
		return errors.New("inputs and their files do not match")
	}
	for i, in := range list {
		if err := checkPath(in.Path); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(files[i].Fd()), &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG || in.Size < 0 || st.Size < in.Size {
			return fmt.Errorf("input %q is not the file that was announced", in.Path)
		}
		if err := place(in, files[i]); err != nil {
			return err
		}
	}
	return nil
}

// sendInputs is the counterpart of receiveInputs.
func (l *Link) sendInputs(list []input, files []*os.File) error {
	for len(list) > 0 {
		n := min(len(list), maxFiles)
		if err := l.Send(inputs{list[:n]}, files[:n]...); err != nil {
			return err
		}
		list, files = list[n:], files[n:]
	}
	return nil
}
