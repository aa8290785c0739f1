package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/sse"
)

// InterpreterState is what the interpreter of a live session does.
type InterpreterState string

// The states of an interpreter.
const (
	InterpreterNone    InterpreterState = "none" // the next cell starts one
	InterpreterIdle    InterpreterState = "idle"
	InterpreterBusy    InterpreterState = "busy"
	InterpreterWaiting InterpreterState = "waiting" // for input
)

// LiveState is how a live session stands.
type LiveState struct {
	State          InterpreterState `json:"state"`
	Cell           string           `json:"cell,omitempty"` // that runs
	Queued         int              `json:"queued"`         // cells that wait
	ExecutionCount int              `json:"execution_count"`
	UsedAt         time.Time        `json:"used_at"`
	Fresh          bool             `json:"fresh,omitempty"`  // its interpreter has run no cell yet: there are no variables
	Memory         bool             `json:"memory,omitempty"` // the next cell goes on with variables and processes
}

// CellStatus is how a cell stands or how it ended.
type CellStatus string

// A cell is queued, then running, then in one of the final states.
const (
	CellQueued      CellStatus = "queued"
	CellRunning     CellStatus = "running"
	CellOK          CellStatus = "ok"
	CellError       CellStatus = "error"
	CellInterrupted CellStatus = "interrupted"
	CellTimeout     CellStatus = "timeout"
	CellLost        CellStatus = "lost" // the interpreter ended in it
)

// CellRequest asks for a piece of code to be run in a live session.
type CellRequest struct {
	Code    string        `json:"code"`
	Timeout time.Duration `json:"timeout_ms,omitempty"` // in whole milliseconds
	Input   bool          `json:"input,omitempty"`      // Answer answers what the code asks for; else input() fails
	Silent  bool          `json:"silent,omitempty"`     // neither counted nor kept in the history
}

// wire returns the body of a request that waits for the end, or does not.
func (r *CellRequest) wire(wait *bool) any {
	type plain CellRequest
	return &struct {
		*plain
		Timeout amount `json:"timeout_ms,omitzero"`
		Wait    *bool  `json:"wait,omitempty"`
	}{(*plain)(r), millis(&r.Timeout), wait}
}

// MarshalJSON implements json.Marshaler.
func (r CellRequest) MarshalJSON() ([]byte, error) { return marshal(r.wire(nil)) }

// UnmarshalJSON implements json.Unmarshaler.
func (r *CellRequest) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, r.wire(nil)) }

// Cell is a piece of code and its result.
type Cell struct {
	ID             string        `json:"id"`
	Session        string        `json:"session"`
	ExecutionCount int           `json:"execution_count"`
	Status         CellStatus    `json:"status"`
	ExitCode       *int          `json:"exit_code"` // as a script's, n after sys.exit(n); nil: it was ended
	Outputs        []Output      `json:"outputs"`   // empty in events: they were events themselves
	Files          []File        `json:"files"`     // new and changed
	Deleted        []string      `json:"deleted,omitempty"`
	Dropped        []DroppedFile `json:"dropped,omitempty"` // in the workspace, and not stored
	Usage          CellUsage     `json:"usage"`
	Truncated      bool          `json:"truncated"` // outputs over a limit were left out
	Restarted      bool          `json:"restarted"` // the variables of the cells before are gone, the files are there
	Message        string        `json:"message,omitempty"`
	Hint           string        `json:"hint,omitempty"`            // what can be done about what it missed
	MissingPackage string        `json:"missing_package,omitempty"` // which InstallPackages may bring
	CreatedAt      time.Time     `json:"created_at"`
	FinishedAt     time.Time     `json:"finished_at,omitzero"`
}

// CellUsage counts what a cell used.
type CellUsage struct {
	Duration        time.Duration `json:"duration_ms"`
	CPU             time.Duration `json:"cpu_ms"`
	MemoryPeakBytes int64         `json:"memory_peak_bytes"` // of the session so far; 0: not measured
}

func (u *CellUsage) wire() any {
	type plain CellUsage
	return &struct {
		Duration amount `json:"duration_ms"`
		CPU      amount `json:"cpu_ms"`
		*plain
	}{millis(&u.Duration), millis(&u.CPU), (*plain)(u)}
}

// MarshalJSON implements json.Marshaler.
func (u CellUsage) MarshalJSON() ([]byte, error) { return marshal(u.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (u *CellUsage) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, u.wire()) }

// OutputType is the type of an output of a cell.
type OutputType string

// The types of outputs; started, input and done are events only.
const (
	OutputStdout  OutputType = "stdout"
	OutputStderr  OutputType = "stderr"
	OutputDisplay OutputType = "display" // something to be shown
	OutputResult  OutputType = "result"  // the value of the last expression
	OutputError   OutputType = "error"
	OutputInput   OutputType = "input" // answer it with Answer
	OutputStarted OutputType = "started"
	OutputDone    OutputType = "done" // the last event
)

// Output is an output of a cell.
type Output struct {
	Type OutputType `json:"type"`
	Text string     `json:"text,omitempty"` // stdout, stderr
	// display, result: by MIME type, a string (base64 of pictures) or any JSON of application/*json
	Data      map[string]json.RawMessage `json:"data,omitempty"`
	Metadata  json.RawMessage            `json:"metadata,omitempty"`   // display, result
	DisplayID string                     `json:"display_id,omitempty"` // display
	// display: replaces the display with the DisplayID
	Update    bool     `json:"update,omitempty"`
	Name      string   `json:"name,omitempty"`      // error
	Value     string   `json:"value,omitempty"`     // error
	Traceback []string `json:"traceback,omitempty"` // error
}

// CellEvent is an entry of a cell's log.
type CellEvent struct {
	Seq int // 1, 2, 3, ...
	Output
	Prompt   string // input
	Password bool   // input: what is typed is not to be shown
	Cell     *Cell  // started, done
}

func cellEvent(f sse.Event) (CellEvent, bool, error) {
	seq, err := number(f)
	if err != nil {
		return CellEvent{}, false, err
	}
	e := CellEvent{Seq: int(seq)}
	switch OutputType(f.Type) {
	case OutputStarted, OutputDone:
		e.Cell = new(Cell)
		err = decode(f, e.Cell)
	case OutputInput:
		var ask struct {
			Prompt   string
			Password bool
		}
		err = decode(f, &ask)
		e.Prompt, e.Password = ask.Prompt, ask.Password
	default:
		err = decode(f, &e.Output)
	}
	e.Type = OutputType(f.Type)
	return e, e.Type == OutputDone, err
}

func sessionPath(session, rest string) string { return "/sessions/" + segment(session) + rest }

// RunCell runs a cell and returns when it has ended. The end of ctx does not end the cell;
// Interrupt does.
func (c *Client) RunCell(ctx context.Context, session string, req CellRequest) (*Cell, error) {
	return fetch[Cell](ctx, c, post(sessionPath(session, "/cells"), req))
}

// StartCell puts a piece of code in the queue and returns at once.
func (c *Client) StartCell(ctx context.Context, session string, req CellRequest) (*Cell, error) {
	return fetch[Cell](ctx, c, post(sessionPath(session, "/cells"), req.wire(new(bool))))
}

// StreamCell runs a cell and yields its events, the done event last. Leaving the loop, or
// cancelling ctx, does not affect the cell.
func (c *Client) StreamCell(ctx context.Context, session string, req CellRequest) iter.Seq2[CellEvent, error] {
	return stream(ctx, c, post(sessionPath(session, "/cells"), req), cellEvent)
}

// GetCell returns a cell as it stands.
func (c *Client) GetCell(ctx context.Context, session, cell string) (*Cell, error) {
	return fetch[Cell](ctx, c, get(sessionPath(session, "/cells/"+segment(cell)), nil))
}

// ListCells returns the latest cells of a session, oldest first.
func (c *Client) ListCells(ctx context.Context, session string) ([]Cell, error) {
	all, _, err := list[Cell](ctx, c, sessionPath(session, "/cells"), "cells", nil)
	return all, err
}

// CellEvents yields the events of a cell with Seq > after. If the connection breaks it continues,
// as Events does.
func (c *Client) CellEvents(ctx context.Context, session, cell string, after int) iter.Seq2[CellEvent, error] {
	return resume(ctx, c, sessionPath(session, "/cells/"+segment(cell)+"/events"), int64(after), cellEvent)
}

// CancelCell takes a cell out of the queue, or interrupts it if it runs.
func (c *Client) CancelCell(ctx context.Context, session, cell string) error {
	return c.call(ctx, del(sessionPath(session, "/cells/"+segment(cell))), nil)
}

// Interrupt interrupts the running cell, and returns when it has ended. A cell that does not react
// is killed, and the variables are lost.
func (c *Client) Interrupt(ctx context.Context, session string) error {
	return c.call(ctx, post(sessionPath(session, "/interrupt"), nil), nil)
}

// Restart ends the interpreter and every process of a session. The files stay.
func (c *Client) Restart(ctx context.Context, session string) error {
	return c.call(ctx, post(sessionPath(session, "/restart"), nil), nil)
}

// Answer answers the input() of the running cell.
func (c *Client) Answer(ctx context.Context, session, text string) error {
	return c.call(ctx, post(sessionPath(session, "/input"), map[string]string{"text": text}), nil)
}

// Completion has completions of code. A match replaces the characters from Start to End.
type Completion struct {
	Matches []string `json:"matches"`
	Start   int      `json:"cursor_start"`
	End     int      `json:"cursor_end"`
}

// Complete completes code at a place that is counted in characters.
func (c *Client) Complete(ctx context.Context, session, code string, cursor int) (*Completion, error) {
	body := map[string]any{"code": code, "cursor": cursor}
	return fetch[Completion](ctx, c, post(sessionPath(session, "/complete"), body))
}

// Inspection describes a name in code.
type Inspection struct {
	Found bool                       `json:"found"`
	Data  map[string]json.RawMessage `json:"data"` // by MIME type
}

// Inspect explains the name in code at a place that is counted in characters; the
// detail is 0 or 1.
func (c *Client) Inspect(ctx context.Context, session, code string, cursor, detail int) (*Inspection, error) {
	return fetch[Inspection](ctx, c, post(sessionPath(session, "/inspect"),
		map[string]any{"code": code, "cursor": cursor, "detail": detail}))
}

// Completeness is whether code is ready to be run.
type Completeness string

// The states of code.
const (
	CodeComplete   Completeness = "complete"
	CodeIncomplete Completeness = "incomplete" // a person has more to type
	CodeInvalid    Completeness = "invalid"
	CodeUnknown    Completeness = "unknown" // the language cannot tell
)

// IsComplete reports whether code is complete, and the indentation of the next line of incomplete code.
func (c *Client) IsComplete(
	ctx context.Context, session, code string,
) (status Completeness, indent string, err error) {
	var out struct {
		Status Completeness
		Indent string
	}
	err = c.call(ctx, post(sessionPath(session, "/is_complete"), map[string]string{"code": code}), &out)
	return out.Status, out.Indent, err
}

// Variable is a name that the code of a session made.
type Variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape string `json:"shape"` // "(3, 4)"; empty: it has none
	Repr  string `json:"repr"`  // short
	Size  int64  `json:"size"`  // bytes; 0: not known
}

// Variables returns the variables of a session.
func (c *Client) Variables(ctx context.Context, session string) ([]Variable, error) {
	all, _, err := list[Variable](ctx, c, sessionPath(session, "/variables"), "variables", nil)
	return all, err
}

// EntryKind is what an entry of a workspace is.
type EntryKind string

// The kinds of entries.
const (
	EntryFile   EntryKind = "file"
	EntryFolder EntryKind = "folder"
	EntryLink   EntryKind = "link"
	EntryOther  EntryKind = "other"
)

// LiveEntry is something in the workspace of a live session.
type LiveEntry struct {
	Path       string    `json:"path"`                  // relative to the workspace
	PathBytes  []byte    `json:"path_base64,omitempty"` // of a path that is not UTF-8
	Kind       EntryKind `json:"kind"`
	Size       int64     `json:"size"`
	Mode       string    `json:"mode"` // octal
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty"` // of a link
}

// ListLiveFiles returns the entries of a folder in a live session's workspace, down to a depth, and
// whether there are more. An empty path is the workspace.
func (c *Client) ListLiveFiles(
	ctx context.Context, session, path string, depth int,
) (entries []LiveEntry, more bool, err error) {
	var out struct {
		Entries []LiveEntry `json:"entries"`
		More    bool        `json:"more"`
	}
	query := url.Values{"path": {path}, "depth": {strconv.Itoa(max(depth, 1))}}
	err = c.call(ctx, get(sessionPath(session, "/fs/list"), query), &out)
	return out.Entries, out.More, err
}

// StatLiveFile describes a path.
func (c *Client) StatLiveFile(ctx context.Context, session, path string) (*LiveEntry, error) {
	return fetch[LiveEntry](ctx, c, get(sessionPath(session, "/fs/stat"), url.Values{"path": {path}}))
}

// ReadLiveFile writes the bytes of a file to w, as they are now.
func (c *Client) ReadLiveFile(ctx context.Context, session, path string, w io.Writer) error {
	return c.save(ctx, get(sessionPath(session, "/fs/read"), url.Values{"path": {path}}), w)
}

// WriteLiveFile makes or replaces a file: all of it at once, or nothing.
func (c *Client) WriteLiveFile(ctx context.Context, session, path string, content io.Reader) (*LiveEntry, error) {
	if content == nil {
		return nil, fmt.Errorf("airlock: write %q: there is no content to send: the reader is nil", path)
	}
	return c.changeFiles(ctx, session, "write", url.Values{"path": {path}}, content)
}

// MakeLiveFolder creates a folder and its parents.
func (c *Client) MakeLiveFolder(ctx context.Context, session, path string) (*LiveEntry, error) {
	return c.changeFiles(ctx, session, "mkdir", url.Values{"path": {path}}, nil)
}

// MoveLiveFile renames a file or a folder. An existing target is an error unless it is to be
// replaced.
func (c *Client) MoveLiveFile(ctx context.Context, session, from, to string, replace bool) (*LiveEntry, error) {
	return c.changeFiles(ctx, session, "move", url.Values{"from": {from}, "to": {to},
		"replace": {strconv.FormatBool(replace)}}, nil)
}

func (c *Client) changeFiles(
	ctx context.Context, session, what string, query url.Values, content io.Reader,
) (*LiveEntry, error) {
	r := request{method: http.MethodPost, path: sessionPath(session, "/fs/"+what), query: query, raw: content}
	return fetch[LiveEntry](ctx, c, r)
}

// RemoveLiveFile removes a file or a folder; a folder that is not empty only if recursive.
func (c *Client) RemoveLiveFile(ctx context.Context, session, path string, recursive bool) error {
	query := url.Values{"path": {path}, "recursive": {strconv.FormatBool(recursive)}}
	return c.call(ctx, request{method: http.MethodPost, path: sessionPath(session, "/fs/remove"), query: query}, nil)
}

// FileEventType is the type of a change in a workspace.
type FileEventType string

// The types of changes.
const (
	FileCreated    FileEventType = "created"
	FileModified   FileEventType = "modified"
	FileAttributes FileEventType = "attributes" // permissions, times and the like
	FileDeleted    FileEventType = "deleted"
	FileMoved      FileEventType = "moved"
	FileOverflow   FileEventType = "overflow" // some changes are missing: list again
)

// FileEvent is a change in the workspace of a live session.
type FileEvent struct {
	Type   FileEventType `json:"-"`
	Path   string        `json:"path"`
	From   string        `json:"from,omitempty"` // of moved
	Folder bool          `json:"folder"`
}

// WatchLiveFiles yields the changes in a folder from now on, until ctx ends or the loop is left.
// Changes without a connection are missed.
func (c *Client) WatchLiveFiles(ctx context.Context, session, path string, recursive bool) iter.Seq2[FileEvent, error] {
	query := url.Values{"path": {path}, "recursive": {strconv.FormatBool(recursive)}}
	return stream(ctx, c, get(sessionPath(session, "/fs/watch"), query), func(f sse.Event) (FileEvent, bool, error) {
		e := FileEvent{Type: FileEventType(f.Type)}
		return e, false, decode(f, &e)
	})
}
