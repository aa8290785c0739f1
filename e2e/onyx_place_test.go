package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever can replace only the image finds the commands of the original, its
// HOST and PORT, and its addresses at the root.
func TestOnyxByAnotherName(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	image := folder(t, who.credential)
	bin := filepath.Join(image, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(bin, "code-interpreter-api")); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../internal/dialect/onyx/entrypoint.sh")
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, filepath.Join(image, "entrypoint.sh"), string(script))
	give(t, image, who.credential)
	data := dataWithoutPackages(t, who)
	cmd := exec.Command("/bin/bash", "./entrypoint.sh", "code-interpreter-api")
	cmd.Dir = image
	prepared := who.command(t, []string{"HOST=127.0.0.1", "PORT=0", "AIRLOCK_DATA=" + data, "FILE_TTL_SEC=60"})
	cmd.Env, cmd.SysProcAttr = prepared.Env, prepared.SysProcAttr
	for i, entry := range cmd.Env {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok {
			cmd.Env[i] = "PATH=" + bin + ":" + path
		}
	}
	s := launch(t, who, data, cmd)
	for _, prefix := range []string{"", "/onyx"} {
		for _, path := range []string{"/health", "/ready"} {
			if got := s.do("GET", prefix+path, ""); got.status != 200 ||
				!strings.Contains(string(got.body), `"version":"0.4.7"`) {
				t.Errorf("%s%s: %d %s", prefix, path, got.status, got.body)
			}
		}
		if got := s.do("POST", prefix+"/v1/execute", `{"code":"1+1","timeout_ms":20000}`); got.status != 200 ||
			!strings.Contains(string(got.body), `"stdout":"2\n"`) {
			t.Errorf("%s: %d %s", prefix, got.status, got.body)
		}
	}
	if got := s.do("GET", "/", ""); got.status != 404 || string(got.body) != `{"detail":"Not Found"}` {
		t.Errorf("the root: %d %s", got.status, got.body)
	}
	if got := s.do("GET", "/api/v1/health", ""); got.status != 200 || !strings.Contains(string(got.body), `"isolation"`) {
		t.Errorf("our own health: %d %s", got.status, got.body)
	}
	if got := s.do("GET", "/metrics", ""); !strings.Contains(
		string(got.body), `code_interpreter_executions_completed_total{operation="execute",outcome="ok"} 2`) {
		t.Errorf("metrics: %s", got.body)
	}
}

// ip runs a command of iproute2 in a namespace ("": this one).
func ip(t *testing.T, args ...string) error {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Logf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return err
}

// Real Onyx is another container on the same network. It knows the service by
// a host name and sends no credentials.
func TestOnyxFromAnotherNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace needs root")
	}
	for _, tool := range []string{"ip", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this needs %s", tool)
		}
	}
	const ns, here, there, server, client = "airlock-e2e", "alk-e2e-0", "alk-e2e-1", "10.213.7.1", "10.213.7.2"
	_ = exec.Command("ip", "netns", "del", ns).Run() // what an earlier run may have left
	t.Cleanup(func() {
		_ = exec.Command("ip", "netns", "del", ns).Run()
		_ = exec.Command("ip", "link", "del", here).Run()
	})
	for _, args := range [][]string{
		{"netns", "add", ns},
		{"link", "add", here, "type", "veth", "peer", "name", there, "netns", ns},
		{"addr", "add", server + "/30", "dev", here},
		{"link", "set", here, "up"},
		{"-n", ns, "addr", "add", client + "/30", "dev", there},
		{"-n", ns, "link", "set", there, "up"},
	} {
		if err := ip(t, args...); err != nil {
			t.Skip("this kernel does not let us make a network")
		}
	}
	t.Parallel()
	who := anyPerson(t)
	if who.name != "root" {
		return // the door is the same for everybody
	}
	s := serveAt(t, who, server, "--trust-network", "10.213.7.0/30", "--allow-host", "code-interpreter", "--isolation",
		"best")
	port := s.url[strings.LastIndexByte(s.url, ':')+1:]
	ask := func(host string, more ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), waitTime)
		defer cancel()
		args := append([]string{"netns", "exec", ns, "curl", "-s", "-w", " %{http_code}", "--resolve",
			host + ":" + port + ":" + server}, more...)
		args[len(args)-1] = "http://" + host + ":" + port + args[len(args)-1]
		out, err := exec.CommandContext(ctx, "ip", args...).Output()
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return string(out)
	}
	run := []string{"-H", "content-type: application/json", "-d", `{"code":"6 * 7","timeout_ms":20000}`}
	if got := ask("code-interpreter", "/onyx/health"); !strings.HasSuffix(got, " 200") {
		t.Errorf("health: %s", got)
	}
	if got := ask("code-interpreter", append(run, "/onyx/v1/execute")...); !strings.Contains(got, `"stdout":"42\n"`) ||
		!strings.HasSuffix(got, " 200") {
		t.Errorf("by the name that is allowed: %s", got)
	}
	if got := ask("code-interpreter", append(run, "-N", "/onyx/v1/execute/stream")...); !strings.Contains(
		got, "event: result") {
		t.Errorf("a stream: %s", got)
	}
	if got := ask("code-interpreter", append(run, "-H", "Authorization;", "/onyx/v1/execute")...); !strings.HasSuffix(
		got, " 200") {
		t.Errorf("an empty header: %s", got)
	}
	if got := ask("elsewhere", append(run, "/onyx/v1/execute")...); !strings.HasSuffix(got, " 421") {
		t.Errorf("by another name: %s", got)
	}
	if got := ask("code-interpreter", append(run, "-H", "Authorization: Bearer nonsense",
		"/onyx/v1/execute")...); !strings.HasSuffix(got, " 401") || !strings.Contains(got, `{"detail":`) {
		t.Errorf("with a bad key: %s", got)
	}

	// From a network that is not trusted there is no way in but health.
	s.stop()
	s = serveAt(t, who, server, "--trust-network", "10.99.0.0/16", "--allow-host", "code-interpreter", "--isolation",
		"best")
	port = s.url[strings.LastIndexByte(s.url, ':')+1:]
	if got := ask("code-interpreter", append(run, "/onyx/v1/execute")...); !strings.HasSuffix(got, " 401") ||
		!strings.Contains(got, `{"detail":`) {
		t.Errorf("from a stranger: %s", got)
	}
	if got := ask("code-interpreter", "/onyx/health"); !strings.HasSuffix(got, " 200") {
		t.Errorf("health: %s", got)
	}
}

// serveAt starts a service on a free port of an address.
func serveAt(t *testing.T, who person, address string, args ...string) *service {
	t.Helper()
	data := dataWithoutPackages(t, who)
	return launch(t, who, data, who.command(t, nil, append([]string{"serve", "--data", data, "--listen", address + ":0"},
		args...)...))
}

// A client that leaves in the middle takes its program along: `make numbers` says how soon.
func TestOnyxClientLeaves(t *testing.T) {
	who := anyPerson(t)
	s := serve(t, who, dataWithoutPackages(t, who))
	for _, path := range []string{"/onyx/v1/execute", "/onyx/v1/execute/stream"} {
		ctx, cancel := context.WithCancel(t.Context())
		curl := exec.CommandContext(ctx, "curl", "-sN", s.url+path, "-H", "content-type: application/json",
			"-d", `{"code":"import subprocess\nsubprocess.run(['sleep', '86415'])","timeout_ms":60000}`)
		if err := curl.Start(); err != nil {
			cancel()
			t.Skip("this needs curl")
		}
		eventually(t, waitTime, "it runs", func() bool { return len(withWord("86415")) > 0 })
		cancel()
		_ = curl.Wait()
		eventually(t, waitTime, "it is gone", func() bool { return len(withWord("86415")) == 0 })
	}
}
