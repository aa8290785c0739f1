package local

import (
	"encoding/json"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/partial"
	"github.com/airlock-run/airlock/pytool"
)

// request is the body of POST /chat/completions.
type request struct {
	Model          string            `json:"model"`
	Messages       []json.RawMessage `json:"messages"`
	Tools          []json.RawMessage `json:"tools,omitempty"`
	Stream         bool              `json:"stream"`
	StreamOptions  map[string]bool   `json:"stream_options,omitempty"`
	MaxTokens      int               `json:"max_tokens,omitempty"`
	ResponseFormat any               `json:"response_format,omitempty"`
}

// message is a message of a conversation. Content is a string, or parts for pictures; null if
// an assistant only calls tools.
type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // "function"
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// code returns the code of a call of run_python, also of incomplete arguments.
func (c toolCall) code() string {
	var given struct {
		Code string `json:"code"`
	}
	if json.Unmarshal([]byte(c.Function.Arguments), &given) == nil {
		return given.Code
	}
	return partial.String(c.Function.Arguments, "code")
}

// tools returns the tools of a request.
func tools(r provider.RunRequest) (all []json.RawMessage, err error) {
	if r.Tool != provider.ToolNone {
		all = append(all, pytool.Definition())
	}
	for _, f := range r.Functions {
		schema := f.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		b, err := json.Marshal(map[string]any{"type": "function",
			"function": map[string]any{"name": f.Name, "description": f.Description, "parameters": schema}})
		if err != nil {
			return nil, &provider.Error{Kind: provider.Invalid, Provider: provider.Local, Op: "run",
				Message: "the parameters of " + f.Name + " are not JSON", Err: err}
		}
		all = append(all, b)
	}
	return all, nil
}
