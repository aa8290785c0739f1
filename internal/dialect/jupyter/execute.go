package jupyter

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/airlock-run/airlock/internal/live"
)

// keptInputs is how much code of cells is kept for history requests.
const keptInputs = 1 << 20

// execution is an execute_request.
type execution struct {
	Code        string                     `json:"code"`
	Silent      bool                       `json:"silent"`
	Stored      *bool                      `json:"store_history"`
	AllowStdin  bool                       `json:"allow_stdin"`
	StopOnError *bool                      `json:"stop_on_error"`
	Expressions map[string]json.RawMessage `json:"user_expressions"`
}

// execute runs a cell, tells what comes out, and answers.
func (k *kernel) execute(ctx context.Context, r *asked) {
	var what execution
	if err := json.Unmarshal(r.content, &what); err != nil {
		k.publish(iopub, "stream", r.header, map[string]string{"name": "stderr",
			"text": "The request cannot be read: " + err.Error() + "\n"})
		r.reply("execute_reply", failure("ValueError", "the request cannot be read"))
		return
	}
	cell, err := k.server.Live.Start(ctx, k.caller, k.id, live.CellRequest{Code: what.Code, Silent: what.Silent,
		Unrecorded: what.Stored != nil && !*what.Stored, AllowInput: what.AllowStdin})
	if err != nil {
		k.fail(r, "KernelError", reasonOf(err))
		return
	}
	events, err := k.server.Live.Watch(ctx, k.caller, k.id, cell.ID, 0)
	if err != nil {
		k.fail(r, "KernelError", reasonOf(err))
		return
	}
	out := output{kernel: k, request: r, what: &what}
	for e := range events {
		out.event(e)
	}
	out.close()
}

// fail answers a cell that could not be run.
func (k *kernel) fail(r *asked, name, why string) {
	content := failure(name, why)
	k.publish(iopub, "error", r.header, content.raised)
	r.reply("execute_reply", content)
}

// remember keeps the code of a cell for history requests.
func (k *kernel) remember(code string, count int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if count != k.count+1 {
		k.inputs, k.inputted = nil, 0
	}
	k.count = count
	k.inputs, k.inputted = append(k.inputs, code), k.inputted+len(code)
	for k.inputted > keptInputs {
		k.inputted -= len(k.inputs[0])
		k.inputs = k.inputs[1:]
	}
}

// raised is what an error message has, and nothing more: notebooks keep it, and their
// schema knows no other field.
type raised struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// errorContent is of a reply with an error.
type errorContent struct {
	Status string `json:"status"`
	raised
	Count int `json:"execution_count"`
}

func failure(name, why string) errorContent {
	return errorContent{"error", raised{name, why, []string{name + ": " + why}}, 0}
}

// reasonOf says what an error is to a person.
func reasonOf(err error) string {
	_, why := describe(err)
	return why
}

// replyKind is the type of the reply to a request.
func replyKind(kind string) string { return strings.TrimSuffix(kind, "_request") + "_reply" }
