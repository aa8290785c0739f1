package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
)

// fakeCells is a service with one live session, whose cells do what their code says.
type fakeCells struct {
	*httptest.Server
	calls []string // what was asked, besides cells
	cells []string
}

func serveCells(t *testing.T) *fakeCells {
	t.Helper()
	f := &fakeCells{}
	mux := http.NewServeMux()
	note := func(w http.ResponseWriter, r *http.Request) {
		f.calls = append(f.calls, r.Method+" "+strings.TrimPrefix(r.RequestURI, "/api/v1"))
	}
	mux.HandleFunc("POST /api/v1/sessions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.calls = append(f.calls, string(body))
		fmt.Fprint(w, `{"id":"s","kind":"live","language":"python"}`)
	})
	mux.HandleFunc("POST /api/v1/sessions/s/is_complete", func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ Code string }
		_ = json.NewDecoder(r.Body).Decode(&ask)
		status := "complete"
		if strings.Contains(ask.Code, ":") && !strings.HasSuffix(ask.Code, "\n") {
			status = "incomplete"
		}
		fmt.Fprintf(w, `{"status":%q,"indent":""}`, status)
	})
	mux.HandleFunc("POST /api/v1/sessions/s/complete", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"matches":["print","printable\u001b"],"cursor_start":4,"cursor_end":6}`)
	})
	mux.HandleFunc("GET /api/v1/sessions/s/variables", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"variables":[{"name":"x","type":"list","shape":"3","repr":"[1, 2, 3]"}]}`)
	})
	mux.HandleFunc("POST /api/v1/sessions/s/cells", func(w http.ResponseWriter, r *http.Request) {
		var ask struct{ Code string }
		_ = json.NewDecoder(r.Body).Decode(&ask)
		f.cells = append(f.cells, ask.Code)
		f.answer(w, ask.Code)
	})
	mux.HandleFunc("POST /api/v1/sessions/s/restart", note)
	mux.HandleFunc("DELETE /api/v1/sessions/s", note)
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

// answer writes the events of a cell.
func (f *fakeCells) answer(w http.ResponseWriter, code string) {
	seq := 0
	send := func(event string, data any) {
		seq++
		text, _ := json.Marshal(data)
		fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", seq, event, text)
	}
	cell := client.Cell{ID: "c", ExecutionCount: len(f.cells), Status: client.CellOK,
		Restarted: strings.HasPrefix(code, "restarted")}
	send("started", cell)
	switch word, _, _ := strings.Cut(strings.TrimSpace(code), " "); word {
	case "print":
		send("stdout", map[string]string{"text": "hello\n"})
	case "value":
		send("result", map[string]any{"data": map[string]string{"text/plain": "42"}})
	case "plot":
		var picture bytes.Buffer
		_ = png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2)))
		send("display", map[string]any{"data": map[string]string{
			"text/plain": "<Figure>", "image/png": base64.StdEncoding.EncodeToString(picture.Bytes()) + "\n"},
			"display_id": strings.TrimPrefix(strings.TrimSpace(code), "plot ")})
	case "html":
		send("display", map[string]any{"data": map[string]string{"text/html": "<b>"}})
	case "raise":
		cell.Status = client.CellError
		send("error", map[string]any{"name": "ValueError", "value": "no",
			"traceback": []string{"Traceback", "ValueError: no"}})
	case "exit":
		cell.Status, cell.ExitCode = client.CellLost, new(3)
	case "lost":
		cell.Status, cell.Message = client.CellLost, "Its interpreter ended. The service is shutting down."
	case "cut":
		return
	}
	send("done", cell)
}

func (f *fakeCells) repl(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out bytes.Buffer
	code, stderr = execute(t.Context(), t, stdin, &out, append([]string{"repl", "--server", f.URL}, args...)...)
	return code, out.String(), stderr
}

func TestREPL(t *testing.T) {
	f := serveCells(t)
	code, stdout, stderr := f.repl(
		t, "print 1\n\nif x:\n  a\n\t\nvalue\n:vars\n:restart\nrestarted\nhtml\n:quit\nprint 2\n", "--packages", "onyx",
		"--memory", "1MiB")
	want := "hello\n42\nx                 list 3                [1, 2, 3]\n(text/html)\n"
	if code != 0 || stdout != want {
		t.Errorf("exit code %d, %q, want %q: %s", code, stdout, want, stderr)
	}
	if diff := cmp.Diff([]string{"print 1\n", "if x:\n  a\n\n", "value\n", "restarted\n", "html\n"}, f.cells); diff != "" {
		t.Error(diff)
	}
	calls := []string{`{"kind":"live","limits":{"memory_bytes":1048576},"language":"python","python_packages":"onyx"}`,
		"POST /sessions/s/restart", "DELETE /sessions/s"}
	if got := strings.Join(f.calls[1:], " "); !strings.Contains(f.calls[0], `"memory_bytes":1048576`) ||
		!strings.Contains(f.calls[0], `"python_packages":"onyx"`) || got != strings.Join(calls[1:], " ") {
		t.Errorf("%v", f.calls)
	}
	if !strings.Contains(stderr, "airlock: the interpreter is a new one") {
		t.Errorf("%q", stderr)
	}
}

// A script ends with the first cell that fails. The last lines count without an empty
// one behind them.
func TestREPLFails(t *testing.T) {
	f := serveCells(t)
	code, _, stderr := f.repl(t, "raise it\nprint 1\n")
	if code != command.ExitFailed || !strings.Contains(stderr, "Traceback\nValueError: no\n") || len(f.cells) != 1 {
		t.Errorf("exit code %d, %q, %q", code, stderr, f.cells)
	}
	code, _, stderr = f.repl(t, "cut\n")
	if code != command.ExitUnavailable || !strings.HasPrefix(stderr, "error: the connection to the service ended before") {
		t.Errorf("cut off: exit code %d, %q", code, stderr)
	}
	f.cells = f.cells[:1]
	if code, stdout, stderr := f.repl(t, "if x:\n  a"); code != 0 || f.cells[1] != "if x:\n  a\n" {
		t.Errorf("exit code %d, %q %q, %q", code, stdout, stderr, f.cells)
	}
}

// A line for airlock that it does not know is no code, and ends a script.
func TestREPLUnknownCommand(t *testing.T) {
	f := serveCells(t)
	for line, want := range map[string]string{
		":nope x": "error: there is no command :nope\nhint: :help lists them\n",
		" :var":   "error: there is no command :var\nhint: did you mean :vars? :help lists them\n",
	} {
		if code, _, stderr := f.repl(t, line+"\nprint\n"); code != command.ExitUsage || stderr != want || len(f.cells) > 0 {
			t.Errorf("%s: exit code %d, %q, %q", line, code, stderr, f.cells)
		}
	}
	if code, _, stderr := f.repl(t, ": print\n"); code != 0 || len(f.cells) != 1 { // as a shell has it
		t.Errorf("exit code %d, %q, %q", code, stderr, f.cells)
	}
}

// Pictures are saved under names of their own. One that is updated takes its own
// place, and what was there before is never touched.
func TestREPLPictures(t *testing.T) {
	f := serveCells(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "figure-2.png"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := f.repl(t, "plot a\nplot a\nplot b\n", "-o", folder)
	entries, _ := filepath.Glob(filepath.Join(folder, "*"))
	var names []string
	for _, name := range entries {
		names = append(names, filepath.Base(name))
	}
	if code != 0 || stdout != "" || !cmp.Equal(names, []string{"figure-1.png", "figure-2-1.png", "figure-2.png"}) ||
		!strings.Contains(stderr, "figure-2-1.png (3x2)") {
		t.Errorf("exit code %d, %q, %q: %q", code, names, stdout, stderr)
	}
	if old, err := os.ReadFile(filepath.Join(folder, "figure-2.png")); err != nil || string(old) != "old" {
		t.Errorf("%q %v", old, err)
	}
	if _, _, stderr := f.repl(t, "plot a\n"); !strings.Contains(stderr, "not saved (-o DIR saves it): figure-1.png") {
		t.Errorf("%q", stderr)
	}
}

// What is not saved at first can be saved later, and what cells make after that is.
func TestREPLSavesLater(t *testing.T) {
	f := serveCells(t)
	folder := filepath.Join(t.TempDir(), "out")
	code, _, stderr := f.repl(t, "plot a\n:save "+folder+"\nplot b\n:save\nplot c\n")
	entries, _ := filepath.Glob(filepath.Join(folder, "*"))
	if code != command.ExitUsage || len(entries) != 2 || !strings.Contains(stderr, "figure-2.png (3x2)") ||
		!strings.Contains(stderr, ":save needs the folder") {
		t.Errorf("exit code %d, %q: %s", code, entries, stderr)
	}
}

func TestREPLCompletes(t *testing.T) {
	f := serveCells(t)
	c, err := client.New(client.Options{Server: f.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := &repl{liveSession: &liveSession{connection: &connection{client: c}, id: "s"}}
	for _, test := range []struct {
		code, before, becomes string
		choices               []string
	}{
		{"", "x = pr", "x = print", nil},
		{"", "x = print", "x = print", []string{"print", `printable\x1b`}},
		{"", "  ", "      ", nil},
		{"if x:\n", "pr", "if x:\npr", nil}, // it would change the line above
		{"if x:\n", "", "if x:\n    ", nil},
	} {
		becomes, choices := r.complete(t.Context(), test.code+test.before, "")
		if becomes != test.becomes || !cmp.Equal(choices, test.choices) {
			t.Errorf("%q: %q %q", test.before, becomes, choices)
		}
	}
}

func TestLiveUsage(t *testing.T) {
	for _, args := range [][]string{
		{"repl", "x"}, {"repl", "--memory", "x"}, {"repl", "-f", "/nowhere"}, {"repl", "--keep"}, {"shell", "ls"},
		{"shell", "--session", "x"},
	} {
		if code, stderr := execute(t.Context(), t, "", io.Discard, args...); code != command.ExitUsage {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}
