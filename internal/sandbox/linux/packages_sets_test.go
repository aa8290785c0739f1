package linux

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// runtimesWith creates a folder of runtimes. Each set has one package, chosen, whose
// version is the set's name.
func runtimesWith(t *testing.T, sets ...string) string {
	t.Helper()
	runtimes := t.TempDir()
	if err := os.Chmod(runtimes, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range sets {
		folder, link := filepath.Join(runtimes, "python", "sets", name+"-folder"), "lib-"+name
		if name == "current" {
			link = "lib"
		}
		if err := os.MkdirAll(folder+"/chosen", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder+"/chosen/__init__.py", []byte("version = '"+name+"'\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(folder, filepath.Join(runtimes, "python", link)); err != nil {
			t.Fatal(err)
		}
	}
	return runtimes
}

func startWith(t *testing.T, options executor.LaunchOptions) *executor.Sandbox {
	t.Helper()
	s, err := executor.Start(t.Context(), executor.Config{Launcher: executor.NewLauncher(options), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// inSet returns a program that prints its own set and that of a child process.
func inSet(set string) *engine.Spec {
	spec := sandboxtest.Python("import chosen, subprocess, sys\nprint(chosen.version, subprocess.run([sys.executable, " +
		"'-c', 'import chosen; print(chosen.version)'], capture_output=True, text=True).stdout.strip())\n")
	spec.Packages = set
	return spec
}

// A program and its children have the packages of the requested set, warm and cold, at
// the first and at later runs.
func TestPackageSets(t *testing.T) {
	runtimes := runtimesWith(t, "current", "onyx", "own")
	for _, test := range []struct {
		name, standard string
		warm           bool
	}{
		{"cold", "", false},
		{"warm", "", true},
		{"warm with another default", "onyx", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startWith(t, executor.LaunchOptions{Runtimes: runtimes, Packages: test.standard, Warm: test.warm,
				WarmFirst: test.warm})
			usual := test.standard
			if usual == "" {
				usual = "current"
			}
			for range 3 {
				for ask, want := range map[string]string{"": usual, "current": "current", "onyx": "onyx", "own": "own"} {
					if r := sandboxtest.Run(t, s, inSet(ask)); r.Stdout != want+" "+want+"\n" {
						t.Errorf("asked for %q: exit code %d, stdout %q, stderr %q", ask, r.Code(), r.Stdout, r.Stderr)
					}
				}
			}
			for _, set := range []string{"", "own"} {
				spec := sandboxtest.Python("for place in '/opt/airlock/python', '/opt/airlock/python/chosen', " +
					"'/opt/airlock/sets', '/opt/airlock/sets/own':\n" +
					"    try: open(place + '/poison.py', 'w'); print('wrote to', place)\n    except OSError: pass\n")
				spec.Packages = set
				if r := sandboxtest.Run(t, s, spec); r.Stdout != "" || r.Code() != 0 {
					t.Errorf("in the set %q: %s%s", set, r.Stdout, r.Stderr)
				}
				mounts := sandboxtest.Python(
					"mounts = [line.split() for line in open('/proc/mounts') if '/opt/airlock/python' in line]\n" +
						"print(len(mounts) > 0, [m for m in mounts if 'ro' not in m[3].split(',')])\n")
				mounts.Packages = set
				if r := sandboxtest.Run(t, s, mounts); r.Stdout != "True []\n" {
					t.Errorf("not read-only in the set %q: %s%s", set, r.Stdout, r.Stderr)
				}
			}
			bash := sandboxtest.Spec("bash", "python3 -c 'import chosen; print(chosen.version)'")
			bash.Packages = "own"
			if r := sandboxtest.Run(t, s, bash); r.Stdout != "own\n" {
				t.Errorf("from a shell: stdout %q, stderr %q", r.Stdout, r.Stderr)
			}
			if _, err := s.Run(t.Context(), inSet("nosuch"), silent{}); err == nil ||
				!strings.Contains(err.Error(), `"nosuch" is not installed`) {
				t.Errorf("a set that is not there: %v", err)
			}
		})
	}
}

// The first program of a set is warm: it waits for the zygote, and the wait does not
// count towards its time limit.
func TestFirstProgramOfASet(t *testing.T) {
	s := startWith(t, executor.LaunchOptions{Runtimes: runtimesWith(t, "current", "onyx"), Warm: true})
	if r := sandboxtest.Run(t, s, inSet("onyx")); r.Stdout != "onyx onyx\n" {
		t.Fatalf("stdout %q, stderr %q", r.Stdout, r.Stderr)
	}
	pools, err := s.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pools, func(p engine.Pool) bool { return strings.HasPrefix(p.Name, "onyx") && p.Ready }) {
		t.Errorf("there is no zygote of the set: %+v", pools)
	}
}

// Only the zygotes of the default set are started at once. Those of another set start
// with its first program, and end when the set is idle.
func TestZygotesOfASetComeAndGo(t *testing.T) {
	s := startWith(t, executor.LaunchOptions{Runtimes: runtimesWith(t, "current", "onyx"), WarmFirst: true,
		Weaken: []string{executor.WeakIdleTime}})
	names := func() (list []string) {
		t.Helper()
		pools, err := s.Pools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pools {
			list = append(list, p.Name)
		}
		return list
	}
	executorPID := executors(t)[0]
	usual := names()
	zygotes := len(zygotesOf(executorPID))
	if slices.ContainsFunc(usual, func(name string) bool { return strings.HasPrefix(name, "onyx") }) ||
		zygotes != len(usual) {
		t.Fatalf("at the start there are %v, %d zygotes", usual, zygotes)
	}
	for range 3 { // it comes again after it went
		if r := sandboxtest.Run(t, s, inSet("onyx")); r.Stdout != "onyx onyx\n" {
			t.Fatalf("stdout %q, stderr %q", r.Stdout, r.Stderr)
		}
		if now := names(); len(now) > len(usual)+1 {
			t.Errorf("with a program of onyx there are %v", now)
		}
		if !sandboxtest.Await(func() bool {
			return slices.Equal(names(), usual) && len(zygotesOf(executorPID)) == zygotes
		}) {
			t.Fatalf("they stay: %v, %d zygotes of %d", names(), len(zygotesOf(executorPID)), zygotes)
		}
	}
}

// The interpreter of a set that is mounted is mounted with it.
func TestInterpreterOfASet(t *testing.T) {
	h := &executor.Machine{Sets: image.Sets{Default: "onyx",
		All: map[string]image.Set{"onyx": {Python: "/usr/bin/python3.12"}, "current": {}}}}
	steps := (&wall{Machine: h}).bindPackages("onyx", image.Path)
	if len(steps) != 2 || steps[1].Given[0] != image.Path+"/usr/bin/python3.12" ||
		steps[1].Given[1] != image.Path+image.UsualPython() {
		t.Errorf("%d steps", len(steps))
	}
}
