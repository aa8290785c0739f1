package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// LiteLLM runs code of models by the service's address alone, with examples/litellm, and has containers there.
func TestLiteLLM(t *testing.T) {
	if os.Getenv("AIRLOCK_TEST_LITELLM") == "" {
		t.Skip("this takes 500 MB: AIRLOCK_TEST_LITELLM=all; `make test-litellm`")
	}
	folder, err := filepath.Abs("../.cache/litellm")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "litellm/install", folder).CombinedOutput(); err != nil {
		skip(t, "LiteLLM cannot be installed: %v: %s", err, out)
	}
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataFolder(t, who)
	key := e2bKey(t, who, data, "ann")
	made := who.run(t, nil, "keys", "create", "--data", data, "--owner", "ann")
	if made.code != 0 {
		t.Fatalf("keys create: %+v", made)
	}
	s := serve(t, who, data)
	model := interceptedModel(t)
	ctx, cancel = context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(folder, "python/bin/python"), "litellm/client.py")
	cmd.Env = append(os.Environ(), "PYTHONPATH=../examples/litellm", "AIRLOCK_URL="+s.url,
		"AIRLOCK_KEY="+strings.TrimSpace(made.stdout),
		"AIRLOCK_E2B_URL="+s.url+"/e2b", "AIRLOCK_E2B_KEY="+key, "MODEL_URL="+model.URL+"/v1",
		"LITELLM_LOCAL_MODEL_COST_MAP=True")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "LiteLLM is well") {
		t.Fatalf("%v: %s", err, out)
	}
}

// interceptedModel is a model without a code interpreter, which calls LiteLLM's function in its place.
func interceptedModel(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("the model was asked %v", err)
		}
		const arguments = `{"code":"print(6 * 7)"}`
		name, _ := toolNamed(gjson.ParseBytes(body), "code_execution", "")
		said := "The sandbox said nothing."
		for _, result := range []string{`messages.#(role=="tool").content`, `input.#(type=="function_call_output").output`} {
			if text := strings.TrimSpace(gjson.GetBytes(body, result).String()); text != "" {
				said, name = "The sandbox said "+text+".", ""
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/responses") {
			item := fields{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
				"content": []any{fields{"type": "output_text", "text": said, "annotations": []any{}}}}
			if name != "" {
				item = fields{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments,
					"status": "completed"}
			}
			_ = json.NewEncoder(w).Encode(fields{"id": "resp_1", "object": "response", "created_at": 1, "model": "tiny",
				"status": "completed", "output": []any{item}, "parallel_tool_calls": true, "tool_choice": "auto",
				"tools": []any{}, "usage": fields{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}})
			return
		}
		message, reason := fields{"role": "assistant", "content": said}, "stop"
		if name != "" {
			message, reason = fields{"role": "assistant", "content": nil, "tool_calls": []any{fields{"id": "call_1",
				"type": "function", "function": fields{"name": name, "arguments": arguments}}}}, "tool_calls"
		}
		text, _ := json.Marshal(fields{"id": "c", "object": "chat.completion", "created": 1, "model": "tiny",
			"choices": []any{fields{"index": 0, "message": message, "finish_reason": reason}},
			"usage":   fields{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
		fmt.Fprintf(w, "%s", text)
	}))
	t.Cleanup(s.Close)
	return s
}
