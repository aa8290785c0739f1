package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// maxTokens is the default: the service requires a number.
const maxTokens = 16_384

// message is a message of a conversation. Content is raw: the service requires its blocks
// unchanged.
type message struct {
	Role    string            `json:"role"`
	Content []json.RawMessage `json:"content"`
}

func (m *message) add(block any) {
	b, err := json.Marshal(block)
	if err != nil {
		panic("anthropic: a block that is no JSON: " + err.Error()) // of this package's structs
	}
	m.Content = append(m.Content, b)
}

// The blocks of requests.
type (
	textBlock struct {
		Type string `json:"type"` // "text"
		Text string `json:"text"`
	}
	uploadBlock struct {
		Type   string `json:"type"` // "container_upload"
		FileID string `json:"file_id"`
	}
	seenBlock struct {
		Type   string `json:"type"` // "image", "document"
		Source struct {
			Type   string `json:"type"` // "file"
			FileID string `json:"file_id"`
		} `json:"source"`
	}
	resultBlock struct {
		Type      string `json:"type"` // "tool_result"
		ToolUseID string `json:"tool_use_id"`
		Content   string `json:"content"`
		IsError   bool   `json:"is_error,omitempty"`
	}
)

// attach adds the blocks of files for the code, and for the model itself.
func (m *message) attach(files []provider.Attachment, given map[string]bool) {
	for _, a := range files {
		id := a.File.Ref.ID
		if id == "" || given[id] {
			continue
		}
		given[id] = true
		m.add(uploadBlock{"container_upload", id})
		if !a.See {
			continue
		}
		b := seenBlock{Type: "document"}
		if strings.HasPrefix(a.File.MIME, "image/") {
			b.Type = "image"
		}
		b.Source.Type, b.Source.FileID = "file", id
		m.add(b)
	}
}

// conversation returns the input of a request as messages. Files of earlier turns are in the
// container; without one they are added again.
func conversation(r provider.RunRequest) ([]message, error) {
	var all []message
	given := map[string]bool{}
	for i, t := range r.Input {
		last := i == len(r.Input)-1
		if len(t.Raw) > 0 && t.Provider == provider.Anthropic {
			raw, err := exchange.Earlier[message](provider.Anthropic, t)
			if err != nil {
				return nil, err
			}
			all = append(all, raw...)
			continue
		}
		m := message{Role: string(t.Role)}
		if t.Role == provider.RoleUser && r.Tool != provider.ToolNone {
			if last {
				m.attach(r.Files, given)
			}
			if last || r.Session == "" {
				m.attach(t.Files, given)
			}
		}
		if t.Text != "" {
			m.add(textBlock{"text", t.Text})
		}
		if len(m.Content) > 0 {
			all = append(all, m)
		}
	}
	return all, nil
}

// params returns a request of the turn.
func params(r provider.RunRequest, session string, messages []message) (sdk.MessageNewParams, error) {
	p := sdk.MessageNewParams{Model: r.Model, MaxTokens: maxTokens}
	if r.MaxTokens > 0 {
		p.MaxTokens = int64(r.MaxTokens)
	}
	for _, m := range messages {
		b, err := json.Marshal(m)
		if err != nil {
			return p, err
		}
		p.Messages = append(p.Messages, param.Override[sdk.MessageParam](json.RawMessage(b)))
	}
	if r.Instructions != "" {
		p.System = []sdk.TextBlockParam{{Text: r.Instructions}}
	}
	if r.Tool != provider.ToolNone {
		version := cmp.Or(r.ToolVersion, ToolVersion)
		p.Tools = append(p.Tools, tool(map[string]any{"type": version, "name": "code_execution"}))
		if session != "" {
			p.Container = sdk.MessageCreateParamsContainerUnion{OfString: sdk.String(session)}
		}
	}
	for _, f := range r.Functions {
		schema := f.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		p.Tools = append(p.Tools, tool(map[string]any{"name": f.Name, "description": f.Description, "input_schema": schema}))
	}
	if len(r.Schema) > 0 {
		if err := json.Unmarshal(r.Schema, &p.OutputConfig.Format.Schema); err != nil {
			return p, &provider.Error{Kind: provider.Invalid, Provider: provider.Anthropic, Op: "run",
				Message: "the schema of the answer is not a JSON object", Err: err}
		}
	}
	return p, nil
}

func tool(t map[string]any) sdk.ToolUnionParam {
	b, err := json.Marshal(t)
	if err != nil { // the schema is not JSON: the service refuses the tool
		b = []byte(`{}`)
	}
	return param.Override[sdk.ToolUnionParam](json.RawMessage(b))
}
