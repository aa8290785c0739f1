package jupyter

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

const (
	maxRequests = 4096     // that wait in a kernel: a notebook sends all of its cells at once
	maxBytes    = 64 << 20 // of those
)

// handle handles a message of a client, or queues it. Unknown messages are ignored, as by the
// original.
func (k *kernel) handle(r *clientRequest) {
	switch r.channel {
	case stdin:
		if r.kind == "input_reply" {
			k.answer(r)
		}
	case control:
		k.server.background(func() { k.control(r) })
	case shell:
		k.queue(r)
	}
}

// queue queues a request of the shell channel.
func (k *kernel) queue(r *clientRequest) {
	size := r.size()
	k.mu.Lock()
	if k.gone {
		k.mu.Unlock()
		return
	}
	if len(k.requests) >= maxRequests || k.bytes+size > maxBytes {
		k.mu.Unlock()
		k.refuse(r, "TooManyRequests", "Too many requests of this kernel wait. Send this one again when some have ended.")
		return
	}
	defer k.mu.Unlock()
	k.requests, k.bytes = append(k.requests, r), k.bytes+size
	if !k.working {
		k.working = true
		k.server.background(k.work)
	}
	k.touch()
}

// work handles queued requests, one after the other, until the queue is empty.
func (k *kernel) work() {
	for {
		k.mu.Lock()
		if len(k.requests) == 0 || k.server.life.Err() != nil {
			k.working = false
			k.touch()
			k.mu.Unlock()
			return
		}
		r := k.requests[0]
		k.requests[0] = nil
		k.requests, k.bytes = k.requests[1:], k.bytes-r.size()
		k.mu.Unlock()
		k.do(r)
	}
}

// do answers a request of the shell channel, between busy and idle.
func (k *kernel) do(r *clientRequest) {
	k.setState(stateBusy, r.header)
	defer k.setState(stateIdle, r.header)
	ctx := k.server.life
	switch r.kind {
	case "execute_request":
		k.execute(ctx, r)
	case "kernel_info_request":
		k.info(r)
	case "complete_request":
		k.complete(ctx, r)
	case "inspect_request":
		k.inspect(ctx, r)
	case "is_complete_request":
		k.isComplete(ctx, r)
	case "history_request":
		k.history(r)
	case "comm_info_request":
		k.commInfo(ctx, r)
	case commOpen, commMessage, commClose:
		k.comm(ctx, r)
	case "shutdown_request", "interrupt_request": // of clients from before there was a control channel
		k.lead(ctx, r)
	}
}

// control answers a request of the control channel at once, while a cell may run.
func (k *kernel) control(r *clientRequest) {
	k.status(stateBusy, r.header)
	defer k.status(stateIdle, r.header)
	if r.kind == "kernel_info_request" {
		k.info(r)
		return
	}
	k.lead(k.server.life, r)
}

// lead interrupts, restarts or shuts down a kernel.
func (k *kernel) lead(ctx context.Context, r *clientRequest) {
	var content struct {
		Restart bool `json:"restart"`
	}
	_ = json.Unmarshal(r.content, &content) // missing keys are false
	switch r.kind {
	case "interrupt_request":
		if err := k.server.Live.Interrupt(ctx, k.caller, k.id); err != nil {
			r.reply("interrupt_reply", failure("InterruptError", reasonOf(err)))
			return
		}
		r.reply("interrupt_reply", map[string]string{"status": "ok"})
	case "shutdown_request":
		if content.Restart {
			if err := k.restart(ctx, r.header); err != nil {
				r.reply("shutdown_reply", failure("RestartError", reasonOf(err)))
				return
			}
		}
		r.reply("shutdown_reply", map[string]any{"status": "ok", "restart": content.Restart})
		if !content.Restart {
			k.status(stateIdle, r.header)
			if err := k.delete(ctx); err != nil {
				k.server.Log.Error("a kernel could not be ended", "session", k.id, "error", err)
			}
		}
	}
}

// refuse rejects a request with all messages that its client waits for.
func (k *kernel) refuse(r *clientRequest, name, why string) {
	k.status(stateBusy, r.header)
	k.publish(iopub, "stream", r.header, map[string]string{"name": "stderr", "text": why + "\n"})
	if strings.HasSuffix(r.kind, requestSuffix) {
		r.reply(replyKind(r.kind), failure(name, why))
	}
	k.status(stateIdle, r.header)
}

// abort answers a request that was skipped because of an earlier error or a restart.
func (k *kernel) abort(r *clientRequest) {
	k.status(stateBusy, r.header)
	if strings.HasSuffix(r.kind, requestSuffix) {
		r.reply(replyKind(r.kind), map[string]string{"status": "aborted"})
	}
	k.status(stateIdle, r.header)
}

// abortQueued aborts the cells that wait.
func (k *kernel) abortQueued() {
	k.mu.Lock()
	var cells []*clientRequest
	k.requests = slices.DeleteFunc(k.requests, func(r *clientRequest) bool {
		if r.kind != "execute_request" {
			return false
		}
		cells = append(cells, r)
		k.bytes -= r.size()
		return true
	})
	k.mu.Unlock()
	for _, r := range cells {
		k.abort(r)
	}
}

// answer answers the input() that the running cell waits for.
func (k *kernel) answer(r *clientRequest) {
	var content struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(r.content, &content) != nil {
		return
	}
	k.mu.Lock()
	mine := k.asker == r.from
	k.mu.Unlock()
	if !mine {
		return // only the asked client may answer
	}
	if err := k.server.Live.Answer(k.server.life, k.caller, k.id, content.Value); err != nil {
		k.server.Log.Debug("jupyter: nobody waits for an answer", "session", k.id, "error", err)
	}
}

func (k *kernel) info(r *clientRequest) {
	r.reply("kernel_info_reply", map[string]any{
		"status": "ok", "protocol_version": "5.3", "implementation": "airlock", "implementation_version": Version,
		"language_info": k.spec.info, "banner": k.spec.display + " in a sandbox of Airlock", "help_links": []any{},
		"debugger": false, "supported_features": []any{},
	})
}

// position is code with a place in it, in code points.
type position struct {
	Code   string `json:"code"`
	Cursor int    `json:"cursor_pos"`
	Detail int    `json:"detail_level"`
}

func (k *kernel) complete(ctx context.Context, r *clientRequest) {
	var at position
	_ = json.Unmarshal(r.content, &at) // missing keys are zero
	found, err := k.server.Live.Complete(ctx, k.caller, k.id, at.Code, at.Cursor)
	if err != nil {
		r.reply("complete_reply", failure("CompletionError", reasonOf(err)))
		return
	}
	r.reply("complete_reply", map[string]any{
		"status": "ok", "matches": append([]string{}, found.Matches...), "cursor_start": found.Start, "cursor_end": found.End,
		"metadata": none,
	})
}

func (k *kernel) inspect(ctx context.Context, r *clientRequest) {
	var at position
	_ = json.Unmarshal(r.content, &at) // missing keys are zero
	found, err := k.server.Live.Inspect(ctx, k.caller, k.id, at.Code, at.Cursor, at.Detail)
	if err != nil {
		r.reply("inspect_reply", failure("InspectionError", reasonOf(err)))
		return
	}
	data := map[string]json.RawMessage{}
	maps.Copy(data, found.Data)
	r.reply("inspect_reply", map[string]any{"status": "ok", "found": found.Found, "data": data, "metadata": none})
}

func (k *kernel) isComplete(ctx context.Context, r *clientRequest) {
	var at position
	_ = json.Unmarshal(r.content, &at) // missing keys are empty
	status, indent, err := k.server.Live.IsComplete(ctx, k.caller, k.id, at.Code)
	if err != nil {
		status, indent = "unknown", ""
	}
	r.reply("is_complete_reply", map[string]string{"status": status, "indent": indent})
}

// history answers any history request with the last n cells of this kernel.
func (k *kernel) history(r *clientRequest) {
	var content struct {
		N *int `json:"n"`
	}
	_ = json.Unmarshal(r.content, &content) // missing keys are none
	k.mu.Lock()
	inputs := slices.Clone(k.inputs)
	first := k.count - len(inputs) + 1
	k.mu.Unlock()
	if n := content.N; n != nil && *n >= 0 && *n < len(inputs) {
		first += len(inputs) - *n
		inputs = inputs[len(inputs)-*n:]
	}
	lines := make([][]any, len(inputs))
	for i, code := range inputs {
		lines[i] = []any{0, first + i, code}
	}
	r.reply("history_reply", map[string]any{"status": "ok", "history": lines})
}
