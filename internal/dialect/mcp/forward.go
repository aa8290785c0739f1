package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Remote is another service that speaks the protocol.
type Remote struct {
	*sdk.ClientSession
	last    atomic.Int64
	waiting sync.Map // of func(*sdk.ProgressNotificationParams), by token
}

// Connect connects to another service.
func Connect(ctx context.Context, t sdk.Transport, version string) (*Remote, error) {
	r := &Remote{}
	client := sdk.NewClient(&sdk.Implementation{Name: "airlock", Version: version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, p *sdk.ProgressNotificationClientRequest) {
			token, _ := p.Params.ProgressToken.(string)
			if tell, ok := r.waiting.Load(token); ok {
				tell.(func(*sdk.ProgressNotificationParams))(p.Params)
			}
		},
	})
	var err error
	r.ClientSession, err = client.Connect(ctx, t, nil)
	return r, err
}

// Desk is where a server over standard input stands: on somebody's machine,
// with files to take from and to save to.
type Desk interface {
	// Send makes ids of stored files of the names in an argument files.
	Send(ctx context.Context, names []string) ([]string, error)
	// Save saves the files that a program made, and says where in a sentence;
	// empty: nowhere.
	Save(ctx context.Context, files []MadeFile) (string, error)
}

// MadeFile is a file that a program made, as a result describes it.
type MadeFile struct {
	ID     string `json:"id"`
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// forward has another service answer a call. What it reports on the way goes to
// the caller here; when that one leaves, the call ends there too.
func (s *Server) forward(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	remote, err := s.Remote(ctx)
	if err != nil {
		return refusal(err.Error()), nil
	}
	arguments, err := s.sendFiles(ctx, r.Params.Name, r.Params.Arguments)
	if err != nil {
		return refusal(err.Error()), nil
	}
	params := &sdk.CallToolParams{Name: r.Params.Name, Arguments: arguments}
	if token := r.Params.GetProgressToken(); token != nil {
		own := strconv.FormatInt(remote.last.Add(1), 10)
		remote.waiting.Store(own, func(p *sdk.ProgressNotificationParams) {
			told := *p
			told.ProgressToken = token
			_ = r.Session.NotifyProgress(ctx, &told) // the call notices that its client left
		})
		defer remote.waiting.Delete(own)
		params.SetMeta(map[string]any{}) // SetProgressToken fills it
		params.SetProgressToken(own)
	}
	result, err := remote.CallTool(ctx, params)
	if err != nil {
		if _, ok := errors.AsType[*jsonrpc.Error](err); ok || ctx.Err() != nil {
			return nil, err
		}
		s.Log.ErrorContext(ctx, "mcp", "error", err)
		return refusal("the service cannot be reached. Is it running?"), nil
	}
	if r.ProtocolVersion() < linksSince {
		result.Content = withoutLinks(result.Content)
	}
	s.saveFiles(ctx, result)
	return result, nil
}

func withoutLinks(content []sdk.Content) (kept []sdk.Content) {
	for _, c := range content {
		if _, link := c.(*sdk.ResourceLink); !link {
			kept = append(kept, c)
		}
	}
	return kept
}

// ownFiles is sendFiles where this server answers itself.
func (s *Server) ownFiles(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, error) {
	if s.Remote != nil {
		return arguments, nil
	}
	return s.sendFiles(ctx, tool, arguments)
}

// sendFiles replaces the names of files by ids.
func (s *Server) sendFiles(ctx context.Context, tool string, arguments json.RawMessage) (json.RawMessage, error) {
	var given map[string]any
	if s.Desk == nil || tool != "run_code" {
		return arguments, nil
	}
	if json.Unmarshal(arguments, &given) != nil {
		return arguments, nil //nolint:nilerr // refused where it is read
	}
	var names []string
	listed, _ := given["files"].([]any)
	for _, name := range listed {
		if text, ok := name.(string); ok {
			names = append(names, text)
		}
	}
	if len(names) == 0 || len(names) != len(listed) {
		return arguments, nil
	}
	ids, err := s.Desk.Send(ctx, names)
	if err != nil {
		return nil, err
	}
	given["files"] = ids
	return json.Marshal(given)
}

// saveFiles saves what a program made, and tells so in the first text.
func (s *Server) saveFiles(ctx context.Context, result *sdk.CallToolResult) {
	raw, err := json.Marshal(result.Meta[metaRun])
	var about struct {
		Files []MadeFile `json:"files"`
	}
	if s.Desk == nil || err != nil || json.Unmarshal(raw, &about) != nil || len(about.Files) == 0 ||
		len(result.Content) == 0 {
		return
	}
	said, err := s.Desk.Save(ctx, about.Files)
	if err != nil {
		said = "Not saved: " + err.Error()
	}
	if first, ok := result.Content[0].(*sdk.TextContent); ok && said != "" {
		first.Text = said + "\n" + first.Text
	}
}
