package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// places returns what a session has: path to content and role.
func (r *rig) places(t *testing.T, caller engine.Caller, id engine.ID) map[string]string {
	t.Helper()
	files, places, err := r.SessionFiles(t.Context(), caller, id)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for i, p := range places {
		found[p.Path] = string(p.Role) + " " + r.read(t, caller, files[i].ID)
	}
	return found
}

func TestFilesSession(t *testing.T) {
	var seen map[string]string
	var outcome *engine.Outcome
	r := newRig(t, engine.Config{}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		seen = staged(t, spec)
		return outcome, nil
	})
	a, b := r.put(t, alice, "a.txt", "A"), r.put(t, alice, "b.txt", "B")
	req := python("")
	req.Files = []engine.FileRef{{ID: a.ID}, {ID: b.ID, ReadOnly: true}}
	outcome = leaves(t, "out.txt", "1", "main.sh", "x", "b.txt", "never mind, it is read-only")
	run, err := r.Run(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	// The implicit session can be used again, and has the inputs too.
	if diff := cmp.Diff(map[string]string{"a.txt": "input A", "b.txt": "input B", "out.txt": "output 1",
		"main.sh": "output x"}, r.places(t, alice, run.Session)); diff != "" {
		t.Error(diff)
	}
	if list, err := r.ListSessions(t.Context(), alice, engine.SessionQuery{}); err != nil || len(list) != 0 {
		t.Errorf("implicit sessions are listed: %v, %v", list, err)
	}

	// Second run: the request's file wins over the session's, the code over both.
	req = engine.RunRequest{Language: "bash", Session: run.Session, Files: []engine.FileRef{{ID: b.ID, Path: "a.txt"}}}
	outcome = leaves(t, "out.txt", "2")
	outcome.Outputs[0].Input = true
	outcome.Deleted = []string{"a.txt", "b.txt"}
	if run, err = r.Run(t.Context(), alice, req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a.txt": "B", "b.txt": "B", "out.txt": "1"}, seen); diff != "" {
		t.Errorf("staged:\n%s", diff)
	}
	// a.txt was deleted, b.txt is read-only and stays, the hidden main.sh too.
	if diff := cmp.Diff(map[string]string{"b.txt": "input B", "out.txt": "output 2", "main.sh": "output x"},
		r.places(t, alice, run.Session)); diff != "" {
		t.Error(diff)
	}
	// A file whose bytes are lost is left out; the rest is as good as before.
	r.blobs.Lose(b.SHA256)
	outcome = leaves(t)
	run, err = r.Run(t.Context(), alice, engine.RunRequest{Language: "python", Session: run.Session})
	checkRun(t, runFacts{Message: `"b.txt" was left out`})(run, err)
	if diff := cmp.Diff(map[string]string{"out.txt": "2", "main.sh": "x"}, seen); diff != "" {
		t.Error(diff)
	}
	if _, _, err := r.OpenFile(t.Context(), alice, b.ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a lost file: %v", err)
	}
	// Asked for by name, it is an error, and the run says why it did not start.
	req = python("")
	req.Files = []engine.FileRef{{ID: b.ID}}
	_, err = r.Run(t.Context(), alice, req)
	wantKind(t, err, engine.ErrNotFound, "files[0].id "+b.ID.String())
}

func TestHeldSession(t *testing.T) {
	r := newRig(t, engine.Config{}, nil)
	a := r.put(t, alice, "a.txt", "A")
	session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{
		Kind: engine.SessionHeld, Files: []engine.FileRef{{ID: a.ID, Path: "d/a.txt"}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d/a.txt"}, r.sandbox.Workspaces()[session.ID]); diff != "" {
		t.Error(diff)
	}
	req := python("")
	req.Session = session.ID
	if _, err := r.Run(t.Context(), alice, req); err != nil {
		t.Fatal(err)
	}
	if spec := r.sandbox.Specs()[0]; spec.Held != session.ID || len(spec.Inputs) != 0 {
		t.Errorf("held %v, %d inputs: the workspace has them already", spec.Held, len(spec.Inputs))
	}
	r.sandbox.Lose(session.ID)
	run, err := r.Run(t.Context(), alice, req)
	if err != nil || !strings.Contains(run.Stderr, "It has its files as of the last run again") {
		t.Errorf("a workspace that was lost: %+v, %v", run, err)
	}
	if diff := cmp.Diff([]string{"d/a.txt"}, r.sandbox.Workspaces()[session.ID]); diff != "" {
		t.Error(diff)
	}
	if run, err = r.Run(t.Context(), alice, req); err != nil || run.Stderr != "" {
		t.Errorf("once it is restored: %+v, %v", run, err)
	}

	// One that cannot be recorded is not held either.
	r.index.Fail(func(op string) error {
		if op == "AddSession" {
			return engine.ErrFull
		}
		return nil
	})
	_, err = r.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionHeld})
	wantKind(t, err, engine.ErrFull, "")
	if held := r.sandbox.Workspaces(); len(held) != 1 {
		t.Errorf("still held: %v", held)
	}
}

// Programs of a lost workspace that begin at once restore it once.
func TestRestoredOnce(t *testing.T) {
	inside := make(chan struct{})
	r := newRig(t, engine.Config{Concurrency: 8}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		inside <- struct{}{} // both are in it: none has removed it under the other
		return sandboxtest.Exit(0), nil
	})
	session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionHeld})
	if err != nil {
		t.Fatal(err)
	}
	r.sandbox.Lose(session.ID)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			req := engine.RunRequest{Language: "bash", Code: "x", Session: session.ID}
			req.Profile.Program.Inline, req.Profile.Files.Discard = true, true
			checkRun(t, runFacts{Status: engine.StatusOK})(r.Run(t.Context(), alice, req))
		})
	}
	<-inside
	<-inside
	both.Wait()
}

func TestDeleteSessionKillsItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := 0
		var mu sync.Mutex
		r := newRig(t, engine.Config{}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
			*engine.Outcome, error) {
			mu.Lock()
			running++
			mu.Unlock()
			o := sandboxtest.UntilKilled(ctx)
			time.Sleep(time.Second) // it takes time to die
			mu.Lock()
			running--
			mu.Unlock()
			return o, nil
		})
		session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionHeld})
		if err != nil {
			t.Fatal(err)
		}
		req := python("")
		req.Session = session.ID
		var ids []engine.ID
		for range 3 {
			run, err := r.Start(t.Context(), alice, req)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, run.ID)
		}
		synctest.Wait()
		if running != 1 {
			t.Fatalf("%d runs of one session at once", running)
		}
		outcomes := make(chan error, 16)
		for range 16 {
			go func() {
				err := r.DeleteSession(t.Context(), alice, session.ID)
				mu.Lock()
				if err == nil && (running != 0 || len(r.sandbox.Workspaces()) != 0) {
					err = errors.New("deleted, and something is left")
				}
				mu.Unlock()
				outcomes <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		_, err = r.Run(t.Context(), alice, req) // while it is being deleted
		wantKind(t, err, engine.ErrNotFound, "session "+req.Session.String())
		if time.Since(start) != 0 {
			t.Error("a run was let into a session that is being deleted")
		}
		done := 0
		for range 16 {
			if err := <-outcomes; err == nil {
				done++
			} else {
				wantKind(t, err, engine.ErrNotFound, session.ID.String())
			}
		}
		if done != 1 {
			t.Errorf("%d of 16 deletions succeeded", done)
		}
		for _, id := range ids {
			checkRun(t, runFacts{Status: engine.StatusCancelled, Message: "session was deleted"})(
				r.GetRun(t.Context(), alice, id))
		}
	})
}

func TestSessionRunsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		r := newRig(t, engine.Config{Concurrency: 8}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
			*engine.Outcome, error) {
			time.Sleep(time.Second)
			order = append(order, spec.Code)
			return sandboxtest.Exit(0), nil
		})
		session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{"1", "2", "3", "4", "5"} {
			req := python(code)
			req.Session = session.ID
			if _, err := r.Start(t.Context(), alice, req); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, order); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPutFile(t *testing.T) {
	r := newRig(t, engine.Config{MaxUpload: 10}, nil)
	ctx := t.Context()
	put := func(up engine.Upload, content string) (engine.File, error) {
		return r.PutFile(ctx, alice, up, strings.NewReader(content))
	}
	f, err := put(engine.Upload{Name: "./e\u0301/x.csv", TTL: time.Minute, Origin: engine.OriginOnyx}, "0123456789")
	if err != nil || f.Name != "./e\u0301/x.csv" || f.MIME != "text/csv" || f.ExpiresAt.Sub(f.CreatedAt) != time.Minute ||
		f.Origin != engine.OriginOnyx {
		t.Errorf("%+v, %v", f, err)
	}
	for _, tt := range []struct {
		name    string
		up      engine.Upload
		content string
		kind    engine.Kind
	}{
		{"name", engine.Upload{Name: "../a"}, "", engine.ErrInvalid},
		{"no name", engine.Upload{}, "", engine.ErrInvalid},
		{"ttl", engine.Upload{Name: "a", TTL: -1}, "", engine.ErrInvalid},
		{"mime", engine.Upload{Name: "a", MIME: "text/html\r\nX: y"}, "", engine.ErrInvalid},
		{"one byte too long", engine.Upload{Name: "a"}, "01234567890", engine.ErrTooLarge},
		{"own limit", engine.Upload{Name: "a", Max: 2}, "012", engine.ErrTooLarge},
		{"no way around the service's", engine.Upload{Name: "a", Max: 1000}, "01234567890", engine.ErrTooLarge},
	} {
		_, err := put(tt.up, tt.content)
		wantKind(t, err, tt.kind, "")
	}
	broken := errors.New("connection lost")
	_, err = r.PutFile(ctx, alice, engine.Upload{Name: "a"}, readerFunc(func([]byte) (int, error) { return 0, broken }))
	if wantKind(t, err, engine.ErrInvalid, ""); !errors.Is(err, broken) {
		t.Error("the cause is lost")
	}
	r.blobs.Fail(func(string) error { return engine.ErrFull })
	_, err = put(engine.Upload{Name: "a"}, "")
	if e := wantKind(t, err, engine.ErrFull, ""); e.Hint == "" {
		t.Error("no hint")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A private file of a session follows stdin and is not in the workspace. A program
// that writes it replaces it. A program that does not write it leaves it unchanged.
func TestPrivateFile(t *testing.T) {
	var spec *engine.Spec
	outcome := leaves(t, "p/state", "one")
	r := newRig(t, engine.Config{}, func(_ context.Context, s *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
		spec = s
		return outcome, nil
	})
	private := func(session engine.ID, stdin bool) engine.RunRequest {
		return engine.RunRequest{Language: "python", Session: session, Stdin: []byte("in\n"),
			Profile: engine.Profile{Files: engine.FileRules{Private: "p/state", PrivateInStdin: stdin}}}
	}
	run, err := r.Run(t.Context(), alice, private(engine.ID{}, true))
	if err != nil || string(spec.Stdin) != "in\n" {
		t.Fatalf("%v, %q", err, spec.Stdin)
	}
	outcome = leaves(t)
	for stdin, want := range map[bool]string{true: "in\none", false: "in\n"} {
		if _, err := r.Run(t.Context(), alice, private(run.Session, stdin)); err != nil || string(spec.Stdin) != want ||
			len(spec.Inputs) != 0 {
			t.Errorf("%v: stdin %q, %d inputs", err, spec.Stdin, len(spec.Inputs))
		}
	}
	outcome = leaves(t, "p/state", "two")
	if _, err := r.Run(t.Context(), alice, private(run.Session, true)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"p/state": "output two"}, r.places(t, alice, run.Session)); diff != "" {
		t.Error(diff)
	}
}
