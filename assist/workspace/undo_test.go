package workspace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUndoKeepsLaterEdits: after random edits of the user, undo either reverts exactly the
// transaction and keeps every line of the user, or refuses and changes nothing. Redo
// restores the changes.
func TestUndoKeepsLaterEdits(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	merged, refused := 0, 0
	for round := range 40 {
		s := newSite(t, nil)
		var base strings.Builder
		for i := range 40 {
			fmt.Fprintf(&base, "line %d of round %d\n", i, round)
		}
		s.put("f.txt", base.String())
		proposed := mutate(random, base.String(), 3, "proposed")
		if proposed == base.String() {
			continue
		}
		p := s.plan(write("f.txt", proposed))
		s.commit(p)
		edited := mutate(random, proposed, 1+random.IntN(4), "user's")
		s.put("f.txt", edited)
		undo := s.must(s.w.Undo(t.Context(), p.ID))
		a, err := undo.Approve()
		if err != nil {
			t.Fatal(err)
		}
		if undo.Files[0].Verdict() == Conflict {
			refused++
			if len(a.Files) != 0 || undo.Files[0].Unified() == "" {
				t.Fatalf("a conflict can be approved, or shows nothing")
			}
			if s.files()["f.txt"] != edited {
				t.Fatal("a refused undo changed the file")
			}
			continue
		}
		merged++
		if _, err := s.w.Commit(t.Context(), undo, a, CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		got := s.files()["f.txt"]
		for _, line := range splitLines(edited) {
			if strings.HasPrefix(line, "user's") && !strings.Contains(got, line) {
				t.Fatalf("the user's %q is lost", line)
			}
		}
		if strings.Contains(got, "proposed") {
			t.Fatalf("undo left a line of the transaction:\n%s", got)
		}
		s.commit(s.must(s.w.Redo(t.Context())))
		if got := s.files()["f.txt"]; got != edited {
			t.Fatalf("redo gives\n%s\nwant\n%s", got, edited)
		}
	}
	if merged < 10 || refused < 2 {
		t.Errorf("%d merged, %d refused: both are to be tried", merged, refused)
	}
}

func TestUndoRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		do    Change
		then  func(s *site)
		rule  string
	}{
		{"a created file that was edited", nil, write("n", "new\n"), func(s *site) { s.put("n", "new\nedited\n") },
			"undo.edited"},
		{"a deleted file that is there anew", map[string]string{"d": "old\n"}, Change{Verb: Delete, Path: "d"},
			func(s *site) { s.put("d", "other\n") }, "undo.exists"},
		{"a binary file that was changed", map[string]string{"b": "\x00old"},
			Change{Verb: Write, Path: "b", Content: Bytes([]byte("\x00new"))}, func(s *site) { s.put("b", "\x00other") },
			"merge.binary"},
		{"an updated file that was deleted", map[string]string{"u": "old\n"}, write("u", "new\n"),
			func(s *site) { os.Remove(filepath.Join(s.dir, "u")) }, "undo.gone"},
		{"a renamed file whose place is taken", map[string]string{"r": "r\n"}, Change{Verb: Rename, Path: "r", To: "s"},
			func(s *site) { s.put("r", "other\n") }, "undo.exists"},
		{"a file that became a link", map[string]string{"l": "old\n"}, write("l", "new\n"), func(s *site) {
			os.Remove(filepath.Join(s.dir, "l"))
			os.Symlink("/etc/passwd", filepath.Join(s.dir, "l"))
		}, "path.symlink"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, tc.files)
			s.commit(s.plan(tc.do))
			tc.then(s)
			before := s.files()
			undo := s.must(s.w.UndoLatest(t.Context()))
			found := false
			for i := range undo.Files {
				for _, f := range undo.Files[i].Findings {
					found = found || f.Rule == tc.rule
				}
				if _, err := undo.Approve(undo.Files[i].ID); !errors.Is(err, ErrNeedsDecision) {
					t.Errorf("it could be approved: %v", err)
				}
			}
			if !found {
				t.Errorf("%s is not among the findings: %+v", tc.rule, undo.Files)
			}
			s.want(before)
		})
	}
}

func TestUndoRenameAfterEdit(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n"})
	s.commit(s.plan(Change{Verb: Rename, Path: "a.txt", To: "b/b.txt",
		Edit: func(b []byte) ([]byte, error) { return []byte(strings.Replace(string(b), "1", "one", 1)), nil }}))
	s.put("b/b.txt", "one\n2\n3\n4\n5\n6\nSEVEN\n")
	s.commit(s.must(s.w.UndoLatest(t.Context())))
	s.want(map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\nSEVEN\n"})
	s.commit(s.must(s.w.Redo(t.Context())))
	s.want(map[string]string{"b/": "", "b/b.txt": "one\n2\n3\n4\n5\n6\nSEVEN\n"})
}

func TestUndoChain(t *testing.T) {
	s := newSite(t, map[string]string{"a": "0\n"})
	var ids []string
	for i := 1; i <= 4; i++ {
		p := s.plan(write("a", fmt.Sprintf("%d\n", i)), write(fmt.Sprintf("f%d", i), "x"))
		s.commit(p)
		ids = append(ids, p.ID)
	}
	at := func(want string) {
		t.Helper()
		if got := s.files()["a"]; got != want+"\n" {
			t.Fatalf("a is %q; want %q", got, want)
		}
	}
	step := func(p *Proposal, err error) { t.Helper(); s.commit(s.must(p, err)) }
	step(s.w.UndoLatest(t.Context()))
	at("3")
	step(s.w.UndoLatest(t.Context()))
	at("2")
	step(s.w.Redo(t.Context()))
	at("3")
	step(s.w.Redo(t.Context()))
	at("4")
	if _, err := s.w.Redo(t.Context()); !errors.Is(err, ErrNothing) {
		t.Errorf("a third redo: %v", err)
	}
	step(s.w.UndoLatest(t.Context()))
	at("3")
	step(s.w.UndoTo(t.Context(), ids[0]))
	s.want(map[string]string{"a": "1\n", "f1": "x"})
	step(s.w.Redo(t.Context()))
	at("3")
	history, err := s.w.History(t.Context(), 3)
	if err != nil || len(history) != 3 || history[0].Origin.Kind != "redo" {
		t.Errorf("the history: %v, %v", history, err)
	}
}

func TestUndoNothing(t *testing.T) {
	s := newSite(t, nil)
	if _, err := s.w.UndoLatest(t.Context()); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
	if _, err := s.w.Undo(t.Context(), newID()); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	s.commit(s.plan(write("a", "a\n")))
	if _, err := s.w.UndoLatest(t.Context(), "f9"); err == nil {
		t.Error("a file that is not there was undone")
	}
}

func TestUndoRestoresMode(t *testing.T) {
	s := newSite(t, map[string]string{"d.sh": "#!/bin/sh\n"})
	path := filepath.Join(s.dir, "d.sh")
	if err := os.Chmod(path, 0o750); err != nil {
		t.Fatal(err)
	}
	s.commit(s.plan(Change{Verb: Delete, Path: "d.sh"}))
	s.commit(s.must(s.w.UndoLatest(t.Context())))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestResolve resolves conflicts.
func TestResolve(t *testing.T) {
	for choice, want := range map[Choice]string{Mine: "mine\n", Theirs: "theirs\n", Edited: "both\n", Skip: "mine\n"} {
		s := newSite(t, map[string]string{"a": "base\n", "b": "b\n"})
		p := s.plan(write("a", "theirs\n"), write("b", "B\n"))
		s.put("a", "mine\n")
		next, err := s.w.Rebase(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if next.File("f1").Verdict() != Conflict {
			t.Fatal(next.Files)
		}
		next, err = s.w.Resolve(t.Context(), next, "f1", choice, []byte("both\n"))
		if err != nil {
			t.Fatal(err)
		}
		s.commit(next)
		s.want(map[string]string{"a": want, "b": "B\n"})
	}
}

// TestBase: a file that changed after the author saw it is merged.
func TestBase(t *testing.T) {
	const base = "1\n2\n3\n4\n5\n6\n7\n"
	s := newSite(t, map[string]string{"a": strings.Replace(base, "1", "ONE", 1), "c": "other\n"})
	p := s.plan(
		Change{Verb: Write, Path: "a", Content: Bytes([]byte(strings.Replace(base, "7", "SEVEN", 1))), Base: []byte(base)},
		Change{Verb: Write, Path: "c", Content: Bytes([]byte("theirs\n")), Base: []byte("base\n")})
	if p.Files[0].Verdict() != Ask || p.Files[0].Checked || p.Files[1].Verdict() != Conflict {
		t.Fatal(p.Files)
	}
	s.commit(p, "f1")
	if got := s.files()["a"]; got != "ONE\n2\n3\n4\n5\n6\nSEVEN\n" {
		t.Errorf("merged: %q", got)
	}
}

// TestUndoOfNoChange undoes a transaction that changed nothing: older work stays.
func TestUndoOfNoChange(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "old\n"})
	first := s.commit(s.plan(write("a.txt", "new\n")))
	second := s.commit(s.plan(write("a.txt", "new\n")))
	if first.Undo == "" || second.Undo != "" {
		t.Fatalf("undo of a change %q, of none %q; want an id, and none", first.Undo, second.Undo)
	}
	if _, err := s.w.Undo(t.Context(), second.Undo); !errors.Is(err, ErrNothing) {
		t.Errorf("undo of nothing: %v, want ErrNothing", err)
	}
	if _, err := s.w.Undo(t.Context(), "nope"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "nope") {
		t.Errorf("undo of an unknown transaction: %v, want ErrNotFound with its name", err)
	}
	s.want(map[string]string{"a.txt": "new\n"})
}
