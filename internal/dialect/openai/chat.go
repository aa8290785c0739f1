package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
)

// completion is a chat completion whose model runs code. It implements sink. OpenAI has no
// such completions; citations are annotations of the message, as in the Responses API.
type completion struct {
	q      *request
	turn   *turn
	model  string
	id     string
	at     int64
	usage  bool // is streamed
	events *events

	words       strings.Builder
	refusal     strings.Builder
	before      int // offset of the open message in words
	annotations []map[string]any
	calls       []any // of the client's functions
}

// createCompletion is POST /chat/completions. A request without the tool code_interpreter is
// forwarded unchanged.
func (q *request) createCompletion() error {
	var body json.RawMessage
	if err := q.readJSON(&body); err != nil {
		return err
	}
	var asked struct {
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
		Tools    []json.RawMessage `json:"tools"`
		Stream   bool              `json:"stream"`
		Options  struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
		Choice json.RawMessage `json:"tool_choice"`
		N      *int            `json:"n"`
	}
	if err := unmarshal(body, &asked); err != nil {
		return err
	}
	tools, err := readTools(asked.Tools, true)
	switch {
	case err != nil:
		return err
	case tools.python == "":
		return q.passOn(body)
	case asked.N != nil && *asked.N != 1:
		return unsupported("n", "With the tool code_interpreter there is one choice.")
	}
	in := &inputReader{q: q, tools: tools, ids: map[string]bool{}}
	b, err := in.container()
	if err != nil {
		return err
	}
	t := &turn{q: q, tools: tools, box: b, params: map[string]any{}, messages: asked.Messages, most: -1}
	var given map[string]json.RawMessage
	_ = json.Unmarshal(body, &given) // asked was read from it
	for name, value := range given {
		t.params[name] = value
	}
	var choice struct{ Type string }
	switch _ = json.Unmarshal(asked.Choice, &choice); {
	case choice.Type == "code_interpreter":
		t.forced = true
		t.params["tool_choice"] = map[string]any{"type": "function", "function": map[string]string{"name": tools.python}}
	case choice.Type != "", string(asked.Choice) == `"required"`:
		t.forced = true
	}
	c := &completion{q: q, turn: t, model: asked.Model, id: "chatcmpl-" + engine.NewID().String(),
		at: time.Now().Unix(), usage: asked.Options.Usage}
	if asked.Stream {
		c.events = &events{}
	}
	t.to = c
	return q.carry(t)
}

func (c *completion) whole(object string, choices ...any) map[string]any {
	return map[string]any{"id": c.id, "object": object, "created": c.at, "model": c.model, "choices": choices}
}

func (c *completion) delta(fields map[string]any, reason any) {
	if c.events != nil {
		c.events.send("", c.whole("chat.completion.chunk", map[string]any{"index": 0, "delta": fields,
			"finish_reason": reason, "logprobs": nil}))
	}
}

func (c *completion) begun() bool { return c.events != nil && c.events.w != nil }

func (c *completion) sendStart() {
	if c.events != nil {
		c.events.sendHeaders(c.q.w)
		c.delta(map[string]any{"role": "assistant", "content": ""}, nil)
	}
}

func (c *completion) textDelta(delta string) {
	c.words.WriteString(delta)
	c.delta(map[string]any{"content": delta}, nil)
}

func (c *completion) refusalDelta(delta string) {
	c.refusal.WriteString(delta)
	c.delta(map[string]any{"refusal": delta}, nil)
}

func (c *completion) openText() string { return c.words.String()[c.before:] }

func (c *completion) endText(citations []map[string]any) {
	from := utf8.RuneCountInString(c.words.String()[:c.before])
	c.before = c.words.Len()
	if len(citations) == 0 {
		return
	}
	for _, citation := range citations {
		if citation["end_index"] != 0 {
			citation["start_index"], citation["end_index"] = citation["start_index"].(int)+from, citation["end_index"].(int)+from
		}
	}
	c.annotations = append(c.annotations, citations...)
	c.delta(map[string]any{"annotations": citations}, nil)
}

func (c *completion) callDelta(*call, string)      {}
func (c *completion) codeReady(*call, string)      {}
func (c *completion) codeDone(*call, string, *ran) {}

func (c *completion) functionDone(done *call, _ string) {
	spelled := toolCall(done.ID, done.Name, done.Arguments.String())
	c.calls = append(c.calls, maps.Clone(spelled))
	spelled["index"] = len(c.calls) - 1
	c.delta(map[string]any{"tool_calls": []any{spelled}}, nil)
}

func (c *completion) finish(status string, fields map[string]any) {
	reason := "stop"
	switch why, _ := fields["incomplete_details"].(map[string]string); {
	case status == "incomplete" && why["reason"] == filtered:
		reason = filtered
	case status == "incomplete":
		reason = "length"
	case len(c.calls) > 0:
		reason = "tool_calls"
	}
	u := c.turn.usage
	usage := map[string]any{"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt +
		u.Completion}
	if c.events == nil {
		message := map[string]any{"role": "assistant", "content": c.words.String(),
			"refusal": orNull(c.refusal.String()), "annotations": c.annotations}
		if c.refusal.Len() > 0 {
			message["content"] = orNull(c.words.String())
		}
		if len(c.calls) > 0 {
			message["tool_calls"] = c.calls
		}
		whole := c.whole("chat.completion", map[string]any{"index": 0, "message": message, "finish_reason": reason,
			"logprobs": nil})
		whole["usage"] = usage
		writeJSON(c.q.w, http.StatusOK, whole)
		return
	}
	if status == "failed" {
		c.events.send("", fields) // {"error": …}, as servers of this API end a stream
		c.events.end("")
		return
	}
	c.delta(map[string]any{}, reason)
	if c.usage {
		last := c.whole("chat.completion.chunk")
		last["choices"], last["usage"] = []any{}, usage
		c.events.send("", last)
	}
	c.events.end("data: [DONE]\n\n")
}

// passOn forwards a request to the model's server, and its answer to the client.
func (q *request) passOn(body []byte) error {
	end, err := q.reserveSlot(q.caller.Owner)
	if err != nil {
		return err
	}
	defer end()
	resp, err := q.upstream(q.Context(), http.MethodPost, "/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return q.copy(resp)
}

func (q *request) copy(resp *http.Response) error {
	defer resp.Body.Close()
	h := q.w.Header()
	h.Set("Content-Type", resp.Header.Get("Content-Type"))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	q.w.WriteHeader(http.StatusOK)
	out, buffer := http.NewResponseController(q.w), make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			if _, err := q.w.Write(buffer[:n]); err != nil || out.Flush() != nil {
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the status is sent: only a cut can tell that the answer is incomplete
		}
	}
}

// models forwards the list of models.
func (q *request) models() error {
	resp, err := q.upstream(q.Context(), http.MethodGet, "/models", nil)
	if err != nil {
		return err
	}
	return q.copy(resp)
}

// model finds a model in the list: many servers have no route for one.
func (q *request) model() (any, error) {
	resp, err := q.upstream(q.Context(), http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list struct{ Data []map[string]any }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&list); err != nil {
		return nil, upstreamFailed("The model's server does not list its models.")
	}
	for _, m := range list.Data {
		if m["id"] == q.PathValue("model") {
			return m, nil
		}
	}
	return nil, &refusal{http.StatusNotFound, problem{
		Message: fmt.Sprintf("The model '%.80s' does not exist or you do not have access to it.", q.PathValue("model")),
		Type:    invalidRequest, Param: "model", Code: "model_not_found",
	}}
}
