package executor

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/image"
)

func goodRequest() *RunRequest {
	return &RunRequest{
		Argv: []string{"/usr/bin/true"}, Env: []string{"A=b"}, Root: image.RootWorkspace, Entry: "main.py",
		Workspace: 1 << 20,
		Inodes:    10,
		Memory:    64 << 20, Processes: 4, Timeout: time.Second,
	}
}

// The executor does not trust the service: each of these ends the request.
func TestRequestsAreChecked(t *testing.T) {
	if err := goodRequest().check(); err != nil {
		t.Fatalf("a good request is refused: %v", err)
	}
	for name, spoil := range map[string]func(*RunRequest){
		"no command":         func(r *RunRequest) { r.Argv = nil },
		"relative command":   func(r *RunRequest) { r.Argv = []string{"true"} },
		"NUL in an argument": func(r *RunRequest) { r.Argv = append(r.Argv, "a\x00b") },
		"nameless variable":  func(r *RunRequest) { r.Env = []string{"=x"} },
		"long arguments": func(r *RunRequest) {
			r.Argv = append(
				r.Argv, strings.Repeat("x", maxArguments+maxPathLength))
		},
		"another root":      func(r *RunRequest) { r.Root = "/" },
		"entry outside":     func(r *RunRequest) { r.Entry = "../main.py" },
		"absolute entry":    func(r *RunRequest) { r.Entry = "/etc/passwd" },
		"no memory":         func(r *RunRequest) { r.Memory = 0 },
		"no processes":      func(r *RunRequest) { r.Processes = 0 },
		"no time":           func(r *RunRequest) { r.Timeout = 0 },
		"for ever":          func(r *RunRequest) { r.Timeout = 1 << 62 },
		"negative outputs":  func(r *RunRequest) { r.Count = -1 },
		"too many inputs":   func(r *RunRequest) { r.Inputs = maxInputs + 1 },
		"too many imports":  func(r *RunRequest) { r.Imports = make([]string, maxImports+1) },
		"no workspace":      func(r *RunRequest) { r.Workspace = 0 },
		"endless workspace": func(r *RunRequest) { r.Workspace = 1 << 60 },
	} {
		r := goodRequest()
		spoil(r)
		if r.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPathsAreChecked(t *testing.T) {
	for _, p := range []string{"a", "a/b", ".hidden", "a..b", "...", "é", "a b"} {
		if err := checkPath(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []string{"", ".", "..", "/", "/a", "../a", "a/../b", "a/..", "a//b", "a/", "./a", "a\x00b",
		strings.Repeat("x/", 3000) + "x"} {
		if checkPath(p) == nil {
			t.Errorf("%q: accepted", p)
		}
	}
}

func FuzzPaths(f *testing.F) {
	f.Add("a/../../b")
	f.Fuzz(func(t *testing.T, p string) {
		if checkPath(p) == nil && !filepath.IsLocal(p) {
			t.Errorf("%q leaves the workspace", p)
		}
	})
}

// pair holds both ends of a link.
func pair(t *testing.T) (*Link, *Link) {
	t.Helper()
	ours, other, err := NewLinkPair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := newLink(other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func TestLinkCarriesFiles(t *testing.T) {
	ours, theirs := pair(t)
	f, err := MemoryFile("x", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := ours.Send(inputs{[]input{{Path: "a", Size: 7}}}, f); err != nil {
		t.Fatal(err)
	}
	err = theirs.receiveInputs(1, func(in input, f *os.File) error {
		b, err := io.ReadAll(io.NewSectionReader(f, 0, in.Size))
		if err != nil || string(b) != "content" || in.Path != "a" {
			t.Errorf("%+v, %q, %v", in, b, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	ours.Close()
	if _, err := theirs.Receive(&struct{}{}); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// forgetful finds the end of a link at its first look, as the kernel does now and then: see Link.receive.
type forgetful struct {
	syscall.RawConn
	ended *Link
}

func (f *forgetful) Read(look func(uintptr) bool) error {
	if first := f.ended; first != nil {
		f.ended = nil
		return first.raw.Read(look)
	}
	return f.RawConn.Read(look)
}

// What was sent before the end is received.
func TestLinkLastMessage(t *testing.T) {
	ended, other := pair(t)
	other.Close()
	ours, theirs := pair(t)
	ours.raw = &forgetful{ours.raw, ended}
	if err := theirs.Send(answer{Accepted: true}); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	var a answer
	if _, err := ours.Receive(&a); err != nil || !a.Accepted {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := ours.Receive(&a); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	ours, theirs = pair(t)
	if err := theirs.SendRaw(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Receive(&a); !errors.Is(err, io.EOF) { // the other side is open: it does not wait
		t.Errorf("an empty message: %v", err)
	}
}

func TestLinkRefuses(t *testing.T) {
	f, err := MemoryFile("x", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for name, send := range map[string]func(*Link) error{
		"unknown fields":   func(l *Link) error { return l.Send(map[string]any{"Inputs": nil, "More": 1}, f) },
		"no files":         func(l *Link) error { return l.Send(inputs{[]input{{Path: "a"}}}) },
		"more than said":   func(l *Link) error { return l.Send(inputs{[]input{{Path: "a"}, {Path: "b"}}}, f, f) },
		"a path outside":   func(l *Link) error { return l.Send(inputs{[]input{{Path: "../a"}}}, f) },
		"larger than real": func(l *Link) error { return l.Send(inputs{[]input{{Path: "a", Size: 8}}}, f) },
		"a FIFO":           func(l *Link) error { return l.Send(inputs{[]input{{Path: "a"}}}, pipe) },
		"no JSON":          func(l *Link) error { _, err := l.file.Write([]byte("{")); return err },
	} {
		ours, theirs := pair(t)
		if err := send(ours); err != nil {
			t.Fatal(err)
		}
		err := theirs.receiveInputs(1, func(input, *os.File) error { return nil })
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzRequest(f *testing.F) {
	good, err := json.Marshal(request{Run: goodRequest()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, body []byte) {
		var r request
		if json.Unmarshal(body, &r) == nil && r.Run != nil && r.Run.check() == nil {
			if r.Run.Memory <= 0 || r.Run.Timeout <= 0 || len(r.Run.Argv) == 0 {
				t.Errorf("accepted %s", body)
			}
		}
	})
}
