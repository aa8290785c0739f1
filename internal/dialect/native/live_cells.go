package native

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

type cellBody struct {
	ID         engine.ID            `json:"id"`
	Session    engine.ID            `json:"session"`
	Count      int                  `json:"execution_count"`
	Status     live.Status          `json:"status"`
	ExitCode   *int                 `json:"exit_code"`
	Outputs    []outcomeBody        `json:"outputs"` // empty in the events started and done
	Files      []fileBody           `json:"files"`
	Deleted    []string             `json:"deleted,omitempty"`
	Dropped    []client.DroppedFile `json:"dropped,omitempty"`
	Usage      client.CellUsage     `json:"usage"`
	Truncated  bool                 `json:"truncated"`
	Restarted  bool                 `json:"restarted"`
	Message    string               `json:"message,omitempty"`
	Hint       string               `json:"hint,omitempty"`
	Package    string               `json:"missing_package,omitempty"`
	CreatedAt  string               `json:"created_at"`
	FinishedAt string               `json:"finished_at,omitempty"`
}

// outcomeBody is an output of a cell. Its fields depend on its type, which is absent in an event:
// the event's name is the type.
type outcomeBody struct {
	Type      live.OutputType `json:"type,omitempty"`
	Text      *string         `json:"text,omitempty"`
	Data      mimeBody        `json:"data,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	DisplayID string          `json:"display_id,omitempty"`
	Update    bool            `json:"update,omitempty"`
	Name      *string         `json:"name,omitempty"`
	Value     *string         `json:"value,omitempty"`
	Traceback []string        `json:"traceback,omitempty"`
	Prompt    *string         `json:"prompt,omitempty"`
	Password  *bool           `json:"password,omitempty"`
}

// mimeBody is a value in several MIME types.
type mimeBody = map[string]json.RawMessage

func cellOf(c live.Cell) cellBody {
	b := cellBody{
		ID: c.ID, Session: c.Session, Count: c.ExecutionCount, Status: c.Status, ExitCode: c.ExitCode,
		Outputs: rest.Each(c.Outputs, outcomeOf), Files: filesOf(c.Files), Deleted: c.Deleted, Dropped: droppedOf(c.Dropped),
		Usage: client.CellUsage{Duration: whole(c.Usage.Duration), CPU: whole(c.Usage.CPU),
			MemoryPeakBytes: c.Usage.MemoryPeak},
		Truncated: c.Truncated, Restarted: c.Restarted, Message: c.Message, Hint: c.Hint,
		Package: c.Package, CreatedAt: rest.TimeOf(c.CreatedAt), FinishedAt: rest.TimeOf(c.FinishedAt),
	}
	return b
}

func outcomeOf(o live.Output) outcomeBody {
	b := outcomeBody{Type: o.Type}
	switch o.Type {
	case live.Stdout, live.Stderr:
		b.Text = &o.Text
	case live.Error:
		b.Name, b.Value, b.Traceback = &o.Name, &o.Value, o.Traceback
	default:
		b.Data, b.Metadata, b.DisplayID, b.Update = o.Data, o.Metadata, o.DisplayID, o.Update
	}
	return b
}

// appendCellEvent writes an event of a cell.
func appendCellEvent(b []byte, e live.Event) (frame []byte, last bool) {
	var data any
	if e.Type == live.ExitEvent {
		e.Type = live.Stderr
	}
	switch e.Type {
	case live.StartedEvent, live.DoneEvent:
		bare := *e.Cell
		bare.Outputs = nil // the stream had them as events
		data = cellOf(bare)
	case live.CommEvent:
		data = e.Comm
	case live.InputEvent:
		data = outcomeBody{Prompt: &e.Prompt, Password: &e.Password}
	default:
		outcome := outcomeOf(e.Output)
		outcome.Type = ""
		data = outcome
	}
	return appendFrame(b, strconv.Itoa(e.Seq), string(e.Type), data), e.Type == live.DoneEvent
}

// createCell runs a cell to its end, as a stream of events, or, with "wait": false, in the
// background. A client that disconnects does not end the cell: others may watch it, and
// later cells need its variables.
func (q *request) createCell(on live.Sessions) (any, error) {
	body := q.Object()
	req, wait, err := readCell(body)
	if err != nil {
		return nil, err
	}
	stream := wantsEvents(q.Header)
	if stream && !wait {
		return nil, rest.Invalid(`"wait": false has no stream: ask for its events`)
	}
	cell, err := on.Start(q.Context(), q.Caller, q.id, req)
	if err != nil {
		return nil, err
	}
	q.W.Header().Set("Location", q.api.Prefix+"/sessions/"+q.id.String()+"/cells/"+cell.ID.String())
	switch {
	case stream:
		events, err := on.Watch(q.Context(), q.Caller, q.id, cell.ID, 0)
		if err != nil {
			return nil, err
		}
		return sendStream(q, events, appendCellEvent)
	case !wait:
		return rest.Answer{Status: http.StatusAccepted, Body: cellOf(cell)}, nil
	}
	cell, err = on.Wait(q.Context(), q.Caller, q.id, cell.ID)
	return cellOf(cell), err
}

func readCell(o *rest.Object) (req live.CellRequest, wait bool, err error) {
	req = live.CellRequest{
		Code: o.NeedText("code"), Timeout: o.Millis("timeout_ms"),
		AllowInput: o.Flag("input", false), Silent: o.Flag("silent", false),
	}
	req.Parent = readParent(o)
	wait = o.Flag("wait", true)
	return req, wait, o.Done()
}

// cellEvents streams the events of a cell from any position. Disconnecting does not end the cell.
func (q *request) cellEvents(on live.Sessions) (any, error) {
	after, err := readLastEvent(q.Request.Request)
	if err != nil {
		return nil, err
	}
	events, err := on.Watch(q.Context(), q.Caller, q.id, q.inner, int(after))
	if err != nil {
		return nil, err
	}
	return sendStream(q, events, appendCellEvent)
}
