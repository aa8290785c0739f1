package providertest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// answer streams the next turn in the order of recorded turns: all uses of the tool, then
// their results, here the last first, then the text.
func (s *AnthropicServer) answer(w http.ResponseWriter, q anthropicRequest, container string) {
	t := s.NextTurn()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Request-Id", "req_run")
	e := &anthropicEvents{w: w}
	e.send("message_start", map[string]any{"message": map[string]any{
		"id": NewID("msg_01"), "type": "message", "role": "assistant", "model": q.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{
			"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 40},
	}})
	e.send("ping", map[string]any{})
	var results []map[string]any
	for _, step := range t.Steps {
		use, result := s.step(step)
		e.block(use.block, "input_json_delta", "partial_json", use.input)
		results = append(results, result)
	}
	slices.Reverse(results)
	for _, result := range results {
		e.block(result, "", "", "")
	}
	stop := "end_turn"
	if t.Pause {
		stop = "pause_turn"
	}
	if t.Text != "" {
		e.block(map[string]any{"type": "text", "text": ""}, "text_delta", "text", t.Text)
	}
	for _, c := range t.Calls {
		stop = "tool_use"
		e.block(map[string]any{"type": "tool_use", "id": NewID("toolu_01"), "name": c.Name, "input": map[string]any{}},
			"input_json_delta", "partial_json", string(c.Arguments))
	}
	if t.Refuse {
		stop = "refusal"
	}
	delta := map[string]any{"stop_reason": stop, "stop_sequence": nil}
	if container != "" {
		s.mu.Lock()
		expires := s.containers[container]
		s.mu.Unlock()
		delta["container"] = map[string]any{"id": container, "expires_at": expires.Format(time.RFC3339Nano),
			"skills": []any{}}
	}
	e.send("message_delta", map[string]any{"delta": delta, "usage": map[string]any{"output_tokens": 50}})
	e.send("message_stop", map[string]any{})
}

// anthropicUse is a use of the tool: its block, and the input, which follows in pieces.
type anthropicUse struct {
	block map[string]any
	input string
}

// step runs a step of the script: Python with the tool's newer variant, bash with that of
// 20250825.
func (s *AnthropicServer) step(step Step) (anthropicUse, map[string]any) {
	name, field, prefix := "bash_code_execution", "command", "bash_code_execution"
	if step.Language == "python" {
		name, field, prefix = "code_execution", "code", "code_execution"
	}
	id := NewID("srvtoolu_01")
	input, _ := json.Marshal(map[string]string{field: step.Code})
	use := anthropicUse{map[string]any{"type": "server_tool_use", "id": id, "name": name, "input": map[string]any{},
		"caller": map[string]any{"type": "direct"}}, string(input)}
	result := map[string]any{"type": prefix + "_tool_result", "tool_use_id": id}
	if step.TimedOut {
		result["content"] = map[string]any{"type": prefix + "_tool_result_error", "error_code": "execution_time_exceeded"}
		return use, result
	}
	outputs := []any{}
	for _, m := range step.Files {
		f := s.files.put(&shelved{id: NewID("file_011"), name: m.Name, mime: http.DetectContentType(m.Data), data: m.Data,
			created: s.Clock.Now(), made: true})
		outputs = append(outputs, map[string]any{"type": prefix + "_output", "file_id": f.id})
	}
	result["content"] = map[string]any{"type": prefix + "_result", "stdout": step.Stdout, "stderr": step.Stderr,
		"return_code": step.Exit, "content": outputs}
	return use, result
}

// anthropicEvents writes the events of a stream.
type anthropicEvents struct {
	w      http.ResponseWriter
	blocks int
}

func (e *anthropicEvents) send(kind string, fields map[string]any) {
	fields["type"] = kind
	sendEvent(e.w, kind, fields)
}

// block writes a block: its start, pieces of a field, its end.
func (e *anthropicEvents) block(start map[string]any, kind, field, content string) {
	e.send("content_block_start", map[string]any{"index": e.blocks, "content_block": start})
	pieces := strings.SplitAfter(content, " ") // as models write: word by word
	if kind != "text_delta" {
		pieces = nil
		for piece := range slices.Chunk([]byte(content), len(content)/2+1) {
			pieces = append(pieces, string(piece))
		}
	}
	for _, piece := range pieces {
		e.send("content_block_delta", map[string]any{"index": e.blocks, "delta": map[string]any{"type": kind, field: piece}})
	}
	e.send("content_block_stop", map[string]any{"index": e.blocks})
	e.blocks++
}
