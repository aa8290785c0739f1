package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServedProject takes a reply through the API of a service: a folder that
// it was given, a project whose API fails at first, and its sender.
func TestServedProject(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	owner := who.credential
	if who.service != nil {
		owner = who.service
	}
	root := folder(t, owner)
	s := serve(t, who, dataWithoutPackages(t, who), "--workspace", root, "--demo-project")
	call := func(method, path, body string, status int) map[string]any {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != status {
			t.Fatalf("%s %s: %d %s %v", method, path, answer.StatusCode, text, err)
		}
		var decoded map[string]any
		if len(text) > 0 {
			if err := json.Unmarshal(text, &decoded); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		return decoded
	}
	call("POST", "/demo/faults", `[{"status": 500}, {"lose_answer": true}]`, 204)
	call("PUT", "/api/v1/projects/P1", `{"folder": "/etc"}`, 403)
	call("PUT", "/api/v1/projects/P1", fmt.Sprintf(`{"folder": %q, "api": %q}`, root, s.url+"/demo"), 200)
	reply := "```go:a.go\npackage a\n```\n\n=== SUBMISSION ===\nassignment_id: A1\nsummary: done\nevidence: a.go\n" +
		"=== END SUBMISSION ===\n"
	body, err := json.Marshal(map[string]any{"text": reply, "project": "P1",
		"conversation": map[string]any{"capsule": map[string]any{"phase": "E"}}})
	if err != nil {
		t.Fatal(err)
	}
	proposal := call("POST", "/api/v1/replies", string(body), 201)
	path := "/api/v1/proposals/" + proposal["id"].(string)
	call("POST", path+"/approve", fmt.Sprintf(`{"token": %q}`, proposal["token"]), 200)
	if text, err := os.ReadFile(filepath.Join(root, "a.go")); err != nil || string(text) != "package a\n" {
		t.Errorf("a.go: %q %v", text, err)
	}
	eventually(t, waitTime, "the submission to arrive", func() bool {
		text, err := json.Marshal(call("GET", "/api/v1/projects", "", 200))
		return err == nil && strings.Contains(string(text), `"work":"complete"`)
	})
	got := call("GET", "/demo/api/v1/projects/P1/assignments/A1", "", 200)
	if got["status"] != "SUBMITTED" || got["submission_summary"] != "done" {
		t.Errorf("the project has %v", got)
	}
}

// TestProjectAddress names addresses for a project's API that are not public: to
// a service of this machine's user alone, to one with keys, and to one whose
// operator allows the address.
func TestProjectAddress(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	owner := who.credential
	if who.service != nil {
		owner = who.service
	}
	root := folder(t, owner)
	inner := httptest.NewServer(http.NotFoundHandler())
	defer inner.Close()
	link := func(s *service, key, api string) answer {
		t.Helper()
		return s.do("PUT", "/api/v1/projects/P1", fmt.Sprintf(`{"folder": %q, "api": %q}`, root, api), "Content-Type",
			"application/json", "X-API-Key", key)
	}
	const metadata = "https://169.254.169.254"
	data := dataWithoutPackages(t, who)
	s := serve(t, who, data, "--workspace", root)
	if got := link(s, "", metadata); got.status != 400 || !strings.Contains(string(got.body), "--project-api") {
		t.Errorf("the metadata address: %d %s", got.status, got.body)
	}
	if got := link(s, "", inner.URL); got.status != 200 {
		t.Errorf("loopback without keys: %d %s", got.status, got.body)
	}
	made := who.run(t, nil, "keys", "create", "--data", data)
	key := strings.TrimSpace(made.stdout)
	if got := link(s, key, inner.URL); made.code != 0 || got.status != 400 ||
		!strings.Contains(string(got.body), "--project-api") {
		t.Errorf("loopback with keys: %+v, %d %s", made, got.status, got.body)
	}
	s = serve(t, who, dataWithoutPackages(t, who), "--workspace", root, "--project-api", "169.254.0.0/16")
	if got := link(s, "", metadata); got.status != 200 {
		t.Errorf("an address that the operator allows: %d %s", got.status, got.body)
	}
}
