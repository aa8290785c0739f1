package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// dieAt commits, and ends the committing goroutine at a step, like a process that dies
// there. At editAt it calls edit.
func (s *site) dieAt(p *Proposal, step string, editAt string, edit func()) {
	s.t.Helper()
	a, err := p.Approve()
	if err != nil {
		s.t.Fatal(err)
	}
	died := true
	done := make(chan struct{})
	s.w.at = func(at string) {
		if at == editAt {
			edit()
		}
		if at == step {
			runtime.Goexit()
		}
	}
	go func() {
		defer close(done)
		_, err := s.w.Commit(s.t.Context(), p, a, CommitOptions{})
		died = false
		s.t.Errorf("the commit came to its end: %v", err)
	}()
	<-done
	if !died {
		s.t.FailNow()
	}
	s.w.at = func(string) {}
}

// TestCrashAndEditor: the process dies during a commit, and another process saves a file
// just before that or before the recovery.
func TestCrashAndEditor(t *testing.T) {
	old := map[string]string{"a.txt": "old a\n", "b.txt": "old b\n", "gone.txt": "going\n"}
	changes := func() []Change {
		return []Change{write("a.txt", "new a\n"), write("b.txt", "new b\n"), write("c.txt", "new c\n"),
			{Verb: Delete, Path: "gone.txt"}}
	}
	for _, tc := range []struct {
		name, die, editAt string
		edit              map[string]string // "": the file is removed
		want              map[string]string
	}{
		{"saved before it was exchanged, and nobody has looked", "exchanged a.txt", "committing",
			map[string]string{"a.txt": "user's\n"},
			map[string]string{"a.txt": "user's\n", "b.txt": "old b\n", "gone.txt": "going\n"}},
		{"saved before it went aside, and nobody has looked", "aside gone.txt", "committing",
			map[string]string{"gone.txt": "user's\n"},
			map[string]string{"a.txt": "old a\n", "b.txt": "old b\n", "gone.txt": "user's\n"}},
		{"saved after it was published", "done b.txt", "done b.txt", map[string]string{"a.txt": "user's\n"},
			map[string]string{"a.txt": "user's\n", "b.txt": "new b\n", "c.txt": "new c\n"}},
		{"saved where it was not published yet", "done a.txt", "done a.txt", map[string]string{"b.txt": "user's\n"},
			map[string]string{"a.txt": "old a\n", "b.txt": "user's\n", "gone.txt": "going\n"}},
		{"made where a file is to be made", "done a.txt", "done a.txt", map[string]string{"c.txt": "user's\n"},
			map[string]string{"a.txt": "old a\n", "b.txt": "old b\n", "c.txt": "user's\n", "gone.txt": "going\n"}},
		{"saved in both places", "done a.txt", "done a.txt", map[string]string{"a.txt": "user's a\n", "b.txt": "user's b\n"},
			map[string]string{"a.txt": "user's a\n", "b.txt": "user's b\n", "gone.txt": "going\n"}},
		{"removed where it was not published yet", "done a.txt", "done a.txt", map[string]string{"b.txt": ""},
			map[string]string{"a.txt": "old a\n", "gone.txt": "going\n"}},
		{"saved before anything was decided", "staged", "staged", map[string]string{"a.txt": "user's\n"},
			map[string]string{"a.txt": "user's\n", "b.txt": "old b\n", "gone.txt": "going\n"}},
		{"saved after everything was durable", "published", "published", map[string]string{"a.txt": "user's\n"},
			map[string]string{"a.txt": "user's\n", "b.txt": "new b\n", "c.txt": "new c\n"}},
		{"saved after what was displaced is cleared away", "swept", "swept",
			map[string]string{"a.txt": "user's\n", "c.txt": ""},
			map[string]string{"a.txt": "user's\n", "b.txt": "new b\n"}},
	} {
		for _, how := range []string{"in place", "rename"} {
			for _, way := range []string{"exchange", "aside"} {
				name := fmt.Sprintf("%s, %s, %s", tc.name, how, way)
				s := newSite(t, old)
				s.w.noExchange = way == "aside"
				die := tc.die
				if s.w.noExchange {
					die = strings.Replace(die, "exchanged", "aside", 1)
				}
				s.dieAt(s.plan(changes()...), die, tc.editAt, func() {
					for file, content := range tc.edit {
						if path := filepath.Join(s.dir, file); content == "" {
							os.Remove(path)
						} else {
							save(t, path, content, how)
						}
					}
				})
				if _, err := s.w.Recover(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				got := s.files()
				for file, content := range tc.want {
					if got[file] != content {
						t.Errorf("%s: %s is %q; want %q", name, file, got[file], content)
					}
					delete(got, file)
				}
				if len(got) > 0 {
					t.Errorf("%s: there are also %v", name, got)
				}
			}
		}
	}
}

// TestSlotRemoved: another process cleans the folder while a commit is unfinished.
func TestSlotRemoved(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "old a\n", "b.txt": "old b\n"})
	s.dieAt(s.plan(write("a.txt", "new a\n"), write("b.txt", "new b\n"), write("c.txt", "c\n")), "done a.txt", "", nil)
	temps, err := filepath.Glob(filepath.Join(s.dir, outputrules.TempPrefix+"*"))
	if err != nil || len(temps) != 3 {
		t.Fatal(temps, err)
	}
	for _, temp := range temps[1:] {
		if err := os.Remove(temp); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.w.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.want(map[string]string{"a.txt": "old a\n", "b.txt": "old b\n"})
}

// TestRecoveryIsNotStuck: a directory was replaced by a link after a crash.
// The workspace can be used again.
func TestRecoveryIsNotStuck(t *testing.T) {
	s := newSite(t, map[string]string{"d/a.txt": "old\n", "b.txt": "b\n"})
	s.dieAt(s.plan(write("d/a.txt", "new\n"), write("b.txt", "B\n")), "committing", "", nil)
	if err := os.Rename(filepath.Join(s.dir, "d"), filepath.Join(s.dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(s.dir, "d")); err != nil {
		t.Fatal(err)
	}
	records, err := s.w.Recover(t.Context())
	if err != nil || len(records) != 1 || records[0].State != Aborted || len(records[0].Left) == 0 {
		t.Fatalf("%+v, %v", records, err)
	}
	s.commit(s.plan(write("b.txt", "again\n")))
}
