package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// hintLine is a hint in an answer, as text or in JSON.
var hintLine = regexp.MustCompile(`airlock: [^"\\\r\n]*`)

// A program that misses a module ends with the same line on every surface.
func TestHintOnEverySurface(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who))
	const code = "import openpyxl_templates"
	body := func(fields map[string]any) string {
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	session := s.live(`{"kind":"live","language":"python"}`)
	agent := newAgent(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp"}, nil)
	said, _ := agent.call("run_code", map[string]any{"language": "python", "code": code})
	command := who.command(t, nil, "run", "-c", code)
	command.Dir = t.TempDir()
	printed, _ := command.CombinedOutput() // it fails, as the program does
	terminal := openWebUI{service: s, user: "u", chat: "c"}
	const asJSON = "application/json"
	answers := map[string]string{
		"native": string(s.do("POST", "/api/v1/runs", body(map[string]any{"language": "python", "code": code}),
			"Content-Type",
			asJSON).body),
		"onyx":      string(s.do("POST", "/onyx/v1/execute", body(map[string]any{"code": code, "timeout_ms": 20_000})).body),
		"librechat": string(s.do("POST", "/librechat/exec", body(map[string]any{"lang": "py", "code": code})).body),
		"dify": string(s.do("POST", "/dify/v1/sandbox/run", body(map[string]any{"language": "python3", "code": code}),
			"X-Api-Key",
			"dify-sandbox").body),
		"cell":     string(session.ask("POST", "/cells", codeBody(code)).body),
		"terminal": terminal.run("python3 -c '" + code + "'").text(),
		"mcp":      said,
	}
	want := hintLine.FindString(answers["native"])
	if !strings.HasPrefix(want, "airlock: openpyxl_templates") {
		t.Fatalf("native: %s", answers["native"])
	}
	for name, text := range answers {
		if got := hintLine.FindString(text); got != want {
			t.Errorf("%s: %q, want %q in %s", name, got, want, text)
		}
	}
	// Who runs a program on the own machine may allow it what a service does not.
	const begins = "airlock: openpyxl_templates is not in this environment."
	if got := hintLine.FindString(string(printed)); !strings.HasPrefix(got, begins) {
		t.Errorf("command line: %q in %s", got, printed)
	}
	if a := s.do("POST", "/api/v1/runs", body(map[string]any{"language": "python", "code": "print(1)"}), "Content-Type",
		asJSON); a.status != http.StatusCreated && a.status != http.StatusOK || strings.Contains(string(a.body), "airlock:") {
		t.Errorf("a program that misses nothing: %d %s", a.status, a.body)
	}
}

// What the hint about a module says that lies in a wheel among the program's files brings the module.
func TestHintOfWheel(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	s := serve(t, who, dataFolder(t, who))
	var wheel bytes.Buffer
	packed := zip.NewWriter(&wheel)
	w, err := packed.Create("greeting/__init__.py")
	if err == nil {
		_, err = w.Write([]byte("def greet(): return 'hello from a wheel'\n"))
	}
	if err = errors.Join(err, packed.Close()); err != nil {
		t.Fatal(err)
	}
	put := s.do("POST", "/api/v1/files?name=greeting-1.0-py3-none-any.whl", wheel.String(),
		"Content-Type", "application/octet-stream")
	file := find(object(t, put), "id")
	run := func(code string) (answer struct{ Stdout, Stderr, Hint string }) {
		body, err := json.Marshal(map[string]any{"language": "python", "code": code,
			"files": []any{map[string]any{"id": file}}})
		if err == nil {
			err = json.Unmarshal(s.do("POST", "/api/v1/runs", string(body)).body, &answer)
		}
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	const code = "import greeting\nprint(greeting.greet())"
	failed := run(code)
	_, rest, _ := strings.Cut(failed.Hint, "`")
	cure, _, found := strings.Cut(rest, "`")
	if !found || !strings.HasSuffix(failed.Stderr, "airlock: "+failed.Hint+"\n") {
		t.Fatalf("the field says %q, and the output %q", failed.Hint, failed.Stderr)
	}
	if again := run(cure + "\n" + code); again.Stdout != "hello from a wheel\n" {
		t.Errorf("with %s: %+v", cure, again)
	}
}
