package e2e

import (
	"os"
	"strings"
	"testing"
)

// TestOnlyKeys checks that a key for one protocol opens no other, wherever it is shown, and that
// a key says what it opens.
func TestOnlyKeys(t *testing.T) {
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithoutPackages(t, who)
	create := func(args ...string) (token, said string) {
		t.Helper()
		made := who.run(t, nil, append([]string{"keys", "create", "--data", data}, args...)...)
		if made.code != 0 {
			t.Fatalf("keys create: %+v", made)
		}
		return strings.TrimSpace(made.stdout), made.stderr
	}
	kernels, said := create("--owner", "web", "--only", "jupyter")
	if !strings.Contains(said, "opens jupyter and nothing else") ||
		!strings.Contains(said, "callers on this machine need one") {
		t.Errorf("the first key: %s", said)
	}
	terminals, _ := create("--owner", "web", "--only", "terminal", "--users", "8:2")
	all, said := create("--owner", "web")
	if !strings.Contains(said, "Ask") || strings.Contains(said, "the first key") {
		t.Errorf("a plain key: %s", said)
	}
	s := serve(t, who, data, "--log-level", "debug")
	for _, c := range []struct {
		path, protocol string
	}{
		{"/jupyter/api/kernels", "jupyter"}, {"/terminal/files/cwd", "terminal"}, {"/api/v1/runs", "api"},
		{"/openai/v1/files", "openai"}, {"/e2b/v2/sandboxes", "e2b"}, {"/onyx/v1/files", "onyx"},
	} {
		for name, key := range map[string]string{"jupyter": kernels, "terminal": terminals, "": all} {
			got := s.do("GET", c.path, "", "Authorization", "Bearer "+key)
			refused := got.status == 403 && strings.Contains(string(got.body), name+" alone")
			allowed := name == "" || name == c.protocol
			if refused == allowed || allowed && got.status >= 400 && got.status != 404 {
				t.Errorf("%s with a key for %q: %d %s", c.path, name, got.status, got.body)
			}
		}
	}
	if got := s.do("GET", "/jupyter/api/kernels?token="+terminals, ""); got.status != 403 {
		t.Errorf("a key of terminals in an address: %d %s", got.status, got.body)
	}
	// A key in an address, whole or mistyped, is neither in the log nor in an answer.
	for _, path := range []string{
		"/jupyter/api/kernels", "/jupyter/api/contents/x", "/jupyter/api/kernels/x/channels", "/jupyter/none",
		"/terminal/files/cwd", "/api/v1/runs", "/openai/v1/files", "/e2b/v2/sandboxes", "/mcp", "/", "/none",
	} {
		for _, key := range []string{kernels, kernels[:len(kernels)-4]} {
			if got := s.do("GET", path+"?token="+key, ""); strings.Contains(string(got.body), kernels[4:40]) {
				t.Errorf("%s shows a key of the address: %d %s", path, got.status, got.body)
			}
		}
	}
	if log := s.log.String(); strings.Contains(log, kernels[4:40]) || !strings.Contains(log, "level=DEBUG msg=request") {
		t.Errorf("the log shows a key of an address: %s", log)
	}
	if listed := who.run(t, nil, "keys", "list", "--data", data); !strings.Contains(listed.stdout, "8:2") ||
		!strings.Contains(listed.stdout, "jupyter") {
		t.Errorf("keys list: %+v", listed)
	}
}

// A service whose settings have the first key listens beyond loopback without a command before it, and does not say it.
func TestFirstKey(t *testing.T) {
	who := anyPerson(t)
	token := "ak_abcdefghjkmn_" + strings.Repeat("x", 43)
	s := serveWith(t, who, dataWithoutPackages(t, who), []string{"AIRLOCK_FIRST_KEY=" + token}, "--listen", "0.0.0.0:0")
	s.url = strings.Replace(s.url, "0.0.0.0", "127.0.0.1", 1)
	if got := s.do("GET", "/api/v1/keys", ""); got.status != 401 {
		t.Errorf("without a key: %d %s", got.status, got.body)
	}
	if got := s.do("GET", "/api/v1/keys", "", "Authorization", "Bearer "+token); got.status != 200 ||
		strings.Count(string(got.body), `"id"`) != 1 {
		t.Errorf("with the key: %d %s", got.status, got.body)
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the token is in the log")
	}
}
