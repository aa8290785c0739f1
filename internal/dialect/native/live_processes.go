package native

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

type processBody struct {
	ID        engine.ID            `json:"id"`
	Session   engine.ID            `json:"session"`
	Argv      []string             `json:"argv"`
	Dir       string               `json:"cwd"`
	Terminal  *client.TerminalSize `json:"pty"` // null: pipes
	Running   bool                 `json:"running"`
	ExitCode  *int                 `json:"exit_code"` // null: it runs, or a signal ended it
	Signal    *string              `json:"signal"`
	Output    int64                `json:"output_bytes"`
	CPU       int64                `json:"cpu_ms"`
	StartedAt string               `json:"started_at"`
	EndedAt   string               `json:"ended_at,omitempty"`
}

func processOf(p live.Process) processBody {
	b := processBody{
		ID: p.ID, Session: p.Session, Argv: append([]string{}, p.Argv...), Dir: p.Dir, Running: p.Running,
		ExitCode: p.ExitCode,
		Output:   p.Output, CPU: p.CPU.Milliseconds(), StartedAt: timeOf(p.StartedAt), EndedAt: timeOf(p.EndedAt),
	}
	if p.Signal != "" {
		b.Signal = &p.Signal
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
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
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
		data = lostBody{e.Offset, e.Dropped}
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

func (q *request) startProcess(on live.Sessions) (any, error) {
	body := q.object()
	req := live.ProcessRequest{
		Argv: body.texts("argv"), Shell: body.text("shell"), Env: body.textMap("env"), Dir: body.text("cwd"),
		Terminal: readTerminal(body.object("pty")),
	}
	if err := body.done(); err != nil {
		return nil, err
	}
	process, err := on.StartProcess(q.Context(), q.caller, q.id, req)
	if err != nil {
		return nil, err
	}
	return created("/sessions/"+q.id.String()+"/processes/"+process.ID.String(), processOf(process)), nil
}

// readTerminal reads the size of a terminal; nil: there is none.
func readTerminal(o *object) *engine.TerminalSize {
	if o.members == nil {
		return nil
	}
	size := readSize(o)
	_ = o.done() // done of the whole body reports its error
	return &size
}

func readSize(o *object) engine.TerminalSize {
	size := engine.TerminalSize{Columns: uint16(o.count("cols", math.MaxUint16)),
		Rows: uint16(o.count("rows", math.MaxUint16))}
	if size.Columns == 0 || size.Rows == 0 {
		o.fail("cols", "and rows are needed")
	}
	return size
}

// processEvents follows a process from an offset of its output.
func (q *request) processEvents(on live.Sessions) (any, error) {
	from, err := readLastEvent(q.Request)
	if err != nil {
		return nil, err
	}
	events, err := on.WatchProcess(q.Context(), q.caller, q.id, q.inner, from)
	if err != nil {
		return nil, err
	}
	return sendStream(q, events, appendProcessEvent)
}

// processInput writes the bytes of the body to a process's input; ?eof=true then closes it.
func (q *request) processInput(on live.Sessions) (any, error) {
	eof, err := readFlag(q.Request, "eof")
	if err != nil {
		return nil, err
	}
	data, err := q.readBody()
	if err != nil {
		return nil, err
	}
	return nil, on.WriteProcess(q.Context(), q.caller, q.id, q.inner, data, eof)
}

func (q *request) signalProcess(on live.Sessions) (any, error) {
	body := q.object()
	signal := body.needText("signal")
	if err := body.done(); err != nil {
		return nil, err
	}
	return nil, on.SignalProcess(q.Context(), q.caller, q.id, q.inner, signal)
}

func (q *request) resizeProcess(on live.Sessions) (any, error) {
	body := q.object()
	size := readSize(body)
	if err := body.done(); err != nil {
		return nil, err
	}
	return nil, on.ResizeProcess(q.Context(), q.caller, q.id, q.inner, size)
}
