package openai

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/partial"
)

// response is an answer of the Responses API in progress. It implements sink.
type response struct {
	q      *request
	asked  *responseRequest
	turn   *turn
	id     string
	at     int64
	output []any // items
	input  []json.RawMessage
	ran    map[string][]output // outputs of the calls of code

	events   *events // nil: the answer is sent at once
	sequence int
	skip     int // number of events that the client has seen

	words    strings.Builder // of the open message
	message  map[string]any  // the open message; nil: none
	refusing bool            // the open message is a refusal
}

// createResponse is POST /responses.
func (q *request) createResponse() error {
	asked, err := q.readResponse()
	if err != nil {
		return err
	}
	tools, err := readTools(asked.Tools, false)
	if err != nil {
		return err
	}
	if tools.code != nil && tools.code.Network != nil && len(tools.code.Network.Secrets) > 0 {
		asked.Tools = hideSecrets(asked.Tools) // the response, which is stored, repeats them
	}
	params, forced, err := asked.params(tools)
	if err != nil {
		return err
	}
	in := &inputReader{q: q, tools: tools, ids: map[string]bool{}}
	if err := in.read(asked); err != nil {
		return err
	}
	b, err := in.container()
	if err != nil {
		return err
	}
	t := &turn{q: q, tools: tools, box: b, params: params, messages: in.messages, forced: forced, most: -1}
	if asked.MaxToolCalls != nil {
		if t.most = *asked.MaxToolCalls; t.most < 1 {
			return invalid("max_tool_calls", "integer_below_min_value", "Invalid 'max_tool_calls': it must be at least 1.")
		}
	}
	r := &response{
		q: q, asked: asked, turn: t, id: responsePrefix + engine.NewID().String(), at: time.Now().Unix(),
		output: []any{}, input: in.items, ran: map[string][]output{},
	}
	if asked.Stream != nil && *asked.Stream {
		r.events = &events{}
	}
	t.to = r
	return q.carry(t)
}

// body is the response so far. Fields that the request left out have OpenAI's defaults.
func (r *response) body(status string) map[string]any {
	a := r.asked
	body := map[string]any{
		"id": r.id, "object": "response", "created_at": r.at, "status": status, "model": a.Model,
		"output": slices.Clone(r.output), "usage": nil, "error": nil, "incomplete_details": nil,
		"instructions": a.Instructions, "previous_response_id": a.Previous, "background": false, "store": false,
		"tools": []json.RawMessage{}, "tool_choice": json.RawMessage(`"auto"`),
		"parallel_tool_calls": a.Parallel == nil || *a.Parallel, "max_tool_calls": a.MaxToolCalls,
		"max_output_tokens": a.MaxOutputTokens, "temperature": a.Temperature, "top_p": a.TopP, "truncation": "disabled",
		"reasoning": map[string]any{"effort": nil, "summary": nil},
		"text":      json.RawMessage(`{"format":{"type":"text"}}`),
		"user":      a.User, "metadata": map[string]string{},
	}
	if a.Tools != nil {
		body["tools"] = a.Tools
	}
	if a.Metadata != nil {
		body["metadata"] = a.Metadata
	}
	if present(a.Text) {
		body["text"] = a.Text
	}
	if present(a.ToolChoice) {
		body["tool_choice"] = a.ToolChoice
	}
	if a.Reasoning != nil {
		body["reasoning"] = map[string]any{"effort": a.Reasoning.Effort, "summary": nil}
	}
	if status != "in_progress" {
		u := r.turn.usage
		body["usage"] = map[string]any{
			"input_tokens":          u.Prompt,
			"input_tokens_details":  map[string]int64{"cached_tokens": u.Prompted.Cached, "cache_write_tokens": 0},
			"output_tokens":         u.Completion,
			"output_tokens_details": map[string]int64{"reasoning_tokens": u.Completed.Reasoning},
			"total_tokens":          u.Prompt + u.Completion,
		}
	}
	return body
}

func (r *response) begun() bool { return r.events != nil && r.events.w != nil || len(r.output) > 0 }

func (r *response) sendStart() {
	if r.events != nil {
		r.events.sendHeaders(r.q.w)
		r.send("created", map[string]any{"response": r.body("in_progress")})
		r.send("in_progress", map[string]any{"response": r.body("in_progress")})
	}
}

func (r *response) finish(status string, fields map[string]any) {
	whole := r.body(status)
	maps.Copy(whole, fields)
	whole["store"] = r.keep(status, whole)
	if r.events == nil {
		writeJSON(r.q.w, http.StatusOK, whole)
		return
	}
	r.send(status, map[string]any{"response": whole})
	r.events.end("")
}

// send sends an event if the client streams.
func (r *response) send(kind string, fields map[string]any) {
	if r.events == nil {
		return
	}
	if fields["type"], fields["sequence_number"] = "response."+kind, r.sequence; r.sequence >= r.skip {
		r.events.send("response."+kind, fields)
	}
	r.sequence++
}

// itemID returns an id for the next item of the output. It has the response and the item's place
// in the conversation: a later request may name the item.
func (r *response) itemID(prefix string) string {
	return itemID(prefix, r.id, len(r.input)+len(r.output))
}

// add begins an item and returns its index in the output.
func (r *response) add(item map[string]any) (index int) {
	r.output = append(r.output, item)
	index = len(r.output) - 1
	r.send("output_item.added", map[string]any{"output_index": index, "item": item})
	return index
}

// set ends an item.
func (r *response) set(index int, item map[string]any) {
	r.output[index] = item
	r.send("output_item.done", map[string]any{"output_index": index, "item": item})
}

// sendPart sends an event of the open message.
func (r *response) sendPart(kind string, fields map[string]any) {
	fields["item_id"], fields["output_index"], fields["content_index"] = r.message["id"], len(r.output)-1, 0
	r.send(kind, fields)
}

// part returns the only part of the open message.
func (r *response) part(citations []map[string]any) map[string]any {
	if r.refusing {
		return map[string]any{"type": "refusal", "refusal": r.words.String()}
	}
	return map[string]any{"type": "output_text", "text": r.words.String(), "logprobs": []any{},
		"annotations": append([]map[string]any{}, citations...)}
}

// open begins a message, unless one of the kind is open.
func (r *response) open(refusal bool) {
	if r.message != nil && r.refusing == refusal {
		return
	}
	if r.message != nil {
		r.endText(nil)
	}
	r.words.Reset()
	r.refusing = refusal
	r.message = map[string]any{"type": "message", "id": r.itemID("msg_"), "status": "in_progress",
		"role": "assistant", "content": []any{}}
	r.add(r.message)
	r.sendPart("content_part.added", map[string]any{"part": r.part(nil)})
}

func (r *response) textDelta(delta string) {
	r.open(false)
	if delta != "" {
		r.words.WriteString(delta)
		r.sendPart("output_text.delta", map[string]any{"delta": delta, "logprobs": []any{}})
	}
}

func (r *response) refusalDelta(delta string) {
	r.open(true)
	r.words.WriteString(delta)
	r.sendPart("refusal.delta", map[string]any{"delta": delta})
}

func (r *response) openText() string {
	if r.message == nil || r.refusing {
		return ""
	}
	return r.words.String()
}

func (r *response) endText(citations []map[string]any) {
	if r.message == nil || len(citations) > 0 { // a message without text can have citations, a refusal cannot
		r.open(false)
	}
	text := r.words.String()
	for i, c := range citations {
		r.sendPart("output_text.annotation.added", map[string]any{"annotation": c, "annotation_index": i})
	}
	if r.refusing {
		r.sendPart("refusal.done", map[string]any{"refusal": text})
	} else {
		r.sendPart("output_text.done", map[string]any{"text": text, "logprobs": []any{}})
	}
	part := r.part(citations)
	r.sendPart("content_part.done", map[string]any{"part": part})
	done := maps.Clone(r.message)
	done["status"], done["content"] = "completed", []any{part}
	r.message = nil
	r.set(len(r.output)-1, done)
}

// progress is the item of a call of the model.
type progress struct {
	id    string
	index int
	code  *partial.Reader
	words strings.Builder // code that has been sent
}

// sendCall sends an event of a call.
func (r *response) sendCall(p *progress, kind string, fields map[string]any) {
	fields["item_id"], fields["output_index"] = p.id, p.index
	r.send(kind, fields)
}

func (r *response) callDelta(c *call, more string) {
	p := c.State.item
	if p == nil {
		p = &progress{id: r.itemID("fc_"), code: partial.NewReader("code")}
		c.State.item = p
		item := map[string]any{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": "",
			"status": "in_progress"}
		if c.State.kind == runsCode {
			p.id = r.itemID(codePrefix)
			item = map[string]any{"type": "code_interpreter_call", "status": "in_progress", "code": "",
				"container_id": r.turn.box.name(), "outputs": []any{}}
		}
		item["id"] = p.id
		p.index = r.add(item)
		if c.State.kind == runsCode {
			r.sendCall(p, "code_interpreter_call.in_progress", map[string]any{})
		}
	}
	switch {
	case c.State.kind != ofClient:
		r.code(p, p.code.Read(more))
	case more != "":
		r.sendCall(p, "function_call_arguments.delta", map[string]any{"delta": more})
	}
}

func (r *response) code(p *progress, more string) {
	if more != "" {
		p.words.WriteString(more)
		r.sendCall(p, "code_interpreter_call_code.delta", map[string]any{"delta": more})
	}
}

func (r *response) codeReady(c *call, code string) {
	p := c.State.item
	if rest, ok := strings.CutPrefix(code, p.words.String()); ok { // of a model that does not wrap its code in JSON
		r.code(p, rest)
	}
	r.sendCall(p, "code_interpreter_call_code.done", map[string]any{"code": code})
	r.sendCall(p, "code_interpreter_call.interpreting", map[string]any{})
}

func (r *response) codeDone(c *call, code string, how *ran) {
	p := c.State.item
	if how.status != "incomplete" {
		r.sendCall(p, "code_interpreter_call.completed", map[string]any{})
	}
	item := map[string]any{"type": "code_interpreter_call", "id": p.id, "status": how.status, "code": code,
		"container_id": r.turn.box.name(), "outputs": nil}
	if slices.Contains(r.asked.Include, includes[0]) {
		item["outputs"] = how.outputs
	}
	if !how.cell.IsZero() {
		r.q.ran.Put(r.q.caller.Owner, p.id, how.cell)
	}
	r.ran[p.id] = how.outputs
	r.set(p.index, item)
}

func (r *response) functionDone(c *call, status string) {
	p, text := c.State.item, c.Arguments.String()
	r.sendCall(p, "function_call_arguments.done", map[string]any{"arguments": text, "name": c.Name})
	r.set(p.index, map[string]any{"type": "function_call", "id": p.id, "call_id": c.ID, "name": c.Name,
		"arguments": text, "status": status})
}
