package openterminal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// Terminals of the page: a shell at a pseudo-terminal, over a WebSocket.

const (
	maxTerminals = 4
	authTime     = 10 * time.Second
	writeTime    = 30 * time.Second // for a page that does not read
	largestFrame = 1 << 20
)

// The status codes that close a WebSocket.
const (
	closedToken  websocket.StatusCode = 4001
	closedAbsent websocket.StatusCode = 4004
	closedTwice  websocket.StatusCode = 4009
)

var noTerminal = wire.Refuse(http.StatusNotFound, "Session not found")

type terminalBody struct {
	ID      engine.ID `json:"id"`
	Created string    `json:"created_at"`
	PID     int       `json:"pid"` // in the sandbox's PID namespace
}

func terminalOf(p live.Process) terminalBody {
	return terminalBody{ID: p.ID, Created: p.StartedAt.UTC().Format(time.RFC3339)}
}

// isTerminal reports whether a request is for the WebSocket of a terminal, which
// shows its key in its first message.
func isTerminal(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/terminals/") && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

func (q *request) createTerminal() (any, error) {
	req := live.ProcessRequest{Argv: []string{"/bin/bash"}, Dir: q.cwd(), Env: map[string]string{"TERM": "xterm-256color"},
		Terminal: &size}
	p, err := q.start(req, &command{line: "bash", terminal: true}, maxTerminals)
	return terminalOf(p), err
}

func (q *request) listTerminals() (any, error) {
	all, err := q.live.Processes(q.Context(), q.caller, q.workspace)
	if err != nil {
		return nil, err
	}
	list := []terminalBody{}
	for _, p := range all {
		if c, ok := p.Note.(*command); ok && c.terminal && p.Running {
			list = append(list, terminalOf(p))
		}
	}
	return list, nil
}

// terminal answers with a terminal, or serves its WebSocket.
func (q *request) terminal() (any, error) {
	if isTerminal(q.Request) {
		q.connect()
		return answered{}, nil
	}
	if err := q.open(); err != nil {
		return nil, err
	}
	p, _, err := q.command(true)
	if err == nil && !p.Running {
		err = noTerminal
	}
	return terminalOf(p), err
}

func (q *request) deleteTerminal() (any, error) {
	p, _, err := q.command(true)
	if err != nil {
		return nil, err
	}
	return map[string]string{"status": "deleted"}, q.live.KillProcess(q.Context(), q.caller, q.workspace, p.ID)
}

const shownOutput = 64 << 10

// userTerminal finds the shell that the page of this chat shows.
func (q *request) userTerminal() (live.Process, error) {
	all, err := q.live.Processes(q.Context(), q.caller, q.workspace)
	if err != nil {
		return live.Process{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range slices.Backward(all) {
		if c, ok := p.Note.(*command); ok && c.attached && c.shownIn == q.chat && p.Running {
			return p, nil
		}
	}
	return live.Process{}, wire.Refuse(http.StatusNotFound, "No connected user shell")
}

func (q *request) readTerminal() (any, error) {
	p, err := q.userTerminal()
	if err != nil {
		return nil, err
	}
	shown, err := q.follow(p, reading{from: max(0, p.Output-shownOutput)})
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, o := range shown.Output {
		text.WriteString(o.Data)
	}
	return map[string]string{"output": text.String()}, nil
}

func (q *request) typeAtTerminal(body struct{ Input string }) (any, error) {
	p, err := q.userTerminal()
	if err != nil {
		return nil, err
	}
	return map[string]string{"status": "ok"}, q.typeAt(p.ID, body.Input)
}

// connect attaches the page to its terminal. The shell ends with the connection.
func (q *request) connect() {
	conn, err := websocket.Accept(q.w, q.Request,
		&websocket.AcceptOptions{InsecureSkipVerify: true}) // a foreign page needs a key: see admit
	if err != nil {
		return // the error was already sent
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(largestFrame)
	p, c, code := q.admit(conn)
	if code != 0 {
		_ = conn.Close(code, "")
		return
	}
	defer func() {
		q.mu.Lock()
		c.attached = false
		q.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), writeTime)
		defer cancel()
		if err := q.live.KillProcess(ctx, q.caller, q.workspace, p.ID); err != nil && !errors.Is(err, engine.ErrNotFound) {
			q.Log.ErrorContext(ctx, "a terminal could not be ended", "process", p.ID, "err", err)
		}
	}()
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	events, err := q.live.WatchProcess(ctx, q.caller, q.workspace, p.ID, 0)
	if err != nil {
		return
	}
	typed := make(chan struct{})
	go func() {
		defer close(typed)
		defer cancel()
		q.receive(ctx, conn, p.ID)
	}()
	for e := range events {
		if e.Type == live.ProcessExit {
			_ = conn.Close(websocket.StatusNormalClosure, "")
			break
		}
		sending, done := context.WithTimeout(ctx, writeTime)
		err := conn.Write(sending, websocket.MessageBinary, e.Data)
		done()
		if err != nil {
			break
		}
	}
	cancel()
	_ = conn.CloseNow()
	<-typed
}

// admit reads the first message and finds the owner of the terminal.
func (q *request) admit(conn *websocket.Conn) (live.Process, *command, websocket.StatusCode) {
	var first struct {
		Type, Token string
		Chat        string `json:"chat_id"`
	}
	ctx, cancel := context.WithTimeout(q.Context(), authTime)
	defer cancel()
	kind, text, err := conn.Read(ctx)
	if err != nil || kind != websocket.MessageText || json.Unmarshal(text, &first) != nil || first.Type != "auth" {
		return live.Process{}, nil, closedToken
	}
	switch caller, err := q.Authenticate(q.Context(), first.Token); {
	case err == nil:
		q.caller = userOf(caller, q.Request)
	case q.caller.Owner == "" || wire.ForeignOrigin(q.Request):
		return live.Process{}, nil, closedToken
	}
	if found, err := q.find(); !found || err != nil {
		return live.Process{}, nil, closedAbsent
	}
	p, c, err := q.command(true)
	if err != nil || !p.Running {
		return live.Process{}, nil, closedAbsent
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.attached {
		return live.Process{}, nil, closedTwice
	}
	c.attached, c.shownIn = true, cmp.Or(first.Chat, q.chat)
	return p, c, 0
}

// receive writes the input of the page to the terminal, until the connection ends.
func (q *request) receive(ctx context.Context, conn *websocket.Conn, id engine.ID) {
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageText {
			var control struct {
				Type    string `json:"type"`
				Columns uint16 `json:"cols"`
				Rows    uint16 `json:"rows"`
			}
			if json.Unmarshal(data, &control) == nil && control.Type == "resize" {
				_ = q.live.ResizeProcess(ctx, q.caller, q.workspace, id,
					engine.TerminalSize{Columns: control.Columns, Rows: control.Rows})
			}
			continue
		}
		if q.live.WriteProcess(ctx, q.caller, q.workspace, id, data, false) != nil {
			return
		}
	}
}
