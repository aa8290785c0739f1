package providertest

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// openAIRequest has the fields of a request that the server checks.
type openAIRequest struct {
	Model   string
	Stream  bool
	Store   *bool
	Include []string
	Tools   []struct {
		Type        string
		Container   json.RawMessage
		Environment struct {
			Type        string
			ContainerID string   `json:"container_id"`
			FileIDs     []string `json:"file_ids"`
		}
	}
}

func (s *OpenAI) respond(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var q openAIRequest
	if err := json.Unmarshal(body, &q); err != nil {
		s.refuse(w, http.StatusBadRequest, err.Error(), "")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, body)
	if !strings.HasPrefix(q.Model, "gpt-") {
		s.refuse(w, http.StatusBadRequest, "The requested model '"+q.Model+"' does not exist.", "model_not_found")
		return
	}
	c, auto, shell, ok := s.containerOf(w, q)
	if !ok {
		return
	}
	turn := s.NextTurn()
	if auto != nil && len(turn.Steps) > 0 { // created when code runs
		if c, ok = s.makeContainer("auto", *auto); !ok {
			s.refuse(w, http.StatusNotFound, "No such File object", "")
			return
		}
	}
	output := s.items(turn, c, shell, slices.Contains(q.Include, "code_interpreter_call.outputs"))
	status := "completed"
	response := map[string]any{"id": NewID("resp_"), "object": "response", "created_at": s.Clock.Now().Unix(),
		"model": q.Model, "status": status, "output": output, "error": nil, "incomplete_details": nil,
		"usage": map[string]any{"input_tokens": 11, "input_tokens_details": map[string]any{"cached_tokens": 1},
			"output_tokens": 7, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 18}}
	if !q.Stream {
		writeJSON(w, http.StatusOK, response)
		return
	}
	s.stream(w, response, output)
}

// containerOf returns the container of a request, or the files for a new one; neither if no
// tool runs code.
func (s *OpenAI) containerOf(
	w http.ResponseWriter, q openAIRequest,
) (c *openAIContainer, auto *[]string, shell, ok bool) {
	for _, t := range q.Tools {
		id, files := t.Environment.ContainerID, t.Environment.FileIDs
		switch t.Type {
		case "shell":
			shell = true
		case "code_interpreter":
			var own struct {
				FileIDs []string `json:"file_ids"`
			}
			if json.Unmarshal(t.Container, &id) != nil {
				_ = json.Unmarshal(t.Container, &own)
				id, files = "", own.FileIDs
			}
		default:
			continue
		}
		if id == "" {
			return nil, &files, shell, true
		}
		c = s.containers[id]
		if c == nil {
			s.refuse(w, http.StatusNotFound, "Container with id '"+id+"' not found.", "")
			return nil, nil, shell, false
		}
		if s.dead(c) {
			s.expired(w)
			return nil, nil, shell, false
		}
		c.Used = s.Clock.Now()
		return c, nil, shell, true
	}
	return nil, nil, false, true
}

// items plays a turn: it creates the files and returns the items of the service.
func (s *OpenAI) items(t Turn, c *openAIContainer, shell, outputs bool) (items []map[string]any) {
	citations := []map[string]any{}
	for _, step := range t.Steps {
		var made []Made
		if c != nil {
			made = step.Files
		}
		shown := []map[string]any{}
		for _, m := range made {
			if m.Shown { // a separate file, which the text does not name
				f := s.write(c, m, true)
				citations = append(citations, cite(c, f.id, f.id+".png", 0, 0))
				shown = append(shown, map[string]any{"type": "image", "url": "data:image/png;base64," +
					base64.StdEncoding.EncodeToString(m.Data)})
			}
			f := s.write(c, m, false)
			if link := "[" + m.Name + "](sandbox:/mnt/data/" + m.Name + ")"; strings.Contains(t.Text, link) {
				at := strings.Index(t.Text, link)
				citations = append(citations, cite(c, f.id, m.Name, at, at+len(link)))
			}
		}
		if shell {
			items = append(items, shellItems(c, step)...)
			continue
		}
		items = append(items, interpreterItem(c, step, shown, outputs))
	}
	for _, call := range t.Calls {
		items = append(items, map[string]any{"type": "function_call", "id": NewID("fc_"), "call_id": NewID("call_"),
			"name": call.Name, "arguments": string(call.Arguments), "status": "completed"})
	}
	if t.Unmentioned {
		citations = []map[string]any{}
	}
	if len(t.Calls) == 0 {
		part := map[string]any{"type": "output_text", "text": t.Text, "annotations": citations, "logprobs": []any{}}
		if t.Refuse {
			part = map[string]any{"type": "refusal", "refusal": t.Text}
		}
		items = append(items, map[string]any{"type": "message", "id": NewID("msg_"), "status": "completed",
			"role": "assistant", "content": []any{part}})
	}
	return items
}

// write creates or replaces a file in a container.
func (s *OpenAI) write(c *openAIContainer, m Made, shown bool) *shelved {
	f := &shelved{id: NewID("cfile_"), path: "/mnt/data/" + m.Name, source: "assistant", data: m.Data,
		created: s.Clock.Now()}
	if shown {
		f.path = "/mnt/data/" + f.id + ".png"
	}
	c.Files = slices.DeleteFunc(c.Files, func(k *shelved) bool { return k.path == f.path })
	c.Files = append(c.Files, f)
	return f
}

func cite(c *openAIContainer, id, name string, start, end int) map[string]any {
	return map[string]any{"type": "container_file_citation", "container_id": c.ID, "file_id": id, "filename": name,
		"start_index": start, "end_index": end}
}

// interpreterItem has the status "completed" also after an exception.
func interpreterItem(c *openAIContainer, step Step, shown []map[string]any, outputs bool) map[string]any {
	item := map[string]any{"type": "code_interpreter_call", "id": NewID("ci_"), "status": "completed", "code": step.Code,
		"container_id": c.ID, "outputs": nil}
	if !outputs {
		return item
	}
	list := []map[string]any{}
	if logs := step.Stdout + step.Stderr; logs != "" {
		list = append(list, map[string]any{"type": "logs", "logs": logs})
	}
	item["outputs"] = append(list, shown...)
	return item
}

func shellItems(c *openAIContainer, step Step) []map[string]any {
	id := NewID("call_")
	outcome := map[string]any{"type": "exit", "exit_code": step.Exit}
	if step.TimedOut {
		outcome = map[string]any{"type": "timeout"}
	}
	return []map[string]any{
		{"type": "shell_call", "id": NewID("sh_"), "call_id": id, "status": "completed",
			"action":      map[string]any{"commands": []string{step.Code}, "timeout_ms": nil, "max_output_length": nil},
			"environment": map[string]any{"type": "container_reference", "container_id": c.ID}},
		{"type": "shell_call_output", "id": NewID("sho_"), "call_id": id, "status": "completed", "max_output_length": nil,
			"output": []any{map[string]any{"stdout": step.Stdout, "stderr": step.Stderr, "outcome": outcome}}},
	}
}

// stream writes the events of a response in the recorded order.
func (s *OpenAI) stream(w http.ResponseWriter, response map[string]any, output []map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	send := func(kind string, fields map[string]any) {
		fields["type"], fields["sequence_number"] = kind, n
		n++
		sendEvent(w, kind, fields)
	}
	begun := maps.Clone(response)
	begun["status"], begun["output"], begun["usage"] = "in_progress", []any{}, nil
	send("response.created", map[string]any{"response": begun})
	send("response.in_progress", map[string]any{"response": begun})
	for i, item := range output {
		switch item["type"] {
		case "code_interpreter_call":
			streamCode(send, i, item)
		case "message":
			streamMessage(send, i, item)
		default:
			send("response.output_item.added", map[string]any{"output_index": i, "item": item})
			send("response.output_item.done", map[string]any{"output_index": i, "item": item})
		}
	}
	send("response.completed", map[string]any{"response": response})
}

type sender func(kind string, fields map[string]any)

func streamCode(send sender, i int, item map[string]any) {
	id, code := item["id"], item["code"].(string)
	begun := maps.Clone(item)
	begun["status"], begun["code"], begun["outputs"] = "in_progress", "", []any{}
	send("response.output_item.added", map[string]any{"output_index": i, "item": begun})
	send("response.code_interpreter_call.in_progress", map[string]any{"output_index": i, "item_id": id})
	for _, half := range []string{code[:len(code)/2], code[len(code)/2:]} {
		send("response.code_interpreter_call_code.delta", map[string]any{"output_index": i, "item_id": id, "delta": half})
	}
	send("response.code_interpreter_call_code.done", map[string]any{"output_index": i, "item_id": id, "code": code})
	send("response.code_interpreter_call.interpreting", map[string]any{"output_index": i, "item_id": id})
	send("response.code_interpreter_call.completed", map[string]any{"output_index": i, "item_id": id})
	send("response.output_item.done", map[string]any{"output_index": i, "item": item})
}

func streamMessage(send sender, i int, item map[string]any) {
	id := item["id"]
	part := item["content"].([]any)[0].(map[string]any)
	at := func(more map[string]any) map[string]any {
		more["output_index"], more["item_id"], more["content_index"] = i, id, 0
		return more
	}
	send("response.output_item.added", map[string]any{"output_index": i,
		"item": map[string]any{"type": "message", "id": id, "status": "in_progress", "role": "assistant",
			"content": []any{}}})
	send("response.content_part.added", at(map[string]any{"part": map[string]any{
		"type": "output_text", "text": "", "annotations": []any{}}}))
	if text, ok := part["text"].(string); ok {
		for word := range strings.SplitAfterSeq(text, " ") {
			send("response.output_text.delta", at(map[string]any{"delta": word, "logprobs": []any{}}))
		}
		for k, a := range part["annotations"].([]map[string]any) {
			send("response.output_text.annotation.added", at(map[string]any{"annotation": a, "annotation_index": k}))
		}
		send("response.output_text.done", at(map[string]any{"text": text, "logprobs": []any{}}))
	}
	send("response.content_part.done", at(map[string]any{"part": part}))
	send("response.output_item.done", map[string]any{"output_index": i, "item": item})
}
