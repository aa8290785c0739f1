package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// sessionRoutes are the routes of the native API that name a session or a run, as its description has them.
func sessionRoutes(t *testing.T) (list [][2]string) {
	t.Helper()
	text, err := os.ReadFile("../internal/dialect/native/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var description struct{ Paths map[string]map[string]any }
	if err := yaml.Unmarshal(text, &description); err != nil {
		t.Fatal(err)
	}
	for path, methods := range description.Paths {
		if !strings.HasPrefix(path, "/sessions/{id}") && !strings.HasPrefix(path, "/runs/{id}") {
			continue
		}
		if path == "/sessions/{id}/fs/watch" { // its answer does not end
			continue
		}
		for method := range methods {
			switch method = strings.ToUpper(method); method {
			case "GET", "PUT", "POST":
				list = append(list, [2]string{method, path})
			}
		}
	}
	if len(list) < 20 {
		t.Fatalf("%d routes", len(list))
	}
	return list
}

// All routes that name a session answer at another node as at the one that has it.
func TestClusterRoutes(t *testing.T) {
	t.Parallel()
	needPackages(t)
	d := newDeployment(t)
	one, two := d.serve(), d.serve()

	t.Run("native", func(t *testing.T) {
		session := one.liveSession()
		run := find(object(t, one.do("POST", runs, `{"language":"bash","code":"echo 1"}`)), "id")
		for _, route := range sessionRoutes(t) {
			path := strings.ReplaceAll(route[1], "{id}", session)
			if strings.HasPrefix(path, "/runs/") {
				path = strings.ReplaceAll(route[1], "{id}", run)
			}
			for _, name := range []string{"cell", "process", "frame", "port", "name", "file", "path"} {
				path = strings.ReplaceAll(path, "{"+name+"}", "1")
			}
			// A request that is not complete is refused alike, and ends nothing.
			second := two.do(route[0], "/api/v1"+path, `{"no such field":1}`)
			first := one.do(route[0], "/api/v1"+path, `{"no such field":1}`)
			if first.status != second.status {
				t.Errorf("%s %s: %d at its node, %d %s at the other one", route[0], path, first.status, second.status, second.body)
			}
		}
	})
	t.Run("E2B", func(t *testing.T) {
		id, _ := one.sandbox(t)
		for _, route := range [][2]string{
			{"GET", "/sandboxes/%s"}, {"POST", "/sandboxes/%s/connect"}, {"POST", "/v2/sandboxes/%s/connect"},
			{"POST", "/sandboxes/%s/resume"}, {"POST", "/sandboxes/%s/timeout"}, {"POST", "/sandboxes/%s/refreshes"},
			{"GET", "/sandboxes/%s/metrics"}, {"GET", "/snapshots?sandboxID=%s"},
		} {
			got := two.do(route[0], "/e2b"+fmt.Sprintf(route[1], id), `{"timeout":60,"duration":60}`)
			if got.status >= 300 {
				t.Errorf("%s %s: %d %s", route[0], route[1], got.status, got.body)
			}
		}
	})
	t.Run("Jupyter", func(t *testing.T) {
		id := find(object(t, one.do("POST", "/jupyter/api/kernels", "{}")), "id")
		for _, route := range [][2]string{
			{"GET", ""}, {"POST", "/interrupt"}, {"POST", "/restart"}, {"DELETE", ""},
		} {
			if got := two.do(route[0], "/jupyter/api/kernels/"+id+route[1], ""); got.status >= 300 {
				t.Errorf("%s %s: %d %s", route[0], route[1], got.status, got.body)
			}
		}
	})
}

// A walk is made at one node and goes on at the other: METHOD PATH [BODY], where {name} stands for what an answer had
// under that name.
type walk struct {
	name    string
	headers []string
	one     []string
	two     []string
}

var walks = []walk{
	{"Onyx", nil, []string{
		`POST /onyx/v1/sessions {}`,
		`POST /onyx/v1/sessions/{session_id}/bash {"cmd":"echo kept > a.txt"}`,
	}, []string{
		`POST /onyx/v1/sessions/{session_id}/bash {"cmd":"cat a.txt"} -> kept`,
		`POST /onyx/v1/execute {"code":"print(1)","timeout_ms":9000} -> 1`,
		`GET /onyx/v1/files`,
		`DELETE /onyx/v1/sessions/{session_id}`,
	}},
	{"LibreChat", nil, []string{
		`POST /librechat/exec {"lang":"bash","code":"echo kept > a.txt"}`,
	}, []string{
		`GET /librechat/files/{session_id}?detail=full -> a.txt`,
		`GET /librechat/download/{session_id}/{id} -> kept`,
		`GET /librechat/sessions/{session_id}/objects/{id}`,
		`POST /librechat/exec {"lang":"bash","code":"cat a.txt","files":[{"id":"{id}","session_id":"{session_id}","name":"a.txt"}]} -> kept`,
		`DELETE /librechat/files/{session_id}/{id}`,
	}},
	{"Open Terminal", []string{"X-Session-Id", "a chat"}, []string{
		`POST /terminal/files/write {"path":"a.txt","content":"kept"}`,
		`POST /terminal/files/cwd {"path":"/tmp"}`,
		`POST /terminal/api/terminals {} id=terminal`,
		`POST /terminal/execute {"command":"echo up; read line; echo got $line; sleep 60"}`,
	}, []string{
		`GET /terminal/files/read?path=/workspace/a.txt -> kept`,
		`GET /terminal/files/list?directory=/workspace -> a.txt`,
		`GET /terminal/files/cwd`,
		`GET /terminal/execute -> {id}`,
		`POST /terminal/execute/{id}/input {"input":"words\n"}`,
		`GET /terminal/execute/{id}/status?wait=5 -> up`,
		`DELETE /terminal/execute/{id}`,
		`GET /terminal/ports`,
		`GET /terminal/api/terminals -> {terminal}`,
		`DELETE /terminal/api/terminals/{terminal}`,
		`DELETE /terminal/files/delete?path=/workspace/a.txt`,
	}},
	{"Dify", []string{"X-Api-Key", "dify-sandbox"}, nil, []string{
		`POST /dify/v1/sandbox/run {"language":"python3","code":"print(1)"} -> 1`,
	}},
	{"OpenAI", nil, []string{
		`POST /openai/v1/containers {"name":"c"}`,
	}, []string{
		`GET /openai/v1/containers/{id} -> {id}`,
		`GET /openai/v1/containers -> {id}`,
		`GET /openai/v1/containers/{id}/files`,
		`DELETE /openai/v1/containers/{id}`,
	}},
}

// step sends the request of a step, and remembers names of its answer.
func (s *service) step(t *testing.T, text string, known map[string]string, headers []string) {
	t.Helper()
	request, want, _ := strings.Cut(text, " -> ")
	request, as, renamed := strings.Cut(request, " id=")
	for name, value := range known {
		request, want = strings.ReplaceAll(request, "{"+name+"}", value), strings.ReplaceAll(want, "{"+name+"}", value)
	}
	method, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	got := s.do(method, path, body, headers...)
	if got.status >= 300 || !bytes.Contains(got.body, []byte(want)) {
		t.Errorf("%s: %d %s", request, got.status, got.body)
	}
	for _, m := range regexp.MustCompile(`"(id|session_id)":"([^"]+)"`).FindAllStringSubmatch(string(got.body), -1) {
		name := m[1]
		if renamed {
			name = as
		}
		if known[name] == "" {
			known[name] = m[2]
		}
	}
}

// What one node began goes on at another, in every protocol.
func TestClusterWalks(t *testing.T) {
	t.Parallel()
	needPackages(t)
	d := newDeployment(t)
	one, two := d.serve(), d.serve()
	for _, w := range walks {
		t.Run(w.name, func(t *testing.T) {
			known := map[string]string{}
			for _, step := range w.one {
				one.step(t, step, known, w.headers)
			}
			for _, step := range w.two {
				two.step(t, step, known, w.headers)
			}
		})
	}
	t.Run("E2B's envd", func(t *testing.T) {
		id, token := one.sandbox(t)
		in := []string{"E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "49983", "X-Access-Token", token}
		two.step(t, `POST /e2b/process.Process/List {}`, nil, in)
		two.step(t, `POST /e2b/filesystem.Filesystem/MakeDir {"path":"made"}`, nil, in)
		one.step(t, `POST /e2b/filesystem.Filesystem/Stat {"path":"made"} -> FILE_TYPE_DIRECTORY`, nil, in)
		if got := one.code(id, token, "open('kept.txt','w').write('kept')"); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		two.step(t, `GET /e2b/files?path=kept.txt -> kept`, nil, in)
		// Its address names no sandbox.
		sum := sha256.Sum256([]byte("kept.txt:read::" + token))
		signature := "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
		two.step(t, "GET /e2b/files?path=kept.txt&signature="+url.QueryEscape(signature)+" -> kept", nil, nil)
		if got := two.do("GET", "/e2b/files?path=kept.txt&signature=v1_wrong", ""); got.status != http.StatusUnauthorized {
			t.Errorf("a wrong signature: %d %s", got.status, got.body)
		}
	})
}

// sandbox makes one of E2B's, and returns its id and its token.
func (s *service) sandbox(t *testing.T) (id, token string) {
	t.Helper()
	made := object(t, s.do("POST", "/e2b/sandboxes", `{"templateID":"base","timeout":600}`))
	if id = find(made, "sandboxID"); id == "" {
		t.Fatal(made)
	}
	return id, find(made, "envdAccessToken")
}

// code runs code in a sandbox.
func (s *service) code(id, token, code string) answer {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"code": code})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do("POST", "/e2b/execute", string(body), "E2b-Sandbox-Id", id, "E2b-Sandbox-Port", "49999",
		"X-Access-Token", token)
}

const acceptMCP = "application/json, text/event-stream"

// hello begins a session of MCP.
func (s *service) hello(t *testing.T) (session string) {
	t.Helper()
	got := s.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, "Accept", acceptMCP)
	if session = got.header.Get("Mcp-Session-Id"); session == "" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	return session
}

// handle is that of a session in an answer of MCP.
var handle = regexp.MustCompile(`\bs_[\w-]{21}`)

// Sandboxes of E2B's and sessions of MCP's go on at the node that is left, with their files.
func TestClusterGoesOn(t *testing.T) {
	t.Parallel()
	needPackages(t)
	for name, end := range map[string]func(*service){"TERM": (*service).stop, "KILL": (*service).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			one, two := d.serve(), d.serve()
			id, token := one.sandbox(t)
			if got := one.code(id, token, "open('kept.txt','w').write('kept')"); got.status != http.StatusOK {
				t.Fatalf("%d %s", got.status, got.body)
			}
			session := one.hello(t)
			call := func(code, session, within string) answer {
				arguments := map[string]any{"code": code}
				if within != "" {
					arguments["session"] = within
				}
				args, err := json.Marshal(arguments)
				if err != nil {
					t.Fatal(err)
				}
				return two.do("POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_code",`+
					`"arguments":`+string(args)+`}}`, "Accept", acceptMCP, "Mcp-Session-Id", session)
			}
			made := call("open('of-mcp.txt','w').write('kept'); print('made')", session, "")
			within := handle.FindString(string(made.body))
			end(one)
			var got answer
			eventually(t, waitTime, "the sandbox is answered", func() bool {
				got = two.code(id, token, "print(open('kept.txt').read())")
				return got.status == http.StatusOK
			})
			if !bytes.Contains(got.body, []byte("kept")) {
				t.Errorf("%s", got.body)
			}
			if got := two.do("GET", "/e2b/v2/sandboxes", ""); !bytes.Contains(got.body, []byte(id)) {
				t.Errorf("it is not listed: %s", got.body)
			}
			if got := two.do("DELETE", "/e2b/sandboxes/"+id, ""); got.status != http.StatusNoContent {
				t.Errorf("%d %s", got.status, got.body)
			}
			eventually(t, waitTime, "the session of MCP is answered", func() bool {
				got = call("print(open('of-mcp.txt').read())", session, within)
				return got.status == http.StatusOK
			})
			if !bytes.Contains(got.body, []byte("kept")) {
				t.Errorf("%s\n%s", made.body, got.body)
			}
		})
	}
}

// With the first key every node wants one at once, not only the node that made it.
func TestClusterFirstKey(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	one := d.serve()
	if got := one.do("GET", "/api/v1/sessions", ""); got.status != http.StatusOK {
		t.Fatalf("without keys: %d %s", got.status, got.body)
	}
	made := d.who.run(t, d.env(), "keys", "create", "--data", dataFolder(t, d.who), "--owner", "ann")
	if made.code != 0 {
		t.Fatal(made.stderr)
	}
	if got := one.do("GET", "/api/v1/sessions", ""); got.status != http.StatusUnauthorized {
		t.Errorf("without the key: %d %s", got.status, got.body)
	}
	key := strings.TrimSpace(made.stdout)
	if got := one.do("GET", "/api/v1/sessions", "", "X-Api-Key", key); got.status != http.StatusOK {
		t.Errorf("with the key: %d %s", got.status, got.body)
	}
}
