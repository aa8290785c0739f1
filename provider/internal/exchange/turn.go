package exchange

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/airlock-run/airlock/provider"
)

// Ask makes one request of a turn. The first is made once, as the whole turn can be
// repeated from outside; the later ones are repeated by the rule.
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

// Broken is the error of an answer that ended too early. Once it has begun it is not
// asked for again: what the sink was told would be told twice.
func Broken(name string, err error, begun bool) error {
	e := *provider.Failed(name, "run", err)
	if begun && e.Attempts == 0 {
		e.Attempts = 1
	}
	return &e
}

// Call calls the function of the caller that a model asks for. If the call is wrong,
// failed is set and the reply tells the model so.
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

// Earlier reads what a turn of this provider said as it was recorded by Keep.
func Earlier[T any](name string, t provider.Turn) (said []T, err error) {
	if err := json.Unmarshal(t.Raw, &said); err != nil {
		return nil, &provider.Error{Kind: provider.Invalid, Provider: name, Op: "run",
			Message: "an earlier turn of the conversation cannot be read", Err: err}
	}
	return said, nil
}

// Finish is what a turn comes to that ended with an error, or nil. Of one that brought
// nothing there is the error alone.
func Finish[T any](name string, result *provider.RunResult, said []T, err error) (*provider.RunResult, error) {
	if err != nil {
		if result.Calls == 0 && len(result.Steps)+len(result.Artifacts) == 0 {
			return nil, err
		}
		result.Stop = provider.StopError
	}
	Keep(name, result, said)
	return result, err
}

// Keep records what a turn adds to the conversation.
func Keep[T any](name string, result *provider.RunResult, said []T) {
	raw, err := json.Marshal(said)
	if err != nil || len(said) == 0 { // it has come from JSON
		return
	}
	result.Raw = raw
	result.Next = []provider.Turn{{Role: provider.RoleAssistant, Text: result.Text, Raw: raw, Provider: name}}
}
