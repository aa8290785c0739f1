package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/outputrules"
)

// TestEditorBetweenApprovalAndCommit: the user saves a file after its approval. Nothing is
// changed or lost; a rebased proposal merges.
func TestEditorBetweenApprovalAndCommit(t *testing.T) {
	const text = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
	for _, tc := range []struct {
		name  string
		edit  func(s *site)
		want  Severity // of the rebased file
		merge string
	}{
		{"elsewhere", func(s *site) { s.put("a.txt", strings.Replace(text, "seven", "SEVEN", 1)) }, Ask,
			"ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n"},
		{"in the same place", func(s *site) { s.put("a.txt", strings.Replace(text, "one", "mine", 1)) }, Conflict, ""},
		{"to the very same, and a new file is there", func(s *site) {
			s.put("a.txt", strings.Replace(text, "one", "ONE", 1))
			s.put("new.txt", "somebody's\n")
		}, "", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n"},
		{"deleted", func(s *site) { os.Remove(filepath.Join(s.dir, "a.txt")) }, Conflict, ""},
		{"became a link", func(s *site) {
			os.Remove(filepath.Join(s.dir, "a.txt"))
			os.Symlink("/etc/passwd", filepath.Join(s.dir, "a.txt"))
		}, Refuse, ""},
		{"became a directory", func(s *site) {
			os.Remove(filepath.Join(s.dir, "a.txt"))
			os.Mkdir(filepath.Join(s.dir, "a.txt"), 0o755)
		}, Refuse, ""},
		{"and a new file is there", func(s *site) { s.put("new.txt", "somebody's\n") }, "",
			"ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, map[string]string{"a.txt": text, "b.txt": "b\n"})
			p := s.plan(write("b.txt", "B\n"), write("new.txt", "new\n"), replaceText("a.txt", "one", "ONE"))
			a, err := p.Approve()
			if err != nil {
				t.Fatal(err)
			}
			tc.edit(s)
			before := s.files()
			_, err = s.w.Commit(t.Context(), p, a, CommitOptions{})
			var conflict *ConflictError
			if !errors.As(err, &conflict) || !errors.Is(err, ErrConflict) {
				t.Fatalf("the commit: %v", err)
			}
			s.want(before)
			next, err := s.w.Rebase(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			f := next.File("f3")
			if f == nil || f.Verdict() != tc.want {
				t.Fatalf("rebased: %+v", next.Files)
			}
			if tc.merge != "" && string(f.post.data) != tc.merge {
				t.Errorf("merged: %q", f.post.data)
			}
			if _, err := s.w.Commit(t.Context(), next, a, CommitOptions{}); !errors.Is(err, ErrStale) {
				t.Errorf("the old approval for the new proposal: %v", err)
			}
		})
	}
}

// TestEditorDoesTheSame: the user makes the approved changes before the commit, all or some.
// What is there stays as it is, and the rest is done.
func TestEditorDoesTheSame(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "a\n", "gone.txt": "gone\n", "old.txt": "old\n", "b.txt": "b\n"})
	p := s.plan(write("a.txt", "A\n"), write("new.txt", "new\n"), Change{Verb: Delete, Path: "gone.txt"},
		Change{Verb: Rename, Path: "old.txt", To: "moved.txt"}, write("b.txt", "B\n"))
	a, err := p.Approve()
	if err != nil {
		t.Fatal(err)
	}
	s.put("a.txt", "A\n")
	s.put("new.txt", "new\n")
	s.put("moved.txt", "old\n")
	for _, name := range []string{"gone.txt", "old.txt"} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.w.Commit(t.Context(), p, a, CommitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.txt", "new.txt", "gone.txt", "moved.txt"}
	if !slices.Equal(r.FilesUnchanged, want) || !slices.Equal(r.FilesUpdated, []string{"b.txt"}) ||
		len(r.FilesCreated)+len(r.FilesDeleted)+len(r.FilesRenamed) > 0 {
		t.Errorf("%+v; want %q unchanged, and b.txt updated", r, want)
	}
	undo, err := s.w.Undo(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(undo.Files) != 1 || undo.Files[0].Path != "b.txt" {
		t.Errorf("the undo is of %+v; want b.txt alone", undo.Files)
	}
}

// TestEditorDuringCommit: the user saves a file while it is published, at each step of the
// commit, by writing over it or by renaming a file over it. In every case the last saved
// version is in the folder, and the version before it is there or in the store.
func TestEditorDuringCommit(t *testing.T) {
	for _, way := range []string{"exchange", "aside"} {
		for _, how := range []string{"in place", "rename"} {
			for step := 1; ; step++ {
				s := newSite(t, map[string]string{"a.txt": "old\n", "b.txt": "old b\n", "gone.txt": "going\n"})
				s.w.noExchange = way == "aside"
				p := s.plan(write("a.txt", "proposed\n"), write("b.txt", "proposed b\n"), write("c.txt", "proposed c\n"),
					Change{Verb: Delete, Path: "gone.txt"})
				a, err := p.Approve()
				if err != nil {
					t.Fatal(err)
				}
				steps := 0
				var when string
				var mu sync.Mutex // files are staged side by side
				s.w.at = func(at string) {
					mu.Lock()
					defer mu.Unlock()
					if steps++; steps != step {
						return
					}
					when = at
					for _, name := range []string{"a.txt", "c.txt", "gone.txt"} {
						save(t, filepath.Join(s.dir, name), "the user's "+name, how)
					}
				}
				_, err = s.w.Commit(t.Context(), p, a, CommitOptions{})
				s.w.at = func(string) {}
				if steps < step {
					break
				}
				where := fmt.Sprintf("%s, saved %s at %q: %v", way, how, when, err)
				got := s.files()
				for _, name := range []string{"a.txt", "c.txt", "gone.txt"} {
					if got[name] != "the user's "+name {
						t.Fatalf("%s: %s is %q", where, name, got[name])
					}
				}
				for name := range got {
					if strings.HasPrefix(filepath.Base(name), outputrules.TempPrefix) {
						t.Errorf("%s: %s is left over", where, name)
					}
				}
				if err == nil && got["b.txt"] != "proposed b\n" || err != nil && got["b.txt"] != "old b\n" {
					t.Errorf("%s: b.txt is %q", where, got["b.txt"])
				}
				if _, err := s.w.Recover(t.Context()); err != nil {
					t.Errorf("%s: %v", where, err)
				}
			}
		}
	}
}

// TestEditorTwice: the user saves just before a file is exchanged, and again just after.
// The second version is in the folder, and the first in the store.
func TestEditorTwice(t *testing.T) {
	for _, how := range []string{"in place", "rename"} {
		s := newSite(t, map[string]string{"a.txt": "old\n"})
		p := s.plan(write("a.txt", "proposed\n"))
		a, err := p.Approve()
		if err != nil {
			t.Fatal(err)
		}
		s.w.at = func(at string) {
			switch at {
			case "committing":
				save(t, filepath.Join(s.dir, "a.txt"), "first\n", how)
			case "exchanged a.txt":
				save(t, filepath.Join(s.dir, "a.txt"), "second\n", how)
			}
		}
		_, err = s.w.Commit(t.Context(), p, a, CommitOptions{})
		var conflict *ConflictError
		if !errors.As(err, &conflict) || len(conflict.Kept) != 1 {
			t.Fatalf("%s: %v", how, err)
		}
		s.want(map[string]string{"a.txt": "second\n"})
		kept, err := s.w.OpenKept(t.Context(), conflict.Kept[0].Hash)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(kept); err != nil || string(data) != "first\n" {
			t.Errorf("%s: kept %q, %v", how, data, err)
		}
		kept.Close()
	}
}

// save writes a file like an editor.
func save(t *testing.T, path, content, how string) {
	t.Helper()
	if how == "rename" {
		if err := os.WriteFile(path+"~", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestOpenWriter: a program with an open file writes to it after the file was displaced.
// Its bytes are kept.
func TestOpenWriter(t *testing.T) {
	s := newSite(t, map[string]string{"log.txt": "old\n"})
	f, err := os.OpenFile(filepath.Join(s.dir, "log.txt"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := s.plan(write("log.txt", "new\n"))
	a, _ := p.Approve()
	s.w.at = func(at string) {
		if at == "synced" {
			if _, err := f.WriteString("late\n"); err != nil {
				t.Error(err)
			}
		}
	}
	r, err := s.w.Commit(t.Context(), p, a, CommitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kept) != 1 || r.Kept[0].Path != "log.txt" {
		t.Fatalf("kept: %v", r.Kept)
	}
	kept, err := s.w.OpenKept(t.Context(), r.Kept[0].Hash)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if data, err := io.ReadAll(kept); err != nil || string(data) != "old\nlate\n" {
		t.Errorf("kept %q, %v", data, err)
	}
}

func TestApproval(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "a\n"})
	p := s.plan(write("a.txt", "A\n"), write("b.txt", "b\n"), write("../x", "x"), write(".env", "x"))
	if got := fmt.Sprint(p.Files[0].Checked, p.Files[1].Checked, p.Files[2].Checked,
		p.Files[3].Checked); got != "true true false false" {
		t.Errorf("checked: %s", got)
	}
	a, err := p.Approve("f1")
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Approval){
		"no token":            func(a *Approval) { a.Token = "" },
		"another token":       func(a *Approval) { a.Token = strings.Repeat("0", 64) },
		"another proposal":    func(a *Approval) { a.Proposal = newID() },
		"a file that is not":  func(a *Approval) { a.Files = []Grant{{File: "f9"}} },
		"a file twice":        func(a *Approval) { a.Files = []Grant{{File: "f1"}, {File: "f1"}} },
		"a file refused":      func(a *Approval) { a.Files = []Grant{{File: "f3"}} },
		"nothing":             func(a *Approval) { a.Files = nil },
		"a hunk that is not":  func(a *Approval) { a.Files = []Grant{{File: "f1", Hunks: []string{"h7"}}} },
		"another content now": func(*Approval) { p.Files[0].Post.Hash = Sum([]byte("other")) },
	} {
		bad, hash := a, p.Files[0].Post.Hash
		spoil(&bad)
		if _, err := s.w.Commit(t.Context(), p, bad, CommitOptions{}); err == nil {
			t.Errorf("%s: it was committed", name)
		}
		p.Files[0].Post.Hash = hash
	}
	for _, id := range []string{"f3", "f9", "f1:h9", "x"} {
		if _, err := p.Approve(id); err == nil {
			t.Errorf("%s could be approved", id)
		}
	}
	edited, err := s.w.Resolve(t.Context(), p, "f1", Edited, []byte("edited\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Commit(t.Context(), edited, a, CommitOptions{}); !errors.Is(err, ErrStale) {
		t.Errorf("an approval from before an edit: %v", err)
	}
	s.want(map[string]string{"a.txt": "a\n"})
	r := s.commit(edited, "f1")
	s.want(map[string]string{"a.txt": "edited\n"})
	if len(r.FilesSkipped) != 3 || r.FilesSkipped[1].Rule != "path.traversal" {
		t.Errorf("skipped: %v", r.FilesSkipped)
	}
	again, _ := edited.Approve("f1")
	if _, err := s.w.Commit(t.Context(), edited, again, CommitOptions{}); !errors.Is(err, ErrStale) {
		t.Errorf("the second commit of one proposal: %v", err)
	}
}

func TestPolicy(t *testing.T) {
	s := newSite(t, map[string]string{"src/a.go": "a\n", "src/b.go": "b\n", "docs/x.md": "x\n"})
	p := s.plan(write("src/a.go", "A\n"), Change{Verb: Delete, Path: "src/b.go"}, write("docs/x.md", "X\n"),
		write("go.sum", "x\n"), write("/etc/x", "x"), write("other", strings.Repeat("x", 100)))
	for _, tc := range []struct {
		name   string
		policy Policy
		want   string
	}{
		{"none", Policy{}, ""},
		{"automatic", Automatic(), "f1 f2 f3 f6"},
		{"sensitive too", Policy{Rules: []PolicyRule{{Decision: Allow, Sensitive: true}}}, "f1 f2 f3 f4 f6"},
		{"below src, no deletes", Policy{Rules: []PolicyRule{{Glob: "src/**", Ops: []Op{OpCreate, OpUpdate},
			Decision: Allow}}}, "f1"},
		{"one denied", Policy{Rules: []PolicyRule{{Glob: "*.md", Decision: Deny}, {Decision: Allow}}}, "f1 f2 f6"},
		{"one held", Policy{Rules: []PolicyRule{{Glob: "*.md", Decision: Hold}, {Decision: Allow}}}, "f1 f2 f6"},
		{"by content", Policy{Rules: []PolicyRule{{SHA256: Sum([]byte("X\n")), Decision: Allow}}}, "f3"},
		{"by size", Policy{Rules: []PolicyRule{{Ops: []Op{OpCreate, OpUpdate}, MaxBytes: 10, Decision: Allow}}}, "f1 f3"},
	} {
		a, held := p.ApproveBy(tc.policy)
		var got []string
		for _, g := range a.Files {
			got = append(got, g.File)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %v; want %s", tc.name, got, tc.want)
		}
		if len(a.Files)+len(held) != len(p.Files) {
			t.Errorf("%s: %d approved and %d held of %d", tc.name, len(a.Files), len(held), len(p.Files))
		}
	}
}

func TestHunks(t *testing.T) {
	old := lines(40, "")
	s := newSite(t, map[string]string{"a.txt": old})
	edited := strings.Replace(strings.Replace(strings.Replace(old, "b\n", "B\n", 1), "pxx\n"[:1]+"\n", "P\n", 1), "lx\n",
		"LX\n", 1)
	p := s.plan(write("a.txt", edited))
	if n := len(p.Files[0].Hunks); n != 3 {
		t.Fatalf("%d hunks:\n%s", n, p.Files[0].Unified())
	}
	s.commit(p, "f1:h1", "f1:h3")
	want := strings.Replace(edited, "P\n", "p\n", 1)
	s.want(map[string]string{"a.txt": want})

	// Undo one of the two hunks.
	undo := s.must(s.w.Undo(t.Context(), p.ID, "f1:h2"))
	s.commit(undo)
	want = strings.Replace(want, "LX\n", "lx\n", 1)
	s.want(map[string]string{"a.txt": want})
	// Only a part was undone, so the whole can still be undone.
	s.commit(s.must(s.w.UndoLatest(t.Context())))
	s.want(map[string]string{"a.txt": old})
}

func TestProposeLater(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "a\n", "m.txt": "m\n"})
	large := Bytes(bytes.Repeat([]byte("\x00\x01\x02"), 100_000))
	p := s.plan(write("a.txt", "A\n"), Change{Verb: Write, Path: "large.bin", Content: large, Exact: true},
		Change{Verb: Rename, Path: "m.txt", To: "n.txt"})
	if err := s.w.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), s.dir, Options{Store: s.store})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := other.Proposal(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Token != p.Token {
		t.Error("the token is another one after loading")
	}
	if diff := cmp.Diff(p.Files[0].Unified(), loaded.Files[0].Unified()); diff != "" {
		t.Error(diff)
	}
	// A conflict leaves the proposal to be rebased.
	s.put("a.txt", "changed\n")
	a, _ := loaded.Approve()
	if _, err := other.Commit(t.Context(), loaded, a, CommitOptions{}); !errors.Is(err, ErrConflict) {
		t.Fatal(err)
	}
	s.put("a.txt", "a\n")
	if loaded, err = other.Proposal(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	a, _ = loaded.Approve()
	if _, err := other.Commit(t.Context(), loaded, a, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	got := s.files()
	if got["a.txt"] != "A\n" || got["n.txt"] != "m\n" || len(got["large.bin"]) != 300_000 {
		t.Errorf("the folder: %d bytes, %q, %q", len(got["large.bin"]), got["a.txt"], got["n.txt"])
	}
	if _, err := other.Proposal(t.Context(), p.ID); !errors.Is(err, ErrStale) {
		t.Errorf("a committed proposal: %v", err)
	}
	turned := s.plan(write("z", "z"))
	if err := errors.Join(s.w.Propose(t.Context(), turned), s.w.Discard(t.Context(), turned.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Proposal(t.Context(), turned.ID); !errors.Is(err, ErrStale) {
		t.Errorf("a discarded proposal: %v", err)
	}
}

func TestBestEffort(t *testing.T) {
	s := newSite(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"})
	p := s.plan(write("a.txt", "A\n"), write("b.txt", "B\n"), write("c.txt", "C\n"), write("../no", "x"))
	a, _ := p.Approve()
	s.put("b.txt", "the user's\n")
	attached := 0
	r, err := s.w.Commit(t.Context(), p, a, CommitOptions{BestEffort: true,
		Attach: func(r *Receipt) (json.RawMessage, error) {
			attached++
			if len(r.Conflicts) != 1 {
				t.Errorf("conflicts %v", r.Conflicts)
			}
			return json.RawMessage(`"posts"`), nil
		}})
	if err != nil || attached != 1 {
		t.Fatal(err, attached)
	}
	s.want(map[string]string{"a.txt": "A\n", "b.txt": "the user's\n", "c.txt": "C\n"})
	if !slices.Equal(r.FilesUpdated, []string{"a.txt", "c.txt"}) || r.Conflicts[0].Path != "b.txt" || r.Undo != p.ID ||
		len(r.FilesSkipped) != 1 {
		t.Errorf("the receipt: %+v", r)
	}
	history, err := s.w.History(t.Context(), 0)
	if err != nil || len(history) != 1 || history[0].ID != p.ID || string(history[0].Attached) != `"posts"` {
		t.Errorf("the history: %+v, %v", history, err)
	}
	s.commit(s.must(s.w.UndoLatest(t.Context())))
	s.want(map[string]string{"a.txt": "a\n", "b.txt": "the user's\n", "c.txt": "c\n"})
}

// TestAttach: attached data reaches the store with the commit, and an error stops the
// commit before any change.
func TestAttach(t *testing.T) {
	s := newSite(t, nil)
	p := s.plan(write("a", "a"))
	a, _ := p.Approve()
	if _, err := s.w.Commit(t.Context(), p, a, CommitOptions{
		Attach: func(*Receipt) (json.RawMessage, error) { return nil, errors.New("no") }}); err == nil {
		t.Error("an error of Attach is ignored")
	}
	s.want(map[string]string{})
	if _, err := s.w.Commit(t.Context(), p, a, CommitOptions{
		Attach: func(r *Receipt) (json.RawMessage, error) { return json.Marshal(r.FilesCreated) }}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.store.Load(t.Context(), p.ID); err != nil || string(r.Attached) != `["a"]` {
		t.Errorf("%v, %v", r, err)
	}
}

func TestCancelled(t *testing.T) {
	s := newSite(t, map[string]string{"a": "a"})
	for _, at := range []string{"intent", "staged", "committing"} {
		p := s.plan(write("a", "new at "+at), write("b", at))
		a, _ := p.Approve()
		ctx, cancel := context.WithCancel(t.Context())
		s.w.at = func(step string) {
			if step == at {
				cancel()
			}
		}
		before := s.files()
		_, err := s.w.Commit(ctx, p, a, CommitOptions{})
		cancel()
		if at == "committing" {
			if err != nil {
				t.Errorf("cancelled after the decision: %v", err)
			}
			s.want(map[string]string{"a": "new at committing", "b": at})
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %s: %v", at, err)
		}
		s.want(before)
	}
}
