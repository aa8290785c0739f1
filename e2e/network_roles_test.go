package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/e2e/indextest"
)

// A program on a worker has the network that it was granted, by the egress process of that
// worker, one-shot and in a live session, and the api's log has what it contacted. Both the
// api and the worker must allow it, and neither does of itself.
func TestNetworkRoles(t *testing.T) {
	x := indextest.New(t, skip)
	forEachPerson(t, func(t *testing.T, who person) { testNetworkRoles(t, who, x) })
}

func testNetworkRoles(t *testing.T, who person, x *indextest.Index) {
	allow := []string{"--network-allow", "packages", "--network-private", x.Subnet}
	environment := append(x.Env(), "AIRLOCK_NETWORK_ALLOW=packages", "AIRLOCK_NETWORK_PRIVATE="+x.Subnet)
	token := "AIRLOCK_WORKER_TOKEN=" + workerToken
	api := serveWith(t, who, dataFolder(t, who), append(x.Env(), token), append([]string{"--role", "api"}, allow...)...)
	run := func(s *service) (int, string, run) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"language": "python", "code": pipInstall, "timeout_ms": 120_000,
			"network": map[string]any{"allow": []string{"packages"}}})
		if err != nil {
			t.Fatal(err)
		}
		got := s.do("POST", runs, string(body))
		var made run
		_ = json.Unmarshal(got.body, &made) // a refusal is none
		return got.status, string(got.body), made
	}

	closed := startWorker(t, who, []string{token}, api.url)
	closed.logged("an api has taken this worker")
	status, text, _ := run(api)
	if status != http.StatusForbidden || !strings.Contains(text, "network_denied") ||
		!strings.Contains(text, "programs on this worker have no network") {
		t.Errorf("a worker that allows nothing: %d %s", status, text)
	}
	if list := api.netLog(); len(list) > 0 {
		t.Errorf("it has contacted %+v", list)
	}
	open := startWorker(t, who, append(environment, token), api.url)
	open.logged("an api has taken this worker")
	for range 2 { // whichever is asked first
		status, text, made := run(api)
		if status != http.StatusOK || !strings.Contains(made.Stdout, "hello from a package\n") || len(made.Files) != 1 {
			t.Errorf("%d %s", status, text)
		}
	}
	closed.stop()
	l := api.live(`{"kind":"live","network":{"allow":["packages"]}}`)
	l.expect("import subprocess, sys\n"+
		`subprocess.run([sys.executable, "-m", "pip", "install", "-q", "greeting"], check=True)`+
		"\nimport greeting\ngreeting.greet()", "'hello from a package'\n")
	api.do("DELETE", l.path, "") // connections that are kept open are told of at their end
	eventually(t, waitTime, "the log has three", func() bool { return count(api.netLog(), "allowed", x.Address) >= 3 })
	for _, c := range api.netLog() {
		if c.Verdict == "allowed" && (c.Address != x.Address || c.Received == 0 || c.Run == "" || c.Owner == "") {
			t.Errorf("%+v", c)
		}
	}

	strict := serveWith(t, who, dataFolder(t, who), append(x.Env(), token), "--role", "api")
	willing := startWorker(t, who, append(environment, token), strict.url)
	willing.logged("an api has taken this worker")
	if status, text, _ := run(strict); status != http.StatusForbidden || !strings.Contains(text, "network_denied") {
		t.Errorf("an api that allows nothing: %d %s", status, text)
	}
}
