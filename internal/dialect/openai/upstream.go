package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	mostAnswer    = 16 << 20 // bytes of one answer of the model
	mostArguments = 4 << 20  // bytes of the arguments of one call
	mostCalls     = 64       // in one answer
	restTime      = time.Second
)

// call is one of a function by the model.
type call struct {
	id, name  string
	arguments strings.Builder
	kind      callKind
	told      int // bytes of arguments that were passed on
	item      any // of the sink
}

type callKind int

const (
	unresolved callKind = iota // its name is not known yet
	runsCode
	ofClient
	unknownTool
)

// answer is one of the model.
type answer struct {
	text   strings.Builder
	calls  []*call
	byID   map[string]*call
	finish string
	usage  usage
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Prompted   struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Completed struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *usage) add(more usage) {
	u.Prompt += more.Prompt
	u.Completion += more.Completion
	u.Prompted.Cached += more.Prompted.Cached
	u.Completed.Reasoning += more.Completed.Reasoning
}

// chunk is one of a stream, or a whole answer: some servers do not stream when there
// are tools.
type chunk struct {
	Choices []struct {
		Delta        delta  `json:"delta"`
		Message      *delta `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type delta struct {
	Content   string `json:"content"`
	Refusal   string `json:"refusal"`
	ToolCalls []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// upstream makes a request to the model's server.
func (q *request) upstream(ctx context.Context, method, where string, body io.Reader) (*http.Response, error) {
	if q.Upstream == "" {
		return nil, &refusal{http.StatusServiceUnavailable, problem{
			Message: "This service has no model. Its operator sets one with openai_upstream_url, " +
				"the address of any API that has chat completions.",
			Type: serverError, Code: "model_not_configured",
		}}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(q.Upstream, "/")+where, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.Key != "" {
		r.Header.Set("Authorization", "Bearer "+q.Key)
	}
	resp, err := q.HTTP.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		q.Log.Error("the model's server cannot be reached", "error", err)
		return nil, upstreamFailed("The model's server cannot be reached. Look at the log of this service.")
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, q.refusedBy(resp)
	}
	return resp, nil
}

// upstreamFailed is an error of the model's server.
func upstreamFailed(format string, args ...any) error {
	return &refusal{http.StatusBadGateway, problem{fmt.Sprintf(format, args...), serverError, "", "upstream_error"}}
}

func ended(ctx context.Context) error {
	return &engine.Error{Op: "ask model", Kind: engine.ErrCanceled, Err: context.Cause(ctx)}
}

// refusedBy passes on what the model's server says of the client's request. What it
// says of the operator's key is not the client's to know.
func (q *request) refusedBy(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // half an error is one too
	message, code := errorText(text)
	if message == "" {
		message = "The model's server answered with " + resp.Status + "."
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		q.Log.Error("the model's server refuses the key of openai_upstream_key", "status", status, "said", message)
		return upstreamFailed("The model's server refuses this service. Its operator can set openai_upstream_key.")
	case status == http.StatusTooManyRequests:
		if after := resp.Header.Get("Retry-After"); after != "" {
			q.w.Header().Set("Retry-After", after)
		}
		return &refusal{status, problem{message, "requests", "", "rate_limit_exceeded"}}
	case status == http.StatusNotFound:
		return &refusal{status, problem{message, invalidRequest, "model", "model_not_found"}}
	case status >= 400 && status < 500:
		return &refusal{status, problem{message, invalidRequest, "", code}}
	}
	q.Log.Error("the model's server failed", "status", resp.StatusCode, "said", message)
	return upstreamFailed("%s", message)
}

// errorText reads {"error":{"message":…}}, {"error":"…"} and {"message":"…"}.
func errorText(text []byte) (message, code string) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	var inner struct {
		Message string `json:"message"`
		Code    any    `json:"code"`
	}
	_ = json.Unmarshal(text, &outer)
	if json.Unmarshal(outer.Error, &inner) != nil || inner.Message == "" {
		_ = json.Unmarshal(outer.Error, &inner.Message)
	}
	inner.Message = cmp.Or(inner.Message, outer.Message)
	code, _ = inner.Code.(string)
	return inner.Message, code
}

// listener hears an answer as it comes.
type listener interface {
	text(delta string) error
	// called has more of a call, whose name is known.
	called(c *call) error
}

// read reads an answer.
func (a *answer) read(resp *http.Response, to listener) error {
	defer resp.Body.Close()
	body := &bounded{from: resp.Body, left: mostAnswer}
	if strings.Contains(resp.Header.Get("Content-Type"), "application/json") {
		text, err := io.ReadAll(body)
		if err == nil {
			err = a.take(text, to)
		}
		return a.whole(err)
	}
	resp.Body = io.NopCloser(body)
	events := ssestream.NewDecoder(resp)
	for events.Next() {
		data := events.Event().Data
		if string(bytes.TrimSpace(data)) == "[DONE]" {
			readRest(body)
			return a.whole(nil)
		}
		if err := a.take(data, to); err != nil {
			return err
		}
	}
	return a.whole(events.Err())
}

// readRest reads what should be nothing but the end: the connection is reused then.
func readRest(body *bounded) {
	late := time.AfterFunc(restTime, func() { body.from.Close() })
	defer late.Stop()
	_, _ = io.Copy(io.Discard, body) // there is an answer already
}

// bounded is a body that may not be longer.
type bounded struct {
	from io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

var errLong = fmt.Errorf("an answer of over %d MiB", mostAnswer>>20)

// whole is the error of an answer that is not.
func (a *answer) whole(err error) error {
	switch {
	case errors.Is(err, errLong):
		return upstreamFailed("The model's answer has more than %d MiB.", mostAnswer>>20)
	case err != nil:
		if _, ok := errors.AsType[*refusal](err); ok {
			return err
		}
		return upstreamFailed("The model's answer broke off.")
	case a.finish == "":
		return upstreamFailed("The model's answer broke off before its end.")
	}
	return nil
}

// take takes a chunk.
func (a *answer) take(data []byte, to listener) error {
	var k chunk
	if err := json.Unmarshal(data, &k); err != nil {
		return upstreamFailed("A part of the model's answer is no chat completion.")
	}
	if len(k.Error) > 0 && string(k.Error) != "null" {
		message, _ := errorText(data)
		message = cmp.Or(message, "The model's server failed.")
		return upstreamFailed("%s", message)
	}
	if k.Usage != nil {
		a.usage = *k.Usage
	}
	if len(k.Choices) == 0 {
		return nil
	}
	choice := k.Choices[0]
	d := choice.Delta
	if choice.Message != nil {
		d = *choice.Message
	}
	if choice.FinishReason != "" {
		a.finish = choice.FinishReason
	}
	if text := d.Content + d.Refusal; text != "" {
		a.text.WriteString(text)
		if err := to.text(text); err != nil {
			return err
		}
	}
	for _, piece := range d.ToolCalls {
		c, err := a.piece(piece.Index, piece.ID, piece.Function.Name)
		if err != nil {
			return err
		}
		more := arguments(piece.Function.Arguments)
		if c.arguments.Len()+len(more) > mostArguments {
			return upstreamFailed("The model calls %.80s with more than %d MiB.", c.name, mostArguments>>20)
		}
		c.arguments.WriteString(more)
		if c.name != "" {
			if err := to.called(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// piece finds the call that a piece belongs to. Some servers number all calls 0, some
// do not number them: an id or a name that is new begins a new one.
func (a *answer) piece(index *int, id, name string) (*call, error) {
	if a.byID == nil {
		a.byID = map[string]*call{}
	}
	last := len(a.calls) - 1
	switch {
	case id != "" && a.byID[id] != nil:
		return a.byID[id], nil
	case id == "" && index != nil && *index >= 0 && *index <= last:
		return a.calls[*index], nil
	case id == "" && index == nil && last >= 0 && (name == "" || a.calls[last].name == ""):
		a.calls[last].name += name
		return a.calls[last], nil
	case len(a.calls) >= mostCalls:
		return nil, upstreamFailed("The model makes more than %d calls at once.", mostCalls)
	}
	c := &call{id: id, name: name}
	a.calls = append(a.calls, c)
	if id != "" {
		a.byID[id] = c
	} else {
		c.id = "call_" + engine.NewID().String() // what some servers leave out
	}
	return c, nil
}

// arguments are a string by the book; some servers send the object itself.
func arguments(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// code is what a call is to run. Some models send it as it is.
func (c *call) code() (string, bool) {
	text := c.arguments.String()
	var given struct {
		Code *string `json:"code"`
	}
	if json.Unmarshal([]byte(text), &given) == nil && given.Code != nil {
		return *given.Code, true
	}
	if trimmed := strings.TrimSpace(text); trimmed == "" || strings.HasPrefix(trimmed, "{") {
		return "", false
	}
	return text, true
}
