package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpCode has a scripted client sum up 40 issues of another server: with a call for
// each, and with a program that makes the calls. What counts are the calls that a
// model would write and the answers that it would read; not the lists of tools.
func (b *bench) mcpCode(ctx context.Context, r *MCP) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1"}, nil)
	type issue struct {
		Number int `json:"number"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "get_issue", Description: "Gets an issue.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in issue) (*mcp.CallToolResult, any, error) {
			text, err := json.Marshal(map[string]any{"number": in.Number, "hours": 2 * in.Number,
				"body": strings.Repeat("It does not work. ", 100)})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, err
		})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := &http.Server{
		Handler:           mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil),
		ReadHeaderTimeout: startTime,
	}
	go func() { _ = served.Serve(listener) }() // to its Close
	defer served.Close()
	url := "http://" + listener.Addr().String()

	bytes := func(c *mcp.ClientSession, name string, arguments map[string]any) (n int, text string, err error) {
		params := &mcp.CallToolParams{Name: name, Arguments: arguments}
		result, err := c.CallTool(ctx, params)
		if err != nil {
			return 0, "", err
		}
		asked, err := json.Marshal(params)
		if err != nil {
			return 0, "", err
		}
		content, ok := result.Content[0].(*mcp.TextContent)
		if !ok || result.IsError {
			return 0, "", fmt.Errorf("%s: %+v", name, content)
		}
		return len(asked) + len(content.Text), content.Text, nil
	}
	direct, err := agentOf(ctx, &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true}, nil)
	if err != nil {
		return err
	}
	defer direct.Close()
	for i := range 40 {
		n, _, err := bytes(direct, "get_issue", map[string]any{"number": i})
		if err != nil {
			return err
		}
		r.CallBytes += n
	}
	file := filepath.Join(b.scratch, "servers.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"mcpServers":{"tracker":{"url":%q}}}`, url), 0o644); err != nil {
		return err
	}
	c, err := agentOf(ctx, b.mcpStdio("--upstream", file), nil)
	if err != nil {
		return err
	}
	defer c.Close()
	found, _, err := bytes(c, "search_tools", map[string]any{"query": "issue"})
	if err != nil {
		return err
	}
	began := time.Now()
	n, text, err := bytes(c, "run_code", map[string]any{
		"code": "from servers import tracker\nprint(sum(tracker.get_issue(number=n)['hours'] for n in range(40)))",
	})
	if err == nil && !strings.HasSuffix(text, "\n1560\n") {
		err = fmt.Errorf("the program: %q", text)
	}
	r.CodeBytes, r.CodeTime = found+n, time.Since(began).Seconds()
	return err
}
