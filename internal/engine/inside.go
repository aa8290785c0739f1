package engine

import (
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// Inside reaches into the sandbox of the program that runs in a held workspace,
// and into the workspace. An unknown workspace is ErrNotFound.
type Inside interface {
	// Start starts a process beside the program: in its namespaces, under its
	// limits and in the same isolation. It ends with the program at the latest.
	// Without a program Start returns ErrNoProgram, with too many processes
	// ErrBusy, and for a missing command or folder ErrInvalid.
	Start(ctx context.Context, held ID, spec *ProcessSpec) (Process, error)

	// Dial connects to a TCP port of the sandbox's own loopback. If no
	// process listens, it returns ErrConflict.
	Dial(ctx context.Context, held ID, port int) (net.Conn, error)

	// Files returns the files of a held workspace, with or without a program.
	Files(held ID) Files

	// Usage measures the sandbox. Without a program it returns ErrNoProgram.
	Usage(ctx context.Context, held ID) (SandboxUsage, error)

	// Tmp returns the files of the sandbox's /tmp, which end with the sandbox.
	// Without a program it returns ErrNoProgram.
	Tmp(held ID) Files
}

// SandboxUsage is the resource usage of a sandbox.
type SandboxUsage struct {
	CPU       time.Duration // so far
	Memory    int64         // bytes now
	Workspace int64         // bytes of its files
}

// ProcessSpec is a process to start.
type ProcessSpec struct {
	Argv     []string          // a command without a slash is searched for in PATH
	Env      map[string]string // beside the usual environment
	Dir      string            // inside, absolute; empty: the workspace
	Terminal *TerminalSize     // nil: pipes
}

// TerminalSize is in characters.
type TerminalSize struct{ Columns, Rows uint16 }

// Process is a process that was started inside a sandbox. The caller must read its
// streams until they end, otherwise the process blocks.
type Process interface {
	Stdin() ProcessInput   // with a terminal: its input; closing it hangs up
	Stdout() io.ReadCloser // with a terminal: its output
	Stderr() io.ReadCloser // nil with a terminal

	// PID is its number in the sandbox; 0: it is not known.
	PID() int
	// Signal sends a signal to its process group or, after its end, to all that it has left.
	// SIGKILL always ends all that it has started. ErrConflict: nothing is left.
	Signal(signal syscall.Signal) error
	// Resize sets the size of its terminal. Without a terminal it returns ErrInvalid.
	Resize(size TerminalSize) error
	// Wait returns when the process has ended, or with an error when it was lost
	// with its executor. What it has started may still run, and hold its streams.
	Wait() (ProcessEnd, error)
	// WaitAll is called after Wait and returns when nothing that it has started is left.
	WaitAll() error
	// Close kills the process and all that it has started, and frees its resources.
	Close() error
}

// ProcessInput is the input of a process.
type ProcessInput interface {
	io.WriteCloser
	// SetWriteDeadline ends a Write that blocks; os.ErrNoDeadline: none can be ended.
	SetWriteDeadline(t time.Time) error
}

// ProcessEnd is how a process ended.
type ProcessEnd struct {
	ExitCode int    // 128+n after signal n
	Signal   string // "SIGKILL"; empty unless a signal ended it
	CPU      time.Duration
	Left     bool // what it has started goes on: see WaitAll
}

// Files are the files of a held workspace, or of a /tmp. Paths are relative, have one
// spelling, need not be UTF-8, and lead through no link; "." is the whole.
// A missing file is ErrNotFound. A program may change everything at any time.
type Files interface {
	// List returns the entries of a folder, by path, and of its folders down to a
	// depth, which is at least 1. It reports whether there is more than it returns.
	List(ctx context.Context, path string, depth int) (entries []Entry, more bool, err error)
	Stat(ctx context.Context, path string) (Entry, error)
	// Open opens a regular file for reading; anything else is ErrInvalid.
	Open(ctx context.Context, path string) (*os.File, Entry, error)
	// Write makes or replaces a file: all of it at once, or nothing. It makes
	// missing folders. ErrTooLarge: the workspace is full.
	Write(ctx context.Context, path string, content io.Reader) (Entry, error)
	// MakeFolder makes a folder and its missing parents. An existing folder is
	// no error.
	MakeFolder(ctx context.Context, path string) (Entry, error)
	// Move renames. ErrConflict: the new name exists, unless it should be
	// replaced.
	Move(ctx context.Context, from, to string, replace bool) (Entry, error)
	// Remove removes a file, or a folder with all that is in it. ErrConflict: the
	// folder is not empty and recursive is false.
	Remove(ctx context.Context, path string, recursive bool) error
	// Watch calls seen, from one goroutine, with the changes in a folder and, if
	// recursive, in all folders below, until ctx ends or the workspace is released.
	Watch(ctx context.Context, path string, recursive bool, ready func(), seen func([]FileEvent)) error
}

// HintLink is the hint of an ErrInvalid caused by a link on a path.
const HintLink = "links are not followed: name the file itself"

// EntryKind is the kind of an entry of a folder.
type EntryKind string

// The kinds of entries.
const (
	EntryFile   EntryKind = "file"
	EntryFolder EntryKind = "folder"
	EntryLink   EntryKind = "link"
	EntryOther  EntryKind = "other" // a FIFO, a socket
)

// Entry is a file, folder or other entry of a workspace.
type Entry struct {
	Path     string
	Kind     EntryKind
	Size     int64 // of a file, in bytes, holes of a sparse one included; of a folder, as the kernel counts it
	Mode     fs.FileMode
	Modified time.Time
	Target   string    // of a link
	Leads    EntryKind // of a link: the kind of its target, where the request included it
}

// FileEventKind is the kind of a change.
type FileEventKind string

// The kinds of events. After an overflow events are missing: list again.
const (
	FileCreated    FileEventKind = "created"
	FileModified   FileEventKind = "modified"
	FileAttributes FileEventKind = "attributes" // permissions, times and the like
	FileDeleted    FileEventKind = "deleted"
	FileMoved      FileEventKind = "moved"
	FileOverflow   FileEventKind = "overflow"
)

// FileEvent is a change in a workspace.
type FileEvent struct {
	Kind   FileEventKind
	Path   string
	From   string // of moved
	Folder bool
}

// Inside gives access to the sandboxes of held workspaces. Its caller has checked their
// owners.
func (s *Service) Inside() Inside { return s.sandbox }
