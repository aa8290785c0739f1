package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/live"
)

// The extension that returns long programs as tasks to clients that support them, without
// help of the model (https://github.com/modelcontextprotocol/ext-tasks). A task is a
// program, and has its handle.
const (
	tasksExtension = "io.modelcontextprotocol/tasks"

	taskAfter = 5 * time.Second  // a longer program becomes a task
	taskPause = time.Second      // between two polls
	taskTime  = 30 * time.Minute // minimum time to keep the result, in an unused session

	metaTask = "airlock-run/task" // marks a result as a task; never sent
)

// taskResult describes a task.
type taskResult struct {
	sdk.ResultBase
	ResultType string              `json:"resultType,omitempty"` // empty: in a notification
	TaskID     string              `json:"taskId"`
	Status     string              `json:"status"`
	CreatedAt  time.Time           `json:"createdAt"`
	UpdatedAt  time.Time           `json:"lastUpdatedAt"`
	TTL        int64               `json:"ttlMs"`
	Poll       int64               `json:"pollIntervalMs"`
	Requests   sdk.InputRequestMap `json:"inputRequests,omitempty"`
	Result     *sdk.CallToolResult `json:"result,omitempty"`
}

func (t *taskResult) final() bool { return t.Status == "completed" || t.Status == "cancelled" }

type taskParams struct {
	sdk.ParamsBase
	TaskID    string `json:"taskId"`
	Responses map[string]struct {
		Action string `json:"action"`
	} `json:"inputResponses"`
}

// doneTask is an acknowledgement.
type doneTask struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

type requestKey struct{}

// addTasks adds the extension.
func (s *Server) addTasks() {
	add := func(method string, do func(context.Context, *call, *cell, *taskParams) (sdk.Result, error)) {
		err := sdk.AddReceivingCustomMethod(s.sdk, method,
			func(ctx context.Context, _ *sdk.ServerSession, p *taskParams) (sdk.Result, error) {
				r, _ := ctx.Value(requestKey{}).(*sdk.ServerRequest[*taskParams])
				if !knowsTasks(r) {
					return nil, lacksTasks()
				}
				c := s.callOf(ctx, r)
				program, err := s.program(ctx, c.caller, p.TaskID)
				if err != nil {
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: s.words(ctx, err)}
				}
				return do(ctx, c, program, p)
			})
		if err != nil {
			panic(err) // the names are the extension's
		}
	}
	add("tasks/get", func(ctx context.Context, c *call, p *cell, _ *taskParams) (sdk.Result, error) {
		return s.task(ctx, c, p, "complete")
	})
	add("tasks/update", func(_ context.Context, _ *call, p *cell, params *taskParams) (sdk.Result, error) {
		if q := s.dialogs.of(p.handle()).First(); q != nil {
			if given, ok := params.Responses[q.ID]; ok { // the others were answered before
				s.dialogs.reply(p.handle(), given.Action == "accept")
			}
		}
		return &doneTask{ResultType: "complete"}, nil
	})
	add("tasks/cancel", func(ctx context.Context, _ *call, p *cell, _ *taskParams) (sdk.Result, error) {
		return &doneTask{ResultType: "complete"}, p.cancel(ctx)
	})
	s.sdk.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			result, err := next(context.WithValue(ctx, requestKey{}, r), method, r)
			called, ok := result.(*sdk.CallToolResult)
			if err != nil || !ok || called.Meta[metaTask] == nil {
				return result, err
			}
			return s.task(ctx, s.callOf(ctx, r), called.Meta[metaTask].(*cell), "task")
		}
	})
}

// knowsTasks reports whether a client accepts a task as the answer.
func knowsTasks[P sdk.Params](r *sdk.ServerRequest[P]) bool {
	can := r.ClientCapabilities()
	return can != nil && can.Extensions[tasksExtension] != nil && r.ProtocolVersion() >= stateless
}

// asTask returns a result that becomes a task.
func asTask(p *cell) *sdk.CallToolResult { return &sdk.CallToolResult{Meta: sdk.Meta{metaTask: p}} }

// task returns the state of a program as a task.
func (s *Server) task(ctx context.Context, c *call, p *cell, kind string) (*taskResult, error) {
	is, err := s.Live.Cell(ctx, c.caller, p.session, p.id)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: s.words(ctx, err)}
	}
	t := &taskResult{
		ResultType: kind, TaskID: p.handle(), Status: "working", CreatedAt: is.CreatedAt, UpdatedAt: time.Now(),
		TTL: taskTime.Milliseconds(), Poll: taskPause.Milliseconds(),
	}
	switch q := s.dialogs.of(p.handle()).First(); {
	case is.Status == live.StatusInterrupted:
		t.Status, t.UpdatedAt = "cancelled", is.FinishedAt
	case is.Status.Final():
		out, err := p.outcome(ctx)
		if err != nil {
			return nil, err
		}
		t.Status, t.UpdatedAt, t.Result = "completed", is.FinishedAt, s.result(ctx, c, out, defaultChars)
	case q != nil && kind != "task": // a task begins in the state working
		t.Status, t.Requests = "input_required", sdk.InputRequestMap{q.ID: form(q.Name)[question]}
	}
	return t, nil
}

const (
	methodListen = "subscriptions/listen"
	maxFollowed  = 100 // tasks of one stream
)

// subscription asks for notifications about tasks. The SDK's server has only the standard
// notifications, so these streams are served beside it.
type subscription struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Notifications struct {
			Tasks []string `json:"taskIds"`
		} `json:"notifications"`
		Meta struct {
			Version string                 `json:"io.modelcontextprotocol/protocolVersion"`
			Can     sdk.ClientCapabilities `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
}

// subscriptionIn returns the subscription of a request; nil: it names no tasks, or contradicts its
// header, which the SDK refuses.
func subscriptionIn(header http.Header, body []byte) *subscription {
	if header.Get("Mcp-Method") != methodListen || !bytes.Contains(body, []byte(`"taskIds"`)) {
		return nil
	}
	var s subscription
	if json.Unmarshal(body, &s) != nil || s.Method != methodListen || s.ID == nil ||
		len(s.Params.Notifications.Tasks) == 0 || s.Params.Meta.Version != header.Get(versionHeader) {
		return nil
	}
	return &s
}

// lacksTasks returns the error for clients that request tasks without declaring the extension.
func lacksTasks() *jsonrpc.Error {
	return &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "Missing required client capability",
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}
}

// follow sends the state of the tasks, at first and with each change, until they have ended or the
// client leaves.
func (h *Handler) follow(w http.ResponseWriter, r *http.Request, s *subscription) {
	if s.Params.Meta.Can.Extensions[tasksExtension] == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": s.ID, "error": lacksTasks()})
		return
	}
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	defer context.AfterFunc(h.ending, leave)()
	extra := &sdk.RequestExtra{Header: r.Header}
	c := &call{caller: h.server.callerOf(ctx, &sdk.CallToolRequest{}), version: stateless,
		images: h.server.shown(extra), links: linked(extra)}
	working := map[string]*cell{}
	accepted := []string{}
	for _, id := range s.Params.Notifications.Tasks[:min(len(s.Params.Notifications.Tasks), maxFollowed)] {
		p, err := h.server.program(ctx, c.caller, id)
		if err == nil && working[id] == nil {
			working[id] = p
			accepted = append(accepted, id)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	send := func(key string, value any, name string, is any) {
		if text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", key: value, name: is}); err == nil {
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", text)
			_ = http.NewResponseController(w).Flush() // a disconnected client ends the context
		}
	}
	meta := sdk.Meta{sdk.MetaKeySubscriptionID: s.ID}
	send("method", "notifications/subscriptions/acknowledged", "params",
		map[string]any{"notifications": map[string]any{"taskIds": accepted}, "_meta": meta})
	tick := time.NewTicker(taskPause)
	defer tick.Stop()
	for was := map[string]string{}; ; {
		for id, p := range working {
			t, err := h.server.task(ctx, c, p, "")
			if err == nil && t.Status != was[id] {
				was[id], t.Meta = t.Status, meta
				send("method", "notifications/tasks", "params", t)
			}
			if err != nil || t.final() {
				delete(working, id)
			}
		}
		if len(working) == 0 {
			send("id", s.ID, "result", &doneTask{ResultType: "complete", ResultBase: sdk.ResultBase{Meta: meta}})
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
