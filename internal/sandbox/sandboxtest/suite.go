package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// Backend is a backend under test.
type Backend struct {
	// Open starts the backend. The suite closes it.
	Open func(t *testing.T) engine.Sandbox
	// Root is set if the backend runs as the machine's root: its sandboxes have their
	// own uids and can have control groups.
	Root bool
	// Brief skips tests of the sandbox behind this one, which has its own suite.
	Brief bool
	// Image is set if programs run in an image, which has other commands and folders than the
	// machine. Only what depends on the root is tested.
	Image bool
	// Kernel is set if each sandbox has a kernel of its own. What this one lets a program do to it
	// does not reach the machine, and it ends with the sandbox.
	Kernel bool
}

// Suite tests a backend: the contract of engine.Sandbox, the isolation that README
// promises, the limits, and that no state is left.
func Suite(t *testing.T, b Backend) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"contract", contract}, {"files", files}, {"held", held}, {"many held", manyHeld}, {"isolation", isolation},
		{"limits", limits}, {"endings", endings},
	} {
		if b.Brief && (part.name == "isolation" || part.name == "limits") ||
			b.Image && part.name != "contract" && part.name != "isolation" {
			continue
		}
		t.Run(part.name, func(t *testing.T) {
			sandbox := b.Open(t)
			t.Cleanup(func() {
				if err := sandbox.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			part.run(t, &bench{sandbox, b})
		})
	}
}

// bench runs programs on the backend under test.
type bench struct {
	sandbox engine.Sandbox
	backend Backend
}

// Result is the result of a run.
type Result struct {
	*engine.Outcome
	Stdout, Stderr string
	Files          map[string]string // the outputs' contents
}

// Host is an engine.Host that ignores all that it is told, for hosts of tests to embed.
type Host struct{}

// Output implements engine.Host.
func (Host) Output(engine.Stream, []byte) {}

// Call implements engine.Host.
func (Host) Call(context.Context, string, []byte) ([]byte, error) { return nil, engine.ErrNotFound }

// SetControls implements engine.Host.
func (Host) SetControls(engine.Controls) {}

// Rest implements engine.Host.
func (Host) Rest(bool, int64) {}

// Listener implements engine.Host.
func (Host) Listener(file *os.File) { file.Close() }

// Contacted implements engine.Host.
func (Host) Contacted([]engine.Contact, string) {}

// recorder is a Host that records its calls.
type recorder struct {
	Host
	mu             sync.Mutex
	stdout, stderr bytes.Buffer
	call           func(name string, input []byte) ([]byte, error)
	seen           func(engine.Stream, []byte)
}

func (r *recorder) Output(stream engine.Stream, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen != nil {
		r.seen(stream, data)
	}
	to := &r.stdout
	if stream == engine.Stderr {
		to = &r.stderr
	}
	if to.Len() < 1<<20 {
		to.Write(data)
	}
}

func (r *recorder) Call(_ context.Context, name string, input []byte) ([]byte, error) {
	if r.call == nil {
		return nil, errors.New("no calls expected")
	}
	return r.call(name, input)
}

// Slowed returns a time limit of a test, longer on a machine that is as many times as slow as
// AIRLOCK_TEST_SLOW says, such as an emulated one.
func Slowed(limit time.Duration) time.Duration {
	times, err := strconv.Atoi(os.Getenv("AIRLOCK_TEST_SLOW"))
	if err != nil {
		return limit
	}
	return limit * time.Duration(times)
}

// Limits are the suite's defaults, small enough to be reached quickly.
func Limits() engine.Limits {
	return engine.Limits{
		Timeout: Slowed(20 * time.Second), Memory: 512 << 20, Processes: 64, Workspace: 64 << 20, Inodes: 1000,
		Files: engine.FileLimit{Count: 50, Bytes: 16 << 20, Total: 32 << 20},
	}
}

// Spec returns a program with the suite's defaults.
func Spec(lang, code string) *engine.Spec {
	l, ok := language.Find(lang)
	if !ok {
		panic("unknown language " + lang)
	}
	return &engine.Spec{Language: l, Code: code, Root: "/workspace", Entry: l.Entry, Home: "/workspace", Limits: Limits()}
}

// Python returns a Python program with the suite's defaults.
func Python(code string) *engine.Spec { return Spec("python", code) }

// Run runs a program that the backend must accept.
func Run(t *testing.T, sandbox engine.Sandbox, spec *engine.Spec) Result {
	t.Helper()
	return run(t.Context(), t, sandbox, spec, &recorder{})
}

func (b *bench) run(t *testing.T, spec *engine.Spec) Result {
	t.Helper()
	return Run(t, b.sandbox, spec)
}

func run(ctx context.Context, t *testing.T, sandbox engine.Sandbox, spec *engine.Spec, host *recorder) Result {
	t.Helper()
	outcome, err := sandbox.Run(ctx, spec, host)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	r := Result{Outcome: outcome, Stdout: host.stdout.String(), Stderr: host.stderr.String(), Files: map[string]string{}}
	for _, o := range outcome.Outputs {
		content, err := io.ReadAll(o.File)
		if err != nil {
			t.Errorf("read output %s: %v", o.Path, err)
		}
		if int64(len(content)) != o.Size {
			t.Errorf("output %s: %d bytes, announced as %d", o.Path, len(content), o.Size)
		}
		r.Files[o.Path] = string(content)
		o.File.Close()
	}
	return r
}

// Code returns the exit code, or -1 if there is none.
func (r Result) Code() int {
	if r.ExitCode == nil {
		return -1
	}
	return *r.ExitCode
}

// wantOK fails unless the program ended well.
func wantOK(t *testing.T, r Result) {
	t.Helper()
	if r.Code() != 0 {
		t.Fatalf("exit code %d, signal %q, timed out %v, oom %v\nstdout: %s\nstderr: %s",
			r.Code(), r.Signal, r.TimedOut, r.OOM, r.Stdout, r.Stderr)
	}
}

func wantOutput(t *testing.T, r Result, want string) {
	t.Helper()
	wantOK(t, r)
	if r.Stdout != want {
		t.Errorf("stdout %q, want %q", r.Stdout, want)
	}
}

// Input returns an input file with content.
func Input(t *testing.T, path, content string) engine.Input {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "input")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	return engine.Input{Path: path, File: f, Size: int64(len(content))}
}

func droppedReason(r Result, path string) string {
	i := slices.IndexFunc(r.Dropped, func(d engine.DroppedFile) bool { return d.Path == path })
	if i < 0 {
		return ""
	}
	return r.Dropped[i].Reason
}

// lines splits output into lines.
func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }

// Skip skips a test with its reason, or fails the test if skipping is not allowed.
func Skip(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("AIRLOCK_NO_SKIP") == "1" {
		t.Fatalf("this test must not be skipped here: %s", reason)
	}
	t.Skip(reason)
}
