package changes_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/internal/changes"
)

// A mirror is accessible to its owner only, through the page.
func TestMirror(t *testing.T) {
	r := newRig(t)
	others := r.reach()
	reach := r.reach()
	reach.Mirrors = filepath.Join(t.TempDir(), "mirrors")
	l, err := reach.LinkMirror(t.Context(), "ada", "garden")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := reach.LinkMirror(t.Context(), "ada", "garden"); err != nil || again.Root != l.Root {
		t.Errorf("linked again: %v, %v", again, err)
	}
	if _, err := reach.Mirror(t.Context(), "bob", "garden"); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("another owner: %v", err)
	}
	if _, err := others.Linked(t.Context(), "ada", "garden"); !errors.Is(err, changes.ErrNotFound) {
		t.Errorf("callers of other kinds: %v", err)
	}
	if _, err := reach.LinkFolder(t.Context(), changes.Link{Owner: "bob", Project: "g", Root: l.Root}); !errors.Is(
		err, changes.ErrOutside) {
		t.Errorf("a mirror as a folder: %v", err)
	}
	for name, want := range map[string]error{"a.txt": nil, "deep/down/b.txt": nil, "../evil": changes.ErrInvalid,
		"/etc/x": changes.ErrInvalid, "a/../b": changes.ErrInvalid, ".git/config": changes.ErrInvalid,
		"sub/.GIT/x": changes.ErrInvalid, "a\\b": changes.ErrInvalid, "": changes.ErrInvalid,
		".": changes.ErrInvalid} {
		if err := changes.PutMirrorFile(l.Root, name, strings.NewReader("x")); !errors.Is(err, want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a.txt/below", "deep"} {
		if err := changes.PutMirrorFile(l.Root, name, strings.NewReader("x")); !errors.Is(err, changes.ErrInvalid) {
			t.Errorf("a file and a folder of one name, %q: %v", name, err)
		}
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(l.Root, "out")); err != nil {
		t.Fatal(err)
	}
	if err := changes.PutMirrorFile(l.Root, "out/x", strings.NewReader("x")); err == nil {
		t.Error("a file was written through a link that leads out")
	}
	large := io.LimitReader(zeros{}, changes.MirrorFileBytes+1)
	if err := changes.PutMirrorFile(l.Root, "large", large); !errors.Is(err, changes.ErrMirrorFull) {
		t.Errorf("too large: %v", err)
	}
	if err := changes.DropMirrorFile(l.Root, "deep/down/b.txt"); err != nil {
		t.Error(err)
	}
	files, err := changes.MirrorFiles(l.Root)
	if err != nil || len(files) != 1 || files[0].Path != "a.txt" || files[0].Size != 1 {
		t.Errorf("files: %v, %v", files, err)
	}
	if _, err := os.Stat(filepath.Join(l.Root, "deep")); !errors.Is(err, os.ErrNotExist) {
		t.Error("an empty folder stayed")
	}
	if err := reach.Unlink(t.Context(), "ada", "garden"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.Root); !errors.Is(err, os.ErrNotExist) {
		t.Error("the mirror of a project that was unlinked stayed")
	}
}

// A transaction that the page could not repeat in the folder is undone, with the reason.
func TestUndoUnwritten(t *testing.T) {
	r := newRig(t)
	reach := r.reach()
	reach.Mirrors = filepath.Join(t.TempDir(), "mirrors")
	l, err := reach.LinkMirror(t.Context(), "local", "P1")
	if err != nil {
		t.Fatal(err)
	}
	h, p := r.propose(t, changes.Message{Text: text, Project: "P1"})
	consent, err := changes.ConsentTo(h, p, []string{p.Files[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	result, err := reach.Approve(t.Context(), h, p, consent)
	if err != nil {
		t.Fatal(err)
	}
	if err := reach.UndoUnwritten(t.Context(), l, result.TxnID); err != nil {
		t.Fatal(err)
	}
	files, err := changes.MirrorFiles(l.Root)
	if diff := cmp.Diff([]changes.MirrorFile{}, files); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	ws, err := reach.Workspace(t.Context(), l.Root)
	if err != nil {
		t.Fatal(err)
	}
	history, err := ws.History(t.Context(), 0)
	if err != nil || len(history) != 2 || !strings.Contains(history[0].Origin.Note, "could not be written") ||
		history[1].Reverted == "" {
		t.Errorf("history: %+v, %v", history, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
