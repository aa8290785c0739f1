package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/setup"
)

func TestErrors(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want command.Problem
	}{
		{"plain", errors.New("no luck"), command.Problem{Code: "failed", Message: "no luck", Exit: 1}},
		{"with a hint", command.Fail(command.ExitConflict, "do this", "no %s", "luck"),
			command.Problem{Code: "conflict", Message: "no luck", Hint: "do this", Exit: 4}},
		{"wrapped", fmt.Errorf("saving: %w", command.Fail(command.ExitRefused, "h", "no")),
			command.Problem{Code: "refused", Message: "saving: no", Hint: "h", Exit: 5}},
		{"setting", &config.Error{Setting: "listen", Origin: "--listen", Hint: "h", Err: errors.New("no")},
			command.Problem{Code: "usage", Message: "--listen: no", Hint: "h", Exit: 2}},
		{"setup", &setup.Error{Problem: "no pip", Cure: "install it"},
			command.Problem{Code: "failed", Message: "no pip", Hint: "install it", Exit: 1}},
		{"engine", &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Hint: "h", Err: errors.New("no")},
			command.Problem{Code: "unavailable", Message: "run: no", Hint: "h", Exit: 7}},
		{"forbidden", &engine.Error{Op: "create key", Kind: engine.ErrForbidden},
			command.Problem{Code: "forbidden", Message: "create key: forbidden", Exit: 5}},
		{"service", &client.Error{Code: "not_found", Message: "no", RequestID: "r1"},
			command.Problem{Code: "not_found", Message: "no", Request: "r1", Exit: 1}},
		{"service, about a file", fmt.Errorf("a.txt: %w", &client.Error{Code: "too_large", Message: "no", Hint: "h"}),
			command.Problem{Code: "too_large", Message: "a.txt: no", Hint: "h", Exit: 5}},
		{"service of another version", &client.Error{Code: "teapot", Message: "no"},
			command.Problem{Code: "teapot", Message: "no", Exit: 1}},
		{"interrupted", fmt.Errorf("run: %w", context.Canceled),
			command.Problem{Code: "interrupted", Message: "interrupted", Exit: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, command.Explain(test.err), cmp.AllowUnexported(command.Problem{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every kind of error that the engine knows has an exit code.
func TestEveryKindHasAnExitCode(t *testing.T) {
	for _, kind := range []engine.Kind{engine.ErrInvalid, engine.ErrUnauthorized, engine.ErrForbidden, engine.ErrNotFound,
		engine.ErrConflict,
		engine.ErrTooLarge, engine.ErrBusy, engine.ErrFull, engine.ErrNoLanguage, engine.ErrUnavailable, engine.ErrCanceled,
		engine.ErrInternal} {
		if command.Kinds[kind] == 0 {
			t.Errorf("%s has none", kind)
		}
	}
}

// invoke runs a command line that needs no sandbox.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("AIRLOCK_DATA", t.TempDir())
	t.Setenv("AIRLOCK_CONFIG", config.NoFile)
	var out, err bytes.Buffer
	code = Run(t.Context(), Release{}, args, Streams{In: strings.NewReader(""), Out: &out, Err: &err})
	return code, out.String(), err.String()
}

func TestUsage(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, `error: unknown command "frobnicate"`},
		{[]string{"run", "--frob"}, "error: unknown flag: --frob"},
		{[]string{"run", "a.py", "b.py"}, "one program at a time"},
		{[]string{"run", "--timeout", "soon", "a.py"}, "--timeout"},
		{[]string{"serve", "now"}, "error: "},
		{[]string{"serve", "--listen", "nowhere"}, "error: --listen: "},
		{[]string{"keys", "revoke"}, "error: "},
		{[]string{"keys", "frob"}, "error: "},
		{[]string{"setup", "--wall", "kvm"}, `error: --wall is "kvm"`},
		{[]string{"run", "-l", "klingon", "a.py"}, `no language "klingon"`},
		{[]string{"run", "/no/such.py"}, "/no/such.py cannot be read"},
		{[]string{"run", "a.unknown"}, "does not tell the language"},
	}
	for _, test := range tests {
		code, stdout, stderr := invoke(t, test.args...)
		if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, test.want) ||
			!strings.HasPrefix(stderr, "error: ") {
			t.Errorf("%q: %d %q %q", test.args, code, stdout, stderr)
		}
		code, stdout, stderr = invoke(t, append([]string{test.args[0], "--json"}, test.args[1:]...)...)
		var said struct{ Error command.Problem }
		if err := json.Unmarshal([]byte(stdout), &said); test.args[0] != "serve" && test.args[0] != "frobnicate" &&
			(err != nil || code != command.ExitUsage || said.Error.Code != "usage" || stderr != "") {
			t.Errorf("%q with --json: %d %q %q %v", test.args, code, stdout, stderr, err)
		}
	}
}

func TestScreen(t *testing.T) {
	const hostile = "ok\tred\x1b[31m\x1b]52;c;ZXZpbA==\x07\x9b\u009b2J\r\nbell\x7f"
	var terminal bytes.Buffer
	w := &screenWriter{app: &app{App: &command.App{}}, to: &terminal}
	if n, err := w.Write([]byte(hostile)); n != len(hostile) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if strings.ContainsAny(terminal.String(), "\x1b\x07\x7f\u009b") {
		t.Errorf("got %q", terminal.String())
	}
	if !strings.Contains(terminal.String(), "ok\tred\u241b[31m") {
		t.Errorf("got %q", terminal.String())
	}
}

// A line cannot be written over, and no mark turns what is read, whatever
// chunks it comes in; the two bytes of a Windows line end are one.
func TestScreenLines(t *testing.T) {
	const hostile = "safe\rEVIL\b\b a\u202eb\u2066c \u2028 win\r\nend é\r"
	const want = "safe\u240d\nEVIL\u2408\u2408 a\\u202eb\\u2066c \\u2028 win\nend é\u240d\n"
	for size := 1; size <= len(hostile); size++ {
		var terminal strings.Builder
		w := &screenWriter{app: &app{App: &command.App{}}, to: &terminal}
		for rest := []byte(hostile); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if _, err := w.Write(rest[:min(size, len(rest))]); err != nil {
				t.Fatal(err)
			}
		}
		w.flush()
		if got := terminal.String(); got != want {
			t.Fatalf("in chunks of %d: %q", size, got)
		}
	}
}

// A document has no character that a terminal would obey, and means the same.
func TestJSONOnTerminal(t *testing.T) {
	const hostile = "a\u009b2Jb\u202ec\x7f\u2028\U000e0041 é 👨 \u200d<&>"
	var b strings.Builder
	command.Printer{Streams: Streams{Out: &b}}.Document(map[string]string{"stdout": hostile})
	if strings.ContainsAny(b.String(), "\u009b\u202e\x7f\u2028\U000e0041\u200d") ||
		!strings.Contains(b.String(), `\udb40\udc41`) || !strings.Contains(b.String(), "é 👨") {
		t.Errorf("%q", b.String())
	}
	var back map[string]string
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back["stdout"] != hostile {
		t.Errorf("%q, %v", back, err)
	}
}

func TestWrap(t *testing.T) {
	if diff := cmp.Diff([]string{"aa bb", "ccccc", "d"}, command.Wrap("aa bb  ccccc d", 5)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "12345", "67 b"}, command.Wrap("a 1234567 b", 5)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"日本", "語 x"}, command.Wrap("日本語 x", 5)); diff != "" { // two columns each
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{""}, command.Wrap("", 5)); diff != "" {
		t.Error(diff)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	(&command.Page{Writer: &out}).Table(
		[][]string{{"OWNER", "ADMIN"}, {"größer als der Kopf", "no"}, {"日本", "x"}, {"b", ""}})
	const want = "OWNER                ADMIN\ngrößer als der Kopf  no\n日本                 x\nb\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
