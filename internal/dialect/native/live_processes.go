package native

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

type processBody struct {
	ID         engine.ID            `json:"id"`
	Session    engine.ID            `json:"session"`
	PID        int                  `json:"pid"`
	Argv       []string             `json:"argv"`
	Dir        string               `json:"cwd"`
	Terminal   *client.TerminalSize `json:"pty"` // null: pipes
	Running    bool                 `json:"running"`
	Background bool                 `json:"background,omitempty"`
	ExitCode   *int                 `json:"exit_code"` // null: it runs, or a signal ended it
	Signal     *string              `json:"signal"`
	Output     int64                `json:"output_bytes"`
	Truncated  bool                 `json:"truncated"`
	Whole      []string             `json:"output_files,omitempty"` // have what is truncated
	CPU        int64                `json:"cpu_ms"`
	StartedAt  string               `json:"started_at"`
	EndedAt    string               `json:"ended_at,omitempty"`
}

func processOf(p live.Process) processBody {
	b := processBody{
		ID: p.ID, Session: p.Session, PID: p.PID, Argv: append([]string{}, p.Argv...), Dir: p.Dir, Running: p.Running,
		Background: p.Background, ExitCode: p.ExitCode, Output: p.Output, Truncated: p.Truncated, CPU: p.CPU.Milliseconds(),
		StartedAt: rest.TimeOf(p.StartedAt), EndedAt: rest.TimeOf(p.EndedAt),
	}
	if p.Signal != "" {
		b.Signal = &p.Signal
	}
	for _, f := range p.Whole {
		b.Whole = append(b.Whole, f.Path)
	}
	if t := p.Terminal; t != nil {
		b.Terminal = &client.TerminalSize{Columns: int(t.Columns), Rows: int(t.Rows)}
	}
	return b
}

// pieceBody is a piece of a process's output: text, or base64 if its bytes are not UTF-8,
// such as half a character.
type pieceBody struct {
	Offset int64   `json:"offset"`
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

type lostBody struct {
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
	Text   string `json:"text"`
}

// appendProcessEvent appends an event of a process. Its id is the offset of the next one.
func appendProcessEvent(b []byte, e live.ProcessEvent) (frame []byte, last bool) {
	next := e.Offset + int64(len(e.Data))
	var data any
	switch e.Type {
	case live.ProcessExit:
		data = processOf(*e.Process)
	case live.ProcessDropped:
		next += e.Dropped
		data = lostBody{e.Offset, e.Dropped, e.LeftOut()}
	default:
		piece := pieceBody{Offset: e.Offset}
		if utf8.Valid(e.Data) {
			piece.Text = new(string(e.Data))
		} else {
			piece.Base64 = new(base64.StdEncoding.EncodeToString(e.Data))
		}
		data = piece
	}
	return appendFrame(b, strconv.FormatInt(next, 10), string(e.Type), data), e.Type == live.ProcessExit
}

type treeProcessBody struct {
	ID          string    `json:"id"`
	PID         int       `json:"pid"`
	Parent      int       `json:"parent"`
	Command     string    `json:"command"`
	State       string    `json:"state"`
	Interpreter bool      `json:"interpreter,omitempty"`
	Process     engine.ID `json:"process,omitzero"`
	CPU         int64     `json:"cpu_ms"`
	Memory      int64     `json:"memory_bytes"`
	StartedAt   string    `json:"started_at"`
}

// processTree answers with all that runs in the sandbox of a session.
func (q *request) processTree(on live.Sessions) (any, error) {
	all, more, err := on.Tree(q.Context(), q.Caller, q.id)
	if err != nil {
		return nil, err
	}
	return map[string]any{"more": more, "processes": rest.Each(all, func(p live.TreeProcess) treeProcessBody {
		return treeProcessBody{ID: p.ID, PID: p.PID, Parent: p.Parent, Command: p.Command, State: p.State,
			Interpreter: p.Interpreter, Process: p.Process, CPU: p.CPU.Milliseconds(), Memory: p.Memory,
			StartedAt: rest.TimeOf(p.StartedAt)}
	})}, nil
}

func (q *request) endTreeProcess(on live.Sessions) (any, error) {
	return nil, on.EndTreeProcess(q.Context(), q.Caller, q.id, q.PathValue("member"))
}

func (q *request) startProcess(on live.Sessions) (any, error) {
	body := q.Object()
	req := live.ProcessRequest{
		Argv: body.Texts("argv"), Shell: body.Text("shell"), Env: body.TextMap("env"), Dir: body.Text("cwd"),
		Terminal: readTerminal(body.Object("pty")),
	}
	req.Whole = req.Terminal == nil
	if err := body.Done(); err != nil {
		return nil, err
	}
	process, err := on.StartProcess(q.Context(), q.Caller, q.id, req)
	if err != nil {
		return nil, err
	}
	return rest.Created("/sessions/"+q.id.String()+"/processes/"+process.ID.String(), processOf(process)), nil
}

// readTerminal reads the size of a terminal; nil: there is none.
func readTerminal(o *rest.Object) *engine.TerminalSize {
	if o.Members == nil {
		return nil
	}
	size := readSize(o)
	_ = o.Done() // done of the whole body reports its error
	return &size
}

func readSize(o *rest.Object) engine.TerminalSize {
	size := engine.TerminalSize{Columns: uint16(o.Count("cols", math.MaxUint16)),
		Rows: uint16(o.Count("rows", math.MaxUint16))}
	if size.Columns == 0 || size.Rows == 0 {
		o.Fail("cols", "and rows are needed")
	}
	return size
}

// processEvents follows a process from an offset of its output.
func (q *request) processEvents(on live.Sessions) (any, error) {
	from, err := readLastEvent(q.Request.Request)
	if err != nil {
		return nil, err
	}
	events, err := on.WatchProcess(q.Context(), q.Caller, q.id, q.inner, from)
	if err != nil {
		return nil, err
	}
	return sendStream(q, events, appendProcessEvent)
}

// processInput writes the bytes of the body to a process's input; ?eof=true then closes it.
func (q *request) processInput(on live.Sessions) (any, error) {
	eof, err := rest.ReadFlag(q.Request.Request, "eof")
	if err != nil {
		return nil, err
	}
	data, err := q.ReadBody()
	if err != nil {
		return nil, err
	}
	return nil, on.WriteProcess(q.Context(), q.Caller, q.id, q.inner, data, eof)
}

func (q *request) signalProcess(on live.Sessions) (any, error) {
	body := q.Object()
	signal := body.NeedText("signal")
	if err := body.Done(); err != nil {
		return nil, err
	}
	return nil, on.SignalProcess(q.Context(), q.Caller, q.id, q.inner, signal)
}

func (q *request) resizeProcess(on live.Sessions) (any, error) {
	body := q.Object()
	size := readSize(body)
	if err := body.Done(); err != nil {
		return nil, err
	}
	return nil, on.ResizeProcess(q.Context(), q.Caller, q.id, q.inner, size)
}
