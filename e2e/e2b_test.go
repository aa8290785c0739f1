package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// e2bClients installs E2B's SDKs and returns their folder.
func e2bClients(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "this needs %s: scripts/test-deps installs it", tool)
		}
	}
	folder, err := filepath.Abs("../.cache/e2b")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "e2b/install", folder).CombinedOutput(); err != nil {
		skip(t, "E2B's SDKs cannot be installed: %v: %s", err, out)
	}
	return folder
}

// e2bKey makes a key in the form of E2B's for an owner.
func e2bKey(t *testing.T, who person, data, owner string) string {
	t.Helper()
	made := who.run(t, nil, "keys", "create", "--data", data, "--owner", owner, "--e2b")
	key := strings.TrimSpace(made.stdout)
	if made.code != 0 || !strings.HasPrefix(key, "e2b_") || strings.Trim(key[4:], "0123456789abcdef") != "" {
		t.Fatalf("keys create --e2b: %+v", made)
	}
	return key
}

// What E2B's SDKs of Python and TypeScript do with E2B they do here, unchanged, and so do
// smolagents and OpenAI's Agents SDK: the clients check every answer.
func TestE2BClients(t *testing.T) {
	t.Parallel()
	folder := e2bClients(t)
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithPackages(t, who)
	key := e2bKey(t, who, data, "ann")
	s := serve(t, who, data)
	if got := s.do("GET", "/openai/v1/containers", "", "Authorization", "Bearer "+key); got.status != http.StatusOK {
		t.Errorf("its key for another protocol: %d %s", got.status, got.body)
	}
	for language, command := range map[string][]string{
		"Python":     {filepath.Join(folder, "python/bin/python"), "e2b/client.py"},
		"TypeScript": {"node", "e2b/client.mjs"},
		"smolagents": {filepath.Join(folder, "python/bin/python"), "e2b/smol.py"},
		"AgentsSDK":  {filepath.Join(folder, "agents/bin/python"), "e2b/agents_sdk.py"},
	} {
		t.Run(language, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, command[0], command[1:]...)
			cmd.Env = append(os.Environ(), "AIRLOCK_SDK="+folder, "E2B_API_KEY="+key, "E2B_API_URL="+s.url+"/e2b",
				"E2B_SANDBOX_URL="+s.url+"/e2b")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// sandboxAPI is one of E2B's clients that is not honest, or not theirs.
type sandboxAPI struct {
	*service
	key string
}

type e2bSandbox struct {
	ID    string `json:"sandboxID"`
	Token string `json:"envdAccessToken"`
}

func (a sandboxAPI) call(method, path, body string, headers ...string) answer {
	return a.do(method, "/e2b"+path, body, append([]string{"X-API-KEY", a.key, "Content-Type", "application/json"},
		headers...)...)
}

func (a sandboxAPI) create() (made e2bSandbox) {
	a.t.Helper()
	got := a.call("POST", "/v2/sandboxes", `{"templateID":"base","secure":true,"allow_internet_access":true,"autoPause":true}`)
	if err := json.Unmarshal(got.body, &made); got.status != http.StatusCreated || err != nil {
		a.t.Fatalf("%d %s", got.status, got.body)
	}
	return made
}

// on asks a port of a sandbox, with a token.
func (a sandboxAPI) on(sandbox, token string, port int, method, path, body string, headers ...string) answer {
	return a.do(method, "/e2b"+path, body, append([]string{
		"E2b-Sandbox-Id", sandbox, "E2b-Sandbox-Port", strconv.Itoa(port), "X-Access-Token", token, "Content-Type",
		"application/json",
	}, headers...)...)
}

// Nobody gets at another owner's sandbox, by no verb, and nonsense is refused in the
// protocol's words.
func TestE2BAbuse(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataFolder(t, who)
	ann, bob := e2bKey(t, who, data, "ann"), e2bKey(t, who, data, "bob")
	s := serve(t, who, data)
	a, b := sandboxAPI{s, ann}, sandboxAPI{s, bob}
	mine := a.create()
	theirs := b.create()
	refused := func(what string, got answer, status int) {
		t.Helper()
		var body struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(got.body, &body); got.status != status || err != nil || body.Code != status ||
			body.Message == "" {
			t.Errorf("%s: %d %.200s", what, got.status, got.body)
		}
	}
	for _, verb := range []string{"GET /sandboxes/%s", "DELETE /sandboxes/%s", "POST /sandboxes/%s/timeout",
		"POST /sandboxes/%s/refreshes", "POST /sandboxes/%s/connect", "POST /v2/sandboxes/%s/connect",
		"GET /sandboxes/%s/metrics"} {
		method, path, _ := strings.Cut(fmt.Sprintf(verb, mine.ID), " ")
		refused("bob's "+verb, b.call(method, path, ""), http.StatusNotFound)
		refused("nobody's "+verb, sandboxAPI{s, ""}.call(method, path, ""), http.StatusUnauthorized)
		refused("a wrong key's "+verb, sandboxAPI{s, ann[:len(ann)-1] + "g"}.call(method, path, ""), http.StatusUnauthorized)
	}
	if got := b.call("GET", "/v2/sandboxes", ""); strings.Contains(string(got.body), mine.ID) ||
		strings.Contains(string(got.body), theirs.Token) {
		t.Errorf("bob's list: %s", got.body)
	}
	for _, path := range []string{"/execute", "/contexts", "/files?path=x", "/process.Process/List",
		"/filesystem.Filesystem/ListDir"} {
		for _, port := range []int{49983, 49999} {
			refused("with another's token "+path, a.on(mine.ID, theirs.Token, port, "POST", path, `{}`), http.StatusUnauthorized)
			refused("with a key "+path, a.on(mine.ID, ann, port, "POST", path, `{}`), http.StatusUnauthorized)
		}
	}
	refused("without a sandbox", a.on("aaaaaaaaaaaaaaaaaaaa", mine.Token, 49999, "POST", "/execute", `{"code":"1"}`), http.StatusBadGateway)
	for body, status := range map[string]int{
		`{"templateID":"base","timeout":0}`: 400, `{"templateID":"base","timeout":86401}`: 400, `{"templateID":"none"}`: 404, `[`: 400, `{"templateID":7}`: 400,
		`{"templateID":"base","network":{"allowOut":["x"]}}`: 403, `{"templateID":"base","mcp":{"x":{}}}`: 400, `{"templateID":"base","envVars":{"a=b":"c"}}`: 400,
	} {
		refused(body, a.call("POST", "/sandboxes", body), status)
	}
	for _, path := range []string{"/sandboxes/" + mine.ID + "/pause", "/templates"} {
		refused(path, a.call("POST", path, `{}`), http.StatusNotImplemented)
	}
	refused("a volume without a name", a.call("POST", "/volumes", `{}`), http.StatusBadRequest)
	on := func(port int, method, path, body string, headers ...string) answer {
		return a.on(mine.ID, mine.Token, port, method, path, body, headers...)
	}
	for body, status := range map[string]int{`{`: 422, `{"code":"1","language":"cobol"}`: 500, `{"code":"1","context_id":"x"}`: 404, `{"code":"1","context_id":"x","language":"python"}`: 400} {
		if got := on(49999, "POST", "/execute", body); got.status != status {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	for what, body := range map[string]string{
		"half a prefix": "\x00\x00", "a length that is not there": "\x00\x00\x00\x00\xff{",
		"a huge length": "\x00\xff\xff\xff\xff{}", "no JSON": "\x00\x00\x00\x00\x01{",
		"compressed": "\x01\x00\x00\x00\x02{}", "no process": "\x00\x00\x00\x00\x02{}",
	} {
		if got := on(49983, "POST", "/process.Process/Start", body, "Content-Type", "application/connect+json"); got.status != 200 || !strings.Contains(string(got.body), `"error"`) {
			t.Errorf("%s: %d %q", what, got.status, got.body)
		}
	}
	for path, status := range map[string]int{"../../etc/passwd": 200, "/tmp": 200, "/": 200, "/etc/shadow": 404,
		"/nowhere/x": 404, "a/../../x": 404, "none": 404, "\\u0000": 400} {
		if got := on(49983, "POST", "/filesystem.Filesystem/Stat", `{"path":"`+path+`"}`); got.status != status {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	// the sandbox's own, which its programs cannot change either
	for _, path := range []string{"/proc/version", "/usr/bin/env", "/dev/null", "/etc/fonts/fonts.conf"} {
		refused("write "+path, on(49983, "POST", "/files?path="+path, "x", "Content-Type", "application/octet-stream"),
			http.StatusForbidden)
		for call, body := range map[string]string{"Remove": `{"path":"` + path + `"}`, "Move": `{"source":"` + path + `","destination":"y"}`, "WatchDir": ""} {
			if got := on(49983, "POST", "/filesystem.Filesystem/"+call, body); got.status == 200 {
				t.Errorf("%s %s: %d %s", call, path, got.status, got.body)
			}
		}
	}
	if got := on(49983, "POST", "/filesystem.Filesystem/Stat", `{"path":"."}`); got.status != 200 || !strings.Contains(string(got.body), "FILE_TYPE_DIRECTORY") {
		t.Errorf("%d %s", got.status, got.body)
	}
	contexts, busy := 0, 0
	for range 40 {
		switch got := on(49999, "POST", "/contexts", `{}`); got.status {
		case 200:
			contexts++
		case 429:
			busy++
		}
	}
	if contexts == 0 || contexts > 20 || contexts+busy != 40 {
		t.Errorf("%d contexts, %d refused", contexts, busy)
	}
	if got := on(49999, "POST", "/execute", `{"code":"6 * 7"}`); !strings.Contains(string(got.body), `"text":"42"`) || !strings.HasSuffix(string(got.body), "{\"type\":\"end_of_execution\"}\n") {
		t.Errorf("after all that: %s", got.body)
	}
	if got := on(3000, "GET", "/", ""); got.status != http.StatusBadGateway ||
		!strings.Contains(string(got.body), "port is not open") {
		t.Errorf("a closed port: %d %s", got.status, got.body)
	}
}
