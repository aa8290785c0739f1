package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

var (
	alice = engine.Caller{Owner: "alice"}
	bob   = engine.Caller{Owner: "bob"}
	admin = engine.Caller{Owner: "root", Admin: true}
)

// rig is a service with everything around it that a test looks at.
type rig struct {
	*engine.Service
	sandbox *sandboxtest.Fake
	blobs   *enginetest.Blobs
	index   *enginetest.Index
}

func newRig(t *testing.T, cfg engine.Config, program sandboxtest.Program) *rig {
	t.Helper()
	r := &rig{sandbox: sandboxtest.NewFake(program), blobs: enginetest.NewBlobs(), index: enginetest.NewIndex()}
	r.Service = enginetest.StartOn(t, cfg, r.sandbox, r.blobs, r.index)
	return r
}

func python(code string) engine.RunRequest { return engine.RunRequest{Language: "python", Code: code} }

func (r *rig) put(t *testing.T, caller engine.Caller, name, content string) engine.File {
	t.Helper()
	f, err := r.PutFile(t.Context(), caller, engine.Upload{Name: name}, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (r *rig) read(t *testing.T, caller engine.Caller, id engine.ID) string {
	t.Helper()
	_, f, err := r.OpenFile(t.Context(), caller, id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wantKind fails unless err is an *Error of that kind about that object.
func wantKind(t *testing.T, err error, kind engine.Kind, id string) *engine.Error {
	t.Helper()
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || e.Kind != kind || !errors.Is(err, kind) || id != "" && e.ID != id {
		t.Fatalf("got %#v (%v), want %s of %q", err, err, kind, id)
	}
	return e
}

// leaves is the outcome of a program that exits 0 and left some files, given
// as path, content, path, content.
func leaves(t *testing.T, files ...string) *engine.Outcome {
	o := sandboxtest.Exit(0)
	for pair := range slices.Chunk(files, 2) {
		f, err := sandboxtest.File(pair[0], pair[1])
		if err != nil {
			t.Error(err)
		}
		o.Outputs = append(o.Outputs, f)
	}
	return o
}

func staged(t *testing.T, spec *engine.Spec) map[string]string {
	found := map[string]string{}
	for _, in := range spec.Inputs {
		b, err := io.ReadAll(in.File)
		if err != nil {
			t.Error(err)
		}
		found[in.Path] = string(b)
	}
	return found
}

func TestRun(t *testing.T) {
	var left []engine.Output
	r := newRig(t, engine.Config{}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		if got := staged(t, spec); got["data/in.csv"] != "1,2" || got["same.txt"] != "same" {
			t.Errorf("staged %v", got)
		}
		host.Output(engine.Stdout, []byte("caf\xc3"))
		host.Output(engine.Stdout, []byte("\xa9\xff\n"))
		host.Output(engine.Stderr, []byte("warn"))
		o := leaves(t, "data/in.csv", "1,3", "out/new.txt", "hello", "same.txt", "same")
		o.Outputs[0].Input, o.Outputs[2].Input = true, true
		o.Deleted = []string{"gone.txt", "never/there"}
		left = o.Outputs
		o.Duration, o.MemoryPeak, o.Start = 1500*time.Millisecond, 42, engine.StartWarm
		return o, nil
	})
	in, same := r.put(t, alice, "in.csv", "1,2"), r.put(t, alice, "same.txt", "same")
	gone := r.put(t, alice, "gone.txt", "x")
	req := python("print(1)")
	req.Files = []engine.FileRef{{ID: in.ID, Path: "./data//in.csv"}, {ID: same.ID}, {ID: gone.ID}}
	run, err := r.Run(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	if req.Files[0].Path != "./data//in.csv" {
		t.Error("the caller's request was changed")
	}
	want := &engine.Run{
		Owner: "alice", Origin: engine.OriginNative, Language: "python", Wall: engine.WallShared, Status: engine.StatusOK,
		ExitCode: new(int),
		Stdout:   "café\ufffd\n", Stderr: "warn", Duration: 1500 * time.Millisecond, MemoryPeak: 42, Start: engine.StartWarm,
		Files: []engine.File{
			{Owner: "alice", Origin: engine.OriginNative, Name: "in.csv", Path: "data/in.csv", Size: 3, MIME: "text/csv",
				Run: run.ID, TTL: 24 * time.Hour},
			{Owner: "alice", Origin: engine.OriginNative, Name: "new.txt", Path: "out/new.txt", Size: 5, MIME: "text/plain",
				Run: run.ID, TTL: 24 * time.Hour},
		},
		Inputs: []engine.InputState{
			{ID: in.ID, Path: "data/in.csv", Changed: true}, {ID: same.ID, Path: "same.txt"},
			{ID: gone.ID, Path: "gone.txt", Deleted: true},
		},
		Source: &engine.Source{Language: req.Language, Code: req.Code, Files: []engine.FileRef{
			{ID: in.ID, Owner: "alice", Path: "./data//in.csv"}, {ID: same.ID, Owner: "alice"}, {ID: gone.ID, Owner: "alice"},
		}},
	}
	ignore := []cmp.Option{
		cmpopts.IgnoreFields(engine.Run{}, "ID", "Session", "CreatedAt", "StartedAt", "FinishedAt", "Timings"),
		cmpopts.IgnoreFields(engine.File{}, "ID", "SHA256", "CreatedAt", "ExpiresAt"),
	}
	if diff := cmp.Diff(want, run, ignore...); diff != "" {
		t.Error(diff)
	}
	if run.Session.IsZero() || run.StartedAt.IsZero() || run.FinishedAt.Before(run.StartedAt) {
		t.Errorf("session %v, from %v to %v", run.Session, run.StartedAt, run.FinishedAt)
	}
	again, err := r.GetRun(t.Context(), alice, run.ID)
	if diff := cmp.Diff(run, again, cmpopts.IgnoreFields(engine.Run{}, "Timings")); err != nil || diff != "" {
		t.Errorf("what was recorded differs: %v\n%s", err, diff)
	}
	if got := r.read(t, alice, run.Files[1].ID); got != "hello" {
		t.Errorf("the output holds %q", got)
	}
	for _, output := range left {
		if err := output.File.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s was left open: %v", output.Path, err)
		}
	}
	if _, pinned := r.blobs.Len(); pinned != 0 {
		t.Errorf("%d blobs are still pinned", pinned)
	}
	var text strings.Builder
	events, err := r.Watch(t.Context(), alice, run.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Stream == engine.Stdout {
			text.WriteString(e.Data)
		}
	}
	if text.String() != run.Stdout {
		t.Errorf("the events say %q", text.String())
	}
}

func TestStatus(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, tt := range []struct {
		name    string
		outcome engine.Outcome
		status  engine.Status
		message string
	}{
		{"exit 0", engine.Outcome{ExitCode: code(0)}, engine.StatusOK, ""},
		{"exit 3", engine.Outcome{ExitCode: code(3)}, engine.StatusError, ""},
		{"threads", engine.Outcome{ExitCode: code(1), Refused: true}, engine.StatusError, ""},
		{"signal", engine.Outcome{ExitCode: code(139), Signal: "SIGSEGV"}, engine.StatusKilled, "ended by SIGSEGV"},
		{"out of memory", engine.Outcome{ExitCode: code(137), Signal: "SIGKILL", OOM: true}, engine.StatusOOM,
			"more than 1 GiB of memory"},
		{"timeout over out of memory", engine.Outcome{Signal: "SIGKILL", OOM: true, TimedOut: true}, engine.StatusTimeout,
			"longer than 1 min"},
		{"cancelled over timeout", engine.Outcome{Signal: "SIGKILL", TimedOut: true, Cancelled: true}, engine.StatusCancelled,
			"cancelled"},
		{"nothing said", engine.Outcome{}, engine.StatusInterrupted, "did not say"},
		{"dropped", engine.Outcome{ExitCode: code(0), Dropped: []engine.DroppedFile{
			{Path: "big", Reason: "too large"}, {Path: "a\nb", Reason: "name"}}},
			engine.StatusOK, `2 files were not kept: big (too large), "a\nb" (name).`},
		{"not stored", engine.Outcome{ExitCode: code(0), Dropped: []engine.DroppedFile{
			{Path: "out.csv", Reason: engine.DropUnstored}}}, engine.StatusError, "1 of its files could not be stored"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, engine.Config{}, func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
				return &tt.outcome, nil
			})
			run, err := r.Run(t.Context(), alice, python(""))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(run.Stderr, "more than 128 processes and threads") != tt.outcome.Refused {
				t.Errorf("refused processes: %q", run.Stderr)
			}
			if run.Status != tt.status || !strings.Contains(run.Message, tt.message) ||
				(tt.message == "") != (run.Message == "") {
				t.Errorf("%s: %q, want %s: %q", run.Status, run.Message, tt.status, tt.message)
			}
			if n := r.Stats().Runs[tt.status]; n != 1 {
				t.Errorf("counted %d", n)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	r := newRig(t, engine.Config{MaxCode: 100}, func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
		t.Error("a program was started")
		return sandboxtest.Exit(0), nil
	})
	file := r.put(t, alice, "a.txt", "a")
	foreign, unknown := r.put(t, bob, "b.txt", "b"), engine.NewID()
	held, err := r.CreateSession(t.Context(), bob, engine.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*engine.RunRequest)) engine.RunRequest {
		req := python("")
		change(&req)
		return req
	}
	refs := func(refs ...engine.FileRef) engine.RunRequest {
		return with(func(r *engine.RunRequest) { r.Files = refs })
	}
	limits := func(l engine.Limits) engine.RunRequest {
		return with(func(r *engine.RunRequest) { r.Profile.Limits = l })
	}
	for _, tt := range []struct {
		name  string
		req   engine.RunRequest
		kind  engine.Kind
		field string
	}{
		{"language", engine.RunRequest{Language: "cobol"}, engine.ErrInvalid, "language"},
		{"code too long", python(strings.Repeat("x", 101)), engine.ErrTooLarge, "code"},
		{"code not UTF-8", python("\xff"), engine.ErrInvalid, "code"},
		{"inline NUL", with(func(r *engine.RunRequest) {
			r.Code, r.Profile.Program.Inline = "a\x00", true
		}), engine.ErrInvalid,
			"code"},
		{"stdin", with(func(r *engine.RunRequest) { r.Stdin = make([]byte, 10<<20+1) }), engine.ErrTooLarge, "stdin"},
		{"arg NUL", with(func(r *engine.RunRequest) { r.Args = []string{"a", "b\x00"} }), engine.ErrInvalid, "args[1]"},
		{"args", with(func(r *engine.RunRequest) { r.Args = []string{strings.Repeat("x", 64<<10)} }), engine.ErrTooLarge,
			"args"},
		{"root", with(func(r *engine.RunRequest) { r.Profile.Program.Root = "/etc" }), engine.ErrInvalid, "root"},
		{"entry", with(func(r *engine.RunRequest) { r.Profile.Program.Entry = "../x" }), engine.ErrInvalid, "entry"},
		{"home", with(func(r *engine.RunRequest) { r.Profile.Program.Home = "x" }), engine.ErrInvalid, "home"},
		{"key", with(func(r *engine.RunRequest) { r.IdempotencyKey = "a\n" }), engine.ErrInvalid, "idempotency key"},
		{"timeout over", limits(engine.Limits{Timeout: 301 * time.Second}), engine.ErrInvalid, "limits.timeout"},
		{"timeout negative", limits(engine.Limits{Timeout: -1}), engine.ErrInvalid, "limits.timeout"},
		{"memory", limits(engine.Limits{Memory: 1<<30 + 1}), engine.ErrInvalid, "limits.memory"},
		{"little memory", limits(engine.Limits{Memory: 1<<20 - 1}), engine.ErrInvalid, "limits.memory"},
		{"processes", limits(engine.Limits{Processes: 129}), engine.ErrInvalid, "limits.processes"},
		{"output", limits(engine.Limits{Output: engine.OutputLimit{Bytes: 1<<20 + 1}}), engine.ErrInvalid,
			"limits.output.bytes"},
		{"file count", limits(engine.Limits{Files: engine.FileLimit{Count: -1}}), engine.ErrInvalid, "limits.files.count"},
		{"too many files", refs(make([]engine.FileRef, 257)...), engine.ErrInvalid, "files"},
		{"unknown file", refs(engine.FileRef{ID: file.ID}, engine.FileRef{ID: unknown, Path: "x"}), engine.ErrNotFound,
			"files[1].id " + unknown.String()},
		{"foreign file", refs(engine.FileRef{ID: file.ID}, engine.FileRef{ID: foreign.ID}), engine.ErrNotFound,
			"files[1].id " + foreign.ID.String()},
		{"path out of the root", refs(engine.FileRef{ID: file.ID, Path: "../a"}), engine.ErrInvalid, "files[0].path"},
		{"path twice", refs(engine.FileRef{ID: file.ID}, engine.FileRef{ID: file.ID, Path: "./a.txt"}), engine.ErrInvalid,
			"files[1].path"},
		{"path below a file", refs(engine.FileRef{ID: file.ID, Path: "d"}, engine.FileRef{ID: file.ID, Path: "d/e/f"}),
			engine.ErrInvalid, "files[1].path"},
		{"path above a file", refs(engine.FileRef{ID: file.ID, Path: "d/e/f"}, engine.FileRef{ID: file.ID, Path: "d/e"}),
			engine.ErrInvalid, "files[1].path"},
		{"path of the code", refs(engine.FileRef{ID: file.ID, Path: "./main.py"}), engine.ErrInvalid, "files[0].path"},
		{"unknown session", with(func(r *engine.RunRequest) { r.Session = unknown }), engine.ErrNotFound,
			"session " + unknown.String()},
		{"foreign session", with(func(r *engine.RunRequest) { r.Session = held.ID }), engine.ErrNotFound,
			"session " + held.ID.String()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.Run(t.Context(), alice, tt.req)
			wantKind(t, err, tt.kind, tt.field)
		})
	}
	if s := r.Stats(); s.Running+s.Queued != 0 || r.index.Calls("StartRun") != 0 {
		t.Errorf("refused runs left something: %+v", s)
	}
}

// An object of another owner gets the same answer as an object that does not exist.
func TestForeignIsUnknown(t *testing.T) {
	r := newRig(t, engine.Config{}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		if spec.Code == "wait" {
			return sandboxtest.UntilKilled(ctx), nil
		}
		return sandboxtest.Exit(0), nil
	})
	ctx := t.Context()
	file := r.put(t, bob, "b", "b")
	session, err := r.CreateSession(ctx, bob, engine.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := r.Run(ctx, bob, python(""))
	if err != nil {
		t.Fatal(err)
	}
	live, err := r.Start(ctx, bob, python("wait"))
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(engine.ID) error{
		"GetFile":       func(id engine.ID) error { _, err := r.GetFile(ctx, alice, id); return err },
		"OpenFile":      func(id engine.ID) error { _, _, err := r.OpenFile(ctx, alice, id); return err },
		"DeleteFile":    func(id engine.ID) error { return r.DeleteFile(ctx, alice, id) },
		"GetSession":    func(id engine.ID) error { _, err := r.GetSession(ctx, alice, id); return err },
		"DeleteSession": func(id engine.ID) error { return r.DeleteSession(ctx, alice, id) },
		"SessionFiles":  func(id engine.ID) error { _, _, err := r.SessionFiles(ctx, alice, id); return err },
		"GetRun":        func(id engine.ID) error { _, err := r.GetRun(ctx, alice, id); return err },
		"Watch":         func(id engine.ID) error { _, err := r.Watch(ctx, alice, id, 0); return err },
		"CancelRun":     func(id engine.ID) error { return r.CancelRun(ctx, alice, id) },
	} {
		unknown := engine.NewID()
		want := strings.ReplaceAll(fmt.Sprintf("%#v %v", *wantKind(t, call(unknown), engine.ErrNotFound, unknown.String()),
			call(unknown)), unknown.String(), "ID")
		for _, id := range []engine.ID{file.ID, session.ID, ended.ID, live.ID} {
			err := call(id)
			got := strings.ReplaceAll(fmt.Sprintf("%#v %v", *wantKind(t, err, engine.ErrNotFound, ""), err), id.String(), "ID")
			if stable(got) != stable(want) {
				t.Errorf("%s: foreign %s\nunknown %s", name, got, want)
			}
		}
	}
	if runs, err := r.ListRuns(ctx, alice, engine.RunQuery{Owner: "bob"}); err != nil || len(runs) != 0 {
		t.Errorf("alice lists %v, %v", runs, err)
	}
	if files, err := r.ListFiles(ctx, alice, engine.FileQuery{Owner: "bob"}); err != nil || len(files) != 0 {
		t.Errorf("alice lists %v, %v", files, err)
	}
	if sessions, err := r.ListSessions(ctx, alice, engine.SessionQuery{Owner: "bob"}); err != nil || len(sessions) != 0 {
		t.Errorf("alice lists %v, %v", sessions, err)
	}
	if err := r.CancelRun(ctx, bob, live.ID); err != nil {
		t.Error(err)
	}
}

// stable drops the addresses that %#v prints.
func stable(s string) string {
	for {
		i := strings.Index(s, "0x")
		if i < 0 {
			return s
		}
		end := i + 2
		for end < len(s) && strings.ContainsRune("0123456789abcdef", rune(s[end])) {
			end++
		}
		s = s[:i] + "POINTER" + s[end:]
	}
}

func TestProfileReachesSandbox(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	req := python("1")
	req.Stdin = []byte("in")
	req.Profile = engine.Profile{Program: engine.ProgramForm{Root: "/mnt/data", Entry: "__main__.py"},
		Output: engine.OutputForm{EchoLast: true}, Files: engine.FileRules{Plots: true},
		Limits: engine.Limits{Timeout: time.Second, Output: engine.OutputLimit{Bytes: 10}}}
	if _, err := r.Run(t.Context(), alice, req); err != nil {
		t.Fatal(err)
	}
	got := r.sandbox.Specs()[0]
	defaults, maxima := r.Limits()
	if maxima.Timeout != 300*time.Second || maxima.Memory != 1<<30 {
		t.Errorf("maxima %+v", maxima)
	}
	defaults.Timeout, defaults.Output.Bytes = time.Second, 10
	want := engine.Spec{Owner: alice.Owner, Wall: engine.WallShared, Code: "1", Stdin: []byte("in"), Root: "/mnt/data",
		Entry: "__main__.py", Home: "/mnt/data", EchoLast: true, ShowPlots: true, Limits: defaults, Inputs: []engine.Input{}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(engine.Spec{}, "Language")); diff != "" {
		t.Error(diff)
	}
}

func TestSandboxFails(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	r.sandbox.Fail(fmt.Errorf("executor: %w", &engine.Error{Kind: engine.ErrUnavailable, Err: errors.New("/a/path"),
		Cause: "a step was refused (EPERM)"}))
	_, err := r.Run(t.Context(), alice, python(""))
	if e := wantKind(t, err, engine.ErrUnavailable, ""); e.Hint == "" {
		t.Error("no hint")
	}
	runs, err := r.ListRuns(t.Context(), alice, engine.RunQuery{})
	if err != nil || len(runs) != 1 || runs[0].Status != engine.StatusInterrupted ||
		runs[0].Message != "The sandbox failed, so that the outcome is not known: a step was refused (EPERM)." {
		t.Errorf("recorded %+v, %v", runs, err)
	}
	if err := r.Ready(t.Context()); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	r.sandbox.Fail(nil)
	checkRun(t, runFacts{Status: engine.StatusOK}, "the next run")(r.Run(t.Context(), alice, python("")))
}

type handler func(context.Context, string, []byte) ([]byte, error)

func (h handler) Call(ctx context.Context, name string, input []byte) ([]byte, error) {
	return h(ctx, name, input)
}

func TestPanics(t *testing.T) {
	r := newRig(t, engine.Config{Concurrency: 1}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		switch spec.Code {
		case "panic":
			panic("in the sandbox")
		case "call":
			answer, err := host.Call(ctx, "tool", []byte("{}"))
			host.Output(engine.Stdout, fmt.Appendf(nil, "%s %v", answer, err))
		}
		return sandboxtest.Exit(0), nil
	})
	_, err := r.Run(t.Context(), alice, python("panic"))
	wantKind(t, err, engine.ErrInternal, "")
	req := python("call")
	req.Profile.Calls.Handler = handler(func(context.Context, string, []byte) ([]byte, error) { panic("in the edge") })
	checkRun(t, runFacts{Stdout: " internal fault"})(r.Run(t.Context(), alice, req))
	req.Profile.Calls.Handler = handler(func(_ context.Context, name string, in []byte) (
		[]byte, error) {
		return []byte(name + string(in)), nil
	})
	checkRun(t, runFacts{Stdout: "tool{} <nil>"})(r.Run(t.Context(), alice, req))
	r.index.Fail(func(op string) error {
		if op == "FinishRun" {
			panic("in the index")
		}
		return nil
	})
	keyed := python("")
	keyed.IdempotencyKey = "k"
	_, err = r.Run(t.Context(), alice, keyed)
	wantKind(t, err, engine.ErrInternal, "")
	r.index.Fail(nil)
	checkRun(t, runFacts{Status: engine.StatusOK}, "the next run")(r.Run(t.Context(), alice, python("")))
}
