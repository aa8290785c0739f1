package upstream

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/toolcall"
)

//go:embed servers.py
var source string

const (
	maxAtOnce  = 8
	answerTime = 10 * time.Minute // of the user
)

// Asker asks the user a question and returns whether they agree.
type Asker func(ctx context.Context, question string) (bool, error)

// Host handles the calls of one program. It implements live.Host.
type Host struct {
	set   *Set
	ask   Asker
	calls atomic.Int64
	open  chan struct{}
}

// Host returns the handler of a program's calls.
func (s *Set) Host(ask Asker) *Host {
	return &Host{set: s, ask: ask, open: make(chan struct{}, maxAtOnce)}
}

// Modules implements live.Host.
func (h *Host) Modules() []string { return []string{"servers", "servers.aio"} }

// answer is the answer to a call: a value or an error.
type answer struct {
	Value any    `json:"value"`
	Files []file `json:"files,omitempty"`
	Error string `json:"error,omitempty"`
}

type file struct {
	Extension string `json:"extension"`
	Base64    string `json:"base64"`
}

// Call implements live.Host. Errors of a tool are answers, which the program gets as a
// ToolError.
func (h *Host) Call(
	ctx context.Context, name string, input json.RawMessage, pause func(bool),
) (json.RawMessage, error) {
	ctx = bare{ctx}
	switch name {
	case "module":
		var module string
		if err := json.Unmarshal(input, &module); err != nil {
			return nil, err
		}
		if module == "servers.aio" {
			return json.Marshal("from servers import *\nfrom servers import _coroutines\n__getattr__ = _coroutines\n")
		}
		return json.Marshal(source)
	case "servers":
		return json.Marshal(h.modules())
	case "tools":
		var module string
		if err := json.Unmarshal(input, &module); err != nil {
			return nil, err
		}
		_, tools, err := h.tools(ctx, module)
		if err != nil {
			return nil, err
		}
		return json.Marshal(tools)
	case "tool":
		a := h.callTool(ctx, input, pause)
		raw, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		if len(raw) > maxAnswer {
			return json.Marshal(answer{Error: errTooLarge.Error()})
		}
		return raw, nil
	}
	return nil, fmt.Errorf("there is no call %.40q", name)
}

func (h *Host) modules() (names []string) {
	for _, s := range h.set.servers {
		names = append(names, s.module)
	}
	return names
}

func (h *Host) tools(ctx context.Context, module string) (*server, []*tool, error) {
	for _, s := range h.set.servers {
		if s.module == module {
			tools, err := s.list(ctx)
			return s, tools, err
		}
	}
	return nil, nil, fmt.Errorf("there is no server %.40q", module)
}

// callTool carries out a call and logs it, without its arguments and its answer.
func (h *Host) callTool(ctx context.Context, input json.RawMessage, pause func(bool)) (a answer) {
	var call struct {
		Server    string          `json:"server"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(input, &call); err != nil {
		return answer{Error: "this is no call of a tool"}
	}
	began := time.Now()
	policy := Deny
	defer func() {
		h.set.log.InfoContext(ctx, "upstream call", "server", clip(call.Server, maxName), "tool", clip(call.Tool, maxName),
			"policy", policy,
			"argument_bytes", len(call.Arguments), "ok", a.Error == "", "duration", time.Since(began))
	}()
	if h.calls.Add(1) > toolcall.MaxCalls {
		return answer{Error: fmt.Sprintf("a program may make %d calls, and has", toolcall.MaxCalls)}
	}
	select {
	case h.open <- struct{}{}:
		defer func() { <-h.open }()
	case <-ctx.Done():
		return answer{Error: "the program has ended"}
	}
	t, err := h.find(ctx, call.Server, call.Tool)
	if err != nil {
		return answer{Error: err.Error()}
	}
	switch policy = t.policy; policy {
	case Allow:
	case Ask:
		if err := h.approved(ctx, t, call.Arguments, pause); err != nil {
			return answer{Error: err.Error()}
		}
	default:
		return answer{Error: fmt.Sprintf("%s is not allowed: its policy is in the operator's file", t.Name)}
	}
	return t.call(ctx, call.Arguments)
}

// find returns a tool of a server. The server may have changed its list.
func (h *Host) find(ctx context.Context, module, name string) (*tool, error) {
	s, tools, err := h.tools(ctx, module)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the server %s has no tool %.80q any more: search_tools tells what there is", s.name, name)
}

// approved asks the user.
func (h *Host) approved(ctx context.Context, t *tool, arguments json.RawMessage, pause func(bool)) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	pause(true)
	defer pause(false)
	agreed, err := h.ask(ctx, fmt.Sprintf("May the program call %s of the server %s?\n%s", t.Name, t.server.name,
		clip(string(arguments), maxAbout)))
	switch {
	case err != nil:
		return fmt.Errorf("%s needs the person's approval: %w", t.Name, err)
	case !agreed:
		return fmt.Errorf("the person did not agree to %s", t.Name)
	}
	return nil
}

// call calls the tool. If the connection fails, the next call makes another.
func (t *tool) call(ctx context.Context, arguments json.RawMessage) answer {
	s := t.server
	s.mu.Lock()
	session, err := s.connect(ctx)
	s.mu.Unlock()
	if err != nil {
		return answer{Error: err.Error()}
	}
	within, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	result, err := session.CallTool(within, &mcp.CallToolParams{Name: t.Name, Arguments: arguments})
	if err != nil {
		if _, refused := errors.AsType[*jsonrpc.Error](err); refused {
			return answer{Error: clip(err.Error(), maxAbout)}
		}
		if ctx.Err() == nil {
			s.mu.Lock()
			if s.session == session {
				s.drop()
			}
			s.mu.Unlock()
		}
		if within.Err() != nil {
			return answer{Error: fmt.Sprintf("the server %s did not answer within %v", s.name, callTime)}
		}
		return answer{Error: fmt.Sprintf("the server %s failed: %s", s.name, clip(err.Error(), maxParameter))}
	}
	return valueOf(result)
}

// valueOf returns a result for a program: the structured content, else the text, decoded if it
// is JSON. Pictures and files are separate.
func valueOf(r *mcp.CallToolResult) (a answer) {
	var texts []string
	for _, content := range r.Content {
		switch c := content.(type) {
		case *mcp.TextContent:
			texts = append(texts, c.Text)
		case *mcp.ImageContent:
			a.Files = append(a.Files, newFile(c.MIMEType, c.Data))
		case *mcp.AudioContent:
			a.Files = append(a.Files, newFile(c.MIMEType, c.Data))
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Blob != nil {
				a.Files = append(a.Files, newFile(c.Resource.MIMEType, c.Resource.Blob))
			} else if c.Resource != nil {
				texts = append(texts, c.Resource.Text)
			}
		case *mcp.ResourceLink:
			texts = append(texts, c.URI)
		}
	}
	text := strings.Join(texts, "\n")
	if r.IsError {
		a.Error = cmp.Or(text, "the tool failed")
		return a
	}
	a.Value = r.StructuredContent
	if object, ok := a.Value.(map[string]any); ok && len(object) == 1 {
		if only, ok := object["result"]; ok {
			a.Value = only
		}
	}
	if a.Value == nil && text != "" {
		if json.Unmarshal([]byte(text), &a.Value) != nil {
			a.Value = text
		}
	}
	return a
}

func newFile(kind string, data []byte) file {
	f := file{Extension: ".bin", Base64: base64.StdEncoding.EncodeToString(data)}
	if found, err := mime.ExtensionsByType(kind); err == nil && len(found) > 0 {
		f.Extension = found[0]
	}
	return f
}
