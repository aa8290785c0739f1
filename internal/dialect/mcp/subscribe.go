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
)

const (
	methodListen = "subscriptions/listen"
	maxFollowed  = 100 // tasks of one stream
)

// subscription asks to be told how tasks stand. The SDK's server has no notifications
// but the standard's, so these streams are served beside it.
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

// subscriptionIn returns what a request subscribes to; nil: no tasks, or its header says
// something else, which the SDK refuses.
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

// lacksTasks is the error for clients that ask for tasks without knowing them.
func lacksTasks() *jsonrpc.Error {
	return &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "Missing required client capability",
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}
}

// follow tells a client how its tasks stand, at first and with each change, until they
// have ended or it leaves.
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
	c := &call{caller: h.server.callerOf(ctx, &sdk.CallToolRequest{}), version: stateless,
		images: h.server.shown(&sdk.RequestExtra{Header: r.Header})}
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
			_ = http.NewResponseController(w).Flush() // a client that left ends the context
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
