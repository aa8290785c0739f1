package client

import (
	"bytes"
	"context"
	"encoding/json"
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
	PID         int           `json:"pid"` // in the session, as ps and kill have it
	Argv        []string      `json:"argv"`
	Dir         string        `json:"cwd"`
	Terminal    *TerminalSize `json:"pty"`
	Running     bool          `json:"running"`
	Background  bool          `json:"background,omitempty"` // it has ended, and what it started goes on
	ExitCode    *int          `json:"exit_code"`            // nil: it runs, or a signal ended it
	Signal      string        `json:"signal"`               // "SIGKILL"; empty unless a signal ended it
	OutputBytes int64         `json:"output_bytes"`
	Truncated   bool          `json:"truncated"`              // the events leave out some of it
	OutputFiles []string      `json:"output_files,omitempty"` // of the workspace, which have it, once it has ended
	CPU         time.Duration `json:"cpu_ms"`
	StartedAt   time.Time     `json:"started_at"`
	EndedAt     time.Time     `json:"ended_at,omitzero"`
}

func (p *Process) wire() any {
	type plain Process
	return &struct {
		*plain
		CPU amount `json:"cpu_ms"`
	}{(*plain)(p), millis(&p.CPU)}
}

// MarshalJSON implements json.Marshaler.
func (p Process) MarshalJSON() ([]byte, error) { return marshal(p.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *Process) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, p.wire()) }

// ProcessEventType is the type of an event of a process.
type ProcessEventType string

// The events of a process.
const (
	ProcessStdout   ProcessEventType = "stdout"
	ProcessStderr   ProcessEventType = "stderr"
	ProcessTerminal ProcessEventType = "terminal" // what a terminal shows
	ProcessDropped  ProcessEventType = "dropped"  // output that is no longer there
	ProcessExit     ProcessEventType = "exit"     // the last
)

// ProcessEvent is a piece of a process's output, or its end.
type ProcessEvent struct {
	Type    ProcessEventType
	Offset  int64    // of Data in all that the process put out
	Data    []byte   // of output; of ProcessDropped a line that says what is left out
	Dropped int64    // bytes that are no longer there
	Process *Process // of the end
}

func processEvent(f sse.Event) (ProcessEvent, bool, error) {
	e := ProcessEvent{Type: ProcessEventType(f.Type)}
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

// TreeProcess is one process in the sandbox of a live session, whatever started it.
type TreeProcess struct {
	ID          string        `json:"id"`  // of EndTreeProcess: its number and start
	PID         int           `json:"pid"` // in the sandbox
	Parent      int           `json:"parent"`
	Command     string        `json:"command"`
	State       string        `json:"state"`                 // a letter, as ps shows it
	Interpreter bool          `json:"interpreter,omitempty"` // it runs the cells
	Process     string        `json:"process,omitempty"`     // id of the Process that started it, or an ancestor of it
	CPU         time.Duration `json:"cpu_ms"`
	MemoryBytes int64         `json:"memory_bytes"`
	StartedAt   time.Time     `json:"started_at"`
}

func (p *TreeProcess) wire() any {
	type plain TreeProcess
	return &struct {
		*plain
		CPU amount `json:"cpu_ms"`
	}{(*plain)(p), millis(&p.CPU)}
}

// MarshalJSON implements json.Marshaler.
func (p TreeProcess) MarshalJSON() ([]byte, error) { return marshal(p.wire()) }

// UnmarshalJSON implements json.Unmarshaler.
func (p *TreeProcess) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, p.wire()) }

// ProcessTree is what runs in the sandbox of a live session, by number.
type ProcessTree struct {
	Processes []TreeProcess `json:"processes"`
	More      bool          `json:"more"` // there are more than these
}

// Tree returns what runs in the sandbox of a session. It is empty where there is no interpreter.
func (c *Client) Tree(ctx context.Context, session string) (*ProcessTree, error) {
	return fetch[ProcessTree](ctx, c, get(sessionPath(session, "/tree"), nil))
}

// EndTreeProcess kills a process of a tree with all that it has started, and returns when they have
// ended.
func (c *Client) EndTreeProcess(ctx context.Context, session, id string) error {
	return c.call(ctx, del(sessionPath(session, "/tree/"+segment(id))), nil)
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

// KillProcess kills a process and all that it has started, also if the process itself has ended, and
// returns when they have ended.
func (c *Client) KillProcess(ctx context.Context, session, process string) error {
	return c.call(ctx, del(processPath(session, process, "")), nil)
}
