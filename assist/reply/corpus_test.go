package reply

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// documents returns Markdown documents as people wrote them: those of the modules
// that this module needs, of Go itself, of npm if it is installed, and its own.
var documents = sync.OnceValue(func() []string {
	roots := []string{".."}
	for _, command := range [][]string{{"go", "env", "GOMODCACHE"}, {"go", "env", "GOROOT"}, {"npm", "root", "-g"}} {
		out, err := exec.CommandContext(context.Background(), command[0], command[1:]...).Output()
		if dir := strings.TrimSpace(string(out)); err == nil && dir != "" {
			roots = append(roots, dir)
		}
	}
	var texts []string
	seen := map[[sha256.Size]byte]bool{}
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || len(texts) >= 3000 {
				return nil // unreadable files are skipped
			}
			if d.IsDir() && d.Name() == ".cache" { // what other tests downloaded, or are downloading now
				return filepath.SkipDir
			}
			if d.IsDir() || !slices.Contains([]string{".md", ".mdx", ".markdown"}, strings.ToLower(filepath.Ext(name))) {
				return nil
			}
			text, err := os.ReadFile(name)
			if err != nil || len(text) == 0 || len(text) > 1<<20 || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
				return nil // the same
			}
			text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
			if text[len(text)-1] != '\n' {
				text = append(text, '\n')
			}
			if sum := sha256.Sum256(text); !seen[sum] {
				seen[sum] = true
				texts = append(texts, string(text))
			}
			return nil
		})
	}
	return texts
})

// frame puts a document into a reply, like models do. more are the other files of the
// reply.
type frame struct {
	name, before, after string
	more                [][2]string
}

var frames = []frame{
	{name: "alone", before: "```markdown:README.md\n", after: "```\n"},
	{name: "without a final line feed", before: "```markdown:README.md\n", after: "```"},
	{name: "in prose", before: "Here is the new README:\n\n```markdown:README.md\n",
		after: "```\n\nIt covers the setup. Let me know if anything is missing.\n"},
	{name: "path above", before: "**README.md**\n\n```markdown\n", after: "```\n\nThis replaces the old one.\n"},
	{name: "path above a bare fence", before: "README.md\n```\n", after: "```\n"},
	{name: "path alone", before: "I rewrote it.\n\n```README.md\n", after: "```\n"},
	{name: "short word", before: "### `docs/guide.md`\n\n```md\n",
		after: "```\n\n## Notes\n\n- It has all sections.\n- Nothing else changed.\n"},
	{name: "then commands", before: "```markdown:README.md\n",
		after: "```\n\nThen run:\n\n```bash\nnpm install\nnpm test\n```\n\nThat is all.\n"},
	{name: "then commands in a bare fence", before: "```markdown:README.md\n",
		after: "```\n\nThen run:\n\n```\nnpm install\n```\n\nThat is all.\n"},
	{name: "then a file", before: "```markdown:README.md\n", after: "```\n\n```python:main.py\nprint(1)\n```\n",
		more: [][2]string{{"main.py", "print(1)\n"}}},
	{name: "then a file with its path above", before: "```markdown:README.md\n",
		after: "```\n\n**src/main.py**\n```python\nprint(1)\n```\nDone.\n", more: [][2]string{{"src/main.py", "print(1)\n"}}},
	{name: "behind a file", before: "```python:main.py\nprint(1)\n```\n\n```markdown:README.md\n", after: "```\n",
		more: [][2]string{{"main.py", "print(1)\n"}}},
	{name: "before a document", before: "```markdown:README.md\n",
		after: "```\n\n```markdown:CHANGELOG.md\n# Changes\n\n```\nmake\n```\n\n- first\n```\n",
		more:  [][2]string{{"CHANGELOG.md", "# Changes\n\n```\nmake\n```\n\n- first\n"}}},
	{name: "prose without a gap", before: "Sure.\n```markdown:README.md\n", after: "```\nThis is the whole README.\n"},
}

// judge compares the files that a run without a person would write with the intended ones.
// "offered" is a document that a person must approve and that is one of the complete
// readings.
func judge(text, document string, f *frame) string {
	r := Parse([]byte(text))
	path := "README.md"
	if strings.Contains(f.before, "docs/guide.md") {
		path = "docs/guide.md"
	}
	wrong, whole, offered := false, false, false
	for _, it := range r.Items {
		is := it.Kind == KindFile && it.Path == path && string(it.Content) == document
		switch {
		case it.OK() && is:
			whole = true
		case it.OK() && !slices.Contains(f.more, [2]string{it.Path, string(it.Content)}):
			wrong = true
		case is, slices.ContainsFunc(it.Readings, func(r Reading) bool { return string(r.Content) == document }):
			offered = true
		}
	}
	switch {
	case wrong:
		return "wrong"
	case whole:
		return "whole"
	case offered:
		return "offered"
	}
	return "asked"
}

func TestLargeCorpus(t *testing.T) {
	texts := documents()
	if len(texts) < 100 {
		t.Skipf("only %d Markdown documents are at hand on this machine", len(texts))
	}
	fenced := 0
	for _, text := range texts {
		if strings.Contains(text, "\n```") {
			fenced++
		}
	}
	t.Logf("%d documents, %d of them with fences", len(texts), fenced)
	for i := range frames {
		f := &frames[i]
		n := map[string]int{}
		for _, text := range texts {
			kind := judge(f.before+text+f.after, text, f)
			if n[kind]++; kind == "wrong" {
				t.Errorf("%s: a wrong write from a document that begins with %q", f.name, text[:min(len(text), 60)])
			}
		}
		share := float64(n["whole"]) / float64(len(texts))
		t.Logf("%-32s %5.1f %% whole, %d offered, %d asked about, %d wrong", f.name, 100*share, n["offered"], n["asked"],
			n["wrong"])
		if share < 0.95 || n["asked"]*1000 > 5*len(texts) {
			t.Errorf("%s: too few are whole or offered whole", f.name)
		}
	}
}

// TestLargeDamagedCorpus: a document with unpaired fences is written as intended, or not
// without a question, wherever its fence seems to end.
func TestLargeDamagedCorpus(t *testing.T) {
	texts := documents()
	random := rand.New(rand.NewPCG(1, 2))
	n := map[string]int{}
	for _, text := range texts {
		lines := strings.SplitAfter(text, "\n")
		var marks []int
		for i, line := range lines {
			if strings.HasPrefix(line, "```") {
				marks = append(marks, i)
			}
		}
		if len(marks) == 0 || len(marks)%2 != 0 {
			continue // one damage can repair another: the rest is a shorter document, and text
		}
		at := marks[random.IntN(len(marks))]
		for _, damage := range []struct {
			name  string
			lines []string
		}{
			{"removed", slices.Concat(lines[:at], lines[at+1:])},
			{"doubled", slices.Concat(lines[:at], []string{"```\n"}, lines[at:])},
			{"behind", lines[:at+1]},
			{"cut", lines[:1+random.IntN(len(lines))]},
		} {
			f := &frames[random.IntN(len(frames))]
			document := strings.Join(damage.lines, "")
			kind := judge(f.before+document+f.after, document, f)
			if n[kind]++; kind == "wrong" {
				t.Errorf("%s: a wrong write from a document that begins with %q (%s)", f.name, document[:min(len(document), 60)],
					damage.name)
			}
		}
	}
	t.Logf("%v", n)
}

// A document whose last example has blank lines at its inner edges is not cut before
// the example without a question, as if an empty fence followed it.
func TestExampleWithGapsAtTheEnd(t *testing.T) {
	document := "# tool\n\nIt does one thing.\n\n## Examples\n\n```\n\n# Begin:\ntool init\n\n# Look:\ntool check\n\n# Build:\n" +
		"tool build\n\n# Release:\ntool release\n\t\t\n```\n"
	for i := range frames {
		if f := &frames[i]; judge(f.before+document+f.after, document, f) == "wrong" {
			t.Errorf("%s: cut", f.name)
		}
	}
}
