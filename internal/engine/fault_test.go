package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// testFaultSweep fails the n-th call of each method of the stores, for n = 1,
// 2, ... until a whole scenario runs without meeting the fault. Acknowledged
// files must exist and be whole, at once and after a restart. Refused files
// must not exist, and no unreferenced blob may be left.
func testFaultSweep(t *testing.T) {
	for _, method := range []string{
		"Put", "Open", "Delete", "AddFile", "File", "AddSession", "Session", "LinkFiles", "SessionFiles", "StartRun",
		"EarlierRun", "FinishRun",
		"Run", "RunLog", "DeleteFile", "DeleteSession", "Touch", "Unreferenced", "Usage",
	} {
		for _, cause := range []error{syscall.EIO, engine.ErrFull} {
			t.Run(fmt.Sprint(method, " ", cause), func(t *testing.T) {
				n := 1
				for faultOnce(t, method, n, cause) {
					n++
				}
				if n == 1 && method != "Touch" && method != "Unreferenced" && method != "Delete" {
					t.Errorf("%s is never called", method)
				}
			})
		}
	}
}

// nth is a fault of the n-th call of one method.
type nth struct {
	mu     sync.Mutex
	method string
	n      int
	cause  error
	met    bool
}

func (f *nth) ask(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if method != f.method {
		return nil
	}
	if f.n--; f.n != 0 {
		return nil
	}
	f.met = true
	return f.cause
}

func faultOnce(t *testing.T, method string, n int, cause error) (met bool) {
	t.Helper()
	blobs, index := enginetest.NewBlobs(), enginetest.NewIndex()
	quota := engine.Quota{Files: 1000, Bytes: 1 << 30, Sessions: 100}
	index.Quota = quota
	sandbox := sandboxtest.NewFake(func(_ context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		host.Output(engine.Stdout, []byte("ran "+spec.Code))
		return leaves(t, "one", "1 of "+spec.Code, "two", "2 of "+spec.Code), nil
	})
	s := enginetest.StartOn(t, engine.Config{Quota: quota}, sandbox, blobs, index)
	fault := &nth{method: method, n: n, cause: cause}
	blobs.Fail(fault.ask)
	index.Fail(fault.ask)
	a := &acked{t: t, files: map[engine.ID]string{}, runs: map[engine.ID]string{}}
	a.scenario(s)
	blobs.Fail(nil)
	index.Fail(nil)
	what := fmt.Sprintf("%s %d", method, n)
	a.verify(what, s)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	next := enginetest.StartOn(t, engine.Config{Quota: quota}, sandbox, blobs, index)
	a.verify(what+", after a restart", next)
	files, err := next.ListFiles(t.Context(), alice, engine.FileQuery{Page: engine.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	contents := map[engine.Digest]bool{}
	for _, f := range files {
		contents[f.SHA256] = true
	}
	if kept, pinned := blobs.Len(); kept != len(contents) || pinned != 0 {
		t.Errorf("%s: %d blobs for %d contents, %d of them pinned", what, kept, len(contents), pinned)
	}
	return fault.met
}

// acked is what the service has promised to keep.
type acked struct {
	t     *testing.T
	files map[engine.ID]string
	runs  map[engine.ID]string // their output
}

// scenario does a little of everything; each step may fail.
func (a *acked) scenario(s *engine.Service) {
	ctx := a.t.Context()
	var in engine.File
	for i := range 2 {
		content := fmt.Sprint("upload ", i)
		f, err := put(ctx, s, alice, "in", content)
		if a.fine("upload", err) {
			a.files[f.ID], in = content, f
		}
	}
	session, err := s.CreateSession(ctx, alice, engine.SessionRequest{Files: []engine.FileRef{{ID: in.ID, Path: "first"}}})
	a.fine("session", err)
	for i := range 3 {
		req := python(fmt.Sprint("program ", i))
		req.Session = session.ID
		if i > 0 {
			req.Files, req.IdempotencyKey = []engine.FileRef{{ID: in.ID, Path: "in"}}, fmt.Sprint("key ", i)
		}
		run, err := s.Run(ctx, alice, req)
		if a.fine("run", err) {
			a.keep(run, req.Code)
		}
		if i == 0 {
			continue
		}
		again, err := s.Run(ctx, alice, req)
		switch {
		case !a.fine("run again", err):
		case run != nil && again.ID != run.ID:
			a.t.Errorf("%s ran twice", req.Code)
		case run != nil || again.Status != engine.StatusInterrupted: // the first was not refused
			a.keep(again, req.Code)
		}
	}
	for id := range a.runs {
		_, err := s.Watch(ctx, alice, id, 0)
		a.fine("watch", err)
	}
	if err := s.DeleteFile(ctx, alice, in.ID); a.fine("delete", err) {
		delete(a.files, in.ID)
	}
	a.fine("delete session", s.DeleteSession(ctx, alice, session.ID))
}

func (a *acked) keep(run *engine.Run, code string) {
	if !endedWell(run) || run.Stdout != "ran "+code {
		a.t.Errorf("%s ended as %s: %q", code, run.Status, run.Stdout)
	}
	if !strings.Contains(run.Message, "may be lost") {
		a.runs[run.ID] = run.Stdout
	}
	for _, f := range run.Files {
		a.files[f.ID] = map[string]string{"one": "1 of " + code, "two": "2 of " + code}[f.Path]
	}
	if len(run.Files)+len(run.Dropped) != 2 {
		a.t.Errorf("%s left two files: %d are kept, %d dropped", code, len(run.Files), len(run.Dropped))
	}
}

// endedWell reports whether a run is ok with all of its files, or an error because of those that could not be stored.
func endedWell(run *engine.Run) bool {
	if len(run.Dropped) == 0 {
		return run.Status == engine.StatusOK
	}
	return run.Status == engine.StatusError && strings.Contains(run.Message, "could not be stored")
}

// fine reports whether a step succeeded; if not, it must say so properly.
func (a *acked) fine(step string, err error) bool {
	if _, ok := errors.AsType[*engine.Error](err); err != nil && !ok {
		a.t.Errorf("%s: %#v", step, err)
	}
	return err == nil
}

// verify checks that all that was promised is there.
func (a *acked) verify(what string, s *engine.Service) {
	a.t.Helper()
	for id, content := range a.files {
		_, f, err := s.OpenFile(a.t.Context(), alice, id)
		if err != nil {
			a.t.Errorf("%s: an acknowledged file: %v", what, err)
			continue
		}
		got, err := io.ReadAll(f)
		f.Close()
		if err != nil || string(got) != content {
			a.t.Errorf("%s: %q instead of %q, %v", what, got, content, err)
		}
	}
	for id, output := range a.runs {
		run, err := s.GetRun(a.t.Context(), alice, id)
		if err != nil || !endedWell(run) || run.Stdout != output && !errors.Is(err, nil) {
			a.t.Errorf("%s: an acknowledged run: %+v, %v", what, run, err)
		}
	}
}

// testCutOff ends a process between the steps of storing. The next start deletes
// bytes without a file, and a recorded file is whole.
func testCutOff(t *testing.T) {
	blobs, index := enginetest.NewBlobs(), enginetest.NewIndex()
	s := enginetest.StartOn(t, engine.Config{}, sandboxtest.NewFake(nil), blobs, index)
	kept, err := put(t.Context(), s, alice, "kept", "kept")
	if err != nil {
		t.Fatal(err)
	}
	cut, err := blobs.Put(t.Context(), strings.NewReader("renamed, and not recorded"), 100)
	if err != nil {
		t.Fatal(err)
	}
	blobs.Unpin(cut.SHA256) // pins end with their process
	next := enginetest.StartOn(t, engine.Config{}, sandboxtest.NewFake(nil), blobs, index)
	if n, _ := blobs.Len(); n != 1 {
		t.Errorf("%d blobs", n)
	}
	_, f, err := next.OpenFile(t.Context(), alice, kept.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
