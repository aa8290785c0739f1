package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// frameworkCode is what the model writes: it reads a file, makes another, and prints one line, which no part of the
// code contains.
const frameworkCode = `import pandas as pd

sales = pd.read_csv("sales.csv")
revenue = (sales.units * sales.price).groupby(sales.region).sum()
revenue.plot.bar(title="Revenue by region", rot=0).figure.savefig("revenue.png")
print(f"{revenue.idxmax()} sells most: {revenue.max():.2f}")`

var printed = regexp.MustCompile(`[A-Z][a-z]+ sells most: [0-9]+\.[0-9][0-9]`)

// pngBase64 is how each PNG begins in base64.
const pngBase64 = "iVBORw0KGgo"

// reply is an answer of the model: a text, or a call of a tool.
type reply struct {
	text, tool string
	arguments  map[string]any
}

// frameworkModel speaks OpenAI's chat completions and responses. Its first answer has the code; the others quote
// what the code has printed, which has to be in the request.
type frameworkModel struct {
	t      *testing.T
	url    string
	first  reply
	second func(line string) string // nil: as it is

	mu      sync.Mutex
	asked   int
	apis    []string // and whether it was a stream
	picture bool     // a request had one
}

func newFrameworkModel(t *testing.T, first reply, second func(string) string) *frameworkModel {
	t.Helper()
	m := &frameworkModel{t: t, first: first, second: second}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		m.answer(w, r, "chat completions", m.completion, m.completionEvents)
	})
	mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) {
		m.answer(w, r, "responses", m.response, m.responseEvents)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	m.url = server.URL + "/v1"
	return m
}

func (m *frameworkModel) answer(w http.ResponseWriter, r *http.Request, api string, whole func(reply) map[string]any,
	events func(reply, func(any))) {
	var request map[string]any
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		m.t.Errorf("%s: %v", api, err)
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	next := m.next(request)
	if request["stream"] != true {
		m.used(api)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(whole(next))
		return
	}
	m.used(api + ", streamed")
	w.Header().Set("Content-Type", "text/event-stream")
	events(next, func(event any) {
		text, _ := json.Marshal(event)
		if typed, ok := event.(map[string]any); ok && typed["type"] != nil {
			fmt.Fprintf(w, "event: %s\n", typed["type"])
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
	})
	if api == "chat completions" {
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

func (m *frameworkModel) used(api string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.apis, api) {
		m.apis = append(m.apis, api)
	}
}

// next returns what the model says to a request.
func (m *frameworkModel) next(request map[string]any) reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	var tools, said []string
	eachString(request["tools"], func(s string) { tools = append(tools, s) })
	for _, messages := range []any{request["messages"], request["input"]} {
		eachString(messages, func(s string) {
			if strings.HasPrefix(s, "data:image/") {
				m.picture = true
				return
			}
			if strings.Contains(s, pngBase64) {
				m.t.Error("the framework gives the model a picture as text: the example needs --images 0")
			}
			said = append(said, s)
		})
	}
	if m.asked == 1 {
		if m.first.tool == "" {
			return m.first
		}
		// Some frameworks put the server's name before the tool's.
		i := slices.IndexFunc(tools, func(name string) bool {
			return name == m.first.tool || strings.HasSuffix(name, "_"+m.first.tool)
		})
		if i < 0 {
			m.t.Errorf("the tool %s is not among those that the framework offers: %.2000q", m.first.tool, tools)
			return reply{text: "There is no tool."}
		}
		return reply{tool: tools[i], arguments: m.first.arguments}
	}
	line := printed.FindString(strings.Join(said, "\n"))
	if line == "" {
		m.t.Errorf("the framework does not tell the model what the code has printed: %.6000q", said)
		line = "Nothing was printed"
	}
	if m.second != nil {
		return reply{text: m.second(line)}
	}
	return reply{text: line + ". The chart is in revenue.png."}
}

// eachString calls a function with each string of a value of JSON.
func eachString(value any, each func(string)) {
	switch v := value.(type) {
	case string:
		each(v)
	case []any:
		for _, one := range v {
			eachString(one, each)
		}
	case map[string]any:
		for _, one := range v {
			eachString(one, each)
		}
	}
}

func (r reply) encoded() string {
	text, _ := json.Marshal(r.arguments)
	return string(text)
}

var spent = map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

func (m *frameworkModel) completion(r reply) map[string]any {
	message, finish := map[string]any{"role": "assistant", "content": r.text}, "stop"
	if r.tool != "" {
		finish = "tool_calls"
		message["content"] = nil
		message["tool_calls"] = []any{map[string]any{"id": "call_1", "type": "function",
			"function": map[string]any{"name": r.tool, "arguments": r.encoded()}}}
	}
	return map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted",
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": message}}, "usage": spent}
}

func (m *frameworkModel) completionEvents(r reply, send func(any)) {
	chunk := func(delta map[string]any, finish any) {
		send(map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	if r.tool == "" {
		for i, word := range strings.SplitAfter(r.text, " ") {
			delta := map[string]any{"content": word}
			if i == 0 {
				delta["role"] = "assistant"
			}
			chunk(delta, nil)
		}
		chunk(map[string]any{}, "stop")
	} else {
		call := func(more map[string]any, function map[string]any) {
			more["index"], more["function"] = 0, function
			chunk(map[string]any{"tool_calls": []any{more}}, nil)
		}
		arguments := r.encoded()
		half := len(arguments) / 2
		call(map[string]any{"id": "call_1", "type": "function"}, map[string]any{"name": r.tool, "arguments": ""})
		call(map[string]any{}, map[string]any{"arguments": arguments[:half]})
		call(map[string]any{}, map[string]any{"arguments": arguments[half:]})
		chunk(map[string]any{}, "tool_calls")
	}
	send(map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
		"choices": []any{}, "usage": spent})
}

func (m *frameworkModel) response(r reply) map[string]any {
	return m.responseWith("completed", m.item(r))
}

func (m *frameworkModel) item(r reply) map[string]any {
	if r.tool != "" {
		return map[string]any{"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed",
			"name": r.tool, "arguments": r.encoded()}
	}
	return map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": r.text, "annotations": []any{}}}}
}

func (m *frameworkModel) responseWith(status string, output ...any) map[string]any {
	return map[string]any{"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "scripted",
		"output": append([]any{}, output...), "parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{},
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": map[string]any{},
		"temperature": 1, "top_p": 1,
		"usage": map[string]any{"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
			"input_tokens_details":  map[string]any{"cached_tokens": 0, "cache_write_tokens": 0},
			"output_tokens_details": map[string]any{"reasoning_tokens": 0}}}
}

func (m *frameworkModel) responseEvents(r reply, send func(any)) {
	number := 0
	event := func(kind string, fields map[string]any) {
		fields["type"], fields["sequence_number"] = kind, number
		number++
		send(fields)
	}
	item := m.item(r)
	event("response.created", map[string]any{"response": m.responseWith("in_progress")})
	begun := m.item(r)
	begun["status"] = "in_progress"
	if r.tool != "" {
		begun["arguments"] = ""
		event("response.output_item.added", map[string]any{"output_index": 0, "item": begun})
		at := map[string]any{"output_index": 0, "item_id": "fc_1", "delta": r.encoded()}
		event("response.function_call_arguments.delta", at)
		event("response.function_call_arguments.done", map[string]any{"output_index": 0, "item_id": "fc_1",
			"name": r.tool, "arguments": r.encoded()})
	} else {
		begun["content"] = []any{}
		event("response.output_item.added", map[string]any{"output_index": 0, "item": begun})
		part := func(text string) map[string]any {
			return map[string]any{"output_index": 0, "item_id": "msg_1", "content_index": 0,
				"part": map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}
		}
		event("response.content_part.added", part(""))
		for word := range strings.SplitAfterSeq(r.text, " ") {
			event("response.output_text.delta", map[string]any{"output_index": 0, "item_id": "msg_1", "content_index": 0,
				"delta": word, "logprobs": []any{}})
		}
		event("response.output_text.done", map[string]any{"output_index": 0, "item_id": "msg_1", "content_index": 0,
			"text": r.text, "logprobs": []any{}})
		event("response.content_part.done", part(r.text))
	}
	event("response.output_item.done", map[string]any{"output_index": 0, "item": item})
	event("response.completed", map[string]any{"response": m.responseWith("completed", item)})
}
