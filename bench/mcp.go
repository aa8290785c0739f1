package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MCP is what the Model Context Protocol costs, with the official SDK as client.
type MCP struct {
	Native       Summary `json:"native"`       // 1+1 in a live session, natively, in turn with
	HTTP         Summary `json:"http"`         // run_code, over streamable HTTP
	Stdio        Summary `json:"stdio"`        // and over airlock mcp, through the same service
	Parallel     float64 `json:"parallel_s"`   // for 100 calls at once on one connection, each with a session of its own
	Refused      int     `json:"refused"`      // of these
	Tools        int     `json:"tools_bytes"`  // of the list of tools
	Instructions int     `json:"instructions"` // characters
	Idle         float64 `json:"idle_kb"`      // of the service's memory, for a connection that listens
	Survived     float64 `json:"survived_s"`   // of a silent program, whose client cancels what is silent for half of that
	CallBytes    int     `json:"call_bytes"`   // that a model writes and reads for 40 calls of another server's tool
	CodeBytes    int     `json:"code_bytes"`   // and for a program that makes them
	CodeTime     float64 `json:"code_s"`       // that the program takes
	Cancelled    Summary `json:"cancelled"`    // until a program that ignores interrupts has ended
}

// sumCode is what the cells of this section run.
const sumCode = "1+1"

// agentOf connects a client.
func agentOf(ctx context.Context, transport mcp.Transport, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
	return mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, o).Connect(ctx, transport, nil)
}

func (b *bench) mcpHTTP() mcp.Transport { return b.warm.mcp() }

func (s *server) mcp() mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: "http://" + s.address + "/mcp", DisableStandaloneSSE: true}
}

// byMCP runs a cell in a session of an agent.
func byMCP(name string, s *server) contestant {
	return contestant{name: name, open: func(ctx context.Context, _ *workload) (*client, error) {
		c, err := agentOf(ctx, s.mcp(), nil)
		if err != nil {
			return nil, err
		}
		text, err := runCode(ctx, c, map[string]any{"code": sumCode})
		if err != nil {
			c.Close()
			return nil, err
		}
		again := map[string]any{"code": sumCode, "session": sessionIn(text)}
		return &client{close: func() { c.Close() }, attempt: func(ctx context.Context) error {
			_, err := runCode(ctx, c, again)
			return err
		}}, nil
	}}
}

func (b *bench) mcpStdio(flags ...string) mcp.Transport {
	cmd := exec.Command(b.options.airlock, append([]string{"mcp"}, flags...)...)
	cmd.Env = b.warm.cmd.Env
	return &mcp.CommandTransport{Command: cmd}
}

// runCode calls run_code, and returns the text of the answer.
func runCode(ctx context.Context, c *mcp.ClientSession, arguments map[string]any) (string, error) {
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: arguments})
	if err != nil {
		return "", err
	}
	text, ok := r.Content[0].(*mcp.TextContent)
	if !ok || r.IsError {
		return "", fmt.Errorf("run_code: %v %+v", ok, text)
	}
	return text.Text, nil
}

// sessionIn is the handle in an answer.
func sessionIn(text string) string {
	_, rest, _ := strings.Cut(text, "session ")
	handle, _, _ := strings.Cut(rest, " ")
	return handle
}

func (b *bench) measureMCP(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	r := &MCP{}
	for _, measure := range []func(context.Context, *MCP) error{b.mcpCalls, b.mcpParallel, b.mcpTexts, b.mcpIdle,
		b.mcpCancel, b.mcpCode, b.mcpSurvival} {
		if err := measure(ctx, r); err != nil {
			return err
		}
	}
	b.results.MCP = r
	fmt.Fprintf(b.progress,
		"   run_code(%q) %.2f ms over HTTP, %.2f ms over stdio, natively %.2f ms; 100 at once %.2f s, %d refused\n",
		sumCode, r.HTTP.P50, r.Stdio.P50, r.Native.P50, r.Parallel, r.Refused)
	fmt.Fprintf(b.progress,
		"   tools %d bytes, instructions %d characters; an idle connection %.0f KB; "+
			"cancelled after %.2f s, worst %.2f s; survived %.0f s\n",
		r.Tools, r.Instructions, r.Idle, r.Cancelled.P50/1000, r.Cancelled.P99/1000, r.Survived)
	fmt.Fprintf(b.progress,
		"   40 calls of another server's tool: %d bytes one by one, %d bytes in a program, which takes %.2f s\n", r.CallBytes,
		r.CodeBytes, r.CodeTime)
	return ctx.Err()
}

// mcpCalls runs the same cell natively and by the protocol, in turn.
func (b *bench) mcpCalls(ctx context.Context, r *MCP) error {
	native := chatClient{"http://" + b.warm.address}
	session, err := native.newSession(ctx, map[string]any{"kind": "live"})
	if err != nil {
		return err
	}
	cells := "/api/v1/sessions/" + session + "/cells"
	times := [3]sample{}
	ways := []func() (time.Duration, error){func() (time.Duration, error) {
		took, answer, err := native.post(ctx, cells, map[string]any{"code": sumCode})
		if err == nil && !bytes.Contains(answer, []byte(`"status":"ok"`)) {
			err = fmt.Errorf("the cell: %s", answer)
		}
		return took, err
	}}
	for _, transport := range []mcp.Transport{b.mcpHTTP(), b.mcpStdio()} {
		c, err := agentOf(ctx, transport, nil)
		if err != nil {
			return err
		}
		defer c.Close()
		text, err := runCode(ctx, c, map[string]any{"code": sumCode})
		if err != nil {
			return err
		}
		handle := sessionIn(text)
		ways = append(ways, func() (time.Duration, error) {
			began := time.Now()
			text, err := runCode(ctx, c, map[string]any{"code": sumCode, "session": handle})
			if err == nil && !strings.HasSuffix(text, "\n\n2\n") {
				err = fmt.Errorf("run_code: %q", text)
			}
			return time.Since(began), err
		})
	}
	for i := range b.plan.stages + 1 {
		for way, call := range ways {
			pause(ctx, rest)
			took, err := call()
			if err != nil {
				return err
			}
			if i > 0 { // the first was for nothing
				times[way] = append(times[way], took)
			}
		}
	}
	r.Native, r.HTTP, r.Stdio = times[0].summary(), times[1].summary(), times[2].summary()
	return nil
}

// mcpParallel makes 100 calls at once on one connection.
func (b *bench) mcpParallel(ctx context.Context, r *MCP) error {
	c, err := agentOf(ctx, b.mcpStdio(), nil)
	if err != nil {
		return err
	}
	defer c.Close()
	var refused atomic.Int64
	var last atomic.Pointer[string]
	began := time.Now()
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			text, err := runCode(ctx, c, map[string]any{"code": fmt.Sprintf("print(%d * 2)", i)})
			if err != nil || !strings.HasSuffix(text, fmt.Sprintf("\n\n%d\n", i*2)) {
				refused.Add(1)
				last.Store(new(fmt.Sprint(text, err)))
			}
		})
	}
	calls.Wait()
	r.Parallel, r.Refused = time.Since(began).Seconds(), int(refused.Load())
	if why := last.Load(); why != nil {
		fmt.Fprintf(b.progress, "   %d of 100 failed: %.300s\n", r.Refused, *why)
	}
	return nil
}

// mcpTexts measures the size of the tool list and the instructions in a model's context.
func (b *bench) mcpTexts(ctx context.Context, r *MCP) error {
	c, err := agentOf(ctx, b.mcpHTTP(), nil)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	text, err := json.Marshal(list)
	r.Tools, r.Instructions = len(text), len([]rune(c.InitializeResult().Instructions))
	return err
}

// idleConnections is how many listen, so that one shows in the memory of a process.
const idleConnections = 100

// mcpIdle looks at the service's memory while connections listen.
func (b *bench) mcpIdle(ctx context.Context, r *MCP) error {
	f := familyOf(b.warm.cmd.Process.Pid, processes())
	service := f.service
	if len(service) == 0 { // without root the service is the first process
		service = f.parent
	}
	before, _, err := memoryOf(service)
	if err != nil {
		return err
	}
	base := "http://" + b.warm.address + "/mcp"
	for range idleConnections {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
		if err != nil {
			return err
		}
		transport := &http.Transport{} // a connection of its own
		defer transport.CloseIdleConnections()
		one := &http.Client{Transport: transport}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		hello, err := one.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, hello.Body)
		if err = errors.Join(err, hello.Body.Close()); err != nil {
			return err
		}
		listen, err := http.NewRequestWithContext(ctx, http.MethodGet, base, http.NoBody)
		if err != nil {
			return err
		}
		listen.Header.Set("Accept", "text/event-stream")
		listen.Header.Set("Mcp-Session-Id", hello.Header.Get("Mcp-Session-Id"))
		listen.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		go func() {
			if stream, err := one.Do(listen.WithContext(ctx)); err == nil {
				_, _ = io.Copy(io.Discard, stream.Body) // to the end of the measurement
				stream.Body.Close()
			}
		}()
	}
	pause(ctx, time.Second) // the last ones are accepted
	after, _, err := memoryOf(service)
	r.Idle = max(after-before, 0) * 1000 / idleConnections
	return err
}

// mcpCancel cancels programs that ignore interrupts.
func (b *bench) mcpCancel(ctx context.Context, r *MCP) error {
	c, err := agentOf(ctx, b.mcpStdio(), nil)
	if err != nil {
		return err
	}
	defer c.Close()
	var gone sample
	for i := range max(b.plan.starts, 3) {
		word := fmt.Sprintf("%d.%d", 86000+i, time.Now().UnixNano()%1e9)
		code := "import signal, subprocess, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" +
			"subprocess.Popen(['sleep', '" + word + "'])\nwhile True: time.sleep(1)"
		within, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); _, _ = runCode(within, c, map[string]any{"code": code}) }() // it is cancelled
		for deadline := time.Now().Add(startTime); !runs(word); pause(ctx, 2*time.Millisecond) {
			if time.Now().After(deadline) {
				cancel()
				return errors.New("the program to cancel does not begin")
			}
		}
		began := time.Now()
		cancel()
		for runs(word) && time.Since(began) < startTime {
			pause(ctx, 2*time.Millisecond)
		}
		gone = append(gone, time.Since(began))
		<-ended
	}
	r.Cancelled = gone.summary()
	return nil
}

// runs reports whether a process has a word on its command line.
func runs(word string) bool {
	for pid := range processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may be gone
		if bytes.HasPrefix(line, []byte("sleep\x00"+word)) {
			return true
		}
	}
	return false
}

// mcpSurvival runs a silent program in a client that cancels what is silent for
// half as long, and restarts with each progress.
func (b *bench) mcpSurvival(ctx context.Context, r *MCP) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	silence := b.plan.silence
	clock := time.AfterFunc(silence, func() { giveUp(errors.New("no progress came in time")) })
	defer clock.Stop()
	c, err := agentOf(ctx, b.mcpHTTP(), &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			clock.Reset(silence)
		}})
	if err != nil {
		return err
	}
	defer c.Close()
	params := &mcp.CallToolParams{Name: "run_code", Meta: mcp.Meta{}, Arguments: map[string]any{
		"code": fmt.Sprintf("import time; time.sleep(%f); print('done')", 2*silence.Seconds()), "wait_seconds": 200,
		"timeout_seconds": 200,
	}}
	params.SetProgressToken("p")
	began := time.Now()
	result, err := c.CallTool(ctx, params)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || !strings.HasSuffix(text.Text, "done\n") {
		return fmt.Errorf("the silent program: %+v", result.Content[0])
	}
	r.Survived = time.Since(began).Seconds()
	return nil
}

// goals returns the promises about the protocol.
func (m *MCP) goals() []Goal {
	value := func(of func(*MCP) float64) *float64 {
		if m == nil {
			return nil
		}
		return new(of(m))
	}
	return []Goal{
		{Name: "MCP over HTTP: run_code above the native cell", Unit: "ms", Must: 1.2, Aim: 0.6,
			Measured: value(func(m *MCP) float64 { return m.HTTP.P50 - m.Native.P50 })},
		{Name: "MCP over stdio: run_code above the native cell", Unit: "ms", Must: 1.5, Aim: 0.8,
			Measured: value(func(m *MCP) float64 { return m.Stdio.P50 - m.Native.P50 })},
		{Name: "MCP: refused of 100 calls at once on one connection", Unit: "calls",
			Measured: value(func(m *MCP) float64 { return float64(m.Refused) })},
		{Name: "MCP: tool list", Unit: "KB", Must: 16.384, Aim: 8,
			Measured: value(func(m *MCP) float64 { return float64(m.Tools) / 1000 })},
		{Name: "MCP: instructions", Unit: "characters", Must: 2000, Aim: 1000,
			Measured: value(func(m *MCP) float64 { return float64(m.Instructions) })},
		{Name: "MCP: memory of an idle connection", Unit: "KB", Must: 200, Aim: 100,
			Measured: value(func(m *MCP) float64 { return m.Idle })},
		{Name: "MCP: 40 calls one by one against a program, bytes", Unit: "x", Must: 20, Aim: 50, More: true,
			Measured: value(func(m *MCP) float64 { return float64(m.CallBytes) / float64(max(m.CodeBytes, 1)) })},
		{Name: "MCP: a cancelled program that ignores interrupts is gone", Unit: "s", Must: 1, Aim: 0.6,
			Measured: value(func(m *MCP) float64 { return m.Cancelled.P99 / 1000 })},
	}
}
