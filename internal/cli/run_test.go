package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
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
	if code, stderr := execute(t.Context(), t, "true", io.Discard, "run", "-l", "bash"); code == command.ExitAirlock {
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
	var r client.Run
	var rest savedFiles
	err := errors.Join(json.Unmarshal(out.Bytes(), &r), json.Unmarshal(out.Bytes(), &rest))
	if err != nil || r.Stdout != "hi\n" || r.Duration == 0 || len(r.Files) != 1 || rest.Saved == nil {
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
	if code != command.ExitInterrupted || !strings.Contains(stderr, "error: interrupted") {
		t.Errorf("%d %q", code, stderr)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A run that did not get to its end at the caller leaves its files to the service, and the command that gets them
// is named.
func TestAbandonedRun(t *testing.T) {
	const hint = "hint: the program was stopped; `airlock files get --run r` saves the file that it has made\n"
	for name, test := range map[string]struct {
		up    string // what the program prints, after which the service ends its answer unless it is interrupted
		files string
		code  int
		want  string
	}{
		"interrupted": {"up", `[{"id":"f","path":"a.txt"}]`, command.ExitInterrupted, "error: interrupted\n" + hint},
		"no files":    {"up", `[]`, command.ExitInterrupted, "error: interrupted\nhint: the program was stopped\n"},
		"cut off": {"down", `[{"id":"f","path":"a.txt"}]`, command.ExitAirlock,
			"error: the connection to the service ended before the program did\nhint: the service has stopped, or the " +
				"network failed; `airlock files get --run r` saves the file that it has made\n"},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /api/v1/runs", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "id: 1\nevent: started\ndata: {\"id\":\"r\"}\n\nid: 2\nevent: output\n"+
				"data: {\"stream\":\"stdout\",\"data\":%q}\n\n", test.up)
			_ = http.NewResponseController(w).Flush()
			if test.up == "up" {
				<-r.Context().Done()
			}
		})
		mux.HandleFunc("GET /api/v1/runs/r/events", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "id: 3\nevent: result\ndata: {\"id\":\"r\",\"files\":%s}\n\n", test.files)
		})
		service := httptest.NewServer(mux)
		ctx, interrupt := context.WithCancel(t.Context())
		code, stderr := execute(ctx, t, "1", &watched{text: "up", then: interrupt}, "run", "--server", service.URL)
		if code != test.code || stderr != test.want {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
		interrupt()
		service.Close()
	}
}

// broken is a pipe that nobody reads any more.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestReaderGone(t *testing.T) {
	needSandbox(t)
	code, stderr := execute(t.Context(), t, "echo lost; sleep 60", broken{}, "run", "-l", "bash")
	if code != command.ExitAirlock || !strings.Contains(stderr, "cannot be written") {
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
		if code, _ := command.ExitOf(err); got != test.want || (err != nil) != (test.want == "") ||
			err != nil && code != command.ExitUsage {
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
		if code, _ := command.ExitOf(err); code != command.ExitUsage || !strings.Contains(err.Error(), want) {
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
		{client.Run{Status: client.StatusError, ExitCode: &seven}, command.Fail(command.ExitApproval, "", "x"), 7},
		{client.Run{Status: client.StatusOK}, command.Fail(command.ExitApproval, "", "x"), 3},
		{client.Run{Status: client.StatusOK}, command.Fail(command.ExitLost, "", "x"), 123},
		{client.Run{Status: client.StatusTimeout}, nil, 124},
		{client.Run{Status: client.StatusKilled, Signal: "SIGSEGV"}, nil, 139},
		{client.Run{Status: client.StatusKilled, Signal: "SIGTERM"}, nil, 143},
		{client.Run{Status: client.StatusOOM}, nil, 137},
		{client.Run{Status: client.StatusCancelled}, nil, 125},
		{client.Run{Status: client.StatusInterrupted}, nil, 125},
	} {
		a := &app{App: &command.App{JSON: true}}
		if got, _ := command.ExitOf(a.verdict(runReport{Run: &c.run}, c.problem)); got != c.want {
			t.Errorf("%s %s with %v: %d, want %d", c.run.Status, c.run.Signal, c.problem, got, c.want)
		}
	}
}

// Output that a run lost to a limit is no success.
func TestLostOutput(t *testing.T) {
	line := func(name string, first int64) string { return "x" + engine.LeftOut(1000, name, first) + "y" }
	files := []client.File{{Path: "stdout.txt"}, {Path: "stderr_2.txt"}}
	for name, test := range map[string]struct {
		stdout, stderr string
		dropped        []client.DroppedFile
		saved          []command.SavedFile
		cut, json      bool
		want, hint     string // of the error; empty: none
	}{
		"all of it":    {stdout: "x"},
		"with a limit": {cut: true, want: "was lost", hint: "--max-output allows more"},
		"a link": {dropped: []client.DroppedFile{{Path: "l", Reason: engine.DropNotRegular}},
			want: "l was lost: not a regular", hint: "links"},
		"in no file":      {stdout: line("", 0), cut: true, json: true, want: "was lost", hint: "without --json"},
		"a part in one":   {stdout: line("stdout.txt", 10), cut: true, json: true, want: "was lost", hint: "without --json"},
		"in another file": {stdout: line("other.txt", 0), cut: true, json: true, want: "was lost", hint: "without --json"},
		"in a file":       {stdout: line("stdout.txt", 0), cut: true, json: true, want: "stdout.txt, a file", hint: "-o DIR"},
		"one in a file": {stdout: line("stdout.txt", 0), stderr: line("", 0), cut: true, json: true,
			want: "was lost", hint: "without --json"},
		"one is saved": {stdout: line("stdout.txt", 0), stderr: line("stderr_2.txt", 0), cut: true, json: true,
			saved: []command.SavedFile{{Path: "stdout.txt", State: command.SaveDone}}, want: "stderr_2.txt", hint: "-o DIR"},
		"saved": {stdout: line("stdout.txt", 0), stderr: line("stderr_2.txt", 0), cut: true, json: true,
			saved: []command.SavedFile{{Path: "stdout.txt", State: command.SaveDone},
				{Path: "stderr_2.txt", State: command.SaveUnchanged}}},
	} {
		run := client.Run{Status: client.StatusOK, Stdout: test.stdout, Stderr: test.stderr, Files: files,
			Dropped: test.dropped}
		err := new(connection).lost(t.Context(), &runReport{&run, savedFiles{Saved: test.saved}}, test.cut, test.json)
		wanted := command.ExitLost
		if test.want == "" {
			wanted = command.ExitDone
		}
		got := command.Problem{}
		if err != nil {
			got = command.Explain(err)
		}
		if got.Exit != wanted || !strings.Contains(got.Message, test.want) || !strings.Contains(got.Hint, test.hint) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A field that a service refuses is named as the flag that it is here.
func TestFlagNames(t *testing.T) {
	for message, want := range map[string]string{
		"timeout_ms is 1 h, at most 5 min is allowed":     "--timeout is 1 h, at most 5 min is allowed",
		"limits.output_bytes is 2, at most 1 is allowed":  "--max-output is 2, at most 1 is allowed",
		`volumes[0].name "a/b" is no name of a volume`:    `--volume "a/b" is no name of a volume`,
		"image x cannot be combined with python_packages": "--image x cannot be combined with --packages",
		"the language of an image":                        "the language of an image",
	} {
		err := flagNames(&client.Error{Code: client.ErrInvalid, Message: message})
		if got := command.Explain(err).Message; got != want {
			t.Errorf("%q, want %q", got, want)
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
	code, quiet := command.ExitOf(command.ForProgram(command.Fail(command.ExitFailed, "",
		"the output cannot be written: %w", err)))
	if code != 141 || !quiet {
		t.Errorf("%v: exit code %d, quiet %v", err, code, quiet)
	}
	if code, quiet := command.ExitOf(command.ForProgram(command.Fail(command.ExitFailed, "", "x: %w",
		syscall.EPIPE))); code != command.ExitAirlock || quiet {
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
		req, err := (&app{App: &command.App{Streams: Streams{In: reader}}}).readRequest(c.opts, c.args, -1)
		if err != nil || req.Code != c.want.Code || req.Stdin != c.want.Stdin {
			t.Errorf("%s: code %q and input %q, %v", name, req.Code, req.Stdin, err)
		}
		reader.Close()
	}
	for _, in := range []io.Reader{nil, strings.NewReader("x")} {
		req, err := (&app{App: &command.App{Streams: Streams{In: in}}}).readRequest(runOptions{coded: true, code: "1"}, nil,
			-1)
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
	for content, want := range map[string]int{"gr\xfc\xdfe\n": command.ExitUsage, "grüße\n": command.ExitDone} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		req, err := (&app{App: &command.App{}}).readRequest(runOptions{coded: true, code: "1", stdin: name}, nil, -1)
		if code, _ := command.ExitOf(err); code != want || err == nil && req.Stdin != content {
			t.Errorf("%q: %q, %v", content, req.Stdin, err)
		}
	}
}

// TestFileHint checks that a file which lies beside the caller is named with the flag that sends it,
// and no other.
func TestFileHint(t *testing.T) {
	needSandbox(t)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"sales.csv": "1", "data/x y.csv": "1", "sub/y.csv": "1",
		"sub/plot.py": "open('y.csv')", "good.py": "try: open('sales.csv')\nexcept OSError: pass"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ args, code, want string }{
		{"", "open('sales.csv')", "airlock: sales.csv is here: -f sales.csv sends it"},
		{"", "open('/workspace/sales.csv')", "airlock: sales.csv is here: -f sales.csv sends it"},
		{"", "open('data/x y.csv')", "airlock: data/x y.csv is here: -f data sends it"},
		{"sub/plot.py", "", "airlock: sub/y.csv is here: -f sub/y.csv sends it"},
		{"-f sales.csv", "open('sales.csv'); open('none.csv')", ""},
		{"-q", "open('sales.csv')", ""},
		{"--json", "open('sales.csv')", ""},
		{"", "open('../sales.csv')", ""},
		{"", "open('data')", ""},
		{"", "open('/etc/none')", ""},
		{"good.py", "", ""},
	} {
		args := append([]string{"run"}, strings.Fields(test.args)...)
		if test.code != "" {
			args = append(args, "-")
		}
		var out bytes.Buffer
		_, stderr := execute(t.Context(), t, test.code, &out, args...)
		if found := strings.Contains(stderr, "is here: -f"); found != (test.want != "") || !strings.Contains(stderr,
			test.want) {
			t.Errorf("%s, %s: %s", test.args, test.code, stderr)
		}
	}
}
