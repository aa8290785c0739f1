package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// terminalAgent is an agent that people use at a terminal, driven by a scripted model.
type terminalAgent struct {
	program  []string // below the folder of the agents
	settings map[string]string
	args     []string
	env      []string
	picture  string // part of the type that a picture has in a request; empty: the agent passes none
}

// terminalAgents returns the agents, set to a model at an address.
func terminalAgents(model, prompt string) map[string]terminalAgent {
	return map[string]terminalAgent{
		"claude": {
			program: []string{"claude"},
			args: []string{"-p", prompt, "--model", "sonnet", "--allowedTools",
				"mcp__airlock__run_code"},
			env: []string{"ANTHROPIC_BASE_URL=" + model, "ANTHROPIC_API_KEY=test",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"},
			picture: `"type":"image"`,
		},
		"codex": {
			program: []string{"codex"},
			settings: map[string]string{".codex/config.toml": "model = \"gpt-5\" # scripted\nmodel_provider = \"scripted\"\n" +
				"[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"" + model + "/v1\"\nwire_api = \"responses\"\n" +
				"env_key = \"SCRIPTED_KEY\"\n"},
			// The first turn waits for required servers only.
			args: []string{"exec", "-c", "mcp_servers.airlock.required=true", "--skip-git-repo-check",
				"--dangerously-bypass-approvals-and-sandbox", prompt},
			env:     []string{"SCRIPTED_KEY=test"},
			picture: `"type":"input_image"`,
		},
		"gemini": {
			program: []string{"node", "node_modules/@google/gemini-cli/bundle/gemini.js"},
			settings: map[string]string{".gemini/settings.json": `{"security": {"auth": {"selectedType": "gemini-api-key"}},
				"privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}, // no others
				"general": {"disableAutoUpdate": true}}`},
			args: []string{"--model", "gemini-2.5-pro", "--approval-mode", "yolo", "--skip-trust", "-p", prompt},
			env: []string{"GEMINI_API_KEY=test", "GOOGLE_GEMINI_BASE_URL=" + model,
				"GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true"},
			picture: `"inlineData":{`,
		},
		"opencode": {
			program: []string{"opencode"},
			settings: map[string]string{".config/opencode/opencode.json": `{"$schema": "https://opencode.ai/config.json",
				"autoupdate": false, "share": "disabled", "provider": {"scripted": {"npm": "@ai-sdk/openai-compatible",
				"options": {"baseURL": "` + model + `/v1", "apiKey": "test"}, "models": {"tiny": {"attachment": true,
				"tool_call": true, "modalities": {"input": ["text", "image"], "output": ["text"]},
				"limit": {"context": 200000, "output": 8000}}}}}}`},
			args:    []string{"run", "--model", "scripted/tiny", prompt},
			env:     []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1"},
			picture: `"type":"image_url"`,
		},
	}
}

// agentPrograms installs the agents, and returns their folder.
func agentPrograms(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		skip(t, "this needs npm: scripts/test-deps installs it")
	}
	folder, err := filepath.Abs("../.cache/agents")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "agents/install", folder).CombinedOutput(); err != nil {
		skip(t, "the agents cannot be installed: %v: %s", err, out)
	}
	return folder
}

const agentProgram = `import csv, matplotlib.pyplot as plt
rows = list(csv.reader(open('sales.csv')))
print('the sum is', sum(int(row[1]) for row in rows))
plt.plot([int(row[1]) for row in rows])
plt.savefig('plot.png')
open('table.txt', 'w').write('1 2 3')
`

// TestTerminalAgents runs agents that people use at a terminal, as `airlock mcp install` sets them up: their
// model, which is scripted, calls run_code with a file of the project's folder, and is asked again with what the
// program printed, its picture and the addresses of its files.
func TestTerminalAgents(t *testing.T) {
	wanted := os.Getenv("AIRLOCK_TEST_AGENTS")
	if wanted == "" {
		t.Skip("this takes some minutes and 1.2 GB: AIRLOCK_TEST_AGENTS=all, or names of agents; `make test-agents`")
	}
	programs := agentPrograms(t)
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithPackages(t, who)
	for name := range terminalAgents("", "") {
		if wanted != "all" && !slices.Contains(strings.Split(wanted, ","), name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			model := newScriptedModel(t)
			agent := terminalAgents(model.URL, "Sum sales.csv and plot it.")[name]
			home := t.TempDir()
			project := filepath.Join(home, "project")
			files := map[string]string{"project/sales.csv": "a,20\nb,22\n"}
			for file, text := range agent.settings {
				files[file] = text
			}
			for file, text := range files {
				file = filepath.Join(home, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env := append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "AIRLOCK_DATA=" + data, "TERM=dumb",
				"LANG=C.UTF-8"}, agent.env...)
			start := func(command string, args ...string) []byte {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, command, args...)
				cmd.Dir, cmd.Env = project, env
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v: %s", command, err, out)
				}
				return out
			}
			start(binary, "mcp", "install", name, "--write")
			program := slices.Clone(agent.program)
			for i := range program {
				program[i] = filepath.Join(programs, program[i])
			}
			said := string(start(program[0], append(program[1:], agent.args...)...))
			result := model.toolResult()
			for _, part := range []string{"OK, exit 0", "the sum is 42", "plot.png (image/png", "table.txt", agent.picture} {
				if !strings.Contains(result, part) {
					t.Errorf("the model was not told %q: %.3000s\nthe agent said %s", part, result, said)
				}
			}
			if !strings.Contains(said, "All done, 42.") {
				t.Errorf("the agent said %s", said)
			}
			for _, file := range []string{"plot.png", "table.txt"} {
				address := fileAddress(result, file)
				if content, err := os.ReadFile(address); err != nil || len(content) == 0 {
					t.Errorf("a person cannot open %s at %q: %v", file, address, err)
				}
			}
			entries, err := os.ReadDir(project)
			if err != nil || len(entries) != 1 {
				t.Errorf("the project's folder: %v, %v", entries, err)
			}
		})
	}
}

// fileAddress returns the path in the file: address of a file, in a request to a model.
func fileAddress(request, name string) string {
	before, _, _ := strings.Cut(request, "/"+name)
	_, address, _ := strings.Cut(before[max(0, strings.LastIndex(before, "file://")):], "file://")
	return address + "/" + name
}

// scriptedModel speaks Anthropic's messages, OpenAI's responses and chat completions, and Gemini's contents. It
// calls run_code in its first answer, and ends in its second.
type scriptedModel struct {
	*httptest.Server
	mu     sync.Mutex
	result string // the request with the tool's result
}

func newScriptedModel(t *testing.T) *scriptedModel {
	t.Helper()
	m := &scriptedModel{}
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	return m
}

func (m *scriptedModel) toolResult() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.result
}

func (m *scriptedModel) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	name, space := toolNamed(gjson.ParseBytes(body), "run_code", "")
	called := strings.Contains(string(body), "OK, exit 0") || strings.Contains(string(body), "call_1")
	if called && name != "" {
		m.mu.Lock()
		m.result = string(body)
		m.mu.Unlock()
	}
	arguments, _ := json.Marshal(map[string]any{"code": agentProgram, "files": []string{"sales.csv"}})
	id := "call_1"
	if found, _ := toolNamed(gjson.ParseBytes(body), "ToolSearch", ""); name == "" && found != "" {
		// Claude Code tells of its servers' tools when it is asked.
		name, arguments = found, []byte(`{"query":"select:mcp__airlock__run_code"}`)
		called = strings.Count(string(body), `"search_`) > 5
		id = fmt.Sprint("search_", time.Now().UnixNano())
	}
	if called {
		name = ""
	}
	e := &modelEvents{w, id}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/messages"):
		e.messages(name, arguments)
	case strings.HasSuffix(path, "/responses"):
		e.responses(name, space, arguments)
	case strings.HasSuffix(path, "/chat/completions"):
		e.completions(name, arguments)
	case strings.Contains(path, "enerateContent"):
		e.contents(name, arguments, strings.Contains(path, ":stream"))
	case strings.HasSuffix(path, "/count_tokens"):
		fmt.Fprint(w, `{"input_tokens": 10}`)
	default:
		http.NotFound(w, r)
	}
}

// toolNamed finds the tool whose name ends with a name, among the tools of a request, and its namespace.
func toolNamed(request gjson.Result, end, within string) (name, space string) {
	request.Get("tools").ForEach(func(_, tool gjson.Result) bool {
		for _, at := range []string{"name", "function.name"} {
			if strings.HasSuffix(tool.Get(at).String(), end) {
				name, space = tool.Get(at).String(), within
			}
		}
		for _, declared := range tool.Get("functionDeclarations").Array() {
			if strings.HasSuffix(declared.Get("name").String(), end) {
				name = declared.Get("name").String()
			}
		}
		if name == "" && tool.Get("tools").IsArray() {
			name, space = toolNamed(tool, end, tool.Get("name").String())
		}
		return name == ""
	})
	return name, space
}

const lastWords = "All done, 42."

// modelEvents writes the events of an answer. A name is that of the tool to call.
type modelEvents struct {
	w  http.ResponseWriter
	id string // of the call
}

func (e *modelEvents) send(event string, data any) {
	text, _ := json.Marshal(data)
	e.w.Header().Set("Content-Type", "text/event-stream")
	if event != "" {
		fmt.Fprintf(e.w, "event: %s\n", event)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", text)
}

type fields = map[string]any

func (e *modelEvents) messages(name string, arguments []byte) {
	send := func(event string, with fields) {
		with["type"] = event
		e.send(event, with)
	}
	send("message_start", fields{"message": fields{"id": "msg_1", "type": "message", "role": "assistant",
		"model": "claude-sonnet-4-5", "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": fields{"input_tokens": 10, "output_tokens": 1}}})
	block, delta, reason := fields{"type": "text", "text": ""}, fields{"type": "text_delta", "text": lastWords}, "end_turn"
	if name != "" {
		block = fields{"type": "tool_use", "id": e.id, "name": name, "input": fields{}}
		delta, reason = fields{"type": "input_json_delta", "partial_json": string(arguments)}, "tool_use"
	}
	send("content_block_start", fields{"index": 0, "content_block": block})
	send("content_block_delta", fields{"index": 0, "delta": delta})
	send("content_block_stop", fields{"index": 0})
	send("message_delta", fields{"delta": fields{"stop_reason": reason, "stop_sequence": nil},
		"usage": fields{"output_tokens": 5}})
	send("message_stop", fields{})
}

func (e *modelEvents) responses(name, space string, arguments []byte) {
	item := fields{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
		"content": []any{fields{"type": "output_text", "text": lastWords, "annotations": []any{}}}}
	if name != "" {
		item = fields{"type": "function_call", "id": "fc_1", "call_id": e.id, "name": name,
			"arguments": string(arguments), "status": "completed"}
		if space != "" {
			item["namespace"] = space
		}
	}
	e.send("response.created", fields{"type": "response.created", "response": fields{"id": "resp_1"}})
	e.send("response.output_item.done", fields{"type": "response.output_item.done", "output_index": 0, "item": item})
	e.send("response.completed", fields{"type": "response.completed", "response": fields{"id": "resp_1",
		"status": "completed", "output": []any{item}, "usage": fields{"input_tokens": 10, "output_tokens": 5,
			"total_tokens": 15, "input_tokens_details": fields{"cached_tokens": 0},
			"output_tokens_details": fields{"reasoning_tokens": 0}}}})
}

func (e *modelEvents) completions(name string, arguments []byte) {
	delta, reason := fields{"role": "assistant", "content": lastWords}, "stop"
	if name != "" {
		delta, reason = fields{"role": "assistant", "tool_calls": []any{fields{"index": 0, "id": e.id,
			"type": "function", "function": fields{"name": name, "arguments": string(arguments)}}}}, "tool_calls"
	}
	chunk := func(delta fields, reason any) fields {
		return fields{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny",
			"choices": []any{fields{"index": 0, "delta": delta, "finish_reason": reason}}}
	}
	e.send("", chunk(delta, nil))
	e.send("", chunk(fields{}, reason))
	fmt.Fprint(e.w, "data: [DONE]\n\n")
}

func (e *modelEvents) contents(name string, arguments []byte, streams bool) {
	part := fields{"text": lastWords}
	if name != "" {
		part = fields{"functionCall": fields{"id": e.id, "name": name, "args": json.RawMessage(arguments)},
			"thoughtSignature": "c2lnbmF0dXJl"}
	}
	answer := fields{"candidates": []any{fields{"content": fields{"role": "model", "parts": []any{part}},
		"finishReason": "STOP", "index": 0}}, "usageMetadata": fields{"promptTokenCount": 10, "candidatesTokenCount": 5,
		"totalTokenCount": 15}}
	if streams {
		e.send("", answer)
		return
	}
	_ = json.NewEncoder(e.w).Encode(answer)
}
