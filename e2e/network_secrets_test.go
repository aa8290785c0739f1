package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/airlock-run/airlock/e2e/indextest"
)

const withToken = `curl -sS -H "Authorization: Bearer $TOKEN" https://api.airlock.test/bearer
curl -sS -u "me:$TOKEN" https://api.airlock.test/basic
python3 -c 'import os, requests
print(requests.get("https://api.airlock.test/python", headers={"X-Key": os.environ["TOKEN"]}).text, end="")'
python3 -c 'import os; raise SystemExit(os.environ["TOKEN"])'
env | grep ^TOKEN=
printenv TOKEN >token.txt
`

// Programs use a secret that they never see: curl and Python send it, the server gets it, and neither the output
// nor any file of the service has it, with a snapshot and a run of the command line.
func TestNetworkSecrets(t *testing.T) {
	needPackages(t)
	const token = "hunter2-hunter2"
	var mu sync.Mutex
	came := map[string]bool{}
	p, who := indextest.Elsewhere(t, skip), root(t)
	data := dataWithPackages(t, who)
	s := inspecting(t, who, p, data, func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		mu.Lock()
		came[r.URL.Path] = r.Header.Get("Authorization") == "Bearer "+token || password == token ||
			r.Header.Get("X-Key") == token
		mu.Unlock()
		fmt.Fprintln(w, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("X-Key"), password)
	}, nil, secretName)
	network := map[string]any{"allow": []string{secretName}}
	secret := map[string]any{"name": "TOKEN", "value": token, "hosts": []string{secretName}}
	r := s.execute(map[string]any{"language": "bash", "code": withToken, "timeout_ms": 120_000, "network": network,
		"secrets": []any{secret}})
	if strings.Count(r.Stdout+r.Stderr, "airlock_secret_") < 5 || strings.Contains(r.Stdout+r.Stderr, token) {
		t.Errorf("%s\n%s", r.Stdout, r.Stderr)
	}

	secret["header"] = "Authorization: Bearer {}"
	asked, err := json.Marshal(map[string]any{"kind": "live", "language": "bash", "network": network,
		"secrets": []any{secret}})
	if err != nil {
		t.Fatal(err)
	}
	l := s.live(string(asked))
	l.cell("curl -sS https://api.airlock.test/live; printenv TOKEN >token.txt")
	got := s.do("GET", l.path, "")
	if !strings.Contains(string(got.body), `"secrets":[{"name":"TOKEN","hosts":["api.airlock.test"]`) {
		t.Errorf("%s", got.body)
	}
	if got := s.do("POST", l.path+"/snapshots", `{}`); got.status != http.StatusCreated {
		t.Errorf("%d %s", got.status, got.body)
	}

	file := filepath.Join(folder(t, nil), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(flags ...string) ended {
		return who.run(t, nil, append([]string{"run", "--data", data, "-l", "bash", "-c",
			"curl -sS https://api.airlock.test/cli", "--allow-net", secretName}, flags...)...)
	}
	host := []string{"--secret-host", secretName, "--secret-header", "Authorization: Bearer {}"}
	if got := run(append([]string{"--secret", "TOKEN=@" + file}, host...)...); got.code != 0 ||
		!strings.Contains(got.stdout, "/cli Bearer airlock_secret_") {
		t.Errorf("%+v", got)
	}
	for _, flag := range []string{"TOKEN=" + token, "NO_SUCH_VARIABLE"} {
		got := run(append([]string{"--secret", flag}, host...)...)
		if got.code == 0 || strings.Contains(got.stdout+got.stderr, token) || !strings.Contains(got.stderr, "=@FILE") {
			t.Errorf("%s: %+v", flag, got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"/bearer", "/basic", "/python", "/live", "/cli"} {
		if !came[path] {
			t.Errorf("%s came without the value", path)
		}
	}

	if !leavesNoCore(s.cmd.Process.Pid) {
		t.Error("the service can leave a core file")
	}

	s.stop()
	if strings.Contains(s.log.String(), token) {
		t.Error("the log has the value")
	}
	if keeps(t, data, token) == 0 {
		t.Error("no placeholder was found")
	}
}

// keeps tells of each file of a service that has a secret, and counts placeholders.
func keeps(t *testing.T, data, token string) (placeholders int) {
	t.Helper()
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, "/runtimes/") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(token)) {
			t.Errorf("%s has the value", path)
		}
		placeholders += bytes.Count(text, []byte("airlock_secret_"))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return placeholders
}

// A program on a worker uses a secret that only the api was told: the worker's egress process puts it into requests,
// and takes it out of answers. No file and no log of either has it. A traceback has the placeholder.
func TestNetworkSecretsOfWorker(t *testing.T) {
	const secret = "hunter2-hunter2"
	p, who := indextest.Elsewhere(t, skip), root(t)
	var came sync.Map
	find := serveSecretName(t, p, func(w http.ResponseWriter, r *http.Request) {
		came.Store(r.URL.Path, r.Header.Get("Authorization"))
		fmt.Fprintln(w, r.URL.Path, r.Header.Get("Authorization"))
	})
	env := []string{"AIRLOCK_WORKER_TOKEN=" + workerToken, "AIRLOCK_NETWORK_ALLOW=" + secretName,
		"AIRLOCK_NETWORK_PRIVATE=" + p.Subnet, "AIRLOCK_NETWORK_INSPECT=true", "AIRLOCK_LOG_LEVEL=debug"}
	api := serveWith(t, who, dataFolder(t, who), env, "--role", "api")
	worker := startWorkerAs(t, who, find, env, api.url)
	worker.logged("an api has taken this worker")

	request := func(more map[string]any) string {
		more["network"] = map[string]any{"allow": []string{secretName}}
		more["secrets"] = []any{map[string]any{"name": "TOKEN", "value": secret, "hosts": []string{secretName}}}
		text, err := json.Marshal(more)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const ask = "import os, subprocess\n" + `def ask(path):
    return subprocess.check_output(["curl", "-sS", "-H", "Authorization: " + os.environ["TOKEN"],
                                    "https://api.airlock.test" + path], text=True)
`
	got := api.do("POST", runs, request(map[string]any{"language": "python",
		"code": ask + "print(ask('/run'))\nopen('kept.txt', 'w').write(os.environ['TOKEN'])\nint(os.environ['TOKEN'])"}))
	said := string(got.body)
	for _, want := range []string{"/run airlock_secret_", "ValueError", "with base 10: 'airlock_secret_"} {
		if !strings.Contains(said, want) {
			t.Errorf("a run says nothing of %q: %s", want, said)
		}
	}
	l := api.live(request(map[string]any{"kind": "live", "language": "python"}))
	cell := l.cell(ask + "print(ask('/live'))\nint(os.environ['TOKEN'])")
	said += fmt.Sprintf("%+v", cell)
	if !strings.Contains(said, "/live airlock_secret_") {
		t.Errorf("a cell: %+v", cell)
	}
	if strings.Contains(said, secret) {
		t.Errorf("the value was told: %s", said)
	}
	for _, path := range []string{"/run", "/live"} {
		if value, _ := came.Load(path); value != secret {
			t.Errorf("%s came with %q", path, value)
		}
	}
	worker.stop()
	api.stop()
	for _, s := range []*service{api, worker} {
		if strings.Contains(s.log.String(), secret) {
			t.Error("a log has the value")
		}
		keeps(t, s.data, secret)
	}
}

// leavesNoCore reports whether the service is forbidden to leave a core file: a process, or the child of the one
// that has kept root's rights.
func leavesNoCore(pid int) bool {
	processes := []string{fmt.Sprint(pid)}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // of each thread
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		processes = append(processes, strings.Fields(string(children))...)
	}
	for _, one := range processes {
		command, _ := os.ReadFile("/proc/" + one + "/cmdline")
		limits, _ := os.ReadFile("/proc/" + one + "/limits")
		_, core, _ := strings.Cut(string(limits), "Max core file size")
		fields := strings.Fields(core)
		if bytes.Contains(command, []byte("\x00serve\x00")) && len(fields) > 0 && fields[0] == "1" {
			return true
		}
	}
	return false
}
