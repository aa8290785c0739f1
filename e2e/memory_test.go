package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// E2B's SDK uses a sandbox with a kernel of its own, and finds its variables and processes after pauses, in copies,
// and after a restart of the service.
func TestE2BMemory(t *testing.T) {
	t.Parallel()
	needWall(t)
	folder, who := e2bClients(t), root(t)
	data, state := dataWithPackages(t, who), filepath.Join(t.TempDir(), "state")
	key := e2bKey(t, who, data, "ann")
	for _, phase := range []string{"make", "look"} {
		s := serve(t, who, data, "--wall", "gvisor")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, filepath.Join(folder, "python/bin/python"), "e2b/memory.py", phase, state)
		cmd.Env = append(os.Environ(), "E2B_API_KEY="+key, "E2B_API_URL="+s.url+"/e2b", "E2B_SANDBOX_URL="+s.url+"/e2b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", phase, err, out)
		}
		s.stop()
	}
}

// A notebook that is closed goes on with its variables after a restart of the service.
func TestJupyterMemory(t *testing.T) {
	t.Parallel()
	needWall(t)
	python, who := jupyterClients(t, "requirements.txt", "jupyter"), root(t)
	data := dataWithPackages(t, who)
	made := who.run(t, nil, "keys", "create", "--data", data, "--owner", "notebooks", "--wall", "gvisor")
	key, kernel := keyIn(made.stdout), ""
	for _, phase := range []struct{ code, want string }{
		{"import pandas; x = pandas.DataFrame({'a': [1, 2]}); int(x.a.sum())", "3"},
		{"len(x)", "2"},
	} {
		s := serve(t, who, data)
		got := jupyterGot(t, python, "jupyter/notebook.py", s.url+"/jupyter", key, kernel, phase.code)
		if got["text"] != phase.want || got["stderr"] != "" || got["error"] != "" {
			t.Errorf("%s: %v", phase.code, got)
		}
		kernel = got["kernel"].(string)
		s.stop()
	}
}

// Sessions with a kernel of their own go on in copies of them, and those of two keys are apart.
func TestNativeMemory(t *testing.T) {
	t.Parallel()
	needWall(t)
	who := root(t)
	data, keys := dataWithPackages(t, who), map[string]string{}
	for owner, wall := range map[string]string{"shared": "shared", "one": "gvisor", "two": "gvisor"} {
		keys[owner] = keyIn(who.run(t, nil, "keys", "create", "--data", data, "--owner", owner, "--wall", wall).stdout)
	}
	s := serve(t, who, data)
	as := func(key, method, path, body string) answer {
		t.Helper()
		return s.do(method, "/api/v1"+path, body, "x-api-key", key)
	}
	type cell struct {
		Status    string
		Restarted bool
		Outputs   []struct{ Data map[string]any }
	}
	value := func(key, session, code string) (shown any) {
		t.Helper()
		var c cell
		answer := as(key, "POST", "/sessions/"+session+"/cells", `{"code": "`+code+`"}`)
		answer.decode(t, &c)
		if c.Status != "ok" || c.Restarted {
			t.Errorf("%s: %s", code, answer.body)
		}
		for _, o := range c.Outputs {
			shown = o.Data["text/plain"]
		}
		return shown
	}
	for owner, key := range keys {
		var sessions []string
		for range 3 {
			var made struct{ ID, Wall string }
			as(key, "POST", "/sessions", `{"kind": "live", "language": "python"}`).decode(t, &made)
			if (made.Wall == "gvisor") != (owner != "shared") {
				t.Errorf("%s has %+v", owner, made)
			}
			value(key, made.ID, "import pandas; x = 40; t = pandas.DataFrame({'a': range(1000)})")
			sessions = append(sessions, made.ID)
		}
		fork := "/sessions/" + sessions[0] + "/fork"
		pause := "/sessions/" + sessions[1] + "/pause"
		if owner == "shared" {
			expect(t, "fork", as(key, "POST", fork, `{"memory": true}`), 400)
			expect(t, "pause", as(key, "POST", pause, `{}`), 400)
			continue
		}
		var forks struct {
			Memory   bool
			Sessions []struct{ ID string }
		}
		began := time.Now()
		answer := as(key, "POST", fork, `{"count": 10}`)
		answer.decode(t, &forks)
		if !forks.Memory || len(forks.Sessions) != 10 {
			t.Fatalf("%s", answer.body)
		}
		for _, s := range forks.Sessions {
			if shown := value(key, s.ID, "x += 1; int(t.a.sum()) + x"); shown != "499541" {
				t.Errorf("a fork: %v", shown)
			}
		}
		t.Logf("10 forks have answered after %s", time.Since(began))
		expect(t, "pause", as(key, "POST", pause, `{}`), 204)
		for _, s := range sessions {
			if shown := value(key, s, "x, len(t)"); shown != "(40, 1000)" {
				t.Errorf("the source, or another: %v", shown)
			}
		}
		for _, s := range forks.Sessions {
			expect(t, "delete", as(key, "DELETE", "/sessions/"+s.ID, ""), 204)
		}
	}
}

// A service that stops stores a session whose cell ends in time, and one with a process, at once.
func TestStopKeepsMemory(t *testing.T) {
	t.Parallel()
	needWall(t)
	who := root(t)
	data := dataFolder(t, who)
	s := serve(t, who, data, "--wall", "gvisor")
	busy, serving := s.live(`{"kind":"live"}`), s.live(`{"kind":"live"}`)
	for _, l := range []*liveOf{busy, serving} {
		if c := l.cell("x = 1"); c.Status != "ok" {
			t.Fatalf("%+v", c)
		}
	}
	expect(t, "start", s.do("POST", serving.path+"/processes", `{"argv":["sleep","1000"]}`), 201)
	var slow cell
	accepted := s.do("POST", busy.path+"/cells", `{"code":"import time; time.sleep(1); x = 2","wait":false}`)
	expect(t, "a cell", accepted, 202)
	accepted.decode(t, &slow)
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 20*time.Second { // of 30 s to drain
		t.Errorf("it stopped after %s", took)
	}
	s = serve(t, who, data, "--wall", "gvisor")
	busy.service, serving.service = s, s
	if c := busy.cell("x"); c.text() != "2\n" || c.Restarted {
		t.Errorf("after a cell: %q, %+v; the cell: %s", c.text(), c, s.do("GET", busy.path+"/cells/"+slow.ID, "").body)
	}
	count := "import subprocess; x, subprocess.run(['pgrep', '-c', 'sleep'], stdout=-1).stdout"
	if c := serving.cell(count); c.text() != "(1, b'1\\n')\n" || c.Restarted {
		t.Errorf("with a process: %q, %+v", c.text(), c)
	}
}
