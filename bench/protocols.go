package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/bench/lab"
)

// sumCode is what the cells of this section run.
const sumCode = "1+1"

// measureProtocols compares the protocols of others with the native call that does the same, in turn with it. OpenAI's
// is not among them: its answers wait for a model.
func (b *bench) measureProtocols(ctx context.Context) {
	s := b.service(ctx)
	c := b.caller(s)
	path := c.session(ctx)
	cell := lab.Ready("native", func(ctx context.Context) (time.Duration, error) { return c.cell(ctx, path, sumCode) })
	run := lab.Ready("native", c.again("POST", runsPath, printRun, `"status":"ok"`))
	command := lab.Ready("native", func(ctx context.Context) (time.Duration, error) { return c.command(ctx, path) })
	stdio := exec.CommandContext(ctx, b.airlock, "mcp")
	stdio.Env = slices.Concat(s.Cmd.Env, []string{"AIRLOCK_DATA=" + s.Data})
	for _, one := range []struct {
		name           string
		must, aim      float64
		native, theirs lab.Contestant
	}{
		{"LibreChat: /exec of print(1)", 0.5, 0.3, run, lab.Ready("LibreChat", c.again("POST", "/librechat/v1/exec",
			`{"lang":"py","code":"print(1)"}`, `"stdout":"1\n"`))},
		{"Dify: print(1)", 0.5, 0.3, run, lab.Ready("Dify", newCaller(s.URL, "X-Api-Key", "k").again("POST",
			"/dify/v1/sandbox/run", `{"language":"python3","code":"print(1)","enable_network":true}`, `"stdout":"1\n"`))},
		{"Open Terminal: a command", 0.5, 0.3, command, lab.Ready("Open Terminal", newCaller(s.URL, "X-User-Id", "u").again(
			"POST", "/terminal/execute?wait=30", `{"command":"echo 1"}`, `"data":"1\r\n"`))},
		{"E2B: run_code", 0.5, 0.3, cell, lab.Contestant{Name: "E2B", Open: func(ctx context.Context) (lab.Call, func()) {
			return byE2B(ctx, s.URL)
		}}},
		{"Jupyter: execute_request", 0.5, 0.2, cell,
			kernelCells("Jupyter", s.URL+"/jupyter", "1", sumCode, "execute_result")},
		{"MCP over HTTP: run_code", 1.2, 0.6, cell, byMCP("MCP", overHTTP(s))},
		{"MCP over stdio: run_code", 1.5, 0.8, cell, byMCP("MCP", &mcp.CommandTransport{Command: stdio})},
	} {
		took := b.compare(ctx, one.name, b.full(150, 60), one.native, one.theirs)
		b.Goal(one.name+" above the native call", "ms", one.must, one.aim, took[1]-took[0])
	}
}

// command starts a command natively, and reads its output to its end.
func (c *caller) command(ctx context.Context, path string) (time.Duration, error) {
	var p made
	took := c.decode(ctx, "POST", path+"/processes", `{"shell":"echo 1","pty":{"cols":80,"rows":24}}`, &p)
	more, err := c.do(ctx, "GET", path+"/processes/"+p.ID+"/events", nil, "event: exit")
	return took + more, err
}

// byE2B runs a cell as E2B's clients do.
func byE2B(ctx context.Context, url string) (lab.Call, func()) {
	var box struct{ SandboxID, EnvdAccessToken string }
	newCaller(url, "X-Api-Key", "e2b_0000").decode(ctx, "POST", "/e2b/v2/sandboxes",
		`{"templateID":"code-interpreter-v1"}`, &box)
	inside := newCaller(url, "E2b-Sandbox-Id", box.SandboxID, "E2b-Sandbox-Port", "49999", "X-Access-Token",
		box.EnvdAccessToken)
	return inside.again("POST", "/e2b/execute", `{"code":"1+1"}`, `"text":"2"`), inside.close
}

func overHTTP(s *lab.Service) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: s.URL + "/mcp", DisableStandaloneSSE: true}
}

// byMCP runs a cell in a session of an agent.
func byMCP(name string, transport mcp.Transport) lab.Contestant {
	return lab.Contestant{Name: name, Open: func(ctx context.Context) (lab.Call, func()) {
		c := lab.Must(mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, transport, nil))
		run := func(ctx context.Context, arguments map[string]any) (string, error) {
			r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: arguments})
			if err != nil {
				return "", err
			}
			text, ok := r.Content[0].(*mcp.TextContent)
			if !ok || r.IsError || !strings.HasSuffix(text.Text, "\n\n2\n") {
				return "", fmt.Errorf("run_code: %+v", r.Content[0])
			}
			return text.Text, nil
		}
		_, rest, _ := strings.Cut(lab.Must(run(ctx, map[string]any{"code": sumCode})), "session ")
		handle, _, _ := strings.Cut(rest, " ")
		return func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			_, err := run(ctx, map[string]any{"code": sumCode, "session": handle})
			return time.Since(began), err
		}, func() { c.Close() }
	}}
}

//go:embed e2b.py
var e2bProgram string

// measureE2B measures E2B's own Python client: a sandbox made and deleted, one at a time and twenty at once, as
// CubeSandbox's benchmark does; a sandbox and its first code; a command. A service with the default rate of an owner
// would refuse 200 sandboxes a second.
func (b *bench) measureE2B(ctx context.Context) {
	if err := lab.Try(func() { installed(b.clients) }); err != nil {
		b.Missing("E2B's Python client", err)
		return
	}
	address := b.service(ctx).URL + "/e2b"
	cmd := exec.CommandContext(ctx, b.clients, "-c", e2bProgram, strconv.Itoa(b.full(200, 40)))
	cmd.Env = append(os.Environ(), "E2B_API_URL="+address, "E2B_SANDBOX_URL="+address, "E2B_API_KEY=e2b_0000")
	cmd.Stderr = os.Stderr
	var found map[string][]float64
	lab.Check(json.Unmarshal(lab.Must(cmd.Output()), &found))
	for _, of := range []string{"Sandbox.create(), one at a time", "sandbox.kill(), one at a time",
		"Sandbox.create(), 20 at once", "sandbox.kill(), 20 at once", firstE2B, commandE2B} {
		b.Row(of, "E2B's client", lab.FromMillis(found[of]))
	}
	b.Goal("E2B: a sandbox and its first code", "ms", 25, 15, lab.FromMillis(found[firstE2B]).P50())
	b.Goal("E2B: a command", "ms", 6, 3, lab.FromMillis(found[commandE2B]).P50())
}

// The rows that are goals.
const firstE2B, commandE2B = `Sandbox.create() and run_code("1+1")`, `commands.run("true")`
