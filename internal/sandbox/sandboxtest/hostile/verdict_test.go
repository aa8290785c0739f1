package hostile

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// The number of programs equals that in docs/security.md. There are programs of every
// kind and language, and most can succeed somewhere.
func TestPrograms(t *testing.T) {
	all, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	labels, languages, controls := map[string]bool{}, map[string]int{}, 0
	for _, p := range all {
		labels[p.label()] = true
		languages[p.name[strings.LastIndexByte(p.name, '.'):]]++
		if p.onHost || len(p.weaken) > 0 {
			controls++
		}
		if strings.Contains(p.code, secretPrefix) {
			t.Errorf("%s holds what it looks for", p.label())
		}
	}
	if len(all) < 140 || controls < 40 {
		t.Errorf("%d programs, %d with a control", len(all), controls)
	}
	for _, extension := range []string{".py", ".c", ".sh", ".js"} {
		if languages[extension] < 8 {
			t.Errorf("%d programs in %s", languages[extension], extension)
		}
	}
	for label := range looks {
		if !labels[label] {
			t.Errorf("there is no program %s to look at", label)
		}
	}
}

func TestParseHead(t *testing.T) {
	for code, want := range map[string]string{
		"":                                         "does not say what it does",
		"print(1)":                                 "does not say what it does",
		"# It does.\n# ends: happily\n":            "cannot end",
		"# It does.\n# colour: red\n":              "unknown key",
		"// It does.\n// timeout: soon\n":          "invalid duration",
		"// It does.\n// weaken: a, b\nint x;":     "",
		"# It does.\n# ends: timeout\nx\n# a: b\n": "",
	} {
		_, err := parseHead(code)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", code, err, want)
		}
	}
}

// A verdict finds every fault that could make a failed defense look successful.
func TestJudge(t *testing.T) {
	w := newWorld(t)
	const nonce = "N"
	well := "H:N:tried:one\nH:N:tried:two\nH:N:done:2\n"
	exited := sandboxtest.Exit
	for _, tt := range []struct {
		name   string
		ends   string
		result sandboxtest.Result
		took   time.Duration
		want   string // in the faults; "" for none
	}{
		{name: "withstood", result: sandboxtest.Result{Outcome: exited(0), Stdout: well}},
		{name: "it never ran", result: sandboxtest.Result{Outcome: exited(0)}, want: "never tried anything"},
		{name: "somebody else's words", result: sandboxtest.Result{
			Outcome: exited(0), Stdout: strings.ReplaceAll(well, "H:N", "H:M")}, want: "never tried anything"},
		{name: "it stopped half way", result: sandboxtest.Result{Outcome: exited(0), Stdout: "H:N:tried:one\n"},
			want: "tried 1 steps and said -1"},
		{name: "it failed", result: sandboxtest.Result{Outcome: exited(1), Stdout: well}, want: "had to end well"},
		{name: "a breach", result: sandboxtest.Result{Outcome: exited(0), Stdout: well + "H:N:breach:it\n"},
			want: "got through: it"},
		{name: "not its time", ends: "timeout", result: sandboxtest.Result{Outcome: exited(0), Stdout: well},
			want: "had to end timeout"},
		{name: "timeout", ends: "timeout", result: sandboxtest.Result{
			Outcome: &engine.Outcome{TimedOut: true}, Stdout: well}},
		{name: "too late", ends: "timeout", result: sandboxtest.Result{
			Outcome: &engine.Outcome{TimedOut: true}, Stdout: well}, took: time.Minute, want: "the answer took"},
		{name: "not killed", ends: "killed", result: sandboxtest.Result{Outcome: exited(0), Stdout: well},
			want: "had to end killed"},
		{name: "no end of memory", ends: "oom", result: sandboxtest.Result{Outcome: exited(0), Stdout: well},
			want: "had to end oom"},
		{name: "the secret", result: sandboxtest.Result{Outcome: exited(0), Stdout: well, Stderr: "x" + w.secret},
			want: "secret is in its output"},
		{name: "the secret in a file", result: sandboxtest.Result{
			Outcome: exited(0), Stdout: well, Files: map[string]string{"a": w.secret}}, want: `secret is in the file "a"`},
		{name: "a file of the system", result: sandboxtest.Result{
			Outcome: exited(0), Stdout: well, Files: map[string]string{"a": "root:x:0:0"}}, want: "file of the system"},
		{name: "a name above", result: sandboxtest.Result{Outcome: exited(0), Stdout: well,
			Files: map[string]string{"../a": ""}}, want: "is called"},
		{name: "a broken name", result: sandboxtest.Result{Outcome: exited(0), Stdout: well,
			Files: map[string]string{"\xff": ""}}, want: "is called"},
		{name: "too large", result: sandboxtest.Result{Outcome: exited(0), Stdout: well,
			Files: map[string]string{"a": strings.Repeat("x", 17<<20)}}, want: "has 17825792 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &program{kind: "test", name: tt.name, head: head{ends: tt.ends, timeout: time.Second}, counted: true}
			if tt.ends == "" {
				p.ends = "well"
			}
			got := strings.Join(p.judge(w, nonce, tt.result, sandboxtest.Limits(), tt.took), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("faults %q, want %q", got, tt.want)
			}
		})
	}
}

// The verdict notices taken bait.
func TestWorldIsWatched(t *testing.T) {
	connect := func(l net.Listener) error {
		conn, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Read(make([]byte, 100)) // it has been noted when it answers
		return err
	}
	for name, take := range map[string]func(w *world) error{
		"nothing":          func(*world) error { return nil },
		"a port":           func(w *world) error { return connect(w.tcp) },
		"a socket":         func(w *world) error { return connect(w.unix) },
		"a name":           func(w *world) error { return connect(w.abstract) },
		"a process":        func(w *world) error { return errors.Join(w.victim.Process.Kill(), ignore(w.victim.Wait())) },
		"a priority":       func(w *world) error { return unix.Setpriority(unix.PRIO_PROCESS, w.victim.Process.Pid, 5) },
		"a file":           func(w *world) error { return os.WriteFile(w.file, []byte("x"), 0o600) },
		"the folder":       func(w *world) error { return os.WriteFile(w.file+"2", nil, 0o600) },
		"a file in memory": func(w *world) error { return os.Remove(w.posix) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := take(w); err != nil {
				t.Fatal(err)
			}
			if marks := w.touched(); (len(marks) > 0) != (name != "nothing") {
				t.Errorf("marks %v", marks)
			}
		})
	}
}

// ignore discards the end of a killed process.
func ignore(error) error { return nil }
