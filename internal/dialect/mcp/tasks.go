package mcp

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/live"
)

// The extension that hands long programs over in a way that clients know without
// their model (https://github.com/modelcontextprotocol/ext-tasks). A task is a
// program, and has its handle.
const (
	tasksExtension = "io.modelcontextprotocol/tasks"

	taskAfter = 5 * time.Second  // a program that takes longer becomes one
	taskPause = time.Second      // between two questions how it stands
	taskTime  = 30 * time.Minute // for which its end is kept at least, in a session that nobody uses

	metaTask = "airlock-run/task" // marks a result as one; never sent
)

// taskResult is what is known of a task.
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

// doneTask acknowledges.
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
			if given, ok := params.Responses[q.ID]; ok { // others were answered before
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

// knowsTasks reports whether a client takes a task for an answer.
func knowsTasks[P sdk.Params](r *sdk.ServerRequest[P]) bool {
	can := r.ClientCapabilities()
	return can != nil && can.Extensions[tasksExtension] != nil && r.ProtocolVersion() >= stateless
}

// asTask is a result that becomes a task.
func asTask(p *cell) *sdk.CallToolResult { return &sdk.CallToolResult{Meta: sdk.Meta{metaTask: p}} }

// task tells how a program stands.
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
	case q != nil && kind != "task": // it begins as one that works
		t.Status, t.Requests = "input_required", sdk.InputRequestMap{q.ID: form(q.Name)[question]}
	}
	return t, nil
}
