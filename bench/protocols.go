package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Protocols is what the protocols of others cost, each beside the native call that does
// the same, in turn with it.
type Protocols struct {
	E2B      Beside `json:"e2b"`      // 1+1 in a session
	Dify     Beside `json:"dify"`     // print(1), one-shot
	Terminal Beside `json:"terminal"` // a command is started, and its output is read to its end
	// A response with one call of code and its answer; natively two requests to the model and a cell.
	OpenAI Beside  `json:"openai"`
	Create Summary `json:"create"` // a sandbox of E2B's and 1+1 in it, by its Python client
	Kernel Summary `json:"kernel"` // a new ipykernel behind a jupyter_server, of which E2B's template is made, and 1 in it
}

// Beside is a call beside another.
type Beside struct{ Native, Theirs Summary }

//go:embed e2b.py
var e2bClient string

func (b *bench) measureProtocols(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	r := &Protocols{}
	for _, measure := range []func(context.Context, *Protocols) error{b.besideE2B, b.besideDify, b.besideTerminal,
		b.besideOpenAI, b.createE2B, b.createKernel} {
		if err := measure(ctx, r); err != nil {
			return err
		}
	}
	b.results.Protocols = r
	for name, s := range map[string]Beside{"E2B": r.E2B, "Dify": r.Dify, "Open Terminal": r.Terminal,
		"OpenAI": r.OpenAI} {
		fmt.Fprintf(b.progress, "   %s %.2f ms, natively %.2f ms: %+.2f ms\n", name, s.Theirs.P50, s.Native.P50,
			s.Theirs.P50-s.Native.P50)
	}
	fmt.Fprintf(b.progress, "   E2B's client makes a sandbox and runs 1+1 in %.1f ms; a new ipykernel takes %.0f ms\n",
		r.Create.P50, r.Kernel.P50)
	return ctx.Err()
}

// request makes one call, whose answer must have some text in it.
func (b *bench) request(ctx context.Context, path, body, want string, header ...string) (time.Duration, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.warm.address+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	took := time.Since(began)
	if err == nil && (resp.StatusCode/100 != 2 || !bytes.Contains(answer, []byte(want))) {
		err = fmt.Errorf("%s: %s: %.400s", path, resp.Status, answer)
	}
	return took, answer, err
}

// inTurn makes both calls again and again.
func (b *bench) inTurn(ctx context.Context, native, theirs func() (time.Duration, error)) (r Beside, err error) {
	times := [2]sample{}
	for i := range b.plan.stages + 1 {
		for way, call := range []func() (time.Duration, error){native, theirs} {
			pause(ctx, rest)
			took, err := call()
			if err != nil {
				return r, err
			}
			if i > 0 { // the first was for nothing
				times[way] = append(times[way], took)
			}
		}
	}
	return Beside{times[0].summary(), times[1].summary()}, nil
}

// session makes a live session and returns its address.
func (b *bench) session(ctx context.Context) (string, error) {
	_, answer, err := b.request(ctx, "/api/v1/sessions", `{"kind":"live"}`, "")
	var made struct{ ID string }
	if err == nil {
		err = json.Unmarshal(answer, &made)
	}
	return "/api/v1/sessions/" + made.ID, err
}

func (b *bench) besideE2B(ctx context.Context, r *Protocols) error {
	at, err := b.session(ctx)
	if err != nil {
		return err
	}
	_, answer, err := b.request(ctx, "/e2b/v2/sandboxes", `{"templateID":"code-interpreter-v1"}`, "", "X-Api-Key", "e2b_0000")
	if err != nil {
		return err
	}
	var made struct {
		ID    string `json:"sandboxID"`
		Token string `json:"envdAccessToken"`
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	r.E2B, err = b.inTurn(ctx, func() (time.Duration, error) {
		took, _, err := b.request(ctx, at+"/cells", `{"code":"1+1"}`, `"status":"ok"`)
		return took, err
	}, func() (time.Duration, error) {
		took, _, err := b.request(ctx, "/e2b/execute", `{"code":"1+1"}`, `"text":"2"`, "E2b-Sandbox-Id", made.ID, "E2b-Sandbox-Port", "49999", "X-Access-Token", made.Token)
		return took, err
	})
	return err
}

func (b *bench) besideDify(ctx context.Context, r *Protocols) (err error) {
	r.Dify, err = b.inTurn(ctx, func() (time.Duration, error) {
		took, _, err := b.request(ctx, "/api/v1/runs", `{"language":"python","code":"print(1)"}`, `"status":"ok"`)
		return took, err
	}, func() (time.Duration, error) {
		took, _, err := b.request(ctx, "/dify/v1/sandbox/run", `{"language":"python3","code":"print(1)","enable_network":true}`, `"stdout":"1\n"`, "X-Api-Key", "k")
		return took, err
	})
	return err
}

func (b *bench) besideTerminal(ctx context.Context, r *Protocols) error {
	at, err := b.session(ctx)
	if err != nil {
		return err
	}
	c := chatClient{"http://" + b.warm.address}
	r.Terminal, err = b.inTurn(ctx, func() (time.Duration, error) {
		took, answer, err := b.request(ctx, at+"/processes", `{"shell":"echo 1","pty":{"cols":80,"rows":24}}`, `"id"`)
		var p struct{ ID string }
		if err == nil {
			err = json.Unmarshal(answer, &p)
		}
		if err != nil {
			return 0, err
		}
		more, events, err := c.do(ctx, http.MethodGet, at+"/processes/"+p.ID+"/events", "", http.NoBody)
		if err == nil && !bytes.Contains(events, []byte("event: exit")) {
			err = fmt.Errorf("the process: %s", events)
		}
		return took + more, err
	}, func() (time.Duration, error) {
		took, _, err := b.request(ctx, "/terminal/execute?wait=30", `{"command":"echo 1"}`, `"data":"1\r\n"`, "X-User-Id", "u")
		return took, err
	})
	return err
}

// createE2B runs E2B's own client.
func (b *bench) createE2B(ctx context.Context, r *Protocols) error {
	if found, _ := filepath.Glob(b.options.e2b); len(found) == 0 {
		b.results.Missing["E2B's Python client"] = "it is not installed"
		return nil
	}
	address := "http://" + b.warm.address + "/e2b"
	cmd := exec.CommandContext(ctx, b.options.e2b, "-c", e2bClient, strconv.Itoa(b.plan.sessions/2))
	cmd.Env = append(os.Environ(), "E2B_API_URL="+address, "E2B_SANDBOX_URL="+address, "E2B_API_KEY=e2b_0000")
	cmd.Stderr = b.progress
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("E2B's client: %w", err)
	}
	var times []float64
	if err := json.Unmarshal(out, &times); err != nil {
		return err
	}
	var s sample
	for _, ms := range times {
		s = append(s, time.Duration(ms*float64(time.Millisecond)))
	}
	r.Create = s.summary()
	return nil
}

// createKernel starts kernels as a sandbox of E2B's template does.
func (b *bench) createKernel(ctx context.Context, r *Protocols) error {
	jupyter, err := b.startJupyter(ctx)
	if err != nil {
		b.results.Missing[nameKernel] = err.Error()
		return nil
	}
	defer jupyter.stop()
	var s sample
	for range max(b.plan.starts, 3) {
		began := time.Now()
		k, err := jupyter.startKernel(ctx)
		if err != nil {
			return err
		}
		s = append(s, time.Since(began))
		k.close()
	}
	r.Kernel = s.summary()
	return nil
}

// goals are what was promised of the protocols.
func (p *Protocols) goals() []Goal {
	value := func(of func(*Protocols) *float64) *float64 {
		if p == nil {
			return nil
		}
		return of(p)
	}
	above := func(s Beside) *float64 { return new(s.Theirs.P50 - s.Native.P50) }
	against := func(s, other Summary) *float64 {
		if s.N == 0 || other.N == 0 {
			return nil
		}
		return new(s.P50 / other.P50)
	}
	return []Goal{
		{Name: "E2B: run_code above the native cell", Unit: "ms", Must: 0.5, Aim: 0.3,
			Measured: value(func(p *Protocols) *float64 { return above(p.E2B) })},
		{Name: "Dify: a program above the native run", Unit: "ms", Must: 0.5, Aim: 0.3,
			Measured: value(func(p *Protocols) *float64 { return above(p.Dify) })},
		{Name: "Open Terminal: a command above the native process", Unit: "ms", Must: 0.5, Aim: 0.3,
			Measured: value(func(p *Protocols) *float64 { return above(p.Terminal) })},
		{Name: "OpenAI: a response above two requests to the model and a native cell", Unit: "ms", Must: 0.5, Aim: 0.3,
			Measured: value(func(p *Protocols) *float64 { return above(p.OpenAI) })},
		{Name: "E2B: Sandbox.create() and run_code(\"1+1\") with its Python client", Unit: "ms", Must: 25, Aim: 15,
			Measured: value(func(p *Protocols) *float64 {
				if p.Create.N == 0 {
					return nil
				}
				return &p.Create.P50
			})},
		{Name: "E2B: the same against a new ipykernel of a jupyter_server", Unit: "x", Must: 0.1, Aim: 0.05,
			Measured: value(func(p *Protocols) *float64 { return against(p.Create, p.Kernel) })},
	}
}
