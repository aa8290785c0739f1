package workspace

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// site is a folder with some files, and a workspace over it.
type site struct {
	t     testing.TB
	dir   string
	store *Dir
	w     *Workspace
}

// inMemory returns a directory in memory if there is one: a sync is free there, however
// busy the disk is.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "airlock-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newSite(t testing.TB, files map[string]string) *site { return newSiteIn(t, inMemory(t), files) }

func newSiteIn(t testing.TB, base string, files map[string]string) *site {
	t.Helper()
	s := &site{t: t, dir: filepath.Join(base, "project")}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		s.put(name, content)
	}
	s.reopen(filepath.Join(base, "state"))
	return s
}

func (s *site) reopen(state string) {
	s.t.Helper()
	store, err := OpenDir(state)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { store.Close() })
	s.store = store
	s.w, err = Open(s.t.Context(), s.dir, Options{Store: store})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) put(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// files returns every file of the folder, and links as "-> target".
func (s *site) files() map[string]string { return readTree(s.t, s.dir) }

func readTree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case entry.IsDir():
			all[name+"/"] = ""
		case entry.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			all[name] = "-> " + target
			return err
		default:
			data, err := os.ReadFile(path)
			all[name] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s *site) want(want map[string]string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.files()); diff != "" {
		s.t.Fatalf("the folder (-want +got):\n%s", diff)
	}
}

func (s *site) plan(changes ...Change) *Proposal {
	s.t.Helper()
	p, err := s.w.Plan(s.t.Context(), Origin{Kind: "test"}, changes...)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *site) commit(p *Proposal, ids ...string) *Receipt {
	s.t.Helper()
	a, err := p.Approve(ids...)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.w.Commit(s.t.Context(), p, a, CommitOptions{})
	if err != nil {
		s.t.Fatalf("commit: %v", err)
	}
	return r
}

func (s *site) must(p *Proposal, err error) *Proposal {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func write(path, content string) Change {
	return Change{Verb: Write, Path: path, Content: Bytes([]byte(content))}
}

func replaceText(path, old, new string) Change {
	return Change{Verb: Modify, Path: path, Edit: func(b []byte) ([]byte, error) {
		if !strings.Contains(string(b), old) {
			return nil, errors.New("the text is not there")
		}
		return []byte(strings.ReplaceAll(string(b), old, new)), nil
	}}
}

func lines(n int, mark string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(mark + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + "\n")
	}
	return b.String()
}

func TestMain(m *testing.M) {
	if role := os.Getenv(crashRole); role != "" {
		os.Exit(crashChild(role))
	}
	goleak.VerifyTestMain(m)
}

func TestCommitAllKinds(t *testing.T) {
	s := newSiteIn(t, t.TempDir(), map[string]string{
		"keep.txt": "keep\n", "src/a.go": "package a\n", "old.txt": "old\n", "move.txt": "one\ntwo\n",
		"pic.png": "\x89PNG\r\n\x1a\n\x00\x00old",
	})
	if err := os.Chmod(filepath.Join(s.dir, "src/a.go"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := s.files()
	p := s.plan(
		write("src/a.go", "package a\n\nvar x = 1\n"),
		write("new/deep/b.go", "package deep\n"),
		Change{Verb: Delete, Path: "old.txt"},
		Change{Verb: Rename, Path: "move.txt", To: "moved/there.txt",
			Edit: func(b []byte) ([]byte, error) { return append(b, "three\n"...), nil }},
		write("pic.png", "\x89PNG\r\n\x1a\n\x00\x00new"),
		write("keep.txt", "keep\n"),
	)
	var ops []string
	for _, f := range p.Files {
		ops = append(ops, f.ID+" "+f.Summary())
	}
	want := []string{
		"f1 update src/a.go (+2 -0)", "f2 create new/deep/b.go (+1 -0)", "f3 delete old.txt (+0 -1)",
		"f4 rename move.txt to moved/there.txt (+1 -0)", "f5 update pic.png (image/png, 13 to 13 bytes)",
		"f6 unchanged keep.txt",
	}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Fatal(diff)
	}
	r := s.commit(p)
	s.want(map[string]string{
		"keep.txt": "keep\n", "src/": "", "src/a.go": "package a\n\nvar x = 1\n", "new/": "", "new/deep/": "",
		"new/deep/b.go": "package deep\n",
		"moved/":        "", "moved/there.txt": "one\ntwo\nthree\n", "pic.png": "\x89PNG\r\n\x1a\n\x00\x00new",
	})
	info, err := os.Stat(filepath.Join(s.dir, "src/a.go"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v; it was 0600", info.Mode(), err)
	}
	wantReceipt := &Receipt{
		TxnID: p.ID, State: Committed, Undo: p.ID,
		FilesCreated: []string{"new/deep/b.go"}, FilesUpdated: []string{"src/a.go", "pic.png"},
		FilesDeleted: []string{"old.txt"},
		FilesRenamed: []Renamed{{"move.txt", "moved/there.txt"}}, FilesUnchanged: []string{"keep.txt"},
		FilesSkipped: []Skipped{}, Conflicts: []Skipped{}, Errors: []Skipped{},
	}
	if diff := cmp.Diff(wantReceipt, r); diff != "" {
		t.Error(diff)
	}

	undo := s.must(s.w.UndoLatest(t.Context()))
	s.commit(undo)
	s.want(before)
	redo := s.must(s.w.Redo(t.Context()))
	s.commit(redo)
	if got := s.files(); got["moved/there.txt"] != "one\ntwo\nthree\n" || got["old.txt"] != "" ||
		got["pic.png"] != "\x89PNG\r\n\x1a\n\x00\x00new" {
		t.Fatalf("redo: %v", got)
	}
	if !slices.Contains(slices.Collect(maps.Keys(s.files())), "new/deep/b.go") {
		t.Error("redo did not create the file again")
	}
}
