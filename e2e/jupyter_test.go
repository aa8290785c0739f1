package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// jupyterClients installs clients of Jupyter kernels and returns their Python.
func jupyterClients(t *testing.T, requirements, under string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		skip(t, "this needs python3: scripts/test-deps installs it")
	}
	folder, err := filepath.Abs(filepath.Join("../.cache", under))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "jupyter/install", folder, requirements).CombinedOutput(); err != nil {
		skip(t, "the clients of Jupyter cannot be installed: %v: %s", err, out)
	}
	return filepath.Join(folder, "python/bin/python")
}

// jupyterKey returns a service that wants a key, and one.
func jupyterKey(t *testing.T) (*service, string) {
	t.Helper()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithPackages(t, who)
	made := who.run(t, nil, "keys", "create", "--data", data, "--owner", "notebooks")
	if made.code != 0 {
		t.Fatalf("keys create: %+v", made)
	}
	return serve(t, who, data), keyIn(made.stdout)
}

func keyIn(text string) string {
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "ak_") {
			return word
		}
	}
	return ""
}

// jupyterGot runs a client and returns the JSON that it prints.
func jupyterGot(t *testing.T, python string, args ...string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, args...)
	var said lines
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, said.String())
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// What jupyter-kernel-client does with a kernel, by a key.
func TestJupyterKernelClient(t *testing.T) {
	t.Parallel()
	python := jupyterClients(t, "requirements.txt", "jupyter")
	s, key := jupyterKey(t)
	got := jupyterGot(t, python, "jupyter/client.py", s.url+"/jupyter", key)
	var want map[string]any
	_ = json.Unmarshal([]byte(`{
		"first": ["ok", {"stdout": "out\n", "stderr": "err\n"}, {"text/plain": "42"}, 1],
		"second": 2,
		"plot": [["image/png", "text/plain"]],
		"wrong": ["error", "ZeroDivisionError", false],
		"variables": ["x"],
		"child": ["", "from a child", "to stderr"],
		"restarted": ["error", 1, ""],
		"listed": [true], "state": "idle", "left": 0
	}`), &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What Open WebUI asks for, with a library that takes no frame over 1 MiB.
func TestJupyterOpenWebUI(t *testing.T) {
	t.Parallel()
	python := jupyterClients(t, "requirements.txt", "jupyter")
	s, key := jupyterKey(t)
	run := func(code string) map[string]any {
		return jupyterGot(t, python, "jupyter/openwebui.py", s.url+"/jupyter", key, code)
	}
	got := run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('x')\n6 * 7")
	if diff := cmp.Diff(map[string]any{"stdout": "x\n", "stderr": "", "result": []any{"42", "image/png"}},
		got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := run("print('é' * 500_000)"); got["stdout"] != strings.Repeat("é", 500_000)+"\n" {
		t.Errorf("%d bytes of 1 MB came", len(got["stdout"].(string)))
	}
	got = run("import numpy, matplotlib.pyplot as plt\nplt.figure(figsize=(14, 14))\n" +
		"plt.imshow(numpy.random.rand(1400, 1400, 3))\nNone")
	if said, _ := got["stderr"].(string); !cmp.Equal(got["result"], []any{"image/png"}) ||
		!strings.Contains(said, "a picture was made smaller") {
		t.Errorf("a picture of 2 MB: %v", got)
	}
}
