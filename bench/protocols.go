package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
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

// measureProtocols compares the protocols of others with the native call that does the same, in turn with it.
func (b *bench) measureProtocols(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	c := newCaller(b.warm.URL)
	defer c.close()
	path, err := c.session(ctx)
	if err != nil {
		return err
	}
	native := ready("native", func(ctx context.Context) (time.Duration, error) { return c.cell(ctx, path, sumCode) })
	run := ready("native", c.again("POST", runsPath, `{"language":"python","code":"print(1)"}`, `"status":"ok"`))
	stdio := exec.CommandContext(ctx, b.airlock, "mcp")
	stdio.Env = slices.Concat(b.warm.Cmd.Env, []string{"AIRLOCK_DATA=" + b.warm.Data})
	for _, one := range []struct {
		name      string
		must, aim float64
		native    contestant
		theirs    contestant
	}{
		{"LibreChat: /exec of print(1)", 0.5, 0.3, run, ready("LibreChat", c.again("POST", "/librechat/v1/exec",
			`{"lang":"py","code":"print(1)"}`, `"stdout":"1\n"`))},
		{"Dify: print(1)", 0.5, 0.3, run, ready("Dify", newCaller(b.warm.URL, "X-Api-Key", "k").again("POST",
			"/dify/v1/sandbox/run", `{"language":"python3","code":"print(1)","enable_network":true}`, `"stdout":"1\n"`))},
		{"Open Terminal: a command", 0.5, 0.3, ready("native", c.command(path)),
			ready("Open Terminal", newCaller(b.warm.URL, "X-User-Id", "u").again("POST", "/terminal/execute?wait=30",
				`{"command":"echo 1"}`, `"data":"1\r\n"`))},
		{"E2B: run_code", 0.5, 0.3, native, contestant{"E2B", func(ctx context.Context) (call, func(), error) {
			return byE2B(ctx, b.warm.URL)
		}}},
		{"Jupyter: execute_request", 0.5, 0.2, native, contestant{"Jupyter", func(ctx context.Context) (call, func(), error) {
			k, err := startKernel(ctx, b.warm.URL+"/jupyter")
			if err != nil {
				return nil, nil, err
			}
			return func(ctx context.Context) (time.Duration, error) {
				return k.run(ctx, sumCode, "execute_result")
			}, k.close, nil
		}}},
		{"MCP over HTTP: run_code", 1.2, 0.6, native, byMCP("MCP", overHTTP(b.warm))},
		{"MCP over stdio: run_code", 1.5, 0.8, native, byMCP("MCP", &mcp.CommandTransport{Command: stdio})},
	} {
		took, err := b.compare(ctx, one.name, b.full(150, 60), one.native, one.theirs)
		if err != nil {
			return err
		}
		b.goal(one.name+" above the native call", "ms", one.must, one.aim, took[1]-took[0])
	}
	return b.besideOpenAI(ctx)
}

// command starts a command natively, and reads its output to its end.
func (c *caller) command(path string) call {
	return func(ctx context.Context) (time.Duration, error) {
		var p made
		took, err := c.decode(ctx, "POST", path+"/processes", `{"shell":"echo 1","pty":{"cols":80,"rows":24}}`, &p)
		if err != nil {
			return 0, err
		}
		more, err := c.do(ctx, "GET", path+"/processes/"+p.ID+"/events", nil, "event: exit")
		return took + more, err
	}
}

// byE2B runs a cell as E2B's clients do.
func byE2B(ctx context.Context, url string) (call, func(), error) {
	var box struct{ SandboxID, EnvdAccessToken string }
	c := newCaller(url, "X-Api-Key", "e2b_0000")
	_, err := c.decode(ctx, "POST", "/e2b/v2/sandboxes", `{"templateID":"code-interpreter-v1"}`, &box)
	inside := newCaller(url, "E2b-Sandbox-Id", box.SandboxID, "E2b-Sandbox-Port", "49999", "X-Access-Token",
		box.EnvdAccessToken)
	return inside.again("POST", "/e2b/execute", `{"code":"1+1"}`, `"text":"2"`), inside.close, err
}

func overHTTP(s *lab.Service) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: s.URL + "/mcp", DisableStandaloneSSE: true}
}

// byMCP runs a cell in a session of an agent.
func byMCP(name string, transport mcp.Transport) contestant {
	return contestant{name, func(ctx context.Context) (call, func(), error) {
		c, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, transport, nil)
		if err != nil {
			return nil, nil, err
		}
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
		text, err := run(ctx, map[string]any{"code": sumCode})
		_, rest, _ := strings.Cut(text, "session ")
		handle, _, _ := strings.Cut(rest, " ")
		return func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			_, err := run(ctx, map[string]any{"code": sumCode, "session": handle})
			return time.Since(began), err
		}, func() { c.Close() }, err
	}}
}

// serveModel is a model that speaks chat completions: it runs 1+1, and says so when it has. It says where it is, and
// ends with its input.
func serveModel(stdin io.Reader, stdout io.Writer) error {
	answer := func(delta, reason string) string {
		return `data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":"` + reason + "\"}]}\n\ndata: [DONE]\n\n"
	}
	call := answer(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"python","arguments":"{\"code\":\"1+1\"}"}}]}`,
		"tool_calls")
	said := answer(`{"content":"It is 2."}`, "stop")
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		if err == nil && bytes.Contains(body, []byte(`"role":"tool"`)) {
			_, err = io.WriteString(w, said)
		} else if err == nil {
			_, err = io.WriteString(w, call)
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	defer model.Close()
	if _, err := fmt.Fprintln(stdout, model.URL); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, stdin)
	return err
}

// startModel starts one. It is a process of its own, as models are: between a client and a server in one process no
// process has to be woken.
func startModel() (url string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, "-model")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, err
	}
	stop = func() { stdin.Close(); _ = cmd.Wait() }
	_, err = fmt.Fscanln(stdout, &url)
	return url, stop, err
}

// besideOpenAI compares a response with one call of code and its answer with two requests to the model and a cell. The
// service has a model.
func (b *bench) besideOpenAI(ctx context.Context) error {
	model, stop, err := startModel()
	if err != nil {
		return err
	}
	defer stop()
	s, err := b.startWarm(ctx, "--openai-upstream-url", model+"/v1")
	if err != nil {
		return err
	}
	defer func() { _ = s.Stop() }() // nothing is measured any more
	c, direct := newCaller(s.URL), newCaller(model)
	defer c.close()
	path, err := c.session(ctx)
	if err != nil {
		return err
	}
	var box made
	if _, err := c.decode(ctx, "POST", "/openai/v1/containers", `{"name":"bench"}`, &box); err != nil {
		return err
	}
	native := func(ctx context.Context) (sum time.Duration, err error) {
		for _, role := range []string{"user", "tool"} {
			took, err := direct.do(ctx, "POST", "/v1/chat/completions",
				`{"model":"m","stream":true,"messages":[{"role":"`+role+`","content":"1+1?"}]}`)
			if err != nil {
				return 0, err
			}
			sum += took
		}
		took, err := c.cell(ctx, path, sumCode)
		return sum + took, err
	}
	took, err := b.compare(ctx, "OpenAI: a response with code", b.full(150, 60),
		ready("two requests to the model, a cell", native),
		ready("OpenAI", c.again("POST", "/openai/v1/responses", fmt.Sprintf(`{"model":"m","input":"1+1?","store":false,`+
			`"tools":[{"type":"code_interpreter","container":%q}]}`, box.ID), "It is 2.")))
	b.goal("OpenAI: a response above two requests to the model and a native cell", "ms", 0.5, 0.3, took[1]-took[0])
	return err
}

//go:embed e2b.py
var e2bProgram string

// measureE2B measures E2B's own Python client: a sandbox made and deleted, one at a time and twenty at once, as
// CubeSandbox's benchmark does; a sandbox and its first code; a command. A service with the default rate of an owner
// would refuse 200 sandboxes a second.
func (b *bench) measureE2B(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(b.clients); errors.Is(err, fs.ErrNotExist) {
		b.missing("E2B's Python client", errors.New("it is not installed"))
		return nil
	}
	address := b.warm.URL + "/e2b"
	cmd := exec.CommandContext(ctx, b.clients, "-c", e2bProgram, strconv.Itoa(b.full(200, 40)))
	cmd.Env = append(os.Environ(), "E2B_API_URL="+address, "E2B_SANDBOX_URL="+address, "E2B_API_KEY=e2b_0000")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("E2B's client: %w", err)
	}
	var found struct{ Create, Delete, Create20, Delete20, First, Command []float64 }
	if err := json.Unmarshal(out, &found); err != nil {
		return err
	}
	b.row("Sandbox.create(), one at a time", "E2B's client", lab.FromMillis(found.Create))
	b.row("sandbox.kill(), one at a time", "E2B's client", lab.FromMillis(found.Delete))
	b.row("Sandbox.create(), 20 at once", "E2B's client", lab.FromMillis(found.Create20))
	b.row("sandbox.kill(), 20 at once", "E2B's client", lab.FromMillis(found.Delete20))
	b.row("Sandbox.create() and run_code(\"1+1\")", "E2B's client", lab.FromMillis(found.First))
	b.row("commands.run(\"true\")", "E2B's client", lab.FromMillis(found.Command))
	b.goal("E2B: a sandbox and its first code", "ms", 25, 15, lab.FromMillis(found.First).P50())
	b.goal("E2B: a command", "ms", 6, 3, lab.FromMillis(found.Command).P50())
	return nil
}
