package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
)

// writeNotebook writes a notebook with code cells between others, and returns its name.
func writeNotebook(t *testing.T, codes ...string) string {
	t.Helper()
	cells := []map[string]any{{"cell_type": "markdown", "id": "m", "metadata": map[string]any{},
		"source": []string{"# A\n", "b"}}}
	for _, code := range codes {
		metadata := map[string]any{"custom": 1}
		if strings.HasPrefix(code, "raise expected") {
			metadata["tags"] = []string{"raises-exception"}
		}
		cells = append(cells, map[string]any{"cell_type": "code", "metadata": metadata, "execution_count": nil,
			"source": strings.SplitAfter(code, "\n"), "outputs": []any{}})
	}
	text, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "cells": cells,
		"metadata": map[string]any{"language_info": map[string]string{"name": "python"}, "mine": true}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "report.ipynb")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The cells of a notebook run in their order, and -o writes it with what they have shown.
func TestRunNotebook(t *testing.T) {
	f := serveCells(t)
	name, out := writeNotebook(t, "print x\nmore", " ", "value", "raise expected", "plot a"), t.TempDir()
	var stdout bytes.Buffer
	code, stderr := execute(t.Context(), t, "", &stdout, "run", "--server", f.URL, "-o", out, name)
	if code != 0 || !strings.HasPrefix(stdout.String(), "hello\n42\n") || !strings.Contains(stderr, "ran 4 cells in ") {
		t.Errorf("exit code %d, %q: %s", code, stdout.String(), stderr)
	}
	if want := []string{"print x\nmore", "value", "raise expected", "plot a"}; !cmp.Equal(f.cells, want) {
		t.Errorf("%q, want %q", f.cells, want)
	}
	text, err := os.ReadFile(filepath.Join(out, "report.ipynb"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Metadata map[string]any
		Cells    []struct {
			Count    *int `json:"execution_count"`
			Metadata map[string]any
			Outputs  []map[string]any
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, c := range got.Cells {
		for _, o := range c.Outputs {
			kinds = append(kinds, o["output_type"].(string))
			if _, ok := o["transient"]; ok {
				t.Error("transient is for messages, not for files")
			}
		}
	}
	if want := []string{"stream", "execute_result", "error", "display_data"}; !cmp.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
	if c := got.Cells; got.Metadata["mine"] != true || c[1].Metadata["custom"] != 1.0 || *c[1].Count != 1 ||
		c[2].Count != nil {
		t.Errorf("what is not known stays: %s", text)
	}
}

// A cell that fails is the last one, and the notebook has its error.
func TestRunNotebookFails(t *testing.T) {
	f := serveCells(t)
	name, out := writeNotebook(t, "print", "raise it", "print"), t.TempDir()
	code, stderr := execute(t.Context(), t, "", io.Discard, "run", "--server", f.URL, "-o", out, name)
	if code != command.ExitFailed || len(f.cells) != 2 || !strings.Contains(stderr, "cell 2 of 3 failed") {
		t.Errorf("exit code %d, %q: %s", code, f.cells, stderr)
	}
	if text, err := os.ReadFile(filepath.Join(out, "report.ipynb")); err != nil ||
		!bytes.Contains(text, []byte("ValueError")) {
		t.Errorf("%s, %v", text, err)
	}
	var stdout bytes.Buffer
	code, _ = execute(t.Context(), t, "", &stdout, "run", "--json", "--server", f.URL, name)
	if code != command.ExitFailed || !json.Valid(stdout.Bytes()) || !strings.Contains(stdout.String(), `"nbformat": 4`) {
		t.Errorf("exit code %d, %s", code, stdout.String())
	}
	for _, args := range [][]string{
		{name, "--", "x"}, {"--stdin", "/dev/null", name}, {filepath.Join(out, "none.ipynb")},
	} {
		args = slices.Concat([]string{"run", "--server", f.URL}, args)
		if code, stderr := execute(t.Context(), t, "", io.Discard, args...); code != command.ExitUsage {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

// A notebook whose interpreter is ended, or whose service is, says so once.
func TestRunNotebookEnded(t *testing.T) {
	f := serveCells(t)
	const cut = "error: the connection to the service ended before the program did\n" +
		"hint: the service has stopped, or the network failed\n"
	for code, want := range map[string]ended{
		"exit": {3, "airlock: cell 1 of 2 was lost; those after it were not run. Its interpreter ended.\n"},
		"lost": {command.ExitAirlock, "airlock: cell 1 of 2 was lost; those after it were not run. Its interpreter " +
			"ended. The service is shutting down.\n"},
		"cut": {command.ExitAirlock, cut},
	} {
		for _, flag := range []string{"--quiet", "--json"} {
			var got ended
			got.code, got.stderr = execute(t.Context(), t, "", io.Discard, "run", flag, "--server", f.URL,
				writeNotebook(t, code, "print"))
			if got != want {
				t.Errorf("%s %s: %+v", flag, code, got)
			}
		}
	}
}

// A notebook that is piped in is run as one, and one without code says that it has none.
func TestRunNotebookPiped(t *testing.T) {
	f := serveCells(t)
	for _, test := range []struct {
		codes  []string
		args   []string
		code   int
		stderr string
	}{
		{[]string{"print"}, nil, 0, "airlock: ran 1 cell in "},
		{[]string{"print"}, []string{"-"}, 0, "airlock: ran 1 cell in "},
		{[]string{" "}, nil, 0, "airlock: notebook.ipynb has no code to run\n"},
		{[]string{"print"}, []string{"-", "--", "x"}, command.ExitUsage, "error: a notebook has no arguments"},
	} {
		text, err := os.ReadFile(writeNotebook(t, test.codes...))
		if err != nil {
			t.Fatal(err)
		}
		code, stderr := execute(t.Context(), t, string(text), io.Discard, slices.Concat([]string{"run", "--server", f.URL},
			test.args)...)
		if code != test.code || !strings.HasPrefix(stderr, test.stderr) {
			t.Errorf("%q %q: exit code %d, %q", test.codes, test.args, code, stderr)
		}
	}
}

// ended is how a command ended.
type ended struct {
	code   int
	stderr string
}

func TestNotebookFormat(t *testing.T) {
	for text, want := range map[string]string{
		`{"nbformat":3,"worksheets":[]}`: "format 3", `[]`: "not a notebook", `{"nbformat":4,"cells":{}}`: "not a notebook",
		`x`: "not a notebook",
	} {
		if _, err := readNotebook("n", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{}`: "python", `{"kernelspec":{"name":"ir","language":"R"}}`: "r", `{"language_info":{"name":"julia"}}`: "",
	} {
		n, err := readNotebook("n", []byte(`{"nbformat":4,"cells":[],"metadata":`+text+`}`))
		if err != nil || n.language() != want {
			t.Errorf("%s: %q, %v; want %q", text, n.language(), err, want)
		}
	}
}

// Text of a stream is one output, and an update takes the place of what it updates.
func TestNotebookOutputs(t *testing.T) {
	var all []map[string]any
	for _, o := range []client.Output{
		{Type: client.OutputStdout, Text: "a"}, {Type: client.OutputStdout, Text: "b"},
		{Type: client.OutputStderr, Text: "c"},
		{Type: client.OutputDisplay, DisplayID: "d", Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"1"`)}},
		{Type: client.OutputDisplay, DisplayID: "d", Update: true,
			Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"2"`)}},
	} {
		all = addOutput(all, o, 1)
	}
	if len(all) != 3 || all[0]["text"] != "ab" || all[1]["name"] != "stderr" ||
		string(all[2]["data"].(map[string]json.RawMessage)["text/plain"]) != `"2"` {
		t.Errorf("%v", all)
	}
}
