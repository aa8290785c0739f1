package reply

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// summary is an item in a line: kind, verdict, path, and its hunks.
func summary(it *Item) string {
	s := fmt.Sprintf("%s %s %s", it.Kind, it.Verdict, it.Path)
	if it.To != "" {
		s += " to " + it.To
	}
	if it.Create {
		s += " new"
	}
	if it.Kind == KindFile {
		s += fmt.Sprintf(" %q", it.Content)
	}
	for _, h := range it.Hunks {
		s += " {"
		for _, c := range h.Context {
			s += "@" + c + "@"
		}
		for i, line := range h.Lines {
			if i > 0 {
				s += "/"
			}
			s += string(line.Op) + line.Text
		}
		if h.EOF {
			s += " EOF"
		}
		s += "}"
	}
	return s
}

const hunkAB = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"in a fence with a path", "```ts:src/a.ts\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"two hunks", "```ts:src/a.ts\n" + hunkAB + "\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b} {-a/+b}"}},
		{"path above the fence", "src/a.ts\n```ts\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"path in the fence", "```\nsrc/a.ts\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"two paths in a fence", "```\nsrc/a.ts\n" + hunkAB + "src/b.ts\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b}", "edit ok src/b.ts {-a/+b}"}},
		{"outside of a fence", "src/a.ts\n" + hunkAB, []string{"edit ok src/a.ts {-a/+b}"}},
		{"two outside of a fence", "src/a.ts\n" + hunkAB + "\n" + hunkAB, []string{"edit ok src/a.ts {-a/+b} {-a/+b}"}},
		{"gptme", "```patch src/a.ts\n<<<<<<< ORIGINAL\na\n=======\nb\n>>>>>>> UPDATED\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"cline", "```ts:src/a.ts\n------- SEARCH\na\n=======\nb\n+++++++ REPLACE\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"roo", "```ts:src/a.ts\n<<<<<<< SEARCH\n:start_line:7\n-------\na\n=======\nb\n>>>>>>> REPLACE\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"five marks", "```ts:src/a.ts\n<<<<< SEARCH\na\n=====\nb\n>>>>> REPLACE\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"fences inside the hunk", "```md:README.md\n<<<<<<< SEARCH\n```bash\nnpm i\n```\n=======\n```bash\nnpm ci\n```\n>>>>>>> REPLACE\n```\n",
			[]string{"edit ok README.md { ```bash/-npm i/+npm ci/ ```}"}},
		{"bare fences inside the hunk", "```ts:src/a.ts\n<<<<<<< SEARCH\n```\n=======\n```\nx\n>>>>>>> REPLACE\n```\n", []string{"edit ok src/a.ts { ```/+x}"}},
		{"common lines stay", "```ts:src/a.ts\n<<<<<<< SEARCH\nx\na\ny\n=======\nx\nb\ny\n>>>>>>> REPLACE\n```\n", []string{"edit ok src/a.ts { x/-a/+b/ y}"}},
		{"no path at all", hunkAB, []string{"edit ambiguous  {-a/+b}"}},
		{"no path after an edit with one", "```ts:src/a.ts\n" + hunkAB + "```\n\nand\n\n```ts\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b}", "edit ambiguous src/a.ts {-a/+b}"}},
		{"text between", "```ts:src/a.ts\nfoo();\n" + hunkAB + "```\n", []string{"edit ambiguous src/a.ts {-a/+b}"}},
		{"conflict", "```ts:src/a.ts\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> main\n```\n", []string{"edit invalid src/a.ts"}},
		{"no end", "```ts:src/a.ts\n<<<<<<< SEARCH\na\n=======\nb\n```\n", []string{"edit invalid src/a.ts"}},
		{"two dividers", "```ts:src/a.ts\n<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n```\n", []string{"edit invalid src/a.ts"}},
		{"new text leaves something out", "```ts:src/a.ts\n<<<<<<< SEARCH\na\n=======\n// ... existing code ...\nb\n>>>>>>> REPLACE\n```\n", []string{"edit partial src/a.ts {-a/+// ... existing code .../+b}"}},
		{"leads out", "```ts:../a.ts\n" + hunkAB + "```\n", []string{"edit refused ../a.ts {-a/+b}"}},
		{"file, then edit", "```ts:a.ts\na\n```\n```ts:a.ts\n" + hunkAB + "```\n", []string{`file ok a.ts "a\n"`, "edit ok a.ts {-a/+b}"}},
		{"edit, then file", "```ts:a.ts\n" + hunkAB + "```\n```ts:a.ts\nc\n```\n", []string{"edit superseded a.ts {-a/+b}", `file ok a.ts "c\n"`}},

		{"diff", "```diff\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,2 @@\n x\n-a\n+b\n```\n", []string{"edit ok src/a.ts { x/-a/+b}"}},
		{"diff without prefixes", "```diff\n--- src/a.ts\n+++ src/a.ts\n@@ @@\n-a\n+b\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"diff of two files", "```diff\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n--- a/b.ts\n+++ b/b.ts\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{"edit ok a.ts {-a/+b}", "edit ok b.ts {-a/+b}"}},
		{"diff of git", "```diff\ndiff --git a/a.ts b/a.ts\nindex 1..2 100644\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@ fn\n-a\n+b\n```\n", []string{"edit ok a.ts {-a/+b}"}},
		{"diff that creates", "```diff\n--- /dev/null\n+++ b/a.ts\n@@ -0,0 +1 @@\n+b\n```\n", []string{`file ok a.ts new "b\n"`}},
		{"diff that deletes", "```diff\n--- a/a.ts\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n```\n", []string{"delete ok a.ts {-a}"}},
		{"diff that renames", "```diff\ndiff --git a/a.ts b/b.ts\nsimilarity index 100%\nrename from a.ts\nrename to b.ts\n```\n", []string{"rename ok a.ts to b.ts"}},
		{"diff whose paths differ", "```diff\n--- a/a.ts\n+++ b/b.ts\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{"rename ambiguous a.ts to b.ts {-a/+b}"}},
		{"diff of a binary", "```diff\ndiff --git a/a.png b/a.png\nBinary files a/a.png and b/a.png differ\n```\n", []string{"edit invalid a.png"}},
		{"diff that leads out", "```diff\n--- a/../x.ts\n+++ b/../x.ts\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{"edit refused ../x.ts {-a/+b}"}},
		{"diff with a path in the info", "```diff:src/a.ts\n-a\n+b\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"diff under a name", "**src/a.ts**\n```diff\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"diff for another file than its fence", "```diff:src/b.ts\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{"edit ambiguous src/a.ts {-a/+b}"}},
		{"a diff in a fence of another language", "```ts:src/a.ts\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"a patch file is a file", "```diff:fix.patch\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{`file ok fix.patch "--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n"`}},
		{"a fence as context of a diff", "```diff\n--- a/R.md\n+++ b/R.md\n@@ -1,3 +1,3 @@\n ```bash\n-a\n+b\n ```\n```\n", []string{"edit ok R.md { ```bash/-a/+b/ ```}"}},
		{"no newline at the end", "```diff\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n```\n", []string{"edit ok a.ts {-a/+b}"}},
		{"diff outside of a fence", "diff --git a/a.ts b/a.ts\n--- a/a.ts\n+++ b/a.ts\n@@ -1,2 +1,2 @@\n x\n-a\n+b\n\nDone.\n", []string{"edit ok a.ts { x/-a/+b}"}},
		{"diff outside of a fence, too short", "--- a/a.ts\n+++ b/a.ts\n@@ -1,5 +1,5 @@\n x\n-a\n+b\nDone.\n", []string{"edit ambiguous a.ts { x/-a/+b}"}},
		{"a rule is no diff", "Text\n\n---\n\n- a\n--- and so on\n", nil},

		{"envelope", "*** Begin Patch\n*** Add File: a.ts\n+x\n+\n+y\n*** Update File: b.ts\n@@ class A\n-a\n+b\n*** Delete File: c.ts\n*** Update File: d.ts\n*** Move to: e.ts\n@@\n x\n-a\n+b\n*** End of File\n*** End Patch\n",
			[]string{`file ok a.ts new "x\n\ny\n"`, "edit ok b.ts {@class A@-a/+b}", "delete ok c.ts", "rename ok d.ts to e.ts { x/-a/+b EOF}"}},
		{"envelope with padded markers", "```\n  *** Begin Patch  \n  *** Update File: b.ts  \n@@\n-a\n+b\n  *** Delete File: c.ts\n  *** End Patch  \n```\n", []string{"edit ok b.ts {-a/+b}", "delete ok c.ts"}},
		{"envelope with a marker as context", "*** Begin Patch\n*** Update File: b.md\n@@\n *** Delete File: c.ts\n-a\n+b\n*** End Patch\n", []string{"edit ok b.md { *** Delete File: c.ts/-a/+b}"}},
		{"envelope in a fence", "```patch\n*** Begin Patch\n*** Add File: a.md\n+```\n+x\n+```\n*** End Patch\n```\n", []string{`file ok a.md new "` + "```" + `\nx\n` + "```" + `\n"`}},
		{"envelope in a heredoc", "```bash\napply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: a.ts\n*** End Patch\nEOF\n```\n", []string{"delete ok a.ts"}},
		{"context over context", "*** Begin Patch\n*** Update File: b.ts\n@@ class A\n@@ def f\n-a\n+b\n*** End Patch\n", []string{"edit ok b.ts {@class A@@def f@-a/+b}"}},
		{"envelope without end", "*** Begin Patch\n*** Delete File: a.ts\n", []string{"delete truncated a.ts"}},
		{"envelope without end, then prose", "*** Begin Patch\n*** Delete File: a.ts\nDone.\n", []string{"delete truncated a.ts"}},
		{"malformed envelope takes all down", "```\n*** Begin Patch\n*** Delete File: a.ts\n*** Add File: b.ts\nx\n*** End Patch\n```\n", []string{"delete invalid a.ts", `file invalid b.ts new ""`}},
		{"update without hunks", "*** Begin Patch\n*** Update File: a.ts\n*** End Patch\n", []string{"edit invalid a.ts"}},
		{"envelope that leads out", "*** Begin Patch\n*** Delete File: ../a.ts\n*** Update File: b.ts\n*** Move to: /c.ts\n@@\n-a\n+b\n*** End Patch\n", []string{"delete refused ../a.ts", "rename refused b.ts to /c.ts {-a/+b}"}},
		{"envelope in documentation", "````md:docs/p.md\n*** Begin Patch\n*** Delete File: a.ts\n*** End Patch\n````\n", []string{`file ok docs/p.md "*** Begin Patch\n*** Delete File: a.ts\n*** End Patch\n"`}},
		{"lists of plandex", "### Move Files\n- `a.ts` → `b.ts`\n\n### Remove Files\n- `c.ts`\n<EndPlandexFileOps/>\n", []string{"delete ok c.ts"}},
		{"list without its end", "### Remove Files\n- `c.ts`\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			sound(t, []byte(c.text))
			r := Parse([]byte(c.text))
			var got []string
			for _, it := range r.Items {
				got = append(got, summary(it))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				b, _ := r.JSON()
				t.Errorf("%s\n%s", diff, b)
			}
		})
	}
}

func TestGroupOfAnEnvelope(t *testing.T) {
	r := Parse([]byte("```ts:x.ts\n1\n```\n" + strings.Repeat("*** Begin Patch\n*** Delete File: a.ts\n*** Delete File: b.ts\n*** End Patch\n", 1)))
	if len(r.Items) != 3 || r.Items[0].Group != 0 || r.Items[1].Group != 2 || r.Items[2].Group != 2 {
		b, _ := r.JSON()
		t.Errorf("%s", b)
	}
}
