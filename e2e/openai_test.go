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
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	fencedCode = regexp.MustCompile("(?s)```python\n(.*?)```")
	calledTool = regexp.MustCompile(`CALL (\w+)`)
	linkedFile = regexp.MustCompile(`LINK (\S+)`)
)

// chatModel is a model that speaks chat completions and no more: it runs the code in
// the last text of its user, one fence after the other, then says what came out.
func chatModel(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/models") {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"list","data":[{"id":"tiny","object":"model","created":1,"owned_by":"e2e"}]}`)
			return
		}
		var q struct {
			Messages []struct {
				Role, Content string
				Calls         []any `json:"tool_calls"`
			}
			Tools []struct{ Function struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Errorf("the model was asked %v", err)
		}
		asked, said, done := "", "", 0
		for _, m := range q.Messages {
			switch m.Role {
			case "user":
				asked, said, done = m.Content, "", 0
			case "tool":
				said = m.Content
			}
			done += len(m.Calls)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(delta any, reason any) {
			text, _ := json.Marshal(map[string]any{
				"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason}}})
			fmt.Fprintf(w, "data: %s\n\n", text)
			_ = http.NewResponseController(w).Flush() // the client may be gone
		}
		call := func(name, arguments string) {
			send(map[string]any{"tool_calls": []any{
				map[string]any{"index": 0, "id": fmt.Sprint("call_", done), "function": map[string]string{"name": name}}}}, nil)
			for ; arguments != ""; arguments = arguments[min(7, len(arguments)):] {
				send(map[string]any{"tool_calls": []any{
					map[string]any{"index": 0, "function": map[string]string{"arguments": arguments[:min(7, len(arguments))]}}}}, nil)
			}
			send(map[string]any{}, "tool_calls")
		}
		codes := fencedCode.FindAllStringSubmatch(asked, -1)
		switch wanted := calledTool.FindStringSubmatch(asked); {
		case wanted != nil && said == "":
			call(wanted[1], `{"a": 1}`)
		case done < len(codes):
			text, _ := json.Marshal(map[string]string{"code": codes[done][1]})
			call("python", string(text))
		default:
			if codes == nil && said == "" {
				said = asked
			}
			if said, _, _ = strings.Cut(said, "[new file"); linkedFile.MatchString(asked) {
				name := linkedFile.FindStringSubmatch(asked)[1]
				said += "[" + name + "](sandbox:/mnt/data/" + name + ")"
			}
			for word := range strings.SplitAfterSeq(said, " ") {
				send(map[string]any{"content": word}, nil)
			}
			send(map[string]any{}, "stop")
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s
}

// What OpenAI's SDKs of Python and TypeScript, and our own client of it, do with OpenAI
// they do with a model that speaks chat completions alone.
func TestOpenAIClients(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"node", "npm", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "this needs %s: scripts/test-deps installs it", tool)
		}
	}
	folder, err := filepath.Abs("../.cache/openai")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "openai/install", folder).CombinedOutput(); err != nil {
		skip(t, "OpenAI's SDKs cannot be installed: %v: %s", err, out)
	}
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithPackages(t, who)
	made := who.run(t, nil, "keys", "create", "--data", data, "--owner", "ann")
	if made.code != 0 {
		t.Fatalf("keys create: %+v", made)
	}
	key := keyIn(made.stdout)
	s := serve(t, who, data, "--openai-upstream-url", chatModel(t).URL+"/v1")
	base := s.url + "/openai/v1"
	for language, command := range map[string][]string{
		"Python":     {filepath.Join(folder, "python/bin/python"), "openai/client.py", base, key},
		"TypeScript": {"node", "openai/client.mjs", folder, base, key},
	} {
		t.Run(language, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		})
	}
	t.Run("airlock ask", func(t *testing.T) {
		at := t.TempDir()
		if err := os.WriteFile(filepath.Join(at, "in.csv"), []byte("1,2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		prompt := "```python\nimport glob\nopen('/mnt/data/twice.csv', 'w').write(open(glob.glob('/mnt/data/*in.csv')[0]).read() * 2)\n```\nLINK twice.csv"
		got := person{name: "user"}.run(t, []string{"AIRLOCK_MODEL_KEY=" + key}, "ask", "--data", filepath.Join(at, "state"),
			"--provider", "openai", "--model-url", base, "--model", "tiny",
			"-f", filepath.Join(at, "in.csv"), "-o", filepath.Join(at, "out"), "--yes", prompt)
		file, err := os.ReadFile(filepath.Join(at, "out/twice.csv"))
		if got.code != 0 || err != nil || string(file) != "1,2\n1,2\n" {
			t.Errorf("%v, %q, %+v", err, file, got)
		}
	})
	if got := s.do("GET", "/openai/v1/files", "", "Authorization", "Bearer "+key); got.status != 200 || !strings.Contains(string(got.body), `"object":"list"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}
