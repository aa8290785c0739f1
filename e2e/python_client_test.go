package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pythonTools installs what the Python client needs, and returns its environment.
func pythonTools(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../.cache/python")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "python/install", folder).CombinedOutput(); err != nil {
		skip(t, "what the Python client needs cannot be installed: %v: %s", err, out)
	}
	return filepath.Join(folder, "env")
}

// inPythonClient runs a program of the environment in the client's folder, or another.
func inPythonClient(t *testing.T, environment, folder string, env []string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(environment, "bin", args[0]), args[1:]...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), append(env, "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1",
		"PATH="+filepath.Join(environment, "bin")+":"+os.Getenv("PATH"))...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
}

const pythonClient = "../client/python"

// TestPythonClient has the client's own tests and its examples run against a service.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	environment := pythonTools(t)
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	s := serve(t, who, dataWithPackages(t, who))
	inPythonClient(t, environment, pythonClient, []string{"AIRLOCK_SERVER=" + s.url}, "pytest", "-q", "-p",
		"no:cacheprovider", "tests", "examples")
}

// TestPythonClientSource checks types, style, and that generated files are what the generator makes.
func TestPythonClientSource(t *testing.T) {
	t.Parallel()
	environment := pythonTools(t)
	inPythonClient(t, environment, pythonClient, nil, "mypy", "--cache-dir", t.TempDir())
	inPythonClient(t, environment, pythonClient, nil, "ruff", "check", "--no-cache", ".")
	inPythonClient(t, environment, pythonClient, nil, "ruff", "format", "--no-cache", "--check", ".")
	again := filepath.Join(t.TempDir(), "python")
	if err := os.CopyFS(again, os.DirFS(pythonClient)); err != nil {
		t.Fatal(err)
	}
	openapi, err := filepath.Abs("../internal/dialect/native/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inPythonClient(t, environment, again, nil, "python", "generate.py", openapi)
	const made = "src/airlock_run"
	if out, err := exec.Command("diff", "-r", "-x", "__pycache__", filepath.Join(pythonClient, made),
		filepath.Join(again, made)).CombinedOutput(); err != nil {
		t.Errorf("`make generate-python` has not been run: %s", out)
	}
}

// TestPythonWheel makes the wheel of this binary twice, and runs it from an environment of its own, where the client
// starts the service.
func TestPythonWheel(t *testing.T) {
	t.Parallel()
	environment := pythonTools(t)
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data, folder := dataWithPackages(t, who), t.TempDir()
	var wheels [2][]byte
	var at string
	for i := range wheels {
		out := filepath.Join(folder, string(rune('a'+i)))
		run := exec.Command("../scripts/wheels", binary, "amd64", "0.0.0.dev1", out)
		run.Env = append(os.Environ(), "PATH="+filepath.Join(environment, "bin")+":"+os.Getenv("PATH"),
			"SOURCE_DATE_EPOCH=1700000000")
		if said, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		list, err := filepath.Glob(filepath.Join(out, "airlock_run-*manylinux*.whl"))
		if err != nil || len(list) != 1 {
			t.Fatalf("%q %v", list, err)
		}
		if wheels[i], err = os.ReadFile(list[0]); err != nil {
			t.Fatal(err)
		}
		at = list[0]
	}
	if !bytes.Equal(wheels[0], wheels[1]) {
		t.Error("two builds of one commit differ")
	}
	inPythonClient(t, environment, folder, nil, "twine", "check", "--strict", at)
	fresh := filepath.Join(folder, "fresh")
	inPythonClient(t, environment, folder, nil, "python", "-m", "venv", fresh)
	inPythonClient(t, fresh, folder, nil, "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", at)
	libraries, err := filepath.Glob(filepath.Join(environment, "lib/python3*/site-packages"))
	if err != nil || len(libraries) != 1 {
		t.Fatalf("%q %v", libraries, err)
	}
	installed, err := os.ReadFile(filepath.Join(fresh, "bin/airlock"))
	if err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(installed, original) {
		t.Error("the wheel's binary is another one")
	}
	inFolder(t, folder, []string{"PYTHONPATH=" + libraries[0]}, filepath.Join(fresh, "bin/airlock-run"), "version")
	const program = `import os, sys, airlock_run
with airlock_run.Airlock(data=sys.argv[1]) as a:
    print(a.run("print(6 * 7)").check().stdout, end="")
    with airlock_run.Airlock(data=sys.argv[1], start=False) as other: print(other.run("print(1)").stdout, end="")
airlock_run.stop()
try: airlock_run.Airlock(data=sys.argv[1], start=False).run("1")
except airlock_run.AirlockError as e: print(e)`
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(fresh, "bin/python"), "-c", program, data)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+libraries[0])
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "42\n1\nno service listens at ") {
		t.Errorf("%v: %s", err, out)
	}
}
