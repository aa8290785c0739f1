package live

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// TestHints checks where the engine's line stands for cells, programs and processes that fail,
// and that there is none for those that do not.
func TestHints(t *testing.T) {
	p := open(t, Config{})
	const line = "airlock: nopkg is not in this environment."
	sessions := map[string]engine.ID{"python": p.session("python"), "bash": p.session("bash"), "js": p.session("js")}
	for name, test := range map[string]struct {
		language string
		request  CellRequest
		trace    bool // it ends the traceback
		stderr   bool // it ends stderr
	}{
		"raised":      {"python", CellRequest{Code: "import nopkg"}, true, false},
		"chained":     {"python", CellRequest{Code: "try:\n import nopkg\nexcept ImportError:\n raise RuntimeError('no')"}, true, false},
		"by a script": {"python", CellRequest{Code: "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import nopkg'], check=True)"}, true, false},
		"caught":      {"python", CellRequest{Code: "try:\n import nopkg\nexcept ImportError as e: print(e)"}, false, false},
		"printed": {"python", CellRequest{Code: "import traceback\ntry:\n import nopkg\nexcept ImportError: traceback.print_exc()"},
			false, false},
		"printed, then exit": {"python", CellRequest{Code: "import sys, traceback\ntry:\n import nopkg\nexcept ImportError: traceback.print_exc()\nsys.exit(1)"},
			false, true},
		"printed, then exit 0": {"python", CellRequest{Code: "import sys, traceback\ntry:\n import nopkg\nexcept ImportError: traceback.print_exc()\nsys.exit(0)"},
			false, false},
		"another error": {"python", CellRequest{Code: "import sys; print(\"No module named 'nopkg'\", file=sys.stderr); 1/0"}, false, false},
		"in bash":       {"bash", CellRequest{Code: "python3 -c 'import nopkg'"}, false, true},
		"in bash, kept": {"bash", CellRequest{Code: "python3 -c 'import nopkg' || true"}, false, false},
		"a program":     {"python", CellRequest{Code: "import nopkg", Program: &Program{Language: "python"}}, false, true},
		"a program that ends well": {"python", CellRequest{Code: "import sys; print(\"No module named 'nopkg'\", file=sys.stderr)",
			Program: &Program{Language: "python"}}, false, false},
	} {
		cell := p.runCell(sessions[test.language], test.request)
		var trace, stderr string
		for _, o := range cell.Outputs {
			switch o.Type {
			case Error:
				trace = strings.Join(o.Traceback, "\n")
			case Stderr:
				stderr += o.Text
			}
		}
		for _, place := range []struct {
			name, text string
			want       bool
		}{{"traceback", trace, test.trace}, {"stderr", stderr, test.stderr}} {
			at := strings.LastIndex(strings.TrimSuffix(place.text, "\n"), "\n") + 1
			if got := strings.HasPrefix(place.text[at:], line); got != place.want || !place.want && strings.Contains(place.text, line) {
				t.Errorf("%s: the line ends the %s: %v, want %v\n%s", name, place.name, got, place.want, place.text)
			}
		}
		said := test.trace || test.stderr
		if strings.HasPrefix("airlock: "+cell.Hint, line) != said || (cell.Package == "nopkg") != said {
			t.Errorf("%s: the fields say %q and %q", name, cell.Hint, cell.Package)
		}
	}
	node := p.run(sessions["js"], "require('nopkg')")
	if !strings.HasPrefix(node.Hint, "the Node package nopkg") || node.Package != "nopkg" {
		t.Errorf("the fields of a cell of Node: %q, %q", node.Hint, node.Package)
	}
	if got := node.Outputs[len(node.Outputs)-1].Traceback; !strings.HasPrefix(got[len(got)-1], "airlock: the Node package nopkg") {
		t.Errorf("Node: %q", got)
	}

	for name, test := range map[string]struct {
		request ProcessRequest
		want    string
	}{
		"pipes":      {ProcessRequest{Argv: []string{"/bin/bash", "-c", "python3 -c 'import nopkg'"}}, "\n" + line},
		"ended well": {ProcessRequest{Shell: "python3 -c 'import nopkg'; true"}, ""},
		"terminal":   {ProcessRequest{Shell: "python3 -c 'import nopkg'", Terminal: &engine.TerminalSize{Columns: 80, Rows: 24}}, "\r\n" + line},
		"a person's": {ProcessRequest{Argv: []string{"/usr/bin/python3", "-c", "import nopkg"},
			Terminal: &engine.TerminalSize{Columns: 80, Rows: 24}}, ""},
	} {
		process, err := p.StartProcess(t.Context(), p.caller, sessions["python"], test.request)
		if err != nil {
			t.Fatal(err)
		}
		events, err := p.WatchProcess(t.Context(), p.caller, sessions["python"], process.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		var text string
		for e := range events {
			if e.Type != ProcessStdout {
				text += string(e.Data)
			}
		}
		if found := strings.Contains(text, line); found != (test.want != "") || !strings.Contains(text, test.want) {
			t.Errorf("%s: %q, want %q", name, text, test.want)
		}
	}
}
