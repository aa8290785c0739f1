package native

import (
	"context"
	"encoding/base64"
	"math"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

type processBody struct {
	ID        engine.ID     `json:"id"`
	Session   engine.ID     `json:"session"`
	Argv      []string      `json:"argv"`
	Dir       string        `json:"cwd"`
	Terminal  *terminalBody `json:"pty"` // null: pipes
	Running   bool          `json:"running"`
	ExitCode  *int          `json:"exit_code"` // null: it runs, or a signal ended it
	Signal    *string       `json:"signal"`
	Output    int64         `json:"output_bytes"`
	CPU       int64         `json:"cpu_ms"`
	StartedAt string        `json:"started_at"`
	EndedAt   string        `json:"ended_at,omitempty"`
}

type terminalBody struct {
	Columns int `json:"cols"`
	Rows    int `json:"rows"`
}

func processOf(p live.Process) processBody {
	b := processBody{
		ID: p.ID, Session: p.Session, Argv: append([]string{}, p.Argv...), Dir: p.Dir, Running: p.Running, ExitCode: p.ExitCode,
		Output: p.Output, CPU: p.CPU.Milliseconds(), StartedAt: timeOf(p.StartedAt), EndedAt: timeOf(p.EndedAt),
	}
	if p.Signal != "" {
		b.Signal = &p.Signal
	}
	if t := p.Terminal; t != nil {
		b.Terminal = &terminalBody{int(t.Columns), int(t.Rows)}
	}
	return b
}

// pieceBody is a piece of a process's output: text, or base64 where its bytes are
// not UTF-8, such as the half of a character.
type pieceBody struct {
	Offset int64   `json:"offset"`
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

type lostBody struct {
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// appendProcessEvent writes an event of a process. Its id is the offset at which
// the next one begins.
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

func (a *api) startProcess(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	body, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	req := live.ProcessRequest{
		Argv: body.texts("argv"), Shell: body.text("shell"), Env: body.textMap("env"), Dir: body.text("cwd"),
		Terminal: readTerminal(body.object("pty")),
	}
	if err := body.done(); err != nil {
		return err
	}
	process, err := on.StartProcess(r.Context(), caller, session, req)
	if err != nil {
		return err
	}
	w.Header().Set("Location", a.Prefix+"/sessions/"+session.String()+"/processes/"+process.ID.String())
	writeJSON(w, http.StatusCreated, processOf(process))
	return nil
}

// readTerminal reads the size of a terminal; nil: there is none.
func readTerminal(o *object) *engine.TerminalSize {
	if o.members == nil {
		return nil
	}
	size := readSize(o)
	_ = o.done() // its error is the whole body's
	return &size
}

func readSize(o *object) engine.TerminalSize {
	size := engine.TerminalSize{Columns: uint16(o.count("cols", math.MaxUint16)), Rows: uint16(o.count("rows", math.MaxUint16))}
	if size.Columns == 0 || size.Rows == 0 {
		o.fail("cols", "and rows are needed")
	}
	return size
}

func (a *api) listProcesses(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	processes, err := on.Processes(r.Context(), caller, session)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"processes": each(processes, processOf)})
	return nil
}

// process returns the ids of a process and its session.
func (a *api) process(r *http.Request) (on Inside, caller engine.Caller, session, process engine.ID, err error) {
	if on, caller, session, err = a.inside(r); err == nil {
		process, err = inner(r, "process")
	}
	return on, caller, session, process, err
}

func (a *api) getProcess(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, id, err := a.process(r)
	if err != nil {
		return err
	}
	process, err := on.Process(r.Context(), caller, session, id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, processOf(process))
	return nil
}

// processEvents follows a process from an offset of its output.
func (a *api) processEvents(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, id, err := a.process(r)
	if err != nil {
		return err
	}
	from, err := readLastEvent(r)
	if err != nil {
		return err
	}
	events, err := on.WatchProcess(r.Context(), caller, session, id, from)
	if err != nil {
		return err
	}
	_, err = sendFrames(w, r, events, appendProcessEvent)
	return err
}

// processInput hands the bytes of the body to a process; ?eof=true closes its
// input behind them.
func (a *api) processInput(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, id, err := a.process(r)
	if err != nil {
		return err
	}
	eof, err := readFlag(r, "eof")
	if err != nil {
		return err
	}
	data, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	if err := on.WriteProcess(r.Context(), caller, session, id, []byte(data), eof); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// changeProcess serves what a JSON body asks of a process.
func changeProcess(read func(*object) func(Inside, context.Context, engine.Caller, engine.ID, engine.ID) error) func(*api, http.ResponseWriter, *http.Request) error {
	return func(a *api, w http.ResponseWriter, r *http.Request) error {
		on, caller, session, id, err := a.process(r)
		if err != nil {
			return err
		}
		body, err := a.readObject(w, r)
		if err != nil {
			return err
		}
		change := read(body)
		if err := body.done(); err != nil {
			return err
		}
		if err := change(on, r.Context(), caller, session, id); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

func readSignal(body *object) func(Inside, context.Context, engine.Caller, engine.ID, engine.ID) error {
	signal := body.needText("signal")
	return func(on Inside, ctx context.Context, caller engine.Caller, session, process engine.ID) error {
		return on.SignalProcess(ctx, caller, session, process, signal)
	}
}

func readResize(body *object) func(Inside, context.Context, engine.Caller, engine.ID, engine.ID) error {
	size := readSize(body)
	return func(on Inside, ctx context.Context, caller engine.Caller, session, process engine.ID) error {
		return on.ResizeProcess(ctx, caller, session, process, size)
	}
}

func (a *api) killProcess(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, id, err := a.process(r)
	if err != nil {
		return err
	}
	if err := on.KillProcess(r.Context(), caller, session, id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
