package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"time"
)

// serveModel is a model that speaks chat completions: it runs 1+1, and says so when it
// has. It says where it is, and ends with its input.
func serveModel(stdin io.Reader, stdout io.Writer) error {
	answer := func(delta, reason string) string {
		return `data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":"` + reason + "\"}]}\n\ndata: [DONE]\n\n"
	}
	call := answer(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"python","arguments":"{\"code\":\"1+1\"}"}}]}`, "tool_calls")
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

// startModel starts one. It is a process of its own, as models are: between a client and
// a server in one process no process has to be woken.
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
	if _, err := fmt.Fscanln(stdout, &url); err != nil {
		stop()
		return "", nil, fmt.Errorf("the model does not start: %w", err)
	}
	return url, stop, nil
}

// besideOpenAI measures on a service of its own, which has a model.
func (b *bench) besideOpenAI(ctx context.Context, r *Protocols) error {
	model, stop, err := startModel()
	if err != nil {
		return err
	}
	defer stop()
	s, err := b.startWarm(ctx, "--openai-upstream-url", model+"/v1")
	if err != nil {
		return err
	}
	defer s.stop()
	before := b.warm
	b.warm = s
	defer func() { b.warm = before }()
	at, err := b.session(ctx)
	if err != nil {
		return err
	}
	_, answer, err := b.request(ctx, "/openai/v1/containers", `{"name":"bench"}`, `"id"`)
	var made struct{ ID string }
	if err == nil {
		err = json.Unmarshal(answer, &made)
	}
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"model":"m","input":"1+1?","store":false,`+
		`"tools":[{"type":"code_interpreter","container":%q}]}`, made.ID)
	r.OpenAI, err = b.inTurn(ctx, func() (time.Duration, error) {
		began := time.Now()
		for _, role := range []string{"user", "tool"} {
			if err := askModel(ctx, model, role); err != nil {
				return 0, err
			}
		}
		models := time.Since(began)
		took, _, err := b.request(ctx, at+"/cells", `{"code":"1+1"}`, `"status":"ok"`)
		return models + took, err
	}, func() (time.Duration, error) {
		took, _, err := b.request(ctx, "/openai/v1/responses", body, "It is 2.")
		return took, err
	})
	return err
}

// askModel is what a client without us asks it.
func askModel(ctx context.Context, address, role string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"`+role+`","content":"1+1?"}]}`))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
