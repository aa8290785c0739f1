package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/internal/sse"
)

// step is one of an interaction, the fields of all kinds that matter here.
type step struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Result    string          `json:"result"`
	IsError   bool            `json:"is_error"`
	Content   []struct {
		Type string `json:"type"`
		Text string `json:"text"`
		Data string `json:"data"`
		MIME string `json:"mime_type"`
	} `json:"content"`
}

// interactionEvent is one of the stream.
type interactionEvent struct {
	Type        string          `json:"event_type"`
	Index       int             `json:"index"`
	Step        json.RawMessage `json:"step"`
	Delta       json.RawMessage `json:"delta"`
	Interaction struct {
		ID     string            `json:"id"`
		Model  string            `json:"model"`
		Status string            `json:"status"`
		Steps  []json.RawMessage `json:"steps"`
		Usage  struct {
			Input   int64 `json:"total_input_tokens"`
			Output  int64 `json:"total_output_tokens"`
			Thought int64 `json:"total_thought_tokens"`
			Tool    int64 `json:"total_tool_use_tokens"`
			Cached  int64 `json:"total_cached_tokens"`
		} `json:"usage"`
	} `json:"interaction"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// interaction is a turn in an environment. Nothing is stored but the environment:
// the steps of the conversation are sent each time.
type interaction struct {
	turn
	steps []json.RawMessage // of the request under way, by index
	said  []json.RawMessage // what this turn adds to the conversation
}

func (c *Client) interact(ctx context.Context, r provider.RunRequest, sink provider.Sink) (*provider.RunResult, error) {
	t := &interaction{turn: turn{c: c, r: r, sink: sink, open: -1, result: &provider.RunResult{Model: r.Model}}}
	input, err := steps(r)
	if err != nil {
		return nil, err
	}
	made := false
	if r.Session == "" && r.Tool != provider.ToolNone {
		if t.r.Session, err = t.open(ctx); err != nil {
			return nil, err
		}
		made = true
	} else if r.Session != "" {
		t.result.Sessions = []provider.Session{{ID: r.Session, IdleTTL: kept, Active: true}}
	}
	err = t.loop(ctx, input)
	if err != nil && t.result.Calls == 0 && len(t.result.Steps) == 0 {
		if made {
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
			defer cancel()
			if failed := (environments{c}).Delete(cleaning, t.r.Session); failed != nil {
				return t.result, errors.Join(err, failed) // it names the environment
			}
		}
		return nil, err
	}
	if err != nil {
		t.result.Stop = provider.StopError
	}
	if raw, failed := json.Marshal(t.said); failed == nil && len(t.said) > 0 {
		t.result.Raw = raw
		t.result.Next = []provider.Turn{{Role: provider.RoleAssistant, Text: t.result.Text, Raw: raw, Provider: provider.Gemini}}
	}
	return t.result, err
}

// cleanTime bounds what is done after the caller has left.
const cleanTime = 10 * time.Second

// open makes an environment for a turn that has none: the name of one that the
// service made by itself would not be told in a stream.
func (t *interaction) open(ctx context.Context) (string, error) {
	spec := provider.SessionSpec{Name: "turn", Network: t.r.Network}
	for _, a := range t.r.Files {
		spec.Files = append(spec.Files, a.File)
	}
	s, err := environments{t.c}.Create(ctx, spec)
	if err != nil {
		return "", err
	}
	t.result.Sessions = []provider.Session{s}
	t.sink.Send(provider.SessionStarted{Session: s})
	return s.ID, nil
}

// steps is the conversation as steps. Turns of generateContent are other ones:
// their text is taken.
func steps(r provider.RunRequest) (all []json.RawMessage, err error) {
	for _, t := range r.Input {
		if t.Provider == provider.Gemini && areSteps(t.Raw) {
			var raw []json.RawMessage
			if err := json.Unmarshal(t.Raw, &raw); err != nil {
				return nil, invalid("an earlier turn of the conversation cannot be read", err)
			}
			all = append(all, raw...)
			continue
		}
		kind := "user_input"
		if t.Role == provider.RoleAssistant {
			kind = "model_output"
		}
		b, _ := json.Marshal(map[string]any{"type": kind, "content": []any{map[string]string{"type": "text", "text": t.Text}}}) // of strings
		all = append(all, b)
	}
	return all, nil
}

// areSteps tells a turn of an interaction from one of generateContent, whose
// contents have no type.
func areSteps(raw json.RawMessage) bool {
	var all []step
	return json.Unmarshal(raw, &all) == nil && len(all) > 0 && all[0].Type != ""
}

func (t *interaction) request(input []json.RawMessage) ([]byte, error) {
	q := map[string]any{"model": t.r.Model, "input": input, "stream": true, "store": false}
	if t.r.Instructions != "" {
		q["system_instruction"] = t.r.Instructions
	}
	if t.r.MaxTokens > 0 {
		q["generation_config"] = map[string]int{"max_output_tokens": t.r.MaxTokens}
	}
	var tools []any
	if t.r.Tool != provider.ToolNone {
		tools = append(tools, map[string]string{"type": "code_execution"})
		q["environment"] = t.r.Session
	}
	for _, f := range t.r.Functions {
		schema := f.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		tools = append(tools, map[string]any{"type": "function", "name": f.Name, "description": f.Description, "parameters": schema})
	}
	if len(tools) > 0 {
		q["tools"] = tools
	}
	if len(t.r.Schema) > 0 {
		q["response_format"] = map[string]any{"type": "text", "mime_type": "application/json", "schema": t.r.Schema}
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, invalid("a schema is not JSON", err)
	}
	return body, nil
}

func (t *interaction) loop(ctx context.Context, before []json.RawMessage) error {
	most := t.r.MaxCalls
	if most <= 0 {
		most = maxCalls
	}
	for {
		body, err := t.request(slices.Concat(before, t.said))
		if err != nil {
			return err
		}
		if t.result.Calls == 0 {
			err = t.ask(ctx, body)
		} else {
			err = t.c.options.Retry.Do(ctx, func(ctx context.Context) error { return t.ask(ctx, body) })
		}
		if err != nil {
			return err
		}
		t.result.Calls++
		var calls []step
		for _, raw := range t.steps {
			var s step
			if json.Unmarshal(raw, &s) == nil && s.Type == "function_call" {
				calls = append(calls, s)
			}
		}
		if len(calls) > 0 && t.result.Calls >= most {
			t.result.Stop = provider.StopCalls // calls without replies cannot stand in a conversation
			return nil
		}
		t.said = append(t.said, t.steps...)
		if len(calls) == 0 {
			return nil
		}
		if err := t.answer(ctx, calls); err != nil {
			return err
		}
	}
}

// ask makes one request.
func (t *interaction) ask(ctx context.Context, body []byte) error {
	t.steps = nil
	r, err := t.c.request(ctx, http.MethodPost, "/"+apiVersion+"/interactions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	resp, err := t.c.options.HTTP.Do(r)
	if err != nil {
		return provider.Failed(provider.Gemini, "run", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, mostError)) // half an error is one too
		return t.c.refused("run", resp.StatusCode, resp.Header, said)
	}
	begun := false
	for e, err := range sse.Read(resp.Body) {
		if err != nil {
			return broken(provider.Failed(provider.Gemini, "run", err), begun)
		}
		if string(e.Data) == "[DONE]" {
			break
		}
		var ev interactionEvent
		if err := json.Unmarshal(e.Data, &ev); err != nil {
			return broken(provider.Failed(provider.Gemini, "run", fmt.Errorf("a part of the answer is not JSON: %.100q", e.Data)), begun)
		}
		done, err := t.event(ev)
		if done || err != nil {
			return broken(err, begun)
		}
		begun = true
	}
	return broken(provider.Failed(provider.Gemini, "run", errors.Join(ctx.Err(), errors.New("the answer broke off"))), begun)
}

// answer calls the functions of ours that the model asks for.
func (t *interaction) answer(ctx context.Context, calls []step) error {
	for _, c := range calls {
		text, known := "There is no function of this name.", false
		for _, f := range t.r.Functions {
			if f.Name != c.Name {
				continue
			}
			known = true
			t.sink.Send(provider.FunctionCalled{Name: c.Name, Arguments: c.Arguments})
			reply, err := f.Call(ctx, c.Arguments)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			text = reply.Text
			for _, a := range reply.Files {
				in, err := environments{t.c}.Add(ctx, t.r.Session, a.File)
				if err != nil {
					return err
				}
				text += "\n(Now in the environment: " + in.Ref.Path + ")"
			}
		}
		b, _ := json.Marshal(map[string]any{"type": "function_result", "call_id": c.ID, "name": c.Name, "result": text, "is_error": !known}) // of strings
		t.said = append(t.said, b)
	}
	return nil
}
