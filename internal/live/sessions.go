package live

import (
	"context"
	"io"
	"iter"
	"net"
	"os"

	"github.com/airlock-run/airlock/internal/engine"
)

// Sessions is the part of Service that edges use. The methods of Service document the
// contracts. The tests of each edge have their own implementation.
type Sessions interface {
	AwaitRoom(ctx context.Context, caller engine.Caller) error
	Create(ctx context.Context, caller engine.Caller, req Request) (engine.Session, error)
	Delete(ctx context.Context, caller engine.Caller, session engine.ID) error
	Info(ctx context.Context, caller engine.Caller, session engine.ID) (Info, error)
	Fork(ctx context.Context, caller engine.Caller, session engine.ID, req ForkRequest) (engine.ID, error)
	EndFork(ctx context.Context, caller engine.Caller, fork engine.ID) error
	Interrupt(ctx context.Context, caller engine.Caller, session engine.ID) error
	Restart(ctx context.Context, caller engine.Caller, session engine.ID) error
	Pause(ctx context.Context, caller engine.Caller, session engine.ID, memory Memory) error
	Network(ctx context.Context, caller engine.Caller, session engine.ID) (NetworkState, error)
	SetNetwork(ctx context.Context, caller engine.Caller, session engine.ID, network *engine.Network) error
	Install(ctx context.Context, caller engine.Caller, session engine.ID, names []string) (iter.Seq[Event], error)
	SetSecrets(ctx context.Context, caller engine.Caller, session engine.ID, values map[string]engine.SecretValue) error
	AddSnapshot(
		ctx context.Context, caller engine.Caller, session engine.ID, name string, memory Memory,
	) (engine.Snapshot, error)
	Copy(
		ctx context.Context, caller engine.Caller, from engine.CopySource, req CopyRequest,
	) (made []engine.Session, dropped []engine.DroppedFile, err error)
	Usage(ctx context.Context, caller engine.Caller, session engine.ID) (engine.SandboxUsage, error)
	Counts() Counts
	SetPrelude(origin engine.Origin, code string)

	Start(ctx context.Context, caller engine.Caller, session engine.ID, req CellRequest) (Cell, error)
	Wait(ctx context.Context, caller engine.Caller, session, cell engine.ID) (Cell, error)
	Cell(ctx context.Context, caller engine.Caller, session, cell engine.ID) (Cell, error)
	Cells(ctx context.Context, caller engine.Caller, session engine.ID) ([]Cell, error)
	Watch(ctx context.Context, caller engine.Caller, session, cell engine.ID, after int) (iter.Seq[Event], error)
	CancelCell(ctx context.Context, caller engine.Caller, session, cell engine.ID) error
	Answer(ctx context.Context, caller engine.Caller, session engine.ID, text string) error

	Complete(ctx context.Context, caller engine.Caller, session engine.ID, code string, cursor int) (Completion, error)
	Inspect(
		ctx context.Context, caller engine.Caller, session engine.ID, code string, cursor, detail int,
	) (Inspection, error)
	IsComplete(
		ctx context.Context, caller engine.Caller, session engine.ID, code string,
	) (status, indent string, err error)
	Variables(ctx context.Context, caller engine.Caller, session engine.ID) ([]Variable, error)
	Frame(ctx context.Context, caller engine.Caller, session engine.ID, q FrameQuery) (FrameAnswer, error)

	Comms(ctx context.Context, caller engine.Caller, session engine.ID, target string) (map[string]Comm, error)
	SendComm(
		ctx context.Context, caller engine.Caller, session engine.ID, parent string, m CommMessage,
	) (iter.Seq[Event], error)

	StartProcess(ctx context.Context, caller engine.Caller, session engine.ID, req ProcessRequest) (Process, error)
	Process(ctx context.Context, caller engine.Caller, session, process engine.ID) (Process, error)
	Processes(ctx context.Context, caller engine.Caller, session engine.ID) ([]Process, error)
	WatchProcess(
		ctx context.Context, caller engine.Caller, session, process engine.ID, from int64,
	) (iter.Seq[ProcessEvent], error)
	FollowProcess(
		ctx context.Context, caller engine.Caller, session, process engine.ID, all bool,
	) (iter.Seq[ProcessEvent], error)

	WriteProcess(ctx context.Context, caller engine.Caller, session, process engine.ID, data []byte, eof bool) error
	SignalProcess(ctx context.Context, caller engine.Caller, session, process engine.ID, signal string) error
	ResizeProcess(ctx context.Context, caller engine.Caller, session, process engine.ID, size engine.TerminalSize) error
	KillProcess(ctx context.Context, caller engine.Caller, session, process engine.ID) error

	Tree(ctx context.Context, caller engine.Caller, session engine.ID) (all []TreeProcess, more bool, err error)
	EndTreeProcess(ctx context.Context, caller engine.Caller, session engine.ID, id string) error

	ListFiles(
		ctx context.Context, caller engine.Caller, session engine.ID, path string, depth int,
	) (entries []engine.Entry, more bool, err error)
	StatFile(ctx context.Context, caller engine.Caller, session engine.ID, path string) (engine.Entry, error)
	RealFile(ctx context.Context, caller engine.Caller, session engine.ID, path string) (engine.Entry, error)
	OpenFile(ctx context.Context, caller engine.Caller, session engine.ID, path string) (engine.Entry, *os.File, error)
	WatchFiles(
		ctx context.Context, caller engine.Caller, session engine.ID, path string, recursive bool,
	) (iter.Seq[engine.FileEvent], error)
	SearchFiles(ctx context.Context, caller engine.Caller, session engine.ID, way string, q Search) (Found, error)
	DocumentText(ctx context.Context, caller engine.Caller, session engine.ID, path string) (string, error)

	WriteFile(
		ctx context.Context, caller engine.Caller, session engine.ID, path string, content io.Reader,
	) (engine.Entry, error)
	MakeFolder(ctx context.Context, caller engine.Caller, session engine.ID, path string) (engine.Entry, error)
	MoveFile(
		ctx context.Context, caller engine.Caller, session engine.ID, from, to string, replace bool,
	) (engine.Entry, error)
	RemoveFile(ctx context.Context, caller engine.Caller, session engine.ID, path string, recursive bool) error

	Ports(ctx context.Context, caller engine.Caller, session engine.ID) ([]int, error)
	DialPort(ctx context.Context, caller engine.Caller, session engine.ID, port int) (net.Conn, error)
}
