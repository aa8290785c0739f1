package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/sse"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/internal/exchange"
	"github.com/airlock-run/airlock/provider/internal/partial"
	"github.com/airlock-run/airlock/pytool"
)

// maxBody is more than an answer that is no stream is long.
const maxBody = 32 << 20

// maxEvent is how long one event of an answer may be.
const maxEvent = 64 << 20

func (c *Client) refused(op string, status int, header http.Header, body []byte) *provider.Error {
	e := &provider.Error{Kind: provider.KindOfStatus(status), Provider: c.Name(), Op: op, Status: status,
		RequestID: header.Get("X-Request-Id"), RetryAfter: provider.RetryAfter(header, c.options.Clock.Now())}
	e.Message, e.Code = errorText(body)
	e.Message = cmp.Or(e.Message, strings.ToLower(http.StatusText(status)))
	if op == "run" && e.Kind == provider.FileNotFound {
		e.Kind = provider.Invalid
		e.Hint = "Check the address (most end in /v1) and the model's name; Ollama wants the model pulled first."
	}
	if e.Kind == provider.Transient {
		e.Hint = "The model's server failed. Look at its log: it may be loading the model, or be out of memory."
	}
	return e
}

// models asks for the names of the models.
func (c *Client) models(ctx context.Context) ([]string, error) {
	resp, err := c.rest.Send(ctx, "check the model", http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&list); err != nil {
		return nil, nil // an endpoint that lists in a way of its own: the first turn will tell
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	return ids, nil
}

// answer is one of the model.
type answer struct {
	text   strings.Builder
	calls  []toolCall
	finish string
	model  string
	usage  provider.Usage
	begun  bool
	used   map[string]bool // ids of calls of the whole conversation
}

// complete makes one request.
func (c *Client) complete(ctx context.Context, q request, used map[string]bool, sink provider.Sink) (*answer, error) {
	resp, err := c.rest.Send(ctx, "run", http.MethodPost, "/chat/completions", q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{model: q.Model, used: used}
	if strings.Contains(resp.Header.Get("Content-Type"), "application/json") {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		if err == nil {
			err = a.take(body, sink)
		}
		return a, c.broken(a, err)
	}
	for e, err := range sse.Read(resp.Body, maxEvent) {
		if err == nil && string(e.Data) == "[DONE]" {
			break
		}
		if err == nil {
			err = a.take(e.Data, sink)
		}
		if err != nil {
			return a, c.broken(a, err)
		}
	}
	return a, c.broken(a, nil)
}

// broken is the error of an answer that is not whole.
func (c *Client) broken(a *answer, err error) error {
	if err == nil && a.finish != "" {
		return nil
	}
	if err == nil {
		err = errors.New("the answer broke off")
	}
	return exchange.Broken(c.Name(), err, a.begun)
}

// take takes a chunk.
func (a *answer) take(data []byte, sink provider.Sink) error {
	var k chunk
	if err := json.Unmarshal(data, &k); err != nil {
		return fmt.Errorf("a part of the answer is not JSON: %.100q", data)
	}
	if len(k.Error) > 0 && string(k.Error) != "null" {
		text, code := errorText(data)
		return &provider.Error{Kind: provider.Transient, Provider: provider.Local, Op: "run", Code: code,
			Message: cmp.Or(text, "the model's server failed")}
	}
	a.model = cmp.Or(k.Model, a.model)
	if k.Usage != nil {
		a.usage = provider.Usage{Input: k.Usage.Prompt, Output: k.Usage.Completion, Cached: k.Usage.Details.Cached}
	}
	for _, choice := range k.Choices[:min(len(k.Choices), 1)] {
		d := choice.Delta
		if choice.Message != nil {
			d = *choice.Message
		}
		if d.Content != "" {
			a.begun = true
			a.text.WriteString(d.Content)
			sink.Send(provider.TextDelta{Text: d.Content})
		}
		for _, piece := range d.ToolCalls {
			a.begun = true
			a.piece(piece.Index, piece.ID, piece.Function.Name, arguments(piece.Function.Arguments), sink)
		}
		a.finish = cmp.Or(choice.FinishReason, a.finish)
	}
	return nil
}

// unique is an id that no other call of the conversation has: some models use one
// twice, and some servers give none.
func (a *answer) unique(id string) string {
	if id == "" {
		id = "call_" + strconv.Itoa(len(a.calls))
	}
	free := func(id string) bool {
		return !a.used[id] && !slices.ContainsFunc(a.calls, func(c toolCall) bool { return c.ID == id })
	}
	unique := id
	for n := 2; !free(unique); n++ {
		unique = fmt.Sprintf("%s_%d", id, n)
	}
	return unique
}

// piece takes a piece of a call. Some servers number all calls 0, and some do not
// number them: a new id or a new name begins a new one.
func (a *answer) piece(index *int, id, name, args string, sink provider.Sink) {
	last := len(a.calls) - 1
	at := last
	switch {
	case last < 0,
		id != "" && id != a.calls[last].given && (index == nil || *index > last || a.calls[min(*index, last)].given != id):
		at = -1
	case id == "" && name != "" && a.calls[last].Function.Arguments != "" && (index == nil || *index > last):
		at = -1
	case index != nil && *index <= last && id != "" && a.calls[*index].given == id:
		at = *index
	case index != nil && *index <= last && id == "":
		at = *index
	}
	if at < 0 {
		a.calls = append(a.calls, toolCall{ID: a.unique(id), Type: "function", given: id})
		at = len(a.calls) - 1
	}
	call := &a.calls[at]
	if name != "" {
		call.Function.Name = name
	}
	before := call.Function.Arguments
	call.Function.Arguments += args
	if sink == nil || call.Function.Name != pytool.Name {
		return
	}
	now, was := partial.String([]byte(call.Function.Arguments), "code"), partial.String([]byte(before), "code")
	if more, ok := strings.CutPrefix(now, was); ok && more != "" {
		sink.Send(provider.CodeDelta{StepID: call.ID, Language: "python", Code: more})
	}
}
