package openai

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/partial"
)

// response is one of the Responses API at work.
type response struct {
	q      *request
	asked  *responseRequest
	turn   *turn
	id     string
	at     int64
	output []any // items, as they stand
	input  []json.RawMessage
	logs   map[string][]output // of calls of code, for later responses

	events   *events // nil: it is answered whole
	sequence int

	words   strings.Builder // of the open message
	message map[string]any  // that is open; nil: none
}

// createResponse is POST /responses.
func (q *request) createResponse() error {
	asked, err := q.readResponse()
	if err != nil {
		return err
	}
	t, items, err := q.newTurn(asked)
	if err != nil {
		return err
	}
	r := &response{
		q: q, asked: asked, turn: t, id: responsePrefix + engine.NewID().String(), at: time.Now().Unix(),
		output: []any{}, input: items, logs: map[string][]output{},
	}
	t.to = r
	if asked.Stream != nil && *asked.Stream {
		r.events = &events{}
	}
	return q.carry(t, func(status string, fields map[string]any) {
		whole := r.body(status)
		maps.Copy(whole, fields)
		whole["store"] = r.keep(status, whole)
		if r.events == nil {
			writeJSON(q.w, http.StatusOK, whole)
			return
		}
		_ = r.send("response."+status, map[string]any{"response": whole}) // the client may be gone
		r.events.end("")
	}, func() bool { return r.events != nil && r.events.w != nil || len(r.output) > 0 })
}

// newTurn prepares what a request asks for.
func (q *request) newTurn(asked *responseRequest) (*turn, []json.RawMessage, error) {
	tools, err := readTools(asked.Tools)
	if err != nil {
		return nil, nil, err
	}
	params, forced, err := asked.params(tools)
	if err != nil {
		return nil, nil, err
	}
	in := &inputReader{q: q, tools: tools}
	if err := in.read(asked); err != nil {
		return nil, nil, err
	}
	b, err := in.container()
	if err != nil {
		return nil, nil, err
	}
	t := &turn{q: q, tools: tools, box: b, params: params, messages: in.messages, forced: forced, most: -1}
	if asked.MaxToolCalls != nil {
		if t.most = *asked.MaxToolCalls; t.most < 1 {
			return nil, nil, invalid("max_tool_calls", "integer_below_min_value",
				"Invalid 'max_tool_calls': it must be at least 1.")
		}
	}
	return t, in.items, nil
}

// carry carries a turn through, in one of the places of its owner, and has it finished
// with the status that it came to. An error before the answer began is returned.
func (q *request) carry(t *turn, finish func(status string, fields map[string]any), begun func() bool) error {
	end, err := q.begin(q.caller.Owner)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeoutCause(q.Context(), q.Turn, errTurn)
	defer cancel()
	reason, err := t.run(ctx)
	switch {
	case err != nil && !begun():
		if ctx.Err() != nil && q.Context().Err() == nil {
			return &refusal{http.StatusGatewayTimeout, t.failure(ctx, err)}
		}
		return err
	case err != nil:
		p := t.failure(ctx, err)
		finish("failed", map[string]any{"error": map[string]any{"code": serverError, "message": p.Message}})
	case reason != "":
		finish("incomplete", map[string]any{"incomplete_details": map[string]string{"reason": reason}})
	default:
		finish("completed", nil)
	}
	return nil
}

// body is the response as it stands. What was left out has OpenAI's default.
func (r *response) body(status string) map[string]any {
	a, tools := r.asked, r.asked.Tools
	if tools == nil {
		tools = []json.RawMessage{}
	}
	body := map[string]any{
		"id": r.id, "object": "response", "created_at": r.at, "status": status, "background": false, "error": nil,
		"incomplete_details": nil,
		"instructions":       a.Instructions, "max_output_tokens": a.MaxOutputTokens, "max_tool_calls": a.MaxToolCalls,
		"model":  a.Model,
		"output": slices.Clone(r.output), "parallel_tool_calls": a.Parallel == nil || *a.Parallel,
		"previous_response_id": a.Previous,
		"reasoning":            map[string]any{"effort": nil, "summary": nil}, "store": false, "temperature": a.Temperature,
		"top_p": a.TopP,
		"text":  json.RawMessage(`{"format":{"type":"text"}}`), "tool_choice": json.RawMessage(`"auto"`), "tools": tools, "truncation": "disabled",
		"usage": nil, "user": a.User, "metadata": map[string]string{},
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
			"input_tokens": u.Prompt, "input_tokens_details": map[string]int64{"cached_tokens": u.Prompted.Cached,
				"cache_write_tokens": 0},
			"output_tokens": u.Completion, "output_tokens_details": map[string]int64{"reasoning_tokens": u.Completed.Reasoning},
			"total_tokens": u.Prompt + u.Completion,
		}
	}
	return body
}

// send sends an event, if the client hears them.
func (r *response) send(kind string, fields map[string]any) error {
	if r.events == nil {
		return nil
	}
	fields["type"], fields["sequence_number"] = kind, r.sequence
	r.sequence++
	return r.events.send(kind, fields)
}

func (r *response) begin() error {
	if r.events == nil {
		return nil
	}
	r.events.begin(r.q.w)
	if err := r.send("response.created", map[string]any{"response": r.body("in_progress")}); err != nil {
		return err
	}
	return r.send("response.in_progress", map[string]any{"response": r.body("in_progress")})
}

// add begins an item. Its place in the output is its index.
func (r *response) add(item map[string]any) (index int, err error) {
	r.output = append(r.output, item)
	index = len(r.output) - 1
	return index, r.send("response.output_item.added", map[string]any{"output_index": index, "item": item})
}

// set ends an item.
func (r *response) set(index int, item map[string]any) error {
	r.output[index] = item
	return r.send("response.output_item.done", map[string]any{"output_index": index, "item": item})
}

// part are the fields of an event of the open message.
func (r *response) part(more map[string]any) map[string]any {
	more["item_id"], more["output_index"], more["content_index"] = r.message["id"], len(r.output)-1, 0
	return more
}

func textPart(text string, citations []map[string]any) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": citations, "logprobs": []any{}}
}

func (r *response) text(delta string) error {
	if r.message == nil {
		r.words.Reset()
		r.message = map[string]any{"type": "message", "id": "msg_" + engine.NewID().String(), "status": "in_progress",
			"role": "assistant", "content": []any{}}
		if _, err := r.add(r.message); err != nil {
			return err
		}
		if err := r.send("response.content_part.added", r.part(map[string]any{"part": textPart("",
			[]map[string]any{})})); err != nil {
			return err
		}
	}
	if delta == "" {
		return nil
	}
	r.words.WriteString(delta)
	return r.send("response.output_text.delta", r.part(map[string]any{"delta": delta, "logprobs": []any{}}))
}

func (r *response) saying() string {
	if r.message == nil {
		return ""
	}
	return r.words.String()
}

func (r *response) said(citations []map[string]any) error {
	if err := r.text(""); err != nil { // an empty one has citations too
		return err
	}
	text := r.words.String()
	for i, c := range citations {
		if err := r.send("response.output_text.annotation.added", r.part(map[string]any{"annotation": c,
			"annotation_index": i})); err != nil {
			return err
		}
	}
	part := textPart(text, citations)
	if err := r.send("response.output_text.done", r.part(map[string]any{"text": text,
		"logprobs": []any{}})); err != nil {
		return err
	}
	if err := r.send("response.content_part.done", r.part(map[string]any{"part": part})); err != nil {
		return err
	}
	done := maps.Clone(r.message)
	done["status"], done["content"] = "completed", []any{part}
	r.message = nil
	return r.set(len(r.output)-1, done)
}

// progress is a call of the model's as the client sees it.
type progress struct {
	id    string
	index int
	code  *partial.Reader
	words strings.Builder // code that was passed on
}

func (p *progress) fields(more map[string]any) map[string]any {
	more["item_id"], more["output_index"] = p.id, p.index
	return more
}

func (r *response) called(c *call, more string) (err error) {
	p, begun := c.State.item.(*progress)
	if !begun {
		p = &progress{code: partial.NewReader("code")}
		c.State.item = p
		item := map[string]any{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": "",
			"status": "in_progress"}
		p.id = "fc_" + engine.NewID().String()
		if c.State.kind == runsCode {
			item = map[string]any{"type": "code_interpreter_call", "status": "in_progress", "code": "",
				"container_id": r.turn.box.name(), "outputs": []any{}}
			p.id = codePrefix + engine.NewID().String()
		}
		item["id"] = p.id
		if p.index, err = r.add(item); err != nil {
			return err
		}
		if c.State.kind == runsCode {
			if err := r.send("response.code_interpreter_call.in_progress", p.fields(map[string]any{})); err != nil {
				return err
			}
		}
	}
	if c.State.kind == ofClient {
		if more == "" {
			return nil
		}
		return r.send("response.function_call_arguments.delta", p.fields(map[string]any{"delta": more}))
	}
	return r.code(p, p.code.Read(more))
}

func (r *response) code(p *progress, more string) error {
	if more == "" {
		return nil
	}
	p.words.WriteString(more)
	return r.send("response.code_interpreter_call_code.delta", p.fields(map[string]any{"delta": more}))
}

// running says that the code of a call is whole, and runs now.
func (r *response) running(c *call, code string) error {
	p := c.State.item.(*progress)
	if rest, ok := strings.CutPrefix(code, p.words.String()); ok { // of a model that sends code as it is
		if err := r.code(p, rest); err != nil {
			return err
		}
	}
	if err := r.send("response.code_interpreter_call_code.done", p.fields(map[string]any{"code": code})); err != nil {
		return err
	}
	return r.send("response.code_interpreter_call.interpreting", p.fields(map[string]any{}))
}

func (r *response) ran(c *call, code string, how *ran) error {
	p := c.State.item.(*progress)
	if how.status != "incomplete" {
		if err := r.send("response.code_interpreter_call.completed", p.fields(map[string]any{})); err != nil {
			return err
		}
	}
	item := map[string]any{"type": "code_interpreter_call", "id": p.id, "status": how.status, "code": code,
		"container_id": r.turn.box.name(), "outputs": nil}
	if slices.Contains(r.asked.Include, includes[0]) {
		item["outputs"] = how.outputs
	}
	r.q.ran.put(p.id, how.cell)
	for _, o := range how.outputs {
		if o.Type == "logs" {
			r.logs[p.id] = append(r.logs[p.id], o)
		}
	}
	return r.set(p.index, item)
}

func (r *response) returned(c *call, status string) error {
	p := c.State.item.(*progress)
	text := c.Arguments.String()
	if err := r.send("response.function_call_arguments.done", p.fields(map[string]any{"arguments": text,
		"name": c.Name})); err != nil {
		return err
	}
	return r.set(p.index, map[string]any{"type": "function_call", "id": p.id, "call_id": c.ID, "name": c.Name,
		"arguments": text, "status": status})
}
