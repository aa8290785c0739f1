package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// listedTool is a tool with an annotation that the SDK's type lacks: vLLM hides a tool from gpt-oss
// if include_in_prompt is false.
type listedTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema any             `json:"inputSchema"`
	Annotations map[string]bool `json:"annotations"`
}

type listedTools struct {
	sdk.ResultBase
	Tools []listedTool `json:"tools"`
}

// pythonServer is the tool python of gpt-oss: one connection, one interpreter. vLLM uses the
// server's name as the tool's namespace and its instructions as the description.
func (s *Server) pythonServer() *sdk.Server {
	about, _ := describe("python")
	server := s.newSDK("python", about)
	t := tool{name: "python", title: "Python", call: (*Server).python,
		args: []argument{{name: "code", kind: text, required: true, min: 1}}}
	definition := t.definition()
	server.AddTool(definition, s.handler(&t))
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, r)
			}
			return &listedTools{Tools: []listedTool{{
				Name: definition.Name, Title: definition.Title, Description: definition.Description,
				InputSchema: definition.InputSchema,
				Annotations: map[string]bool{"include_in_prompt": true, "readOnlyHint": false, "destructiveHint": false,
					"openWorldHint": s.callerOf(ctx, r).Network != ""},
			}}}, nil
		}
	})
	return server
}

// connection is the state of a connection whose client knows of no handles.
type connection struct {
	mu      sync.Mutex
	session engine.ID
}

type connectionKey struct{}

func (s *Server) python(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	conn, _ := ctx.Value(connectionKey{}).(*connection)
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.session.IsZero() {
		session, err := s.Live.Create(ctx, c.caller, live.Request{Language: "python", Origin: engine.OriginMCP})
		if err != nil {
			return nil, err
		}
		conn.session = session.ID
	}
	started, err := s.Live.Start(ctx, c.caller, conn.session, live.CellRequest{Code: c.text("code"), Grace: cancelTime})
	if err != nil {
		return nil, err
	}
	p := &cell{live: s.Live, caller: c.caller, session: conn.session, id: started.ID}
	out, err := s.follow(ctx, c, p, pythonTime)
	if err != nil {
		return nil, err
	}
	text := out.stdout + out.stderr
	if out.variables == "lost" {
		text = "The variables of earlier calls are lost.\n" + text
	}
	if out.Status.Final() && text == "" {
		text = "[no output: use print to see a value]"
	}
	if !out.Status.Final() {
		text += "[still running]"
	}
	return answer(shorten(text, defaultChars)), nil
}

// pythonTime is how long a call of vLLM's may take.
const pythonTime = 5 * time.Minute
