package workspace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/reply"
)

// TestElided replaces most methods of a file by a comment, in the words and signs of many
// languages.
func TestElided(t *testing.T) {
	const old = "class A {\n  a() {\n    return 1\n  }\n\n  b() {\n    return 2\n  }\n\n  c() {\n    return 3\n  }\n}\n"
	for _, c := range []struct{ path, line string }{
		{"a.js", "// ... same ..."},
		{"a.js", "// ... unverändert ..."},
		{"a.ts", "// 其余代码不变"},
		{"a.ts", "// 以下省略"},
		{"a.java", "// other methods here"},
		{"a.java", "/* as before */"},
		{"a.kt", "// ditto"},
		{"a.swift", "// TODO: keep the remaining methods"},
		{"a.rs", "// resto del código sin cambios"},
		{"a.go", "// le reste ne change pas"},
		{"a.cs", "// без изменений"},
		{"a.php", "# b and c"},
		{"a.py", "# (methods b and c)"},
		{"a.py", "..."},
		{"a.rb", "# そのまま"},
		{"a.lua", "-- b, c"},
		{"a.sql", "-- and so on and so forth"},
		{"a.vue", "<!-- the two below -->"},
		{"a.html", "<!-- b / c -->"},
		{"a.tsx", "{/* b, c */}"},
		{"a.tex", "% wie gehabt"},
		{"a.md", "[...]"},
		{"a.txt", "(…)"},
		{"a.unknown", "// b, c"},
		{"a.unknown", "# b, c"},
	} {
		s := newSite(t, map[string]string{c.path: old})
		p := s.plan(write(c.path, "class A {\n  a() {\n    return 10\n  }\n\n  "+c.line+"\n}\n"))
		f := &p.Files[0]
		if !f.has(elidedRule) || f.Checked {
			t.Errorf("%s with %q: findings %v, checked %v; want %s, not checked", c.path, c.line, f.Findings, f.Checked,
				elidedRule)
		}
		for _, policy := range []Policy{Automatic(), {Rules: []PolicyRule{{Decision: Allow, Sensitive: true}}}} {
			if a, held := p.ApproveBy(policy); len(a.Files) > 0 || len(held) != 1 || held[0].Rule != elidedRule {
				t.Errorf("%s with %q: a policy approves %v and holds %v", c.path, c.line, a.Files, held)
			}
		}
	}
}

// TestNotElided has changes with new comments that leave out nothing.
func TestNotElided(t *testing.T) {
	const old = "import os\n\ndef f(x):\n    y = x + 1\n    print(y)\n    return y\n\ndef g():\n    pass\n"
	for name, next := range map[string]string{
		"a comment above a changed line": strings.Replace(old, "    y = x + 1", "    # One more.\n    y = x + 2", 1),
		"a comment above new lines":      strings.Replace(old, "y = x + 1", "# In two steps.\n    z = x\n    y = z + 1", 1),
		"a comment alone":                strings.Replace(old, "    print(y)", "    # It prints.\n    print(y)", 1),
		"lines removed elsewhere": strings.Replace(strings.TrimPrefix(old, "import os\n\n"),
			"return y", "# Done.\n    return y", 1),
		"a comment in place of a comment": old + "# new\n",
		"a function rewritten": strings.Replace(old, "y = x + 1\n    print(y)\n    return y",
			"# The sum.\n    total = sum([x, 1])\n    log(total)\n    return total", 1),
	} {
		e := elider{path: "a.py", old: splitLines(old), lines: splitLines(next), cells: maxCells}
		if line, removed := e.find(); line > 0 {
			t.Errorf("%s: line %d is said to stand for %d lines", name, line, removed)
		}
	}
}

func TestShrinks(t *testing.T) {
	old := strings.Repeat("a\nb\n", 21)
	s := newSite(t, map[string]string{"a.txt": old, "b.txt": old[:len(old)-4]})
	p := s.plan(write("a.txt", old[:40]), write("b.txt", old[:40]))
	if !p.Files[0].has("write.shrinks") || p.Files[1].has("write.shrinks") {
		t.Errorf("42 lines: %v; 40 lines: %v; want write.shrinks for the first alone", p.Files[0].Findings,
			p.Files[1].Findings)
	}
}

// A comment in place of the rest is not another comment of it that was changed, although their signs are
// the same.
func TestElidedBesideComment(t *testing.T) {
	for _, c := range []struct{ path, old, line string }{
		{"a.md", "<!-- soak:load -->", "<!-- xyzzy -->"},
		{"a.css", "/* load */", "/* xyz */"},
		{"a.tsx", "{/* load */}", "{/* xyz */}"},
	} {
		e := elider{path: c.path, old: splitLines("first\nsecond\n" + c.old + "\nthird\nfourth\nlast\n"),
			lines: splitLines("first\n" + c.line + "\nlast\n"), cells: maxCells}
		if line, removed := e.find(); line != 2 || removed != 3 {
			t.Errorf("%s: line %d stands for %d lines, want line 2 for 3", c.path, line, removed)
		}
	}
}

// revision is a text before and after a person changed it.
type revision struct{ path, old, next string }

// sampled is the commit up to which the history is the sample: with each commit it would be another one, and of a
// large change of this project the test would say something of the rule.
const sampled = "7e88c56c"

// revisions returns changes of files as people made them, from this project's own history.
func revisions(t *testing.T, most int) (all []revision) {
	t.Helper()
	git := func(args ...string) *exec.Cmd { return exec.CommandContext(t.Context(), "git", args...) }
	log, err := git("log", "--no-merges", "--raw", "--no-abbrev", "--diff-filter=M", "--format=format:commit%n",
		"--max-count=400", sampled).Output()
	if err != nil {
		t.Skip("the history is not at hand: the sources are no Git repository, or a shallow clone")
	}
	cat := git("cat-file", "--batch")
	in, _ := cat.StdinPipe()
	out, _ := cat.StdoutPipe()
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cat.Wait() }()
	r := bufio.NewReader(out)
	blob := func(id string) []byte {
		fmt.Fprintln(in, id)
		var size int
		if head, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		} else if _, err := fmt.Sscanf(head, id+" blob %d", &size); err != nil {
			return nil // a clone without its whole history
		}
		data := make([]byte, size+1)
		if _, err := io.ReadFull(r, data); err != nil {
			t.Fatal(err)
		}
		return data[:size]
	}
	for commit := range strings.SplitSeq(string(log), "commit\n") {
		if strings.Count(commit, "\n") > mostFiles {
			continue
		}
		all = append(all, changesOf(commit, blob)...)
	}
	if all = all[:min(len(all), most)]; len(all) < most/2 {
		t.Skipf("only %d changes are in the history at hand: it is a shallow clone", len(all))
	}
	return all
}

// mostFiles bounds the files of a commit that counts: weeks of work, or a new name for the module, are
// no answer to a question.
const mostFiles = 100

// changesOf returns the changes that git lists of a commit.
func changesOf(commit string, blob func(id string) []byte) (all []revision) {
	for line := range strings.Lines(commit) {
		f := strings.Fields(line)
		if len(f) != 6 {
			continue
		}
		old, next := blob(f[2]), blob(f[3])
		if isText(old) && isText(next) && len(old) > 0 && len(old) < 200_000 && bytes.IndexByte(next, 0) < 0 {
			all = append(all, revision{f[5], string(old), string(next)})
		}
	}
	return all
}

// withoutUnchanged leaves out the lines that a change does not touch, but for some beside each
// change, and puts a comment in their place. It reports whether any code went.
func (r *revision) withoutUnchanged(beside int) (string, bool) {
	old, next := splitLines(r.old), splitLines(r.next)
	e := elider{path: r.path}
	var out strings.Builder
	any := false
	keep := func(run []string) {
		if len(run) > 2*beside {
			hidden := run[beside : len(run)-beside]
			indent := hidden[0][:len(hidden[0])-len(strings.TrimLeft(hidden[0], " \t"))]
			for _, form := range []string{"// %s\n", "# %s\n", "<!-- %s -->\n", "-- %s\n", "/* %s */\n"} {
				if line := indent + fmt.Sprintf(form, "xyzzy"); reply.IsComment(r.path, line) && e.code(hidden) > 0 {
					writeLines(&out, run[:beside])
					out.WriteString(line)
					writeLines(&out, run[len(run)-beside:])
					any = true
					return
				}
			}
		}
		writeLines(&out, run)
	}
	at := 0
	for _, edit := range diffLines(old, next) {
		keep(next[at:edit.ReplStart])
		writeLines(&out, next[edit.ReplStart:edit.ReplEnd])
		at = edit.ReplEnd
	}
	keep(next[at:])
	return out.String(), any
}

// TestRealEdits takes changes that people made as replies with the whole file: few may be
// asked about. With the unchanged lines left out, nearly each has to be: where one line was
// removed and one is new, the rule can only guess.
func TestRealEdits(t *testing.T) {
	find := func(r *revision, next string) bool {
		e := elider{path: r.path, old: splitLines(r.old), lines: splitLines(next), cells: maxCells}
		line, _ := e.find()
		return line > 0
	}
	asked, lazy, lost := 0, 0, 0
	all := revisions(t, 1000)
	for i := range all {
		r := &all[i]
		if find(r, r.next) {
			asked++
		}
		for _, beside := range []int{1, 3} {
			next, any := r.withoutUnchanged(beside)
			if !any {
				continue
			}
			if lazy++; !find(r, next) {
				lost++
				t.Logf("lost, with %d lines beside: %s\n%.600s", beside, r.path, next)
			}
		}
	}
	t.Logf("%d whole files: %d asked for nothing (%.2f %%); %d with lines left out: %d lost", len(all), asked,
		100*float64(asked)/float64(len(all)), lazy, lost)
	if lost*500 > lazy || asked*50 > len(all) {
		t.Errorf("%d of %d asked for nothing, %d of %d lost; want up to 2 %% and 0.2 %%", asked, len(all), lost, lazy)
	}
}

// TestElidedAboveBlank has a comment that stands for one line where as many are new.
func TestElidedAboveBlank(t *testing.T) {
	const tail = "// The most.\nconst most = 1\n"
	e := elider{path: "p.go", old: splitLines("//go:build race\n\npackage p\n\n" + tail), cells: maxCells,
		lines: splitLines("//go:build race\n// xyzzy\n\nimport \"time\"\n\n" + tail)}
	if line, removed := e.find(); line != 2 || removed != 1 {
		t.Errorf("line %d stands for %d lines, want line 2 for 1", line, removed)
	}
}

// A comment between lines that had others between them stands for those, and one between lines
// that stood together for none. TestRealEdits has the replies that need it.
func TestElidedBetween(t *testing.T) {
	head, body, tail := "import (\n\t\"fmt\"\n)\n", "func one() {\n\tpanic(1)\n", "\t// Output:\n\t// 1\n}\n"
	old := splitLines(head + body + tail)
	for next, want := range map[string]int{
		head + "// xyzzy\n" + tail + "more\n":        2,
		head + "// xyzzy\n" + body + tail + "more\n": 0, // it is new beside them
		"// xyzzy\n" + tail:                          0, // too little stands around it
	} {
		e := elider{path: "p.go", old: old, lines: splitLines(next), cells: maxCells}
		line := slices.Index(e.lines, "// xyzzy\n")
		if got := e.between(line); got != want {
			t.Errorf("got %d lines, want %d, for the comment of\n%s", got, want, next)
		}
	}
}
