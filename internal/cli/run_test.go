package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/config"
)

// execute runs a command line with code on its standard input, in a world of
// its own: data, settings and temporary files.
func execute(ctx context.Context, t *testing.T, stdin string, out io.Writer, args ...string) (code int, stderr string) {
	t.Helper()
	temporary := t.TempDir()
	t.Setenv("AIRLOCK_DATA", t.TempDir())
	t.Setenv("AIRLOCK_CONFIG", config.NoFile)
	t.Setenv("TMPDIR", temporary)
	var errs bytes.Buffer
	code = Run(ctx, Release{}, args, Streams{In: strings.NewReader(stdin), Out: out, Err: &errs})
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("%q left %v behind (%v)", args, left, err)
	}
	return code, errs.String()
}

func needSandbox(t *testing.T) {
	t.Helper()
	if code, stderr := execute(t.Context(), t, "true", io.Discard, "run", "-l", "bash"); code == exitAirlock {
		if os.Getenv("AIRLOCK_NO_SKIP") == "1" {
			t.Fatalf("AIRLOCK_NO_SKIP=1, but there is no sandbox: %s", stderr)
		}
		t.Skipf("this needs a sandbox: %s", stderr)
	}
}

// A run in this process leaves nothing: no file, and, as goleak sees at the
// end, no goroutine.
func TestRunLeavesNothing(t *testing.T) {
	needSandbox(t)
	var out bytes.Buffer
	if code, stderr := execute(t.Context(), t, "echo hi; echo made > made.txt", &out, "run", "-l", "bash",
		"--json"); code != 0 || stderr != "" {
		t.Fatalf("%d %s", code, stderr)
	}
	var r runReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Stdout != "hi\n" || len(r.Files) != 1 {
		t.Errorf("%v in %s", err, out.Bytes())
	}
}

// Where both streams end in one file, lines come in the order in which the program
// wrote them.
func TestRunKeepsOrder(t *testing.T) {
	needSandbox(t)
	for range 5 {
		file, err := os.Create(filepath.Join(t.TempDir(), "both"))
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("AIRLOCK_DATA", t.TempDir())
		t.Setenv("AIRLOCK_CONFIG", config.NoFile)
		code := "echo 1; echo 2 >&2; echo 3; echo 4 >&2; echo 5; exit 0"
		if exit := Run(t.Context(), Release{}, []string{"run", "-l", "bash"},
			Streams{In: strings.NewReader(code), Out: file, Err: file}); exit != 0 {
			t.Errorf("exit code %d", exit)
		}
		if text, err := os.ReadFile(file.Name()); !strings.HasPrefix(string(text), "1\n2\n3\n4\n5\n") {
			t.Errorf("%q, %v", text, err)
		}
		file.Close()
	}
}

// watched calls then when a text appears in what is written to it.
type watched struct {
	seen string
	text string
	then func()
}

func (w *watched) Write(p []byte) (int, error) {
	if w.seen += string(p); strings.Contains(w.seen, w.text) {
		w.then()
	}
	return len(p), nil
}

func TestInterruptedRun(t *testing.T) {
	needSandbox(t)
	ctx, interrupt := context.WithCancel(t.Context())
	began := time.Now()
	code, stderr := execute(ctx, t, "echo up; sleep 60; echo down", &watched{text: "up", then: interrupt}, "run", "-l",
		"bash")
	if code != exitInterrupted || !strings.Contains(stderr, "error: interrupted") {
		t.Errorf("%d %q", code, stderr)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// broken is a pipe that nobody reads any more.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestReaderGone(t *testing.T) {
	needSandbox(t)
	code, stderr := execute(t.Context(), t, "echo lost; sleep 60", broken{}, "run", "-l", "bash")
	if code != exitAirlock || !strings.Contains(stderr, "cannot be written") {
		t.Errorf("%d %q", code, stderr)
	}
}

func TestLanguageOf(t *testing.T) {
	tests := []struct {
		asked, file, want string
	}{
		{"", "-", "python"}, {"", "a.py", "python"}, {"", "A.PY", "python"}, {"", "dir.x/a.sh", "bash"},
		{"py", "a.sh", "python"}, {"Bash", "-", "bash"}, {"", "noending", ""}, {"", "a.", ""}, {"", "a.rb", ""},
		{"cobol", "a.py", ""},
	}
	for _, test := range tests {
		got, err := languageOf(test.asked, test.file)
		if code, _ := exitOf(err); got != test.want || (err != nil) != (test.want == "") || err != nil && code != exitUsage {
			t.Errorf("%q %q: %q, %v", test.asked, test.file, got, err)
		}
	}
}

func TestCheckInputs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/x", "b/x", "b/y"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(names ...string) []string {
		for i := range names {
			names[i] = filepath.Join(dir, names[i])
		}
		return names
	}
	got, err := findInputs(in("a/x", "b"))
	if err != nil || len(got) != 3 || got[0].path != "x" || got[1].path != "b/x" || got[2].path != "b/y" {
		t.Errorf("%+v, %v", got, err)
	}
	for want, names := range map[string][]string{"both be x": in("a/x", "b/x"), "both be b/x": in("b", "b"),
		"no such file": in("c")} {
		_, err := findInputs(names)
		if code, _ := exitOf(err); code != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", names, err)
		}
	}
}

// The exit code of airlock run is the program's own, and Airlock's failures
// have codes that no program of the usual kind has.
func TestProgramCode(t *testing.T) {
	seven, zero := 7, 0
	for _, c := range []struct {
		run     client.Run
		problem error
		want    int
	}{
		{client.Run{Status: client.StatusOK, ExitCode: &zero}, nil, 0},
		{client.Run{Status: client.StatusError, ExitCode: &seven}, nil, 7},
		{client.Run{Status: client.StatusError, ExitCode: &seven}, fail(exitApproval, "", "x"), 7},
		{client.Run{Status: client.StatusOK}, fail(exitApproval, "", "x"), 3},
		{client.Run{Status: client.StatusOK}, fail(exitLost, "", "x"), 123},
		{client.Run{Status: client.StatusTimeout}, nil, 124},
		{client.Run{Status: client.StatusKilled, Signal: "SIGSEGV"}, nil, 139},
		{client.Run{Status: client.StatusKilled, Signal: "SIGTERM"}, nil, 143},
		{client.Run{Status: client.StatusOOM}, nil, 137},
		{client.Run{Status: client.StatusCancelled}, nil, 130},
		{client.Run{Status: client.StatusInterrupted}, nil, 125},
	} {
		a := &app{json: true}
		if got, _ := exitOf(a.verdict(runReport{Run: &c.run}, c.problem)); got != c.want {
			t.Errorf("%s %s with %v: %d, want %d", c.run.Status, c.run.Signal, c.problem, got, c.want)
		}
	}
}

// Output that a run lost to a limit is no success.
func TestLostOutput(t *testing.T) {
	for truncated, want := range map[bool]int{true: 123, false: 0} {
		err := new(connection).lost(t.Context(), &client.Run{Status: client.StatusOK, Truncated: truncated})
		if code, _ := exitOf(err); code != want {
			t.Errorf("truncated %v: %d, %v", truncated, code, err)
		}
	}
}

// Who pipes the output into head is told nothing, as by other tools.
func TestNobodyReads(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer writer.Close()
	_, err = io.WriteString(writer, "x")
	code, quiet := exitOf(forProgram(fail(exitFailed, "", "the output cannot be written: %w", err)))
	if code != 141 || !quiet {
		t.Errorf("%v: exit code %d, quiet %v", err, code, quiet)
	}
	if code, quiet := exitOf(forProgram(fail(exitFailed, "", "x: %w", syscall.EPIPE))); code != exitAirlock || quiet {
		t.Errorf("another pipe: exit code %d, quiet %v", code, quiet)
	}
}

// A pipe on standard input is the program's input, unless it has the code.
func TestPipedInput(t *testing.T) {
	for name, c := range map[string]struct {
		opts runOptions
		args []string
		want client.RunRequest
	}{
		"of code":          {runOptions{coded: true, code: "1"}, nil, client.RunRequest{Code: "1", Stdin: "piped"}},
		"which is code":    {runOptions{}, nil, client.RunRequest{Code: "piped"}},
		"which is code, -": {runOptions{}, []string{"-"}, client.RunRequest{Code: "piped"}},
		"not wanted":       {runOptions{coded: true, code: "1", stdin: os.DevNull}, nil, client.RunRequest{Code: "1"}},
	} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(writer, "piped")
		if err := errors.Join(err, writer.Close()); err != nil {
			t.Fatal(err)
		}
		req, err := (&app{streams: Streams{In: reader}}).readRequest(c.opts, c.args, -1)
		if err != nil || req.Code != c.want.Code || req.Stdin != c.want.Stdin {
			t.Errorf("%s: code %q and input %q, %v", name, req.Code, req.Stdin, err)
		}
		reader.Close()
	}
	for _, in := range []io.Reader{nil, strings.NewReader("x")} {
		req, err := (&app{streams: Streams{In: in}}).readRequest(runOptions{coded: true, code: "1"}, nil, -1)
		if err != nil || req.Stdin != "" {
			t.Errorf("%v: input %q, %v", in, req.Stdin, err)
		}
	}
}

// A program that was not run did not take a time.
func TestNotRun(t *testing.T) {
	run := &client.Run{Status: client.StatusInterrupted,
		Message: "The program was not run: Rust is not installed on this host."}
	if got := verdictLine(run); got != run.Message {
		t.Error(got)
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"2": 2 * time.Second, "0.5": time.Second / 2, "90s": 90 * time.Second,
		"1.5m": 90 * time.Second, "300ms": 300 * time.Millisecond,
		"-1s": 0, "0": 0, "soon": 0, "": 0, "NaN": 0, "1e300": 0, "-5": 0} {
		var s seconds
		if err := s.Set(text); (err == nil) != (want != 0) || time.Duration(s) != want {
			t.Errorf("%q: %v, %v", text, time.Duration(s), err)
		}
	}
}

func TestProgramName(t *testing.T) {
	for file, want := range map[string]string{"plot.py": "plot.py", "a/b/plot.py": "plot.py", "-": "", "plot": "",
		".hidden.py": "", "a b.py": "", "é.py": "", "plot.txt": ""} {
		if got := programName("python", file); got != want {
			t.Errorf("%s: %q", file, got)
		}
	}
	for lang, want := range map[string]string{"ts": "plot.ts", "c": ""} {
		if got := programName(lang, "plot."+lang); got != want {
			t.Errorf("%s: %q", lang, got)
		}
	}
}

// Input that a request cannot hold is refused, and not changed.
func TestInputIsText(t *testing.T) {
	name := filepath.Join(t.TempDir(), "latin1.csv")
	for content, want := range map[string]int{"gr\xfc\xdfe\n": exitUsage, "grüße\n": exitDone} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		req, err := (&app{}).readRequest(runOptions{coded: true, code: "1", stdin: name}, nil, -1)
		if code, _ := exitOf(err); code != want || err == nil && req.Stdin != content {
			t.Errorf("%q: %q, %v", content, req.Stdin, err)
		}
		prompt, _, err := (&app{}).promptText(askOptions{promptFile: name}, nil)
		if code, _ := exitOf(err); code != want || err == nil && prompt != content {
			t.Errorf("a prompt of %q: %q, %v", content, prompt, err)
		}
	}
}
