package client

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/airlock-run/airlock/internal/sse"
)

// KindLive is the kind of a session with an interpreter that stays.
const KindLive = "live"

// LiveState is how a live session stands.
type LiveState struct {
	// "none": the next cell starts an interpreter; "idle", "busy", "waiting": for input
	State          string    `json:"state"`
	Cell           string    `json:"cell,omitempty"` // that runs
	Queued         int       `json:"queued"`         // cells that wait
	ExecutionCount int       `json:"execution_count"`
	UsedAt         time.Time `json:"used_at"`
}

// CellStatus is how a cell stands or how it ended.
type CellStatus string

// A cell is queued, then running, then in one of the other states for ever.
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
	Code      string `json:"code"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	Input     bool   `json:"input,omitempty"`  // Answer answers what the code asks for; else input() fails
	Silent    bool   `json:"silent,omitempty"` // neither counted nor kept in the history
}

// Cell is a piece of code and what came of it.
type Cell struct {
	ID             string        `json:"id"`
	Session        string        `json:"session"`
	ExecutionCount int           `json:"execution_count"`
	Status         CellStatus    `json:"status"`
	Outputs        []Output      `json:"outputs"` // empty in events: they were events themselves
	Files          []File        `json:"files"`   // new and changed
	Deleted        []string      `json:"deleted,omitempty"`
	Dropped        []DroppedFile `json:"dropped,omitempty"` // in the workspace, and not stored
	Usage          CellUsage     `json:"usage"`
	Restarted      bool          `json:"restarted"` // the variables of the cells before are gone, the files are there
	Message        string        `json:"message,omitempty"`
	CreatedAt      time.Time     `json:"created_at"`
	FinishedAt     time.Time     `json:"finished_at,omitzero"`
}

// CellUsage is what a cell used.
type CellUsage struct {
	DurationMS      int64 `json:"duration_ms"`
	CPUMS           int64 `json:"cpu_ms"`
	MemoryPeakBytes int64 `json:"memory_peak_bytes"` // of the session so far; 0: not measured
}

// OutputType tells what a cell puts out apart.
type OutputType string

// What a cell puts out, and as events only: that it runs, asks and is done.
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

// Output is one thing that a cell puts out.
type Output struct {
	Type OutputType `json:"type"`
	Text string     `json:"text,omitempty"` // stdout, stderr
	// display, result: by MIME type, a string (base64 of pictures) or any JSON of application/*json
	Data      map[string]json.RawMessage `json:"data,omitempty"`
	Metadata  json.RawMessage            `json:"metadata,omitempty"`   // display, result
	DisplayID string                     `json:"display_id,omitempty"` // display
	// display: takes the place of what has the DisplayID
	Update    bool     `json:"update,omitempty"`
	Name      string   `json:"name,omitempty"`      // error
	Value     string   `json:"value,omitempty"`     // error
	Traceback []string `json:"traceback,omitempty"` // error
}

// CellEvent is one entry of a cell's log.
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

// RunCell runs a piece of code and returns when it has ended. The code goes on when
// ctx ends; Interrupt interrupts it.
func (c *Client) RunCell(ctx context.Context, session string, req CellRequest) (*Cell, error) {
	return fetch[Cell](ctx, c, post(sessionPath(session, "/cells"), req))
}

// StartCell puts a piece of code in the queue and returns at once.
func (c *Client) StartCell(ctx context.Context, session string, req CellRequest) (*Cell, error) {
	body := struct {
		CellRequest
		Wait bool `json:"wait"`
	}{req, false}
	return fetch[Cell](ctx, c, post(sessionPath(session, "/cells"), body))
}

// StreamCell runs a piece of code and yields what it puts out as it comes, the done
// event last. Leaving the loop, or cancelling ctx, does the code no harm.
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

// CellEvents yields the events of a cell with Seq > after. When the connection
// breaks it goes on where it was, as Events does.
func (c *Client) CellEvents(ctx context.Context, session, cell string, after int) iter.Seq2[CellEvent, error] {
	return resume(ctx, c, sessionPath(session, "/cells/"+segment(cell)+"/events"), int64(after), cellEvent)
}

// CancelCell takes a cell out of the queue, or interrupts it if it runs.
func (c *Client) CancelCell(ctx context.Context, session, cell string) error {
	return c.call(ctx, del(sessionPath(session, "/cells/"+segment(cell))), nil)
}

// Interrupt interrupts the cell that runs, and returns when it has ended. One that
// does not react is killed, and the variables with it.
func (c *Client) Interrupt(ctx context.Context, session string) error {
	return c.call(ctx, post(sessionPath(session, "/interrupt"), nil), nil)
}

// Restart ends the interpreter and every process of a session. The files stay.
func (c *Client) Restart(ctx context.Context, session string) error {
	return c.call(ctx, post(sessionPath(session, "/restart"), nil), nil)
}

// Answer answers what the running cell asks for.
func (c *Client) Answer(ctx context.Context, session, text string) error {
	return c.call(ctx, post(sessionPath(session, "/input"), map[string]string{"text": text}), nil)
}

// Completion is what code can go on with. Start and End are in characters of the
// code: a match takes the place of what is between them.
type Completion struct {
	Matches []string `json:"matches"`
	Start   int      `json:"cursor_start"`
	End     int      `json:"cursor_end"`
}

// Complete completes code at a place that is counted in characters.
func (c *Client) Complete(ctx context.Context, session, code string, cursor int) (*Completion, error) {
	return fetch[Completion](ctx, c, post(sessionPath(session, "/complete"), map[string]any{"code": code, "cursor": cursor}))
}

// Inspection is what is known of a name in code.
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

// IsComplete reports whether code is "complete", "incomplete", "invalid" or
// "unknown", and with what the next line of incomplete code begins.
func (c *Client) IsComplete(ctx context.Context, session, code string) (status, indent string, err error) {
	var out struct{ Status, Indent string }
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

// Variables returns what the code of a session made.
func (c *Client) Variables(ctx context.Context, session string) ([]Variable, error) {
	all, _, err := list[Variable](ctx, c, sessionPath(session, "/variables"), "variables", nil)
	return all, err
}
