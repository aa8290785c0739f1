package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/e2e/indextest"
)

// needWall skips a test where airlock-gvisor cannot be used.
func needWall(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "this wall needs root")
	}
	if _, err := os.Stat(binary + "-gvisor"); err != nil {
		skip(t, "airlock-gvisor is not beside airlock: make gvisor builds it")
	}
}

// A program has a kernel of its own if that is asked for, and does not run if it cannot have one.
func TestOwnKernel(t *testing.T) {
	t.Parallel()
	needWall(t)
	who := root(t)
	const code = "import os; print(os.uname().release); open('out.txt', 'w').write('kept')"
	out := t.TempDir()
	if err := os.Chmod(out, 0o777); err != nil {
		t.Fatal(err)
	}
	got := who.run(t, nil, "run", "--wall", "gvisor", "-o", out, "--yes", "-c", code)
	if got.code != 0 || !strings.Contains(got.stdout, "gvisor") {
		t.Errorf("%+v", got)
	}
	if text, err := os.ReadFile(filepath.Join(out, "out.txt")); string(text) != "kept" {
		t.Errorf("%q %v", text, err)
	}
	if got := who.run(t, nil, "run", "--wall", "shared", "-c", code); strings.Contains(got.stdout, "gvisor") {
		t.Errorf("the shared kernel: %+v", got)
	}
	s := serve(t, who, dataFolder(t, who), "--wall", "gvisor")
	answer := s.do("POST", "/api/v1/runs", `{"language": "bash", "code": "uname -r; exit 137"}`)
	var run struct {
		Stdout   string `json:"stdout"`
		Signal   string `json:"signal"`
		ExitCode int    `json:"exit_code"`
	}
	answer.decode(t, &run)
	if !strings.Contains(run.Stdout, "gvisor") || run.ExitCode != 137 || run.Signal != "" {
		t.Errorf("%s", answer.body)
	}
	if health := s.do("GET", "/health", ""); !strings.Contains(string(health.body), "a kernel of its own (gVisor)") {
		t.Errorf("%s", health.body)
	}
	mount := []string{"run", "--wall", "gvisor", "--yes", "-c", "print(1)", "--mount-rw", out}
	if got := who.run(t, nil, mount...); got.code != 125 || !strings.Contains(got.stderr, "leaving links") {
		t.Errorf("a mount to write to: %+v", got)
	}
}

// A shell has the wall that is asked for.
func TestOwnKernelShell(t *testing.T) {
	t.Parallel()
	needWall(t)
	needPackages(t)
	who := root(t)
	data := dataWithPackages(t, who)
	for wall, own := range map[string]bool{"gvisor": true, "shared": false} {
		got := who.run(t, nil, "shell", "--data", data, "--wall", wall, "--", "uname", "-r")
		if got.code != 0 || strings.Contains(got.stdout, "gvisor") != own {
			t.Errorf("%s: %+v", wall, got)
		}
	}
}

// Setup runs a program behind the wall that is asked for, and doctor says the same.
func TestSetupWall(t *testing.T) {
	t.Parallel()
	needWall(t)
	who := root(t)
	data := dataWithoutPackages(t, who)
	setup := []string{"setup", "--data", data, "--languages", "bash", "--wall"}
	if got := who.run(t, nil, append(setup, "gvisor")...); got.code != 0 ||
		!strings.Contains(got.stdout, "Wall:  gvisor: a program ran in ") || !strings.Contains(got.stdout, "-gvisor\n") ||
		!strings.Contains(got.stdout, "serve --wall gvisor\n") {
		t.Errorf("%+v", got)
	}
	if got := who.run(t, nil, append(setup, "shared")...); got.code != 0 || strings.Contains(got.stdout, "gvisor") {
		t.Errorf("%+v", got)
	}
	var found struct{ Kernel struct{ OK bool } }
	got := who.run(t, nil, "doctor", "--data", data, "--json")
	if err := json.Unmarshal([]byte(got.stdout), &found); err != nil || !found.Kernel.OK {
		t.Errorf("%v %+v", err, got)
	}
}

// Setup says why there is no such wall, after all else that it does.
func TestSetupWallIsMissing(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		cmd := who.command(t, nil, "setup", "--data", dataWithoutPackages(t, who), "--languages", "bash", "--wall", "gvisor")
		cmd.Path = airlockAlone(t)
		said, err := cmd.CombinedOutput()
		text := string(said)
		if cmd.ProcessState.ExitCode() != 7 || !strings.Contains(text, "Ready: ") ||
			!strings.Contains(text, "a kernel of its own (gVisor) cannot be had: ") || strings.Contains(text, "Wall:") {
			t.Errorf("%v %s", err, said)
		}
	})
}

// airlockAlone returns an airlock beside which there is no airlock-gvisor.
func airlockAlone(t *testing.T) string {
	t.Helper()
	alone := filepath.Join(folder(t, nil), "airlock")
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, alone, string(text))
	return alone
}

// Without the command nothing runs in its place.
func TestOwnKernelIsMissing(t *testing.T) {
	t.Parallel()
	cmd := root(t).command(t, nil, "run", "--wall", "gvisor", "-c", "print('ran')")
	cmd.Path = airlockAlone(t)
	said, err := cmd.CombinedOutput()
	if text := string(said); err == nil || strings.Contains(text, "ran\n") ||
		!strings.Contains(text, "airlock-gvisor is not there") {
		t.Errorf("%v %s", err, said)
	}
}

// One service has both walls: a key's is a floor for its requests, and the records say which one each run had.
func TestWallsOfOneService(t *testing.T) {
	t.Parallel()
	needWall(t)
	a := startAbuse(t, root(t))
	made := a.who.run(t, []string{"AIRLOCK_KEY=" + a.admin}, "keys", "create", "--server", a.url, "--owner", "guarded",
		"--wall", "gvisor")
	guarded, shared := strings.TrimSpace(made.stdout), a.owner()
	if made.code != 0 || !strings.Contains(made.stderr, "kernel of their own") {
		t.Fatalf("%+v", made)
	}
	walls := func() (list []string) {
		var status struct{ Walls []struct{ Wall string } }
		a.as(a.admin, "GET", "/api/v1/status", "").decode(t, &status)
		for _, w := range status.Walls {
			list = append(list, w.Wall)
		}
		return list
	}
	ran := func(key, asked, session string) (id string) {
		t.Helper()
		body := `{"language": "bash", "code": "uname -r; cat /proc/version", "session": ` + session + asked + `}`
		answer := a.as(key, "POST", "/api/v1/runs", body)
		var run struct{ ID, Wall, Stdout, Status string }
		answer.decode(t, &run)
		wall := "shared"
		if key == guarded || asked != "" {
			wall = "gvisor"
		}
		if run.Status != "ok" || run.Wall != wall || strings.Contains(run.Stdout, "gvisor") != (wall == "gvisor") {
			t.Errorf("%s: %s", wall, answer.body)
		}
		again := a.as(key, "GET", "/api/v1/runs/"+run.ID, "")
		if !strings.Contains(string(again.body), `"wall":"`+wall+`"`) {
			t.Errorf("the record: %s", again.body)
		}
		return run.ID
	}
	ran(shared, "", "null")
	if got := walls(); !slices.Equal(got, []string{"shared"}) {
		t.Errorf("before it is needed: %q", got)
	}
	ran(guarded, "", "null")
	ran(shared, "", "null")
	ran(shared, `, "wall": "gvisor"`, "null")
	if got := walls(); !slices.Equal(got, []string{"shared", "gvisor"}) {
		t.Errorf("%q", got)
	}
	// Workspaces of both are kept at once, each behind its wall.
	for key, wall := range map[string]string{guarded: "gvisor", shared: "shared"} {
		var session struct{ ID, Wall string }
		a.as(key, "POST", "/api/v1/sessions", `{"kind": "held"}`).decode(t, &session)
		if session.Wall != wall {
			t.Errorf("%+v", session)
		}
		for range 2 {
			ran(key, "", `"`+session.ID+`"`)
		}
		written := a.as(key, "POST", "/api/v1/runs", `{"language": "bash", "code": "echo kept > f; cat f", "session": "`+
			session.ID+`"}`)
		if !strings.Contains(string(written.body), `"stdout":"kept\n"`) {
			t.Errorf("%s: %s", wall, written.body)
		}
		expect(t, "delete", a.as(key, "DELETE", "/api/v1/sessions/"+session.ID, ""), 204)
	}
	for _, path := range []string{"runs", "sessions"} {
		body := `{"wall": "shared"}`
		if path == "runs" {
			body = `{"language": "bash", "code": "echo ran", "wall": "shared"}`
		}
		answer := a.as(guarded, "POST", "/api/v1/"+path, body)
		if answer.status != 400 || !strings.Contains(string(answer.body), "is weaker than gvisor, which all programs") {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
		}
	}
	listed := a.who.run(t, []string{"AIRLOCK_KEY=" + a.admin}, "keys", "list", "--server", a.url)
	if !strings.Contains(listed.stdout, "WALL") || !strings.Contains(listed.stdout, "gvisor") {
		t.Errorf("%+v", listed)
	}
}

// A service without the command refuses what asks for the wall, and runs the rest.
func TestWallIsRefused(t *testing.T) {
	t.Parallel()
	who := root(t)
	data := dataWithoutPackages(t, who)
	cmd := who.command(t, nil, "serve", "--data", data, "--listen", "127.0.0.1:0")
	cmd.Path = airlockAlone(t)
	s := launch(t, who, data, cmd)
	const program = `"language": "bash", "code": "echo ran"`
	for range 2 {
		answer := s.do("POST", "/api/v1/runs", `{`+program+`, "wall": "gvisor"}`)
		if answer.status != 400 || !strings.Contains(string(answer.body), "airlock-gvisor is not there") ||
			!strings.Contains(string(answer.body), "install the package") {
			t.Errorf("%d %s", answer.status, answer.body)
		}
		answer = s.do("POST", "/api/v1/runs", `{`+program+`}`)
		if !strings.Contains(string(answer.body), `"stdout":"ran\n"`) {
			t.Errorf("%d %s", answer.status, answer.body)
		}
	}
	answer := s.do("POST", "/api/v1/sessions", `{"kind": "held", "wall": "gvisor"}`)
	if answer.status != 400 || !strings.Contains(string(answer.body), "airlock-gvisor is not there") {
		t.Errorf("%d %s", answer.status, answer.body)
	}
}

// A program with a kernel of its own reaches what it may, through its proxy, and nothing else; so does the installer of
// a session.
func TestOwnKernelNetwork(t *testing.T) {
	needWall(t)
	x := indextest.New(t, skip)
	who := root(t)
	s := serveWith(t, who, dataFolder(t, who), x.Env(), "--network-allow", "packages", "--network-private", x.Subnet,
		"--wall", "gvisor")
	reach := "import urllib.request\ntry:\n    print(urllib.request.urlopen('" + x.URL +
		"/simple/greeting/', timeout=5).status)\nexcept OSError: print('no network')"
	may, none := s.execute(map[string]any{"language": "python", "code": reach, "network": map[string]any{
		"allow": []string{"packages"}}}), s.execute(python(reach))
	if may.Stdout != "200\n" || none.Stdout != "no network\n" {
		t.Errorf("with permission %q %q, without %q %q", may.Stdout, may.Stderr, none.Stdout, none.Stderr)
	}
	l := s.live(`{"kind":"live"}`)
	l.expect("x = 41", "")
	if got := l.ask("POST", "/packages", `{"names":["greeting"]}`); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	l.expect("import greeting\ngreeting.greet(), x", "('hello from a package', 41)\n")
	l.expect(reach, "no network\n")
}
