package client

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/airlock-run/airlock/internal/sse"
)

// ProcessRequest asks for a process in a live session: Argv, or a line for the
// shell.
type ProcessRequest struct {
	Argv     []string          `json:"argv,omitempty"`
	Shell    string            `json:"shell,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"cwd,omitempty"` // empty: the workspace
	Terminal *TerminalSize     `json:"pty,omitempty"` // nil: pipes
}

// TerminalSize is in characters.
type TerminalSize struct {
	Columns int `json:"cols"`
	Rows    int `json:"rows"`
}

// Process is a process in a live session.
type Process struct {
	ID          string        `json:"id"`
	Session     string        `json:"session"`
	Argv        []string      `json:"argv"`
	Dir         string        `json:"cwd"`
	Terminal    *TerminalSize `json:"pty"`
	Running     bool          `json:"running"`
	ExitCode    *int          `json:"exit_code"` // nil: it runs, or a signal ended it
	Signal      string        `json:"signal"`    // "SIGKILL"; empty unless a signal ended it
	OutputBytes int64         `json:"output_bytes"`
	CPUMS       int64         `json:"cpu_ms"`
	StartedAt   time.Time     `json:"started_at"`
	EndedAt     time.Time     `json:"ended_at,omitzero"`
}

// The events of a process.
const (
	ProcessStdout   = "stdout"
	ProcessStderr   = "stderr"
	ProcessTerminal = "terminal" // what a terminal shows
	ProcessDropped  = "dropped"  // output that is no longer there
	ProcessExit     = "exit"     // the last
)

// ProcessEvent is a piece of a process's output, or its end.
type ProcessEvent struct {
	Type    string
	Offset  int64    // of Data in all that the process put out
	Data    []byte   // of output
	Dropped int64    // bytes that are no longer there
	Process *Process // of the end
}

func processEvent(f sse.Event) (ProcessEvent, bool, error) {
	e := ProcessEvent{Type: f.Type}
	if e.Type == ProcessExit {
		e.Process = new(Process)
		return e, true, decode(f, e.Process)
	}
	var piece struct {
		Offset int64
		Text   string
		Base64 []byte
		Bytes  int64
	}
	err := decode(f, &piece)
	e.Offset, e.Data, e.Dropped = piece.Offset, []byte(piece.Text), piece.Bytes
	if piece.Base64 != nil {
		e.Data = piece.Base64
	}
	return e, false, err
}

func processPath(session, process, rest string) string {
	return sessionPath(session, "/processes/"+segment(process)+rest)
}

// StartProcess starts a process beside the interpreter of a live session.
func (c *Client) StartProcess(ctx context.Context, session string, req ProcessRequest) (*Process, error) {
	return fetch[Process](ctx, c, post(sessionPath(session, "/processes"), req))
}

// GetProcess returns a process as it stands.
func (c *Client) GetProcess(ctx context.Context, session, process string) (*Process, error) {
	return fetch[Process](ctx, c, get(processPath(session, process, ""), nil))
}

// ListProcesses returns the processes of a session, also exited ones, oldest first.
func (c *Client) ListProcesses(ctx context.Context, session string) ([]Process, error) {
	all, _, err := list[Process](ctx, c, sessionPath(session, "/processes"), "processes", nil)
	return all, err
}

// Port is a TCP port on which a program of a session listens.
type Port struct {
	Port int    `json:"port"`
	Path string `json:"path"` // where HTTP and WebSockets reach it, below the service's address
}

// ListPorts returns the ports on which programs of a session listen, in order.
func (c *Client) ListPorts(ctx context.Context, session string) ([]Port, error) {
	all, _, err := list[Port](ctx, c, sessionPath(session, "/ports"), "ports", nil)
	return all, err
}

// ProcessEvents yields the output of a process from an offset on, and its exit. If the connection
// breaks it continues, as Events does.
func (c *Client) ProcessEvents(
	ctx context.Context, session, process string, from int64,
) iter.Seq2[ProcessEvent, error] {
	return resume(ctx, c, processPath(session, process, "/events"), from, processEvent)
}

// WriteProcess hands bytes to a process; eof closes its input behind them.
func (c *Client) WriteProcess(ctx context.Context, session, process string, data []byte, eof bool) error {
	r := request{method: http.MethodPost, path: processPath(session, process, "/input"), raw: bytes.NewReader(data)}
	if eof {
		r.query = url.Values{"eof": {"true"}}
	}
	return c.call(ctx, r, nil)
}

// SignalProcess sends a signal such as "SIGTERM" to the group of a process.
func (c *Client) SignalProcess(ctx context.Context, session, process, signal string) error {
	return c.call(ctx, post(processPath(session, process, "/signal"), map[string]string{"signal": signal}), nil)
}

// ResizeProcess sets the size of a process's terminal.
func (c *Client) ResizeProcess(ctx context.Context, session, process string, size TerminalSize) error {
	return c.call(ctx, post(processPath(session, process, "/resize"), size), nil)
}

// KillProcess kills the group of a process, and returns when the process has ended.
func (c *Client) KillProcess(ctx context.Context, session, process string) error {
	return c.call(ctx, del(processPath(session, process, "")), nil)
}
