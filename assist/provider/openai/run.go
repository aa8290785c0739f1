package openai

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

const defaultCalls = 8

// Run implements provider.Provider. The files of the turn are in the session already
// ([provider.Tracker] adds them); without a session OpenAI creates a container with them.
func (c *Client) Run(ctx context.Context, r provider.RunRequest, sink provider.Sink) (*provider.RunResult, error) {
	params, err := request(r)
	if err != nil {
		return nil, err
	}
	t := &turn{client: c, sink: sink, known: r.Session, result: &provider.RunResult{Model: r.Model}}
	most := cmp.Or(max(r.MaxCalls, 0), defaultCalls)
	var items []json.RawMessage
	for {
		t.result.Calls++
		t.before = t.result.Text
		reply, err := t.call(ctx, params)
		if reply != nil {
			t.read(reply)
			items = append(items, outputOf(reply)...)
		}
		exchange.Keep(provider.OpenAI, t.result, items)
		if err != nil {
			if t.nothing() {
				return nil, err
			}
			t.result.Stop = provider.StopError
			return t.result, err
		}
		calls := functionCalls(reply)
		if len(calls) == 0 {
			return t.result, nil
		}
		if t.result.Calls >= most {
			t.result.Stop = provider.StopCalls
			return t.result, nil
		}
		answers, err := t.answer(ctx, r.Functions, calls)
		if err != nil {
			return t.result, err
		}
		items = append(items, answers...)
		if t.known != r.Session { // later requests use the container that the service created
			r.Session = t.known
			if params.Tools, err = tools(r); err != nil {
				return t.result, err
			}
		}
		for _, raw := range append(outputOf(reply), answers...) {
			params.Input.OfInputItemList = append(params.Input.OfInputItemList, rawItem(raw))
		}
	}
}

func rawItem(raw json.RawMessage) responses.ResponseInputItemUnionParam {
	return param.Override[responses.ResponseInputItemUnionParam](raw)
}

// call makes one request. It streams if there is a sink.
func (t *turn) call(ctx context.Context, p responses.ResponseNewParams) (*responses.Response, error) {
	if t.sink == nil {
		reply, err := t.client.sdk.Responses.New(ctx, p)
		if err != nil {
			return nil, t.client.failed("run", err)
		}
		return reply, t.outcome(reply)
	}
	return t.stream(ctx, p)
}

// outcome is the error of a response that failed.
func (t *turn) outcome(reply *responses.Response) error {
	if reply.Status != responses.ResponseStatusFailed && reply.Status != responses.ResponseStatusCancelled {
		return nil
	}
	return t.client.ended("run", problem{Message: reply.Error.Message, Code: string(reply.Error.Code)})
}

func outputOf(reply *responses.Response) (items []json.RawMessage) {
	for _, item := range reply.Output {
		items = append(items, json.RawMessage(item.RawJSON()))
	}
	return items
}

func functionCalls(reply *responses.Response) (calls []responses.ResponseFunctionToolCall) {
	for _, item := range reply.Output {
		if call, ok := item.AsAny().(responses.ResponseFunctionToolCall); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

// answer calls functions of the caller and returns the items with their replies.
func (t *turn) answer(
	ctx context.Context, functions []provider.Function, calls []responses.ResponseFunctionToolCall,
) (items []json.RawMessage, err error) {
	for _, call := range calls {
		reply, _, err := exchange.Call(ctx, functions, t.sink, call.Name, json.RawMessage(call.Arguments))
		if err != nil {
			return nil, err
		}
		for _, file := range reply.Files {
			if t.known == "" {
				reply.Text += "\nThe file " + file.File.Name +
					" could not be handed over: there is no container yet. Run some code first, then ask again."
				continue
			}
			if _, err := (containers{t.client}).Add(ctx, t.known, file.File); err != nil {
				return nil, err
			}
		}
		raw, err := json.Marshal(map[string]string{"type": "function_call_output", "call_id": call.CallID,
			"output": reply.Text})
		if err != nil {
			return nil, err
		}
		items = append(items, raw)
	}
	return items, nil
}

// nothing reports whether the result is empty.
func (t *turn) nothing() bool {
	r := t.result
	return r.Text == "" && len(r.Steps)+len(r.Artifacts)+len(r.Sessions) == 0
}
