package workspace

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGenerated: files from a program in a container.
func TestGenerated(t *testing.T) {
	s := newSite(t, map[string]string{"plot.png": "\x89PNG\r\n\x1a\nold"})
	out := func(path, content string) Change {
		return Change{Verb: Write, Path: path, Content: Bytes([]byte(content)), Exact: true, Generated: true,
			Clash: ClashRename}
	}
	p := s.plan(out("sandbox:/mnt/data/table.csv", "a,b\r\n"), out("/mnt/data/sub/x.txt", "x"), out("/tmp/y.txt", "y"),
		out("../../z.txt", "z"), out("plot.png", "\x89PNG\r\n\x1a\nnew"),
		out("CON", "text\n"), out("", "\x89PNG\r\n\x1a\n\x00"), out("/workspace/a/.git/hooks/x", "#!/bin/sh\n"),
		out("plot.png", "\x89PNG\r\n\x1a\nnewer"))
	s.commit(p)
	got := s.files()
	want := map[string]string{
		"table.csv": "a,b\r\n", "sub/": "", "sub/x.txt": "x", "y.txt": "y", "z.txt": "z", "plot.png": "\x89PNG\r\n\x1a\nold",
		"plot (2).png": "\x89PNG\r\n\x1a\nnew",
		"plot (3).png": "\x89PNG\r\n\x1a\nnewer", "output-1.txt": "text\n", "output-1.png": "\x89PNG\r\n\x1a\n\x00",
	}
	for name := range got {
		if strings.HasPrefix(name, "output-") && want[name] == "" { // a script, whatever its magic bytes
			want[name] = "#!/bin/sh\n"
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The same bytes make no change.
	same := s.plan(Change{Verb: Write, Path: "table.csv", Content: Bytes([]byte("a,b\r\n")), Exact: true,
		Clash: ClashRename}, Change{Verb: Write, Path: "y.txt", Content: Bytes([]byte("other")), Clash: ClashSkip})
	for _, f := range same.Files {
		if f.Op != OpUnchanged {
			t.Errorf("%s: %s", f.Path, f.Op)
		}
	}
}

// TestStreaming saves a large file from an open one, and refuses it if its bytes are not
// the approved ones.
func TestStreaming(t *testing.T) {
	s := newSite(t, nil)
	s.w.limits.BinaryBytes = 1 << 30
	path := filepath.Join(t.TempDir(), "large")
	data := bytes.Repeat([]byte("\x00large file "), 1<<20)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := File(t.Context(), f, int64(len(data)), Sum(data))
	if err != nil {
		t.Fatal(err)
	}
	p := s.plan(Change{Verb: Write, Path: "large.bin", Content: content, Exact: true})
	a, _ := p.Approve()
	if _, err := f.WriteAt([]byte("changed"), 9<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Commit(t.Context(), p, a, CommitOptions{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file that changed after it was approved: %v", err)
	}
	s.want(map[string]string{})
	if _, err := f.WriteAt(data[9<<20:9<<20+7], 9<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Commit(t.Context(), p, a, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(s.dir, "large.bin"))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	// Undo and redo of a file that is never in memory as a whole.
	s.commit(s.must(s.w.UndoLatest(t.Context())))
	s.want(map[string]string{})
	s.commit(s.must(s.w.Redo(t.Context())))
	if got, err = os.ReadFile(filepath.Join(s.dir, "large.bin")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("redo: %d bytes, %v", len(got), err)
	}
}

func TestZip(t *testing.T) {
	s := newSite(t, nil)
	p := s.plan(write("a/b.txt", "b"), write("../x", "x"), write("c", "c"))
	var out bytes.Buffer
	if err := p.WriteZip(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "a/b.txt") || strings.Contains(text, "../x") {
		t.Errorf("the archive has %q", text)
	}
}
