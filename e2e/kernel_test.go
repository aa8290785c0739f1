package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	for what, args := range map[string][]string{
		"network access": {"--allow-net", "example.com"}, "a mount": {"--mount", out},
	} {
		got := who.run(t, nil, append([]string{"run", "--wall", "gvisor", "-c", "print(1)"}, args...)...)
		if got.code != 125 || !strings.Contains(got.stderr, "kernel of its own") {
			t.Errorf("%s: %+v", what, got)
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
	if err == nil {
		err = os.WriteFile(alone, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
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
