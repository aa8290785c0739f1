package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// holdFiles holds a workspace and runs a script in it.
func holdFiles(t *testing.T, s *executor.Sandbox, script string) engine.Files {
	t.Helper()
	spec := sandboxtest.Spec("bash", script)
	spec.Held = engine.NewID()
	if err := s.Hold(t.Context(), spec.Held, 0, "", []engine.Input{sandboxtest.Input(t, "in/given", "given")},
		spec.Limits); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Release(context.Background(), spec.Held, 0) })
	if script != "" {
		if r := sandboxtest.Run(t, s, spec); r.Code() != 0 {
			t.Fatalf("%s: %s", script, r.Stderr)
		}
	}
	return s.Files(spec.Held)
}

func pathsOf(t *testing.T, f engine.Files, path string, depth int) []string {
	t.Helper()
	list, more, err := f.List(t.Context(), path, depth)
	if err != nil || more {
		t.Fatalf("list %s: %v, more: %v", path, err, more)
	}
	var paths []string
	for _, e := range list {
		paths = append(paths, string(e.Kind)+" "+e.Path)
	}
	return paths
}

func TestLiveFiles(t *testing.T) {
	s := start(t)
	f := holdFiles(t, s, "")
	ctx := t.Context()
	e, err := f.Write(ctx, "a/b/c.txt", strings.NewReader("content"))
	if err != nil || e.Size != 7 || e.Path != "a/b/c.txt" || e.Kind != engine.EntryFile || e.Mode != 0o644 {
		t.Errorf("write: %+v %v", e, err)
	}
	if e, err := f.MakeFolder(ctx, "new/one"); err != nil || e.Kind != engine.EntryFolder {
		t.Errorf("make folder: %+v %v", e, err)
	}
	if _, err := f.MakeFolder(ctx, "new/one"); err != nil {
		t.Errorf("again: %v", err)
	}
	if got, want := pathsOf(t, f, ".", 9), []string{"folder a", "folder a/b", "file a/b/c.txt", "folder in",
		"file in/given", "folder new", "folder new/one"}; !slices.Equal(got, want) {
		t.Errorf("list: %q", got)
	}
	if got := pathsOf(t, f, "a", 1); !slices.Equal(got, []string{"folder a/b"}) {
		t.Errorf("list: %q", got)
	}
	opened, e, err := f.Open(ctx, "a/b/c.txt")
	if err != nil || e.Size != 7 {
		t.Fatalf("open: %+v %v", e, err)
	}
	defer opened.Close()
	if _, err := f.Write(ctx, "a/b/c.txt", strings.NewReader("other")); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(opened); string(b) != "content" || err != nil { // it was replaced, not changed
		t.Errorf("%q %v", b, err)
	}
	if _, err := opened.WriteString("x"); err == nil {
		t.Error("what was opened for reading can be written")
	}
	if _, err := f.Move(ctx, "a/b/c.txt", "in/given", false); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("move onto another: %v", err)
	}
	if e, err := f.Move(ctx, "a/b/c.txt", "in/given", true); err != nil || e.Path != "in/given" || e.Size != 5 {
		t.Errorf("move: %+v %v", e, err)
	}
	if err := f.Remove(ctx, "a", false); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("remove a folder that is not empty: %v", err)
	}
	for _, name := range []string{"in/given", "a", "new"} {
		if err := f.Remove(ctx, name, true); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	}
	if got := pathsOf(t, f, ".", 9); !slices.Equal(got, []string{"folder in"}) {
		t.Errorf("left: %q", got)
	}
}

// The /tmp of a sandbox is a separate folder with the same rules. It ends with the sandbox.
func TestTmpFiles(t *testing.T) {
	s := start(t)
	held, end := standingProgram(t, s, nil)
	f := s.Tmp(held)
	if _, err := f.Write(t.Context(), "d/f", strings.NewReader("one\n")); err != nil {
		t.Fatal(err)
	}
	out, errs, _ := inside(t, s, held, shell(
		`cat /tmp/d/f; echo two > /tmp/d/g; ln -s /etc/passwd /tmp/link`))
	if out != "one\n" || errs != "" {
		t.Errorf("%q %q", out, errs)
	}
	if got := pathsOf(t, f, "d", 1); !slices.Equal(got, []string{"file d/f", "file d/g"}) {
		t.Errorf("%q", got)
	}
	if got := pathsOf(t, s.Files(held), ".", 9); slices.Contains(got, "file d/f") {
		t.Errorf("in the workspace: %q", got)
	}
	for _, name := range []string{"link", "../workspace", "/etc/passwd", "link/x"} {
		if _, _, err := f.Open(t.Context(), name); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
	large := io.LimitReader(zeros{}, 2*executor.TmpSize)
	if _, err := f.Write(t.Context(), "large", large); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("more than there is room for: %v", err)
	}
	end()
	if _, err := f.Stat(t.Context(), "d/f"); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("of no sandbox: %v", err)
	}
	if _, err := s.Tmp(engine.NewID()).Stat(t.Context(), "d/f"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("of no workspace: %v", err)
	}
}

// A program owns files that are written while it runs.
func TestLiveFilesBelongToProgram(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	f := s.Files(held)
	if _, err := f.Write(t.Context(), "d/f", strings.NewReader("one\n")); err != nil {
		t.Fatal(err)
	}
	out, errs, _ := inside(t, s, held, shell(
		`cat d/f; echo two >> d/f; chmod 700 d/f; touch d/g; [ "$(stat -c %u d d/f | uniq)" = $(id -u) ] && echo mine`))
	if out != "one\nmine\n" || errs != "" {
		t.Errorf("%q %q", out, errs)
	}
	if e, err := f.Write(t.Context(), "d/f", strings.NewReader("three\n")); err != nil || e.Mode != 0o700 {
		t.Errorf("%+v %v", e, err)
	}
}

// Each operation returns, whatever files a program left, and none leaves the workspace.
func TestLiveFilesHostile(t *testing.T) {
	s := start(t)
	f := holdFiles(t, s, `
mkfifo pipe; ln -s / root; ln -s in here; ln -s loop loop; ln -s /workspace/in/given absolute; ln -s ../../etc/passwd up
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"
truncate -s 60M sparse; mkdir shut; echo x > shut/f; chmod 000 shut shut/f 2>/dev/null; chmod 000 shut
printf x > "$(printf 'bad\377name')"; : > 'new
line'
d=deep; for i in $(seq 300); do d=$d/d; done; mkdir -p $d; echo x > $d/f`)
	ctx := t.Context()
	kinds := map[string]engine.EntryKind{}
	list, more, err := f.List(ctx, ".", 1000)
	if err != nil || more {
		t.Fatal(err, more)
	}
	for _, e := range list {
		kinds[e.Path] = e.Kind
	}
	for name, want := range map[string]engine.EntryKind{
		"pipe": engine.EntryOther, "socket": engine.EntryOther, "root": engine.EntryLink, "loop": engine.EntryLink,
		"sparse": engine.EntryFile,
		"shut/f": engine.EntryFile, "bad\xffname": engine.EntryFile, "new\nline": engine.EntryFile,
		"deep" + strings.Repeat("/d", 100): engine.EntryFolder,
	} {
		if kinds[name] != want {
			t.Errorf("%q is a %q, want %q", name, kinds[name], want)
		}
	}
	if e, err := f.Stat(ctx, "absolute"); err != nil || e.Target != "/workspace/in/given" {
		t.Errorf("%+v %v", e, err)
	}
	for name, want := range map[string]error{
		"pipe": engine.ErrInvalid, "socket": engine.ErrInvalid, "root": engine.ErrInvalid, "loop": engine.ErrInvalid,
		"up":              engine.ErrInvalid,
		"root/etc/passwd": engine.ErrInvalid, "here/given": engine.ErrInvalid, "absolute": engine.ErrInvalid,
		"in": engine.ErrInvalid, ".": engine.ErrInvalid,
		"../x": engine.ErrInvalid, "/etc/passwd": engine.ErrInvalid, "": engine.ErrInvalid, "a//b": engine.ErrInvalid,
		"in/..": engine.ErrInvalid, "a\x00b": engine.ErrInvalid,
		strings.Repeat("x", 300): engine.ErrInvalid, strings.Repeat("x/", 5000) + "x": engine.ErrInvalid,
		"none": engine.ErrNotFound, "in/given/below": engine.ErrNotFound, "bad\xffname": nil, "shut/f": nil, "sparse": nil,
	} {
		opened, e, err := f.Open(ctx, name)
		if !errors.Is(err, want) {
			t.Errorf("open %.50q: %v, want %v", name, err, want)
		}
		if err == nil {
			if name == "sparse" && e.Size != 60<<20 {
				t.Errorf("%+v", e)
			}
			opened.Close()
		}
		if !errors.Is(want, engine.ErrInvalid) || name == "pipe" || name == "socket" {
			continue
		}
		if _, err := f.Write(ctx, name+"/new", strings.NewReader("x")); err == nil && name != "in" {
			t.Errorf("wrote through %.50q", name)
		}
	}
	for _, name := range []string{"pipe", "loop", "socket", "root"} { // replaced itself
		if _, err := f.Write(ctx, name, strings.NewReader("x")); err != nil {
			t.Errorf("write %q: %v", name, err)
		}
	}
	if _, err := f.Write(ctx, "in", strings.NewReader("x")); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("write a folder: %v", err)
	}
	if _, err := f.Move(ctx, "deep", "deep/d/d", false); !errors.Is(err, engine.ErrConflict) &&
		!errors.Is(err, engine.ErrInvalid) {
		t.Errorf("move into itself: %v", err)
	}
	for _, name := range []string{"deep", "shut", "up", "here", "bad\xffname", "sparse"} {
		if err := f.Remove(ctx, name, true); err != nil {
			t.Errorf("remove %q: %v", name, err)
		}
	}
	if _, err := f.Write(ctx, "big", io.LimitReader(zeros{}, 1<<30)); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("a file larger than the workspace: %v", err)
	}
	if _, err := f.Stat(ctx, "big"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("half of a file is there: %v", err)
	}
	if b, err := os.ReadFile("/etc/passwd"); err != nil || !strings.Contains(string(b), "root") {
		t.Error("the host's file is gone")
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A link that appears and disappears in a path never leads out of the workspace.
func TestLiveFilesRace(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, nil)
	f := s.Files(held)
	p, err := s.Start(t.Context(), held, &engine.ProcessSpec{Argv: []string{"python3", "-c", `
import os, shutil
os.mkdir("d"); open("d/passwd", "w").write("mine"); os.symlink("/etc", "e"); print("up", flush=True)
n = 0
while True:
    for a, b in ("dx", "ed", "de", "xd"):
        try: os.rename(a, b)
        except OSError: shutil.rmtree("d", ignore_errors=True)  # a write has made it while it was away
    n += 1; open(f"many{n % 500}", "w").close()
    if n % 7 == 0: os.unlink(f"many{n % 500}")
`}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Stdout().Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	read := 0
	for i := 0; i < 300 || read == 0 && i < 20_000; i++ {
		opened, _, err := f.Open(t.Context(), "d/passwd")
		if err == nil {
			if b, _ := io.ReadAll(opened); string(b) != "mine" {
				t.Fatalf("it led out: %q", b)
			}
			opened.Close()
			read++
		} else if k := engine.KindOf(err); k != engine.ErrInvalid && k != engine.ErrNotFound {
			t.Fatal(err)
		}
		if _, _, err := f.List(t.Context(), ".", 3); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(t.Context(), "d/new", strings.NewReader("x")); err != nil &&
			engine.KindOf(err) != engine.ErrInvalid && engine.KindOf(err) != engine.ErrNotFound &&
			engine.KindOf(err) != engine.ErrConflict {
			t.Fatal(err)
		}
	}
	if read == 0 {
		t.Error("it was never read: this test shows nothing")
	}
}

// A session's own read-only inputs cannot be changed.
func TestLiveFilesReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: only there inputs belong to another user")
	}
	s := start(t)
	id := engine.NewID()
	in := sandboxtest.Input(t, "in/given", "given")
	in.ReadOnly = true
	if err := s.Hold(t.Context(), id, 0, "", []engine.Input{in}, sandboxtest.Limits()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Release(context.Background(), id, 0) }()
	f := s.Files(id)
	_, written := f.Write(t.Context(), "in/given", strings.NewReader("x"))
	_, moved := f.Move(t.Context(), "in/given", "other", false)
	_, folder := f.Move(t.Context(), "in", "other", false)
	for what, err := range map[string]error{"write": written, "move": moved, "move its folder": folder,
		"remove": f.Remove(t.Context(), "in/given", true), "remove its folder": f.Remove(t.Context(), "in", true)} {
		if !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := f.Write(t.Context(), "in/mine", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
}

func TestLiveFilesOfNobody(t *testing.T) {
	f := start(t).Files(engine.NewID())
	ctx := t.Context()
	_, _, list := f.List(ctx, ".", 1)
	_, stat := f.Stat(ctx, "x")
	_, _, open := f.Open(ctx, "x")
	_, write := f.Write(ctx, "x", strings.NewReader("x"))
	_, folder := f.MakeFolder(ctx, "x")
	_, move := f.Move(ctx, "x", "y", true)
	watch := f.Watch(ctx, ".", true, func() {}, func([]engine.FileEvent) {})
	for i, err := range []error{list, stat, open, write, folder, move, f.Remove(ctx, "x", true), watch} {
		if !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
}

// Releasing a workspace ends all writes and watches in it.
func TestReleaseEndsVisits(t *testing.T) {
	s := start(t)
	f := holdFiles(t, s, "")
	read, write := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := f.Write(t.Context(), "late", read)
		done <- err
	}()
	fmt.Fprint(write, "begun")
	held, err := s.Held(t.Context())
	if err != nil || len(held) != 1 {
		t.Fatalf("%v, %v", held, err)
	}
	for id := range held {
		if err := s.Release(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
	}
	write.Close()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "the workspace was released") {
		t.Errorf("it was written into a workspace that is gone, or that is not said: %v", err)
	}
	if unix.Access("/late", unix.F_OK) == nil {
		t.Error("it is on the host")
	}
}
