package native

import (
	"context"
	"io"
	"iter"
	"net"
	"os"
	"unicode/utf8"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// Live keeps interpreters. Every error is an *engine.Error, and what belongs to
// another owner is ErrNotFound.
type Live interface {
	Interpreters
	Cells
	Assistance
}

// Inside is what runs and lies beside an interpreter, with the same errors.
type Inside interface {
	Processes
	ProcessControl
	LiveFiles
	LiveFileChanges
	Ports
}

// Interpreters are those of live sessions. Listing and deleting the sessions is
// Sessions' work.
type Interpreters interface {
	Create(ctx context.Context, caller engine.Caller, req live.Request) (engine.Session, error)
	Info(ctx context.Context, caller engine.Caller, session engine.ID) (live.Info, error)
	// Interrupt returns when the cell that ran has ended.
	Interrupt(ctx context.Context, caller engine.Caller, session engine.ID) error
	// Restart ends the interpreter and every process. Files stay.
	Restart(ctx context.Context, caller engine.Caller, session engine.ID) error
	// Answer answers the input() that the running cell waits for.
	Answer(ctx context.Context, caller engine.Caller, session engine.ID, text string) error
	// Counts returns what there is of all owners.
	Counts() live.Counts
}

// Cells are pieces of code, run one after the other.
type Cells interface {
	// Prepare has the session's interpreter get ready for a cell that may come.
	Prepare(caller engine.Caller, session engine.ID)
	// Start puts a cell in the queue of its session.
	Start(ctx context.Context, caller engine.Caller, session engine.ID, req live.CellRequest) (live.Cell, error)
	// Wait returns a cell when it has ended. The cell goes on when ctx ends.
	Wait(ctx context.Context, caller engine.Caller, session, cell engine.ID) (live.Cell, error)
	Cell(ctx context.Context, caller engine.Caller, session, cell engine.ID) (live.Cell, error)
	Cells(ctx context.Context, caller engine.Caller, session engine.ID) ([]live.Cell, error)
	// Watch gives the events with Seq > after, up to the last or the end of ctx.
	Watch(ctx context.Context, caller engine.Caller, session, cell engine.ID, after int) (iter.Seq[live.Event], error)
	CancelCell(ctx context.Context, caller engine.Caller, session, cell engine.ID) error
}

// Assistance is what an interpreter knows of code and of its variables. Positions
// are in characters of the code.
type Assistance interface {
	Complete(ctx context.Context, caller engine.Caller, session engine.ID, code string, cursor int) (
		live.Completion, error)
	Inspect(ctx context.Context, caller engine.Caller, session engine.ID, code string, cursor, detail int) (
		live.Inspection, error)
	IsComplete(ctx context.Context, caller engine.Caller, session engine.ID, code string) (
		status, indent string, err error)
	Variables(ctx context.Context, caller engine.Caller, session engine.ID) ([]live.Variable, error)
}

// Processes run beside the interpreter.
type Processes interface {
	StartProcess(ctx context.Context, caller engine.Caller, session engine.ID, req live.ProcessRequest) (
		live.Process, error)
	Process(ctx context.Context, caller engine.Caller, session, process engine.ID) (live.Process, error)
	// Processes returns those that have ended too, oldest first.
	Processes(ctx context.Context, caller engine.Caller, session engine.ID) ([]live.Process, error)
	// WatchProcess gives the output from an offset on, up to the end or that of ctx.
	WatchProcess(ctx context.Context, caller engine.Caller, session, process engine.ID, from int64) (
		iter.Seq[live.ProcessEvent], error)
}

// ProcessControl is what one can do with a process.
type ProcessControl interface {
	WriteProcess(ctx context.Context, caller engine.Caller, session, process engine.ID, data []byte, eof bool) error
	SignalProcess(ctx context.Context, caller engine.Caller, session, process engine.ID, signal string) error
	ResizeProcess(ctx context.Context, caller engine.Caller, session, process engine.ID, size engine.TerminalSize) error
	// KillProcess returns when the process has ended.
	KillProcess(ctx context.Context, caller engine.Caller, session, process engine.ID) error
}

// LiveFiles reads a workspace while programs run in it. An empty path is the
// workspace.
type LiveFiles interface {
	ListFiles(ctx context.Context, caller engine.Caller, session engine.ID, path string, depth int) (
		entries []engine.Entry, more bool, err error)
	StatFile(ctx context.Context, caller engine.Caller, session engine.ID, path string) (engine.Entry, error)
	// OpenFile opens a regular file, which the caller closes.
	OpenFile(ctx context.Context, caller engine.Caller, session engine.ID, path string) (engine.Entry, *os.File, error)
	// WatchFiles gives the changes from now on, up to the end of ctx.
	WatchFiles(ctx context.Context, caller engine.Caller, session engine.ID, path string, recursive bool) (
		iter.Seq[engine.FileEvent], error)
}

// LiveFileChanges changes a workspace.
type LiveFileChanges interface {
	// WriteFile makes or replaces a file: all of it, or nothing.
	WriteFile(ctx context.Context, caller engine.Caller, session engine.ID, path string, content io.Reader) (
		engine.Entry, error)
	MakeFolder(ctx context.Context, caller engine.Caller, session engine.ID, path string) (engine.Entry, error)
	MoveFile(ctx context.Context, caller engine.Caller, session engine.ID, from, to string, replace bool) (
		engine.Entry, error)
	RemoveFile(ctx context.Context, caller engine.Caller, session engine.ID, path string, recursive bool) error
}

// Ports are those of a session's own loopback.
type Ports interface {
	// Ports returns those on which programs listen.
	Ports(ctx context.Context, caller engine.Caller, session engine.ID) ([]int, error)
	DialPort(ctx context.Context, caller engine.Caller, session engine.ID, port int) (net.Conn, error)
}

// errNoLive says that a service keeps no interpreters.
var errNoLive = &engine.Error{Kind: engine.ErrUnavailable, Hint: "This service has no live sessions."}

// createLive makes a live session of the rest of a request.
func (q *request) createLive(body *object) (any, error) {
	req := live.Request{
		Origin:   engine.OriginNative,
		Language: body.text("language"),
		Packages: body.text("python_packages"),
		Network:  readNetwork(body),
		TTL:      body.seconds("ttl_seconds"),
		Files:    readFileRefs(body),
		Limits:   readLimits(body.object("limits")),
	}
	if err := body.done(); err != nil {
		return nil, err
	}
	if q.Live == nil {
		return nil, errNoLive
	}
	session, err := q.Live.Create(q.Context(), q.caller, req)
	return created("/sessions/"+session.ID.String(), sessionOf(session)), err
}

// answerInput answers the input() of the running cell.
func (q *request) answerInput(on Live) (any, error) {
	body := q.object()
	text := body.needText("text")
	if err := body.done(); err != nil {
		return nil, err
	}
	return nil, on.Answer(q.Context(), q.caller, q.id, text)
}

func (q *request) complete(on Live) (any, error) {
	body := q.object()
	code, cursor := readCursor(body)
	if err := body.done(); err != nil {
		return nil, err
	}
	c, err := on.Complete(q.Context(), q.caller, q.id, code, cursor)
	return client.Completion{Matches: append([]string{}, c.Matches...), Start: c.Start, End: c.End}, err
}

// readCursor reads code and a place in it, which is its end if none is named.
func readCursor(body *object) (code string, cursor int) {
	code = body.needText("code")
	end := utf8.RuneCountInString(code)
	return code, int(body.upTo("cursor", int64(end), int64(end)))
}

func (q *request) inspect(on Live) (any, error) {
	body := q.object()
	code, cursor := readCursor(body)
	detail := body.upTo("detail", 1, 0)
	if err := body.done(); err != nil {
		return nil, err
	}
	found, err := on.Inspect(q.Context(), q.caller, q.id, code, cursor, int(detail))
	if err != nil {
		return nil, err
	}
	if found.Data == nil {
		found.Data = mimeBody{}
	}
	return client.Inspection(found), nil
}

func (q *request) isComplete(on Live) (any, error) {
	body := q.object()
	code := body.needText("code")
	if err := body.done(); err != nil {
		return nil, err
	}
	status, indent, err := on.IsComplete(q.Context(), q.caller, q.id, code)
	return map[string]string{"status": status, "indent": indent}, err
}

func variableOf(v live.Variable) client.Variable { return client.Variable(v) }
