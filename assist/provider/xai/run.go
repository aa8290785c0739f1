package xai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
	"github.com/airlock-run/airlock/internal/sse"
)

// maxCalls bounds the requests of a turn. Each after the first replies to function calls.
const maxCalls = 20

// maxEvent bounds an event, which may contain a picture.
const maxEvent = 64 << 20

// turn is a turn under way.
type turn struct {
	c        *Client
	r        provider.RunRequest
	sink     provider.Sink
	result   *provider.RunResult
	messages []json.RawMessage // added to the conversation by this turn
	open     map[string]int    // steps, by the id of their item
}

// request is the body of POST /responses. The service refuses OpenAI's field "container".
type request struct {
	Model     string            `json:"model"`
	Input     []json.RawMessage `json:"input"`
	Tools     []any             `json:"tools,omitempty"`
	Include   []string          `json:"include,omitempty"`
	Text      any               `json:"text,omitempty"`
	MaxTokens int               `json:"max_output_tokens,omitempty"`
	Stream    bool              `json:"stream"`
	Store     bool              `json:"store"` // false: nothing is kept for 30 days
}

// Run implements provider.Provider. It always streams.
func (c *Client) Run(ctx context.Context, r provider.RunRequest, sink provider.Sink) (*provider.RunResult, error) {
	t := &turn{c: c, r: r, sink: sink, result: &provider.RunResult{Model: r.Model}, open: map[string]int{}}
	before, err := t.input(ctx)
	if err != nil {
		return nil, err
	}
	err = t.loop(ctx, before)
	return exchange.Finish(provider.XAI, t.result, t.messages, err)
}

func (t *turn) request() request {
	q := request{Model: t.r.Model, MaxTokens: t.r.MaxTokens, Stream: true}
	if t.r.Tool != provider.ToolNone {
		q.Tools = append(q.Tools, map[string]string{"type": cmp.Or(t.r.ToolVersion, "code_interpreter")})
		q.Include = []string{"code_interpreter_call.outputs"}
	}
	for _, f := range t.r.Functions {
		schema := f.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		q.Tools = append(q.Tools, map[string]any{"type": "function", "name": f.Name, "description": f.Description,
			"parameters": schema})
	}
	if len(t.r.Schema) > 0 {
		q.Text = map[string]any{"format": map[string]any{"type": "json_schema", "name": cmp.Or(t.r.SchemaName, "answer"),
			"schema": t.r.Schema, "strict": true}}
	}
	return q
}

func (t *turn) loop(ctx context.Context, before []json.RawMessage) error {
	q := t.request()
	most := cmp.Or(max(t.r.MaxCalls, 0), maxCalls)
	for {
		q.Input = slices.Concat(before, t.messages)
		got, err := exchange.Ask(ctx, t.result.Calls, t.c.options.Retry, func(ctx context.Context) (*response, error) {
			return t.ask(ctx, q)
		})
		if err != nil {
			return err
		}
		t.result.Calls++
		var calls []item
		for _, raw := range got.Output {
			var i item
			if json.Unmarshal(raw, &i) == nil && i.Type == "function_call" {
				calls = append(calls, i)
			}
		}
		if len(calls) > 0 && t.result.Calls >= most {
			t.result.Stop = provider.StopCalls // calls without replies cannot stand in a conversation
			return nil
		}
		t.messages = append(t.messages, got.Output...)
		if len(calls) == 0 {
			return nil
		}
		if err := t.answer(ctx, calls); err != nil {
			return err
		}
	}
}

// ask makes one request.
func (t *turn) ask(ctx context.Context, q request) (*response, error) {
	resp, err := t.c.rest.Send(ctx, "run", http.MethodPost, "/responses", q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	t.result.RequestID = resp.Header.Get("X-Request-Id")
	begun := false
	for e, err := range sse.Read(resp.Body, maxEvent) {
		if err != nil {
			return nil, exchange.Broken(provider.XAI, err, begun)
		}
		if string(e.Data) == "[DONE]" {
			break
		}
		var ev event
		if json.Unmarshal(e.Data, &ev) != nil {
			return nil, exchange.Broken(provider.XAI, fmt.Errorf("a part of the answer is not JSON: %.100q", e.Data), begun)
		}
		if message, _ := errorText(e.Data); message != "" || ev.Type == "error" {
			return nil, exchange.Broken(provider.XAI, t.c.refused("run", http.StatusBadGateway, resp.Header, e.Data), begun)
		}
		begun = true
		if done, err := t.event(ev); err != nil {
			return done, exchange.Broken(provider.XAI, err, true)
		} else if done != nil {
			return done, nil
		}
	}
	return nil, exchange.Broken(provider.XAI, errors.New("the answer broke off"), begun)
}

// answer calls functions of the caller for the model.
func (t *turn) answer(ctx context.Context, calls []item) error {
	for _, c := range calls {
		reply, _, err := exchange.Call(ctx, t.r.Functions, t.sink, c.Name, json.RawMessage(c.Arguments))
		if err != nil {
			return err
		}
		// of strings
		b, _ := json.Marshal(map[string]string{"type": "function_call_output", "call_id": c.CallID, "output": reply.Text})
		t.messages = append(t.messages, b)
		if len(reply.Files) > 0 {
			m := message{Role: "user"}
			for _, a := range reply.Files {
				m.Content = append(m.Content, attached(a.File))
			}
			b, _ := json.Marshal(m) // of strings
			t.messages = append(t.messages, b)
		}
	}
	return nil
}
