package workspace

import (
	"strings"
	"testing"
)

func textOf(t *testing.T, c *Content) string {
	t.Helper()
	if c == nil {
		return "none"
	}
	data, err := c.Bytes(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// conflicted returns a saved proposal with a file that both sides changed, as loaded by
// another process.
func conflicted(t *testing.T, s *site) *Proposal {
	t.Helper()
	s.put("a", "one\ntwo\nthree\n")
	p := s.plan(write("a", "one\nTHEIRS\nthree\n"))
	s.put("a", "one\nMINE\nthree\n")
	p = s.must(s.w.Rebase(t.Context(), p))
	if err := s.w.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return s.must(s.w.Proposal(t.Context(), p.ID))
}

func TestVersionsAreKept(t *testing.T) {
	s := newSite(t, nil)
	p := conflicted(t, s)
	f := p.File("f1")
	if f.Verdict() != Conflict {
		t.Fatalf("%+v", f.Findings)
	}
	v := f.Versions()
	for _, side := range []struct {
		content *Content
		want    string
	}{{v.Base, "one\ntwo\nthree\n"}, {v.Mine, "one\nMINE\nthree\n"}, {v.Theirs, "one\nTHEIRS\nthree\n"}} {
		if got := textOf(t, side.content); got != side.want {
			t.Errorf("%q, want %q", got, side.want)
		}
	}
	draft, ok, err := f.Draft(t.Context(), 1<<20)
	if err != nil || !ok || draft != "one\n<<<<<<< in the folder\nMINE\n=======\nTHEIRS\n>>>>>>> proposed\nthree\n" {
		t.Errorf("%q %v %v", draft, ok, err)
	}
	// The base is kept when a commit is reversed and the proposal is saved.
	next, err := s.w.Resolve(t.Context(), p, "f1", Theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.commit(next)
	s.want(map[string]string{"a": "one\nTHEIRS\nthree\n"})
}

// A created and then edited file is removed if the user chooses that, also in another
// process.
func TestUndoOfAnEditedFileIsKept(t *testing.T) {
	s := newSite(t, nil)
	s.commit(s.plan(write("a", "made\n")))
	s.put("a", "edited\n")
	p := s.must(s.w.UndoLatest(t.Context()))
	if err := s.w.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p = s.must(s.w.Proposal(t.Context(), p.ID))
	if v := p.Files[0].Versions(); v.Theirs != nil || textOf(t, v.Base) != "made\n" || textOf(t, v.Mine) != "edited\n" {
		t.Errorf("%+v", v)
	}
	next, err := s.w.Resolve(t.Context(), p, p.Files[0].ID, Theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.commit(next)
	s.want(map[string]string{})
}

// Unedited text round-trips through an editor, and one changed line changes one line.
func TestDraftKeepsBytes(t *testing.T) {
	for name, content := range map[string]string{
		"lf":       "a\nb\nc\n",
		"no end":   "a\nb\nc",
		"crlf":     "a\r\nb\r\nc\r\n",
		"mixed":    "a\r\nb\nc\r\n",
		"bom":      "\xef\xbb\xbfa\nb\nc\n",
		"utf-16":   "\xff\xfea\x00\n\x00b\x00\r\x00\n\x00c\x00",
		"one line": "b",
		"leading":  "\n\nb\n",
	} {
		s := newSite(t, map[string]string{"a": content})
		p := s.plan(Change{Verb: Write, Path: "a", Content: Bytes([]byte(content)), Exact: true})
		f := p.File("f1")
		draft, ok, err := f.Draft(t.Context(), 1<<20)
		if err != nil || !ok || strings.Contains(draft, "\r") {
			t.Fatalf("%s: %q %v %v", name, draft, ok, err)
		}
		// The text as a browser sends it.
		sent := strings.ReplaceAll(draft, "\n", "\r\n")
		if data, err := f.Undraft(t.Context(), sent, 1<<20); err != nil || string(data) != content {
			t.Errorf("%s: %q became %q, %v", name, content, data, err)
		}
		changed, err := f.Undraft(t.Context(), strings.Replace(sent, "b", "B", 1), 1<<20)
		want := strings.Replace(content, "b", "B", 1)
		switch name { // a new line gets the most frequent line end
		case "mixed":
			want = "a\r\nB\r\nc\r\n"
		case "utf-16":
			want = "\xff\xfea\x00\n\x00B\x00\n\x00c\x00"
		}
		if err != nil || string(changed) != want {
			t.Errorf("%s: edited to %q, want %q, %v", name, changed, want, err)
		}
	}
	for name, content := range map[string]string{"lone cr": "a\rb\n", "binary": "a\x00b", "latin-1": "caf\xe9\n",
		"large": strings.Repeat("a\n", 100)} {
		s := newSite(t, map[string]string{"a": "x"})
		p := s.plan(Change{Verb: Write, Path: "a", Content: Bytes([]byte(content)), Exact: true})
		if _, ok, err := p.File("f1").Draft(t.Context(), 100); ok || err != nil {
			t.Errorf("%s can be edited: %v", name, err)
		}
	}
}
