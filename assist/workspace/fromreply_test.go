package workspace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/reply"
)

// TestFromReply applies a reply of a model to a folder and undoes it.
func TestFromReply(t *testing.T) {
	s := newSite(t, map[string]string{
		"src/a.ts": "export const a = 1;\r\nexport const b = 2;\r\n", "old.txt": "old\n",
		"lib.py": "def f():\n    return 1\n\ndef g():\n    return 2\n",
	})
	before := s.files()
	text := strings.Join([]string{
		"Here are the files.", "",
		"```typescript:src/new.ts", "export const n = 3;", "```", "",
		"```typescript:src/a.ts", "export const a = 10;", "export const b = 2;", "```", "",
		"```12:15:src/a.ts", "a citation", "```", "",
		"lib.py", "```python", "<<<<<<< SEARCH", "    return 2", "=======", "    return 22", ">>>>>>> REPLACE", "```", "",
		"```python:part.py", "def x():", "    # ... existing code ...", "```", "",
		"```sh:../../etc/x", "evil", "```", "",
		"*** Begin Patch", "*** Delete File: old.txt", "*** End Patch", "",
	}, "\n")
	p := s.plan(FromReply(reply.Parse([]byte(text)))...)
	got := map[string]string{}
	for i := range p.Files {
		got[p.Files[i].Path] = string(p.Files[i].Op) + " " + string(p.Files[i].Verdict())
	}
	want := map[string]string{
		"src/new.ts": "create ", "src/a.ts": "update ", "lib.py": "update ", "part.py": "create refuse",
		"../../etc/x": "unchanged refuse", "old.txt": "delete ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s\n%+v", diff, p.Files)
	}
	a, held := p.ApproveBy(Automatic())
	if len(held) != 2 {
		t.Errorf("held: %v", held)
	}
	if _, err := s.w.Commit(t.Context(), p, a, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	s.want(map[string]string{
		"src/": "", "src/new.ts": "export const n = 3;\r\n", "src/a.ts": "export const a = 10;\r\nexport const b = 2;\r\n",
		"lib.py": "def f():\n    return 1\n\ndef g():\n    return 22\n",
	})
	s.commit(s.must(s.w.UndoLatest(t.Context())))
	s.want(before)
}

// TestReadings: each possible content of a reply can be chosen, also from a saved proposal,
// and takes over the form of the file.
func TestReadings(t *testing.T) {
	s := newSite(t, map[string]string{"README.md": "old\r\n"})
	p := s.plan(FromReply(reply.Parse([]byte("```markdown:README.md\n# T\n```\nnpm i\n```\nend\n```\n")))...)
	if f := &p.Files[0]; f.Verdict() != Ask || f.Checked || len(f.Readings) != 2 ||
		string(f.After().data) != "# T\r\n```\r\nnpm i\r\n```\r\nend\r\n" {
		t.Fatalf("%+v\n%s", f, f.After().data)
	}
	if err := s.w.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p, err := s.w.Proposal(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	next, err := s.w.Resolve(t.Context(), p, "f1", "r2", nil)
	if err != nil || next.Token == p.Token {
		t.Fatalf("%v, the token is the same: %v", err, err == nil)
	}
	if _, err := s.w.Resolve(t.Context(), p, "f1", "r3", nil); err == nil {
		t.Error("there is a third reading")
	}
	a, err := next.Approve("f1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.Commit(t.Context(), next, a, CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	s.want(map[string]string{"README.md": "# T\r\n"})
}

// TestPlaces: each match of an edit can be chosen. Each reading has the later edits, and
// the concurrent changes of others.
func TestPlaces(t *testing.T) {
	edit := func(old, text string) string {
		return "a.txt\n```\n<<<<<<< SEARCH\n" + old + "\n=======\n" + text + "\n>>>>>>> REPLACE\n```\n\n"
	}
	utf16 := func(text string) string {
		b := []byte{0xff, 0xfe}
		for _, c := range text {
			b = append(b, byte(c), 0)
		}
		return string(b)
	}
	for _, c := range []struct {
		name, file, text string
		want             []string
	}{
		{"two places", "x\r\nb\r\nx\r\n", edit("x", "y"), []string{"y\r\nb\r\nx\r\n", "x\r\nb\r\ny\r\n"}},
		{"UTF-16", utf16("x\nb\nx\n"), edit("x", "y"), []string{utf16("y\nb\nx\n"), utf16("x\nb\ny\n")}},
		{"and another edit", "x\nb\nx\n", edit("x", "y") + edit("b", "c"), []string{"y\nc\nx\n", "x\nc\ny\n"}},
		{"behind another edit", "x\nb\nx\n", edit("b", "c") + edit("x", "y"), []string{"y\nc\nx\n", "x\nc\ny\n"}},
		{"twice", "x\nb\nx\nb\n", edit("x", "y") + edit("b", "c"),
			[]string{"y\nc\nx\nb\n", "y\nb\nx\nc\n", "x\nc\ny\nb\n", "x\nb\ny\nc\n"}},
		{"moved", "x\nb\nx\n", "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-x\n+y\n*** End Patch\n",
			[]string{"y\nb\nx\n", "x\nb\ny\n"}},
		{"then written whole", "x\nb\nx\n", edit("x", "y") + "```txt:a.txt\nw\n```\n", nil},
		{"then deleted", "x\nb\nx\n", edit("x", "y") + "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\n", nil},
		{"one place", "x\nb\n", edit("x", "y"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, map[string]string{"a.txt": c.file})
			p := s.plan(FromReply(reply.Parse([]byte(c.text)))...)
			if err := s.w.Propose(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			p, err := s.w.Proposal(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range p.Files[0].Readings {
				next, err := s.w.Resolve(t.Context(), p, "f1", Choice(r.ID), nil)
				if err != nil {
					t.Fatal(err)
				}
				if next.Files[0].Checked {
					t.Error("a place is chosen without a person")
				}
				got = append(got, string(next.Files[0].After().data))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if len(c.want) > 0 && string(p.Files[0].After().data) != c.want[0] {
				t.Errorf("the first place is not what is proposed: %q", p.Files[0].After().data)
			}
		})
	}

	s := newSite(t, map[string]string{"a.txt": "x\nb\nx\nc\nd\n"})
	p := s.plan(FromReply(reply.Parse([]byte(edit("x", "y"))))...)
	p = s.must(s.w.Rebase(t.Context(), p))
	if f := p.Files[0]; f.Checked || len(f.Readings) != 2 {
		t.Errorf("a rebase forgets that a person has to choose: %+v", f)
	}
	s.put("a.txt", "x\nb\nx\nc\nD\n")
	p = s.must(s.w.Rebase(t.Context(), p))
	p = s.must(s.w.Resolve(t.Context(), p, "f1", "r2", nil))
	if got := string(p.Files[0].After().data); got != "x\nb\ny\nc\nD\n" {
		t.Errorf("after a change by somebody else: %q", got)
	}
}

// TestGuessedPath: an edit without a path applies to the file of the edit before it if it
// fits there exactly and is long enough.
func TestGuessedPath(t *testing.T) {
	for _, c := range []struct {
		name, search string
		want         Severity
	}{
		{"fits", "\treturn compute(second)", ""},
		{"is too short", "\tx", Ask},
		{"is not there", "\treturn compute(third)", Conflict},
		{"fits but for white space", "return  compute(second)", Conflict},
		{"fits but for quotes", "\tsay(\"it is the quoted text\")", Ask},
	} {
		s := newSite(t, map[string]string{
			"a.go": "\treturn compute(first)\n\treturn compute(second)\n\tx\n\tsay(“it is the quoted text”)\n"})
		text := "a.go\n```go\n<<<<<<< SEARCH\n\treturn compute(first)\n=======\n\treturn 1\n>>>>>>> REPLACE\n```\n\n" +
			"And then:\n\n```go\n<<<<<<< SEARCH\n" +
			c.search + "\n=======\n\treturn 2\n>>>>>>> REPLACE\n```\n"
		p := s.plan(FromReply(reply.Parse([]byte(text)))...)
		if len(p.Files) != 1 || p.Files[0].Verdict() != c.want {
			t.Errorf("%s: %+v", c.name, p.Files)
		}
	}
}

// TestAppliedAlready gives changes whose result the folder has.
func TestAppliedAlready(t *testing.T) {
	const head = "package a // the first"
	patch := func(lines string) string { return "*** Begin Patch\n" + lines + "*** End Patch\n" }
	for _, c := range []struct {
		name, reply, path, rule string
		want                    Severity
	}{
		{"an edit", searchBlock("a.go", "func oldName() {}", "func newName() {}"), "a.go", "edit.inexact", Note},
		{"an edit that never fit", searchBlock("a.go", "func other() {}", "func third() {}"), "a.go", "edit.failed",
			Conflict},
		{"lines that are gone", searchBlock("a.go", head+"\n\nvar x\nfunc newName() {}", head+"\n\nfunc newName() {}"),
			"a.go", "edit.inexact", Note},
		{"lines that are gone, at the end", searchBlock("a.go", head+"\nvar x int", head), "a.go", "edit.failed",
			Conflict},
		{"a line behind another", searchBlock("a.go", head, head+"\n\nfunc newName() {}"), "a.go", "edit.inexact",
			Note},
		{"a line before another", searchBlock("a.go", "func newName() {}", head+"\n\nfunc newName() {}"), "a.go",
			"edit.inexact", Note},
		{"a short line behind another", searchBlock("c.txt", "ONE", "ONE\ntwo"), "c.txt", "edit.inexact", Note},
		{"few letters, of a whole file", searchBlock("b.txt", "one", "ONE"), "b.txt", "edit.inexact", Note},
		{"few letters, of a part", searchBlock("c.txt", "one", "ONE"), "c.txt", "edit.failed", Conflict},
		{"a deletion", patch("*** Delete File: gone.txt\n"), "gone.txt", "delete.missing", Note},
		{"a deletion of another spelling", patch("*** Delete File: B.TXT\n"), "B.TXT", "path.spelling", Conflict},
		{"a rename", patch("*** Update File: old.txt\n*** Move to: b.txt\n"), "b.txt", "rename.done", Note},
		{"a rename of nothing", patch("*** Update File: old.txt\n*** Move to: new.txt\n"), "new.txt", "edit.missing",
			Conflict},
		{"a rename with an edit", patch("*** Update File: old.txt\n*** Move to: b.txt\n@@\n-one\n+ONE\n"), "b.txt",
			"edit.inexact", Note},
		{"a rename to another file", patch("*** Update File: old.txt\n*** Move to: c.txt\n@@\n-no such line\n+a new line\n"),
			"c.txt", "edit.failed", Conflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, map[string]string{"a.go": head + "\n\nfunc newName() {}\n", "b.txt": "ONE\n",
				"c.txt": "ONE\ntwo\n"})
			p := s.plan(FromReply(reply.Parse([]byte(c.reply)))...)
			if len(p.Files) != 1 {
				t.Fatalf("%d files; want one", len(p.Files))
			}
			if f := &p.Files[0]; f.Path != c.path || f.Op != OpUnchanged || f.Verdict() != c.want || !f.has(c.rule) {
				t.Errorf("%s of %s with %v; want unchanged, with a %s (%s)", f.Op, f.Path, f.Findings, c.want, c.rule)
			}
		})
	}
}
