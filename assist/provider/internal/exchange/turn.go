package exchange

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/airlock-run/airlock/assist/provider"
)

// Ask makes one request of a turn. It repeats only later requests: the caller can repeat
// the whole turn after a failure of the first one.
func Ask[T any](
	ctx context.Context, made int, retry provider.Retry, once func(context.Context) (T, error),
) (got T, err error) {
	if made == 0 {
		return once(ctx)
	}
	err = retry.Do(ctx, func(ctx context.Context) (err error) {
		got, err = once(ctx)
		return err
	})
	return got, err
}

// Broken returns the error of an answer that ended early. It is not retryable if the answer
// has begun: the sink would get the same events again.
func Broken(name string, err error, begun bool) error {
	e := *provider.Failed(name, "run", err)
	if begun && e.Attempts == 0 {
		e.Attempts = 1
	}
	return &e
}

// Call calls a function of the caller for the model. If the call is invalid, failed is set
// and the reply is an explanation for the model.
func Call(
	ctx context.Context, functions []provider.Function, sink provider.Sink, name string, arguments json.RawMessage,
) (reply provider.FunctionReply, failed bool, err error) {
	for _, f := range functions {
		if f.Name != name {
			continue
		}
		if !json.Valid(arguments) {
			return provider.FunctionReply{Text: "The arguments are not JSON. Call it again with an object."}, true, nil
		}
		sink.Send(provider.FunctionCalled{Name: name, Arguments: arguments})
		if reply, err = f.Call(ctx, arguments); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return reply, false, err
	}
	return provider.FunctionReply{Text: "There is no function of this name."}, true, nil
}

// Earlier decodes the Raw of an earlier turn, which Keep recorded.
func Earlier[T any](name string, t provider.Turn) (messages []T, err error) {
	if err := json.Unmarshal(t.Raw, &messages); err != nil {
		return nil, &provider.Error{Kind: provider.Invalid, Provider: name, Op: "run",
			Message: "an earlier turn of the conversation cannot be read", Err: err}
	}
	return messages, nil
}

// Finish returns the result of a turn that ended with err, which may be nil. It returns no
// result for a failed turn without steps and files.
func Finish[T any](name string, result *provider.RunResult, messages []T, err error) (*provider.RunResult, error) {
	if err != nil {
		if result.Calls == 0 && len(result.Steps)+len(result.Artifacts) == 0 {
			return nil, err
		}
		result.Stop = provider.StopError
	}
	Keep(name, result, messages)
	return result, err
}

// Keep records the messages that a turn adds to the conversation.
func Keep[T any](name string, result *provider.RunResult, messages []T) {
	raw, err := json.Marshal(messages)
	if err != nil || len(messages) == 0 { // it has come from JSON
		return
	}
	result.Raw = raw
	result.Next = []provider.Turn{{Role: provider.RoleAssistant, Text: result.Text, Raw: raw, Provider: name}}
}
