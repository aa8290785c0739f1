package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tracker is another server of the protocol: issues that can be read, and closed.
func tracker(t *testing.T, key string) (url string, closed *atomic.Int64) {
	t.Helper()
	closed = &atomic.Int64{}
	server := mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1"}, nil)
	type one struct {
		Number int `json:"number" jsonschema:"the issue's number"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "get-issue", Description: "Gets an issue.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in one) (*mcp.CallToolResult, any, error) {
			if in.Number > 900 {
				return nil, nil, fmt.Errorf("there is no issue %d", in.Number)
			}
			text, _ := json.Marshal(map[string]any{"number": in.Number, "hours": in.Number * 2,
				"body": strings.Repeat("words ", 300)})
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "close_issue", Description: "Closes an issue."},
		func(_ context.Context, _ *mcp.CallToolRequest, in one) (*mcp.CallToolResult, map[string]any, error) {
			closed.Add(1)
			return nil, map[string]any{"result": fmt.Sprintf("closed %d", in.Number)}, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "delete_all", Description: "Deletes everything."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			t.Error("what is denied was called")
			return &mcp.CallToolResult{}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		here.CloseClientConnections()
		here.Close()
	})
	return here.URL, closed
}

// Programs call the tools of other servers, over HTTP and over standard input and
// output: as functions and coroutines, within the operator's policy, with the person
// asked where that says so. The key of a server is not in the sandbox.
func TestMCPCode(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	key := "tracker-secret-4711"
	url, closed := tracker(t, key)
	file := filepath.Join(folder(t, who.credential), "servers.json")
	text, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"tracker": map[string]any{"url": url, "headers": map[string]string{"Authorization": "Bearer " + key},
			"tools": map[string]string{"delete_*": "deny"}},
		"computer": map[string]any{"command": binary, "args": []string{"mcp", "--data", dataFolder(t, who)},
			"default": "allow"},
		"gone": map[string]any{"url": "http://127.0.0.1:9/"},
	}})
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	agree := "accept"
	var asked []string
	a := newAgent(t, overStdio(t, who, "--data", dataFolder(t, who), "--upstream", file), &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked = append(asked, r.Params.Message)
			return &mcp.ElicitResult{Action: agree}, nil
		},
	})
	list, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if strings.Contains(tool.Name, "issue") {
			t.Errorf("an upstream tool is in the list: %s", tool.Name)
		}
	}
	found, _ := a.call("search_tools", map[string]any{"query": "issue"})
	for _, want := range []string{"tracker.get_issue(number: int)  # Gets an issue.",
		"tracker.close_issue(number: int) [asks the person]", "the server gone cannot be reached"} {
		if !strings.Contains(found, want) {
			t.Errorf("search_tools: %q, want %q", found, want)
		}
	}
	session := ""
	run := func(code string) string {
		t.Helper()
		arguments := map[string]any{"code": code}
		if session != "" {
			arguments["session"] = session
		}
		got, _ := a.call("run_code", arguments)
		session = sessionHandle.FindString(got)
		_, out, _ := strings.Cut(got, "\n\n")
		return out
	}
	for _, step := range []struct{ code, want string }{
		{"from servers import tracker, ToolError\nprint(tracker.get_issue(number=3)['hours'])", "6\n"},
		{"import asyncio\nfrom servers.aio import tracker as later\n" +
			"print(sum(i['hours'] for i in await asyncio.gather(*[later.get_issue(number=n) for n in range(40)])))", "1560\n"},
		{"try: tracker.get_issue(number=999)\nexcept ToolError as e: print(e)", "there is no issue 999\n"},
		{"try: tracker.delete_all()\nexcept ToolError as e: print(e)",
			"delete_all is not allowed: its policy is in the operator's file\n"},
		{"try: tracker.get_isue\nexcept AttributeError as e: print(e)",
			"the server tracker has no tool 'get_isue'. There are: get_issue"},
		{"try: tracker.get_issue(numbr=1)\nexcept TypeError as e: print(e)",
			"tracker.get_issue has no argument 'numbr'. There are: number"},
		{"try: from servers import trackr\nexcept ImportError as e: print(e)", "cannot import name 'trackr' from 'servers'"},
		{"print(tracker.close_issue(number=7))", "closed 7\n"},
		{"import inspect; print(inspect.signature(tracker.get_issue), tracker.get_issue.__doc__)",
			"(*, number: int) Gets an issue.\n\nnumber: the issue's number\n"},
		{"from servers import computer\nprint(computer.run_code(code='print(6 * 7)'))", "\n42\n"},
		{"import os\nprint('" + key[:8] + "' in str(os.environ), [p for p in os.listdir('.')])", "False []\n"},
	} {
		if got := run(step.code); !strings.Contains(got, step.want) {
			t.Errorf("%s: %q, want %q", step.code, got, step.want)
		}
	}
	agree = "decline"
	if got := run("try: tracker.close_issue(number=8)\n" +
		"except ToolError as e: print(e)"); got != "the person did not agree to close_issue\n" || closed.Load() != 1 {
		t.Errorf("declined: %q, %d closed", got, closed.Load())
	}
	if len(asked) != 2 || !strings.Contains(asked[0], "close_issue of the server tracker?") || !slices.ContainsFunc(asked, func(s string) bool { return strings.Contains(s, `{"number": 7}`) }) {
		t.Errorf("asked %q", asked)
	}
}
