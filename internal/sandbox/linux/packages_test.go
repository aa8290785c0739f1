package linux

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// installed skips a test if `airlock setup` has not created the test data.
func installed(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(os.Getenv("AIRLOCK_TEST_DATA"), "runtimes", "python")
	if _, err := os.Stat(filepath.Join(folder, "manifest.json")); err != nil {
		sandboxtest.Skip(t, "needs the Python packages: AIRLOCK_TEST_DATA names a data directory that `airlock setup` filled")
	}
	return folder
}

// Every package can be imported under the system-call filter, landlock and limits of an
// ordinary run.
func TestPackagesImport(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(installed(t), "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Packages []struct {
			Module string
			OK     bool
		}
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	modules := []string{}
	for _, p := range manifest.Packages {
		if p.OK {
			modules = append(modules, p.Module)
		}
	}
	if len(modules) < 20 {
		t.Fatalf("only %d packages are installed", len(modules))
	}
	spec := sandboxtest.Python("import importlib, sys\nfor m in sys.argv[1:]:\n    try: importlib.import_module(m)\n" +
		"    except BaseException as e: print(m, repr(e))\n")
	spec.Args = modules
	spec.Limits.Memory, spec.Limits.Timeout = 2<<30, 2*time.Minute
	if r := sandboxtest.Run(t, start(t), spec); r.Code() != 0 || r.Stdout != "" {
		t.Errorf("exit code %d\n%s%s", r.Code(), r.Stdout, r.Stderr)
	}
}

// A program reads a CSV file and saves a plot.
func TestPlot(t *testing.T) {
	installed(t)
	code, err := os.ReadFile("../../../examples/plot.py")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../../testdata/sales.csv")
	if err != nil {
		t.Fatal(err)
	}
	spec := sandboxtest.Python(string(code))
	spec.Inputs = []engine.Input{sandboxtest.Input(t, "sales.csv", string(data))}
	spec.Limits.Memory, spec.Limits.Timeout = 1<<30, time.Minute
	r := sandboxtest.Run(t, start(t), spec)
	if r.Code() != 0 || strings.Contains(r.Stderr, "font") {
		t.Fatalf("exit code %d\n%s%s", r.Code(), r.Stdout, r.Stderr)
	}
	picture, err := png.Decode(bytes.NewReader([]byte(r.Files["plot.png"])))
	if err != nil || picture.Bounds().Dx() < 300 {
		t.Fatalf("plot.png: %v, %v", picture, err)
	}
	for path := range r.Files {
		if path != "plot.png" {
			t.Errorf("it also left %s", path)
		}
	}
}
