package local

import (
	"encoding/json"
	"strings"

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/internal/partial"
	"github.com/airlock-run/airlock/pytool"
)

// request is one of POST /chat/completions.
type request struct {
	Model          string            `json:"model"`
	Messages       []json.RawMessage `json:"messages"`
	Tools          []json.RawMessage `json:"tools,omitempty"`
	Stream         bool              `json:"stream"`
	StreamOptions  map[string]bool   `json:"stream_options,omitempty"`
	MaxTokens      int               `json:"max_tokens,omitempty"`
	ResponseFormat any               `json:"response_format,omitempty"`
}

// message is one of a conversation. Content is a string, or parts for pictures;
// an assistant that only calls tools has null.
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

	given string // the model's id, which it may have used before
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// code is what the call of run_python says, whole or not.
func (c toolCall) code() string {
	var given struct {
		Code string `json:"code"`
	}
	if json.Unmarshal([]byte(c.Function.Arguments), &given) == nil {
		return given.Code
	}
	return partial.String([]byte(c.Function.Arguments), "code")
}

// chunk is one of a stream, or a whole answer: some servers do not stream when
// there are tools.
type chunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Delta        delta  `json:"delta"`
		Message      *delta `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type delta struct {
	Content   string `json:"content"`
	ToolCalls []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// arguments are a string by the book; some servers send the object itself.
func arguments(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// tools are those of a request.
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

// errorText reads {"error":{"message":...}} and {"error":"..."}.
func errorText(body []byte) (text, code string) {
	var w struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &w) != nil {
		return "", ""
	}
	var whole struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	if json.Unmarshal(w.Error, &whole) == nil && whole.Message != "" {
		return whole.Message, whole.Type
	}
	if json.Unmarshal(w.Error, &text) == nil && text != "" {
		return text, ""
	}
	return strings.TrimSpace(w.Message), ""
}
