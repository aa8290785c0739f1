package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/toolcall"
)

// declared adds a client's declaration of an extension to a message.
func declared(text, extension string) string {
	return strings.Replace(text, `"io.modelcontextprotocol/clientCapabilities":{}`,
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"`+extension+`":{}}}`, 1)
}

// ask sends a request of the newest version, and returns its result or its error.
func (r *rig) ask(owner, method, name, params string) map[string]any {
	r.t.Helper()
	header := versionHeader + ": " + stateless + "\nMcp-Method: " + method
	if name != "" {
		header += "\nMcp-Name: " + name
	}
	_, body, _ := r.send("POST", r.url, owner, header, declared(message(1, method, params, stateless), tasksExtension))
	var answer struct{ Result, Error map[string]any }
	for line := range strings.Lines(body) {
		text := strings.TrimPrefix(line, "data: ")
		if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &answer) != nil {
			r.t.Fatalf("%s: %s", method, body)
		}
	}
	if answer.Error != nil {
		return answer.Error
	}
	return answer.Result
}

func (r *rig) begins(code string) (task map[string]any, params string) {
	r.t.Helper()
	task = r.ask("ada", "tools/call", "run_code", `{"name":"run_code","arguments":{"code":"`+code+`","wait_seconds":1}}`)
	if task["resultType"] != "task" || task["status"] != "working" || task["taskId"] == nil {
		r.t.Fatalf("the task: %v", task)
	}
	return task, fmt.Sprintf(`{"taskId":%q}`, task["taskId"])
}

// A long program becomes a task only for a client that supports tasks.
func TestTasks(t *testing.T) {
	r := newRig(t)
	task, params := r.begins(`print first\nwait`)
	id := task["taskId"].(string)
	if got := r.ask("ada", "tasks/get", id, params); got["status"] != "working" || got["resultType"] != "complete" ||
		got["ttlMs"] == nil || got["result"] != nil {
		t.Errorf("while it runs: %v", got)
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if got := r.ask("mallory", method, id, params); got["code"] != -32602.0 {
			t.Errorf("%s of another owner: %v", method, got)
		}
		if got := r.ask("ada", method, "r_x", `{"taskId":"r_x"}`); got["code"] != -32602.0 {
			t.Errorf("%s of none: %v", method, got)
		}
	}
	if got := r.ask("ada", "tasks/cancel", id, params); got["resultType"] != "complete" {
		t.Errorf("cancel: %v", got)
	}
	r.live.awaitCancels(1)
	eventually(t, func() bool { return r.ask("ada", "tasks/get", id, params)["status"] == "cancelled" })

	text := `{"name":"run_code","arguments":{"code":"print second\nwait","wait_seconds":1,"timeout_seconds":3}}`
	short := r.ask("ada", "tools/call", "run_code", `{"name":"run_code","arguments":{"code":"print short"}}`)
	if short["resultType"] != "complete" {
		t.Errorf("a short one: %v", short)
	}
	long := r.ask("ada", "tools/call", "run_code", text)
	params = fmt.Sprintf(`{"taskId":%q}`, long["taskId"])
	var end map[string]any
	eventually(t, func() bool {
		end = r.ask("ada", "tasks/get", long["taskId"].(string), params)
		return end["status"] == "completed"
	})
	if said := fmt.Sprint(end["result"]); !strings.Contains(said, "second") || !strings.Contains(said, "resource_link") &&
		!strings.Contains(said, "airlock-run/run") {
		t.Errorf("the result: %v", end)
	}
	header := versionHeader + ": " + stateless + "\nMcp-Method: tools/call\nMcp-Name: run_code"
	if _, body, _ := r.send("POST", r.url, "ada", header, message(1, "tools/call", text, stateless)); !strings.Contains(
		body, "Still running after 1 s") || strings.Contains(body, `"taskId"`) {
		t.Errorf("a client without tasks: %s", body)
	}
	old, _ := r.begin("ada", lastSession, `{"extensions":{"`+tasksExtension+`":{}}}`)
	if _, body, _ := r.send("POST", r.url, "ada", old, message(2, "tools/call", text, "")); !strings.Contains(
		body, "Still running after 1 s") {
		t.Errorf("an older client: %s", body)
	}
	eventually(t, func() bool { // the tasks have expired
		r.live.mu.Lock()
		defer r.live.mu.Unlock()
		for _, c := range r.live.cells {
			if !final(c.cell.Status) {
				return false
			}
		}
		return true
	})
	header += "\nMcp-Method: tasks/get"
	if _, body, _ := r.send("POST", r.url, "ada", strings.Replace(header, "tools/call", "tasks/get", 1),
		message(3, "tasks/get", params, stateless)); !strings.Contains(body, "-32021") {
		t.Errorf("tasks/get of a client without tasks: %s", body)
	}
	discovered := r.ask("ada", "server/discover", "", `{}`)
	if !strings.Contains(fmt.Sprint(discovered["capabilities"]), tasksExtension) {
		t.Errorf("discover: %v", discovered)
	}
}

// A client gets notifications of its own tasks only, over HTTP and through standard input
// and output.
func TestTaskNotifications(t *testing.T) {
	r := newRig(t)
	first, _ := r.begins(`print up\nwait`)
	ours := first["taskId"].(string)
	foreign := r.ask("eve", "tools/call", "run_code", `{"name":"run_code","arguments":{"code":"wait","wait_seconds":1}}`)
	listen := fmt.Sprintf(`{"notifications":{"toolsListChanged":true,"taskIds":[%q,%q,"r_x"]}}`, ours, foreign["taskId"])
	line := declared(message(7, methodListen, listen, stateless), tasksExtension)
	h := r.stdio(Stdio{})
	accepted := h.ask(line)
	params, _ := accepted["params"].(map[string]any)
	if accepted["method"] != "notifications/subscriptions/acknowledged" ||
		fmt.Sprint(params["notifications"]) != "map[taskIds:["+ours+"]]" {
		t.Fatalf("accepted: %v", accepted)
	}
	hears := func(status string) map[string]any {
		t.Helper()
		got := h.hears()
		params, _ := got["params"].(map[string]any)
		meta, _ := params["_meta"].(map[string]any)
		if got["method"] != "notifications/tasks" || params["taskId"] != ours || params["status"] != status ||
			params["resultType"] != nil || meta[sdk.MetaKeySubscriptionID] != 7.0 {
			t.Errorf("told %v, want %s", got, status)
		}
		return params
	}
	hears("working")
	talk := &toolcall.Queue{}
	r.server.dialogs.byRun.Store(ours, talk)
	agreed := make(chan bool, 1)
	go func() {
		yes, _ := ask(context.WithoutCancel(t.Context()), talk, "delete it?")
		agreed <- yes
	}()
	for key := range hears("input_required")["inputRequests"].(map[string]any) {
		r.ask("ada", "tasks/update", ours, fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:{"action":"accept"}}}`, ours, key))
	}
	<-agreed
	hears("working")
	r.ask("ada", "tasks/cancel", ours, fmt.Sprintf(`{"taskId":%q}`, ours))
	hears("cancelled")
	if got := h.hears(); got["id"] != 7.0 || got["result"] == nil {
		t.Errorf("the end: %v", got)
	}
	header := versionHeader + ": " + stateless + "\nMcp-Method: " + methodListen
	if status, body, _ := r.send("POST", r.url, "ada", header, message(8, methodListen, listen, stateless)); status != 400 ||
		!strings.Contains(body, `"code":-32021`) {
		t.Errorf("a client without tasks: %d %s", status, body)
	}
	if status, body, _ := r.send("POST", r.url, "ada", strings.Replace(header, methodListen, "ping", 1), line); status != 400 {
		t.Errorf("another method in the header: %d %s", status, body)
	}

	// An open stream does not keep the service from shutting down.
	_, more := r.begins(`wait`)
	id := more[len(`{"taskId":"`) : len(more)-2]
	h.ask(declared(message(9, methodListen, `{"notifications":{"taskIds":["`+id+`"]}}`, stateless), tasksExtension))
	h.hears()
	r.handler.Close()
	if got := h.hears(); got["error"] == nil {
		t.Errorf("when the service ends: %v", got)
	}
	r.ask("ada", "tasks/cancel", id, more)
	r.ask("eve", "tasks/cancel", foreign["taskId"].(string), fmt.Sprintf(`{"taskId":%q}`, foreign["taskId"]))
	r.live.awaitCancels(3)
}

// The task relays a program's question to the person, once.
func TestTaskQuestion(t *testing.T) {
	r := newRig(t)
	task, params := r.begins(`wait`)
	id := task["taskId"].(string)
	talk := &toolcall.Queue{}
	r.server.dialogs.byRun.Store(id, talk)
	agreed := make(chan bool, 1)
	go func() {
		yes, _ := ask(context.WithoutCancel(t.Context()), talk, "delete it?")
		agreed <- yes
	}()
	var got map[string]any
	eventually(t, func() bool { got = r.ask("ada", "tasks/get", id, params); return got["status"] == "input_required" })
	requests, _ := got["inputRequests"].(map[string]any)
	for key, request := range requests {
		if !strings.Contains(fmt.Sprint(request), "delete it?") {
			t.Errorf("the question: %v", request)
		}
		update := func(key string) {
			r.ask("ada", "tasks/update", id, fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:{"action":"accept"}}}`, id, key))
		}
		update("another")
		if talk.First() == nil {
			t.Fatal("an answer to another question was taken")
		}
		update(key)
		if !<-agreed {
			t.Error("the answer did not arrive")
		}
		update(key) // no caller waits
	}
	if len(requests) != 1 {
		t.Errorf("requests: %v", requests)
	}
	r.ask("ada", "tasks/cancel", id, params)
	r.live.awaitCancels(1)
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for range 3000 {
		if is() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("it did not come to be")
}
