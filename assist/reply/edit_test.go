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

// headAB is the form of gpt-engineer.
const headAB = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> updated\n"

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"in a fence with a path", "```ts:src/a.ts\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"two hunks", "```ts:src/a.ts\n" + hunkAB + "\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b} {-a/+b}"}},
		{"path above the fence", "src/a.ts\n```ts\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"path in the fence", "```\nsrc/a.ts\n" + hunkAB + "```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"two paths in a fence", "```\nsrc/a.ts\n" + hunkAB + "src/b.ts\n" + hunkAB + "```\n",
			[]string{"edit ok src/a.ts {-a/+b}", "edit ok src/b.ts {-a/+b}"}},
		{"outside of a fence", "src/a.ts\n" + hunkAB, []string{"edit ok src/a.ts {-a/+b}"}},
		{"two outside of a fence", "src/a.ts\n" + hunkAB + "\n" + hunkAB, []string{"edit ok src/a.ts {-a/+b} {-a/+b}"}},
		{"gptme", "```patch src/a.ts\n<<<<<<< ORIGINAL\na\n=======\nb\n>>>>>>> UPDATED\n```\n",
			[]string{"edit ok src/a.ts {-a/+b}"}},
		{"gpt-engineer", "src/a.ts\n" + headAB, []string{"edit ok src/a.ts {-a/+b}"}},
		{"gpt-engineer, two", "**src/a.ts**\n\n" + headAB + "\n" + headAB + "src/b.ts\n" + headAB,
			[]string{"edit ok src/a.ts {-a/+b} {-a/+b}", "edit ok src/b.ts {-a/+b}"}},
		{"gpt-engineer without a path", headAB, []string{"edit ambiguous  {-a/+b}"}},
		{"gpt-engineer with two dividers", "src/a.ts\n<<<<<<< HEAD\na\n=======\nb\n=======\nc\n>>>>>>> updated\n",
			[]string{"edit invalid src/a.ts"}},
		{"conflict outside of a fence", "src/a.ts\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> main\n", nil},
		{"conflict of a branch by that name", "src/a.ts\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> updated-parser\n", nil},
		{"conflict that does not end", "src/a.ts\n<<<<<<< HEAD\na\n\nsrc/b.ts\n```ts\nb\n```\n",
			[]string{`file ok src/b.ts "b\n"`}},
		{"gpt-engineer without an end", "src/a.ts\n<<<<<<< HEAD\na\n=======\nb\n\nsrc/b.ts\n```ts\nb\n```\n",
			[]string{"edit truncated src/a.ts", `file ambiguous src/b.ts "b\n"`}},
		{"conflict that ends with the reply", "src/a.ts\n<<<<<<< HEAD", nil},
		{"conflict, then an edit", "src/a.ts\n<<<<<<< HEAD\na\n\nsrc/b.ts\n" + headAB, []string{"edit ok src/b.ts {-a/+b}"}},
		{"conflict around a fence", "src/a.ts\n<<<<<<< HEAD\n=======\n```ts:src/b.ts\nb\n```\n>>>>>>> main\n",
			[]string{`file ok src/b.ts "b\n"`}},
		{"cline", "```ts:src/a.ts\n------- SEARCH\na\n=======\nb\n+++++++ REPLACE\n```\n",
			[]string{"edit ok src/a.ts {-a/+b}"}},
		{"roo", "```ts:src/a.ts\n<<<<<<< SEARCH\n:start_line:7\n-------\na\n=======\nb\n>>>>>>> REPLACE\n```\n",
			[]string{"edit ok src/a.ts {-a/+b}"}},
		{"five marks", "```ts:src/a.ts\n<<<<< SEARCH\na\n=====\nb\n>>>>> REPLACE\n```\n",
			[]string{"edit ok src/a.ts {-a/+b}"}},
		{"fences inside the hunk",
			"```md:README.md\n<<<<<<< SEARCH\n```bash\nnpm i\n```\n=======\n```bash\nnpm ci\n```\n>>>>>>> REPLACE\n```\n",
			[]string{"edit ok README.md { ```bash/-npm i/+npm ci/ ```}"}},
		{"bare fences inside the hunk", "```ts:src/a.ts\n<<<<<<< SEARCH\n```\n=======\n```\nx\n>>>>>>> REPLACE\n```\n",
			[]string{"edit ok src/a.ts { ```/+x}"}},
		{"common lines stay", "```ts:src/a.ts\n<<<<<<< SEARCH\nx\na\ny\n=======\nx\nb\ny\n>>>>>>> REPLACE\n```\n",
			[]string{"edit ok src/a.ts { x/-a/+b/ y}"}},
		{"no path at all", hunkAB, []string{"edit ambiguous  {-a/+b}"}},
		{"no path after an edit with one", "```ts:src/a.ts\n" + hunkAB + "```\n\nand\n\n```ts\n" + hunkAB + "```\n",
			[]string{"edit ok src/a.ts {-a/+b}", "edit ambiguous src/a.ts {-a/+b}"}},
		{"text between", "```ts:src/a.ts\nfoo();\n" + hunkAB + "```\n", []string{"edit ambiguous src/a.ts {-a/+b}"}},
		{"conflict", "```ts:src/a.ts\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> main\n```\n", []string{"edit invalid src/a.ts"}},
		{"no end", "```ts:src/a.ts\n<<<<<<< SEARCH\na\n=======\nb\n```\n", []string{"edit invalid src/a.ts"}},
		{"two dividers", "```ts:src/a.ts\n<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n```\n",
			[]string{"edit invalid src/a.ts"}},
		{"new text leaves something out",
			"```ts:src/a.ts\n<<<<<<< SEARCH\na\n=======\n// ... existing code ...\nb\n>>>>>>> REPLACE\n```\n",
			[]string{"edit partial src/a.ts {-a/+// ... existing code .../+b}"}},
		{"leads out", "```ts:../a.ts\n" + hunkAB + "```\n", []string{"edit refused ../a.ts {-a/+b}"}},
		{"file, then edit", "```ts:a.ts\na\n```\n```ts:a.ts\n" + hunkAB + "```\n",
			[]string{`file ok a.ts "a\n"`, "edit ok a.ts {-a/+b}"}},
		{"edit, then file", "```ts:a.ts\n" + hunkAB + "```\n```ts:a.ts\nc\n```\n",
			[]string{"edit superseded a.ts {-a/+b}", `file ok a.ts "c\n"`}},

		{"diff", "```diff\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1,2 +1,2 @@\n x\n-a\n+b\n```\n",
			[]string{"edit ok src/a.ts { x/-a/+b}"}},
		{"diff without prefixes", "```diff\n--- src/a.ts\n+++ src/a.ts\n@@ @@\n-a\n+b\n```\n",
			[]string{"edit ok src/a.ts {-a/+b}"}},
		{"diff of two files",
			"```diff\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n--- a/b.ts\n+++ b/b.ts\n@@ -1 +1 @@\n-a\n+b\n```\n",
			[]string{"edit ok a.ts {-a/+b}", "edit ok b.ts {-a/+b}"}},
		{"diff of git", "```diff\ndiff --git a/a.ts b/a.ts\nindex 1..2 100644\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@ fn\n-a\n" +
			"+b\n```\n", []string{"edit ok a.ts {-a/+b}"}},
		{"diff that creates", "```diff\n--- /dev/null\n+++ b/a.ts\n@@ -0,0 +1 @@\n+b\n```\n",
			[]string{`file ok a.ts new "b\n"`}},
		{"diff that deletes", "```diff\n--- a/a.ts\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n```\n",
			[]string{"delete ok a.ts {-a}"}},
		{"diff that renames",
			"```diff\ndiff --git a/a.ts b/b.ts\nsimilarity index 100%\nrename from a.ts\nrename to b.ts\n```\n",
			[]string{"rename ok a.ts to b.ts"}},
		{"diff whose paths differ", "```diff\n--- a/a.ts\n+++ b/b.ts\n@@ -1 +1 @@\n-a\n+b\n```\n",
			[]string{"rename ambiguous a.ts to b.ts {-a/+b}"}},
		{"diff of a binary", "```diff\ndiff --git a/a.png b/a.png\nBinary files a/a.png and b/a.png differ\n```\n",
			[]string{"edit invalid a.png"}},
		{"diff that leads out", "```diff\n--- a/../x.ts\n+++ b/../x.ts\n@@ -1 +1 @@\n-a\n+b\n```\n",
			[]string{"edit refused ../x.ts {-a/+b}"}},
		{"diff with a path in the info", "```diff:src/a.ts\n-a\n+b\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"diff under a name", "**src/a.ts**\n```diff\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"diff for another file than its fence",
			"```diff:src/b.ts\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-a\n+b\n```\n",
			[]string{"edit ambiguous src/a.ts {-a/+b}"}},
		{"a diff in a fence of another language",
			"```ts:src/a.ts\n--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-a\n+b\n```\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"a patch file is a file", "```diff:fix.patch\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n```\n",
			[]string{`file ok fix.patch "--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n+b\n"`}},
		{"a fence as context of a diff", "```diff\n--- a/R.md\n+++ b/R.md\n@@ -1,3 +1,3 @@\n ```bash\n-a\n+b\n ```\n```\n",
			[]string{"edit ok R.md { ```bash/-a/+b/ ```}"}},
		{"no newline at the end", "```diff\n--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n```\n",
			[]string{"edit ok a.ts {-a/+b}"}},
		{"diff outside of a fence",
			"diff --git a/a.ts b/a.ts\n--- a/a.ts\n+++ b/a.ts\n@@ -1,2 +1,2 @@\n x\n-a\n+b\n\nDone.\n",
			[]string{"edit ok a.ts { x/-a/+b}"}},
		{"diff outside of a fence, too short", "--- a/a.ts\n+++ b/a.ts\n@@ -1,5 +1,5 @@\n x\n-a\n+b\nDone.\n",
			[]string{"edit ambiguous a.ts { x/-a/+b}"}},
		{"a rule is no diff", "Text\n\n---\n\n- a\n--- and so on\n", nil},

		{"envelope", "*** Begin Patch\n*** Add File: a.ts\n+x\n+\n+y\n*** Update File: b.ts\n@@ class A\n-a\n+b\n" +
			"*** Delete File: c.ts\n*** Update File: d.ts\n*** Move to: e.ts\n@@\n x\n-a\n+b\n*** End of File\n*** End Patch\n",
			[]string{`file ok a.ts new "x\n\ny\n"`, "edit ok b.ts {@class A@-a/+b}", "delete ok c.ts",
				"rename ok d.ts to e.ts { x/-a/+b EOF}"}},
		{"envelope with padded markers",
			"```\n  *** Begin Patch  \n  *** Update File: b.ts  \n@@\n-a\n+b\n  *** Delete File: c.ts\n  *** End Patch  \n```\n",
			[]string{"edit ok b.ts {-a/+b}", "delete ok c.ts"}},
		{"envelope with a marker as context",
			"*** Begin Patch\n*** Update File: b.md\n@@\n *** Delete File: c.ts\n-a\n+b\n*** End Patch\n",
			[]string{"edit ok b.md { *** Delete File: c.ts/-a/+b}"}},
		{"envelope in a fence", "```patch\n*** Begin Patch\n*** Add File: a.md\n+```\n+x\n+```\n*** End Patch\n```\n",
			[]string{`file ok a.md new "` + "```" + `\nx\n` + "```" + `\n"`}},
		{"envelope in a heredoc",
			"```bash\napply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: a.ts\n*** End Patch\nEOF\n```\n",
			[]string{"delete ok a.ts"}},
		{"context over context", "*** Begin Patch\n*** Update File: b.ts\n@@ class A\n@@ def f\n-a\n+b\n*** End Patch\n",
			[]string{"edit ok b.ts {@class A@@def f@-a/+b}"}},
		{"envelope without end", "*** Begin Patch\n*** Delete File: a.ts\n", []string{"delete truncated a.ts"}},
		{"envelope without end, then prose", "*** Begin Patch\n*** Delete File: a.ts\nDone.\n",
			[]string{"delete truncated a.ts"}},
		{"malformed envelope takes all down",
			"```\n*** Begin Patch\n*** Delete File: a.ts\n*** Add File: b.ts\nx\n*** End Patch\n```\n",
			[]string{"delete invalid a.ts", `file invalid b.ts new ""`}},
		{"update without hunks", "*** Begin Patch\n*** Update File: a.ts\n*** End Patch\n", []string{"edit invalid a.ts"}},
		{"envelope that leads out",
			"*** Begin Patch\n*** Delete File: ../a.ts\n*** Update File: b.ts\n*** Move to: /c.ts\n@@\n-a\n+b\n*** End Patch\n",
			[]string{"delete refused ../a.ts", "rename refused b.ts to /c.ts {-a/+b}"}},
		{"envelope in documentation", "````md:docs/p.md\n*** Begin Patch\n*** Delete File: a.ts\n*** End Patch\n````\n",
			[]string{`file ok docs/p.md "*** Begin Patch\n*** Delete File: a.ts\n*** End Patch\n"`}},
		{"lists of plandex", "### Move Files\n- `a.ts` → `b.ts`\n\n### Remove Files\n- `c.ts`\n<EndPlandexFileOps/>\n",
			[]string{"delete ok c.ts"}},
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

// TestCalls: items in a tag that stands for a fence, or in a tool's call, are read,
// proposed or refused by their path. None is skipped.
func TestCalls(t *testing.T) {
	write := func(path, content string) string {
		return "<write_to_file>\n<path>" + path + "</path>\n<content>\n" + content + "</content>\n</write_to_file>\n"
	}
	roo := "<<<<<<< SEARCH\n:start_line:7\n-------\na\n=======\nb\n>>>>>>> REPLACE\n"
	cline := "------- SEARCH\na\n=======\nb\n+++++++ REPLACE\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"source with a path", "<source path=\"src/a.ts\">\n" + one + "</source>\n",
			[]string{`file ok src/a.ts "export const a = 1;\n"`}},
		{"source with a file", "<codeblock lang=\"ts\" file=\"src/a.ts\">\n" + one + "</codeblock>\n",
			[]string{`file ok src/a.ts "export const a = 1;\n"`}},
		{"source below a path", "src/a.ts\n<source>\n" + one + "</source>\n",
			[]string{`file ok src/a.ts "export const a = 1;\n"`}},
		{"source of a language below a path", "**src/a.ts**\n\n<source>typescript\n" + one + "</source>\n",
			[]string{`file ok src/a.ts "export const a = 1;\n"`}},
		{"two of them", "a.ts\n<sourcecode>\n1\n</sourcecode>\n\nb.ts\n<sourcecode>\n2\n</sourcecode>\n",
			[]string{`file ok a.ts "1\n"`, `file ok b.ts "2\n"`}},
		{"source with an edit", "src/a.ts\n<source>\n" + hunkAB + "</source>\n", []string{"edit ok src/a.ts {-a/+b}"}},
		{"source with a malformed edit", "src/a.ts\n<source>\n<<<<<<< SEARCH\na\n</source>\n",
			[]string{"edit invalid src/a.ts"}},
		{"source with a diff", "src/a.ts\n<source>\n@@ -1 +1 @@\n-a\n+b\n</source>\n",
			[]string{`file partial src/a.ts "@@ -1 +1 @@\n-a\n+b\n"`}},
		{"source of another language", "README.md\n<source>python\nx\n</source>\n",
			[]string{`file ambiguous README.md "x\n"`}},
		{"source that leaves out", "src/a.ts\n<source>\n// ... existing code ...\n</source>\n",
			[]string{`file partial src/a.ts "// ... existing code ...\n"`}},
		{"source that leads out", "<source path=\"../a.ts\">\nx\n</source>\n", []string{`file refused ../a.ts "x\n"`}},
		{"source that does not end", "src/a.ts\n<source>\nx\n", []string{`file truncated src/a.ts "x\n"`}},
		{"source twice closed", "src/a.xml\n<source>\n<a>\n</source>\n</a>\n</source>\n",
			[]string{`file ambiguous src/a.xml "<a>\n"`}},
		{"source in the content",
			"pom.xml\n<source>\n<a>\n  <source>1.8</source>\n  <b><source>1.8</source>\n</a>\n</source>\n",
			[]string{`file ok pom.xml "<a>\n  <source>1.8</source>\n  <b><source>1.8</source>\n</a>\n"`}},
		{"sources of a video in the content", "a.html\n<source>\n<video>\n<source src=\"a.mp4\">\n</video>\n</source>\n",
			[]string{`file ok a.html "<video>\n<source src=\"a.mp4\">\n</video>\n"`}},
		{"a source of a video", "a.html\n<source src=\"a.mp4\" type=\"video/mp4\">\nx\n", nil},
		{"source below a sentence", "This is the code.\n<source>\nx\n</source>\n", nil},
		{"pre below a path", "src/a.ts\n<pre>\na &lt; b\n</pre>\n", []string{`file ambiguous src/a.ts "a &lt; b\n"`}},
		{"pre with an edit", "src/a.ts\n<pre>\n" + hunkAB + "</pre>\n", []string{"edit ambiguous src/a.ts {-a/+b}"}},

		{"html below a document's name", "README.md\n```html\n<p>\n```\n", []string{`file ambiguous README.md "<p>\n"`}},
		{"js below a document's name", "**docs/a.md**\n\n```js\nx\n```\n", []string{`file ambiguous docs/a.md "x\n"`}},
		{"python with a document's name", "```python:README.md\nx\n```\n", []string{`file ok README.md "x\n"`}},
		{"html with a document's name inside", "```html\n<!-- README.md -->\nx\n```\n",
			[]string{`file ambiguous README.md "<!-- README.md -->\nx\n"`}},
		{"html above a document's name", "```html\n<p>\n```\nREADME.md\n", []string{`file ambiguous README.md "<p>\n"`}},
		{"python above a document's name", "So:\n\n```python\nx\n```\n\n**docs/a.md**\n\nDone.\n",
			[]string{`file ambiguous docs/a.md "x\n"`}},
		{"a part above its name", "```js\n// ... existing code ...\nx\n```\nsrc/a.js\n",
			[]string{"file partial src/a.js \"// ... existing code ...\\nx\\n\""}},
		{"an example, then a file", "```js\nx\n```\n\nsrc/a.js\n```js\ny\n```\n", []string{`file ok src/a.js "y\n"`}},
		{"commands above a name", "```bash\nnpm i\n```\n\nREADME.md\n", nil},
		{"a tree above a name", "```\nREADME.md\n```\n\nREADME.md\n", nil},
		{"code above a list of files", "```js\nx\n```\n\n- `README.md`\n- `a.js`\n", nil},
		{"code above a sentence", "```js\nx\n```\n\nSee README.md.\n", nil},
		{"gpt-engineer",
			"run.sh\n```bash\nset -e\n```\n\nrequirements.txt\n```\nx\n```\n\nsrc/main.py\n```python\nx = 1\n```\n",
			[]string{`file ok run.sh "set -e\n"`, `file ok requirements.txt "x\n"`, `file ok src/main.py "x = 1\n"`}},

		{"write", write("src/a.ts", one), []string{`file ambiguous src/a.ts "export const a = 1;\n"`}},
		{"write of two files", write("a.ts", "1\n") + "\n" + write("b.ts", "2\n"),
			[]string{`file ambiguous a.ts "1\n"`, `file ambiguous b.ts "2\n"`}},
		{"write with the number of lines", "<write_to_file>\n  <path>src/a.ts</path>\n  <content>\nx\n  </content>\n" +
			"<line_count>1</line_count>\n</write_to_file>\n", []string{`file ambiguous src/a.ts "x\n"`}},
		{"write in a line", "<write_to_file><path>a.txt</path><content>x</content></write_to_file>\n",
			[]string{`file ambiguous a.txt "x"`}},
		{"two writes in a line",
			"<write_to_file><path>a.txt</path><content>x</content></write_to_file><write_to_file><path>b.txt</path><content>y</content></write_to_file>\n", []string{`file ambiguous a.txt "x"`, `file ambiguous b.txt "y"`}},
		{"two files in a line", "<file path=\"a.txt\">x</file> <file path=\"b.txt\">y</file>\n",
			[]string{`file ok a.txt "x"`, `file ok b.txt "y"`}},
		{"write, the content first", "<write_to_file>\n<content>x</content>\n<path>a.txt</path>\n</write_to_file>\n",
			[]string{`file ambiguous a.txt "x"`}},
		{"write of a fence", write("src/a.ts", "```ts\n"+one+"```\n"),
			[]string{`file ambiguous src/a.ts "export const a = 1;\n"`}},
		{"write of fences", write("a.md", "# A\n```ts:src/a.ts\nx\n```\n"),
			[]string{`file ambiguous a.md "# A\n` + "```ts:src/a.ts\\nx\\n```" + `\n"`}},
		{"write of a closing tag", write("a.xml", "<content>\n1\n</content>\n"),
			[]string{`file ambiguous a.xml "<content>\n1\n</content>\n"`}},
		{"write that leaves out", write("a.ts", "// ... existing code ...\n"),
			[]string{`file partial a.ts "// ... existing code ...\n"`}},
		{"write that leads out", write("/etc/passwd", "x\n"), []string{`file refused /etc/passwd "x\n"`}},
		{"write without a path", "<write_to_file>\n<content>\nx\n</content>\n</write_to_file>\n",
			[]string{`file invalid  "x\n"`}},
		{"write without content", "<write_to_file>\n<path>a.ts</path>\n</write_to_file>\n", []string{`file invalid a.ts ""`}},
		{"write that does not end", "<write_to_file>\n<path>a.ts</path>\n<content>\nx\n", []string{`file invalid a.ts ""`}},
		{"write in a thought", "<think>\n" + write("a.ts", "x\n") + "</think>\n", nil},
		{"write in an example", "<example>\n" + write("a.ts", "x\n") + "</example>\n", nil},
		{"write in a fence", "```xml\n" + write("a.ts", "x\n") + "```\n", nil},
		{"write in indented code", "So:\n\n    <write_to_file>\n    ```ts:a.ts\n    x\n    ```\n    </write_to_file>\n", nil},

		{"roo's edit", "<apply_diff>\n<path>src/a.ts</path>\n<diff>\n" + roo + "</diff>\n</apply_diff>\n",
			[]string{"edit ambiguous src/a.ts {-a/+b}"}},
		{"cline's edit", "<replace_in_file>\n<path>src/a.ts</path>\n<diff>\n" + cline + "\n" + cline +
			"</diff>\n</replace_in_file>\n", []string{"edit ambiguous src/a.ts {-a/+b} {-a/+b}"}},
		{"roo's edit of two files",
			"<apply_diff>\n<args>\n<file>\n  <path>a.ts</path>\n  <diff>\n    <content>\n<![CDATA[\n" + roo +
				"]]>\n    </content>\n    <start_line>7</start_line>\n  </diff>\n</file>\n<file>\n  <path>b.ts</path>\n" +
				"<diff><content>\n" + roo + "</content></diff>\n</file>\n</args>\n</apply_diff>\n",
			[]string{"edit ambiguous a.ts {-a/+b}", "edit ambiguous b.ts {-a/+b}"}},
		{"a path in a hunk", "<replace_in_file>\n<path>a.xml</path>\n<diff>\n------- SEARCH\n<path>x</path>\n=======\n" +
			"<path>y</path>\n+++++++ REPLACE\n</diff>\n</replace_in_file>\n",
			[]string{"edit ambiguous a.xml {-<path>x</path>/+<path>y</path>}"}},
		{"an edit without its end", "<apply_diff>\n<path>a.ts</path>\n<diff>\n<<<<<<< SEARCH\na\n</diff>\n</apply_diff>\n",
			[]string{"edit invalid a.ts"}},
		{"an edit without hunks", "<apply_diff>\n<path>a.ts</path>\n<diff>\n-a\n+b\n</diff>\n</apply_diff>\n",
			[]string{"edit invalid a.ts"}},
		{"an edit without a path", "<apply_diff>\n<diff>\n" + roo + "</diff>\n</apply_diff>\n",
			[]string{"edit invalid  {-a/+b}"}},
		{"an edit that leads out", "<apply_diff>\n<path>../a.ts</path>\n<diff>\n" + roo + "</diff>\n</apply_diff>\n",
			[]string{"edit refused ../a.ts {-a/+b}"}},
		{"an edit with elisions", "<apply_diff>\n<path>a.ts</path>\n<diff>\n<<<<<<< SEARCH\na\n=======\n" +
			"// ... existing code ...\n>>>>>>> REPLACE\n</diff>\n</apply_diff>\n",
			[]string{"edit partial a.ts {-a/+// ... existing code ...}"}},
		{"an insertion", "<insert_content>\n<path>a.ts</path>\n<line>3</line>\n<content>x</content>\n</insert_content>\n",
			[]string{"edit invalid a.ts"}},
		{"search and replace",
			"<search_and_replace>\n<path>a.ts</path>\n<search>x</search>\n<replace>y</replace>\n</search_and_replace>\n",
			[]string{"edit invalid a.ts"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sound(t, []byte(c.text))
			sound(t, []byte(strings.ReplaceAll(c.text, "\n", "\r\n")))
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
	r := Parse([]byte("```ts:x.ts\n1\n```\n" + strings.Repeat(
		"*** Begin Patch\n*** Delete File: a.ts\n*** Delete File: b.ts\n*** End Patch\n", 1)))
	if len(r.Items) != 3 || r.Items[0].Group != 0 || r.Items[1].Group != 2 || r.Items[2].Group != 2 {
		b, _ := r.JSON()
		t.Errorf("%s", b)
	}
}
