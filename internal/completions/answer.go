package completions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// The limits of an answer.
const (
	maxArguments = 4 << 20 // bytes of the arguments of one call
	maxCalls     = 64
)

// Answer is an answer of a model. T is the caller's state of a call.
type Answer[T any] struct {
	Text strings.Builder
	// Refusal is why the model does not answer, if Reader.Refusal takes it.
	Refusal strings.Builder
	Calls   []*Call[T]
	Finish  string // the API's finish_reason
	Model   string // that answered, if known
	Usage   Usage
}

// Call is a function call by the model.
type Call[T any] struct {
	ID, Name  string
	Arguments strings.Builder
	State     T

	given string // the model's id
	told  int    // bytes of the arguments passed to Called
}

// Usage counts tokens.
type Usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Prompted   struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Completed struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// Add adds more to u.
func (u *Usage) Add(more Usage) {
	u.Prompt += more.Prompt
	u.Completion += more.Completion
	u.Prompted.Cached += more.Prompted.Cached
	u.Completed.Reasoning += more.Completed.Reasoning
}

// chunk is a chunk of a stream, or a complete answer: some servers do not stream if there are
// tools.
type chunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Delta        delta  `json:"delta"`
		Message      *delta `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *Usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type delta struct {
	Content   string  `json:"content"`
	Refusal   string  `json:"refusal"`
	ToolCalls []piece `json:"tool_calls"`
}

// piece is a piece of a call.
type piece struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// addChunk adds a chunk.
func (r *Reader[T]) addChunk(a *Answer[T], data []byte) error {
	var k chunk
	if err := json.Unmarshal(data, &k); err != nil {
		return &Error{Text: "a part of the model's answer is no chat completion", Err: fmt.Errorf("%.100q", data)}
	}
	if len(k.Error) > 0 && string(k.Error) != "null" {
		message, _, kind := ErrorText(data)
		return &Error{Message: cmp.Or(message, "The model's server failed."), Kind: kind}
	}
	a.Model = cmp.Or(k.Model, a.Model)
	if k.Usage != nil {
		a.Usage = *k.Usage
	}
	if len(k.Choices) == 0 {
		return nil
	}
	choice := k.Choices[0]
	d := choice.Delta
	if choice.Message != nil {
		d = *choice.Message
	}
	a.Finish = cmp.Or(choice.FinishReason, a.Finish)
	if r.Refusal == nil {
		d.Content, d.Refusal = d.Content+d.Refusal, ""
	}
	if d.Content != "" {
		a.Text.WriteString(d.Content)
		r.Text(d.Content)
	}
	if d.Refusal != "" {
		a.Refusal.WriteString(d.Refusal)
		r.Refusal(d.Refusal)
	}
	for _, p := range d.ToolCalls {
		c, err := r.call(a, p)
		if err != nil {
			return err
		}
		if c.Name == "" {
			continue
		}
		more := c.Arguments.String()[c.told:]
		c.told += len(more)
		if err := r.Called(c, more); err != nil {
			return err
		}
	}
	return nil
}

// call adds a piece to its call. Some servers number all calls 0 or do not number them: a new
// id or name begins a new call.
func (r *Reader[T]) call(a *Answer[T], p piece) (*Call[T], error) {
	c := a.find(p)
	if c == nil {
		if len(a.Calls) >= maxCalls {
			return nil, &Error{Text: fmt.Sprintf("the model makes more than %d calls at once", maxCalls)}
		}
		c = &Call[T]{ID: r.ID(p.ID), given: p.ID}
		a.Calls = append(a.Calls, c)
	}
	c.Name = cmp.Or(c.Name, p.Function.Name)
	more := arguments(p.Function.Arguments)
	if c.Arguments.Len()+len(more) > maxArguments {
		return nil, &Error{Text: fmt.Sprintf("the model calls %.80s with more than %d MiB", c.Name, maxArguments>>20)}
	}
	c.Arguments.WriteString(more)
	return c, nil
}

// find returns the call that a piece continues, or nil if it begins a call.
func (a *Answer[T]) find(p piece) *Call[T] {
	last := len(a.Calls) - 1
	switch {
	case p.ID != "":
		for _, c := range a.Calls {
			if c.given == p.ID {
				return c
			}
		}
	case p.Index != nil && *p.Index >= 0 && *p.Index <= last:
		return a.Calls[*p.Index]
	case p.Index == nil && last >= 0 && (p.Function.Name == "" || a.Calls[last].Name == ""):
		return a.Calls[last]
	}
	return nil
}

// arguments returns arguments as a string. Some servers send an object instead.
func arguments(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// ErrorText decodes {"error":{"message":…}}, {"error":"…"} and {"message":"…"}. Code and
// kind are those of the first form.
func ErrorText(body []byte) (message, code, kind string) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	var inner struct {
		Message string `json:"message"`
		Code    any    `json:"code"`
		Type    string `json:"type"`
	}
	_ = json.Unmarshal(body, &outer)
	if json.Unmarshal(outer.Error, &inner) != nil || inner.Message == "" {
		_ = json.Unmarshal(outer.Error, &inner.Message)
	}
	code, _ = inner.Code.(string)
	return strings.TrimSpace(cmp.Or(inner.Message, outer.Message)), code, inner.Type
}
