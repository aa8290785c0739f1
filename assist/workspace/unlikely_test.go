package workspace

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/reply"
)

// TestUnlikelyReplies: unlikely changes need a person, and changes that the documentation
// calls refused are refused.
func TestUnlikelyReplies(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	for _, c := range []struct {
		name, text, path string
		rule             string
		want             Severity
	}{
		{"an empty fence over a file", "```txt:a.txt\n```\n", "a.txt", "write.empty", Ask},
		{"blank lines over a file", "```txt:a.txt\n\n\n```\n", "a.txt", "write.empty", Ask},
		{"an empty fence that makes a file", "```py:pkg/__init__.py\n```\n", "pkg/__init__.py", "", ""},
		{"an empty fence over an empty file", "```txt:empty.txt\n```\n", "empty.txt", "", ""},
		{"a text over a picture", "```txt:logo.png\nthe logo\n```\n", "logo.png", "binary.replaced", Ask},
		{"a text over bytes of no kind", "```txt:data.bin\nx\n```\n", "data.bin", "binary.replaced", Ask},
		{"a text as a new picture", "```txt:new.png\nthe logo\n```\n", "new.png", "binary.replaced", Ask},
		{"a picture as a new picture", "```base64:new.png\niVBORw0KGgo=\n```\n", "new.png", "", ""},
		{"a text that is too large", "```txt:large.txt\n" + strings.Repeat("0123456789abcde\n", (10<<20)/16+1) + "```\n",
			"large.txt", "quota.size", Refuse},
		{"a key", "*** Begin Patch\n*** Add File: id_rsa\n+x\n*** End Patch\n", "id_rsa", "path.sensitive", Ask},
		{"a key below a directory", "*** Begin Patch\n*** Add File: keys/id_ed25519\n+x\n*** End Patch\n", "keys/id_ed25519",
			"path.sensitive", Ask},
		{"directories that are one on some systems", "```txt:dir/a.txt\nx\n```\n```txt:Dir/b.txt\nx\n```\n", "Dir/b.txt",
			"path.collision", Refuse},
		{"a directory within them", "```txt:x/Dir/a.txt\nx\n```\n```txt:x/dir/sub/b.txt\nx\n```\n", "x/dir/sub/b.txt",
			"path.collision", Refuse},
		{"an update of a file that is not there, which only adds",
			"*** Begin Patch\n*** Update File: new.txt\n@@\n+x\n+y\n*** End Patch\n", "new.txt", "edit.creates", Ask},
		{"an update of a file that is not there", "*** Begin Patch\n*** Update File: new.txt\n@@\n-x\n+y\n*** End Patch\n",
			"new.txt", "edit.missing", Conflict},
		{"an edit with two places", "*** Begin Patch\n*** Update File: twice.txt\n@@\n-x\n+y\n*** End Patch\n", "twice.txt",
			"edit.inexact", Ask},
		{"a hunk given twice", "mine.txt\n```\n" + strings.Repeat(
			"<<<<<<< SEARCH\nmine\n=======\nmine\nyours\n>>>>>>> REPLACE\n", 2) + "```\n", "mine.txt", "edit.inexact", Ask},
		{"an edit given twice", strings.Repeat(
			"mine.txt\n```\n<<<<<<< SEARCH\nmine\n=======\nmine\nyours\n>>>>>>> REPLACE\n```\n\n", 2), "mine.txt", "", Ask},
		{"a file in a call of a tool", "<write_to_file>\n<path>a.txt</path>\n<content>\nx\n</content>\n</write_to_file>\n",
			"a.txt", "change.doubt", Ask},
		{"an edit in a call of a tool", "<apply_diff>\n<path>long.txt</path>\n<diff>\n<<<<<<< SEARCH\n" +
			"the only line of the file\n=======\ny\n>>>>>>> REPLACE\n</diff>\n</apply_diff>\n", "long.txt", "", ""},
		{"an edit in a call of a tool, too short", "<replace_in_file>\n<path>a.txt</path>\n<diff>\n------- SEARCH\nmine\n" +
			"=======\ny\n+++++++ REPLACE\n</diff>\n</replace_in_file>\n", "a.txt", "change.doubt", Ask},
		{"a call of a tool that is not supported",
			"<insert_content>\n<path>a.txt</path>\n<line>1</line>\n<content>x</content>\n</insert_content>\n", "a.txt",
			"change.refused", Refuse},
		{"the same directory twice", "```txt:dir/a.txt\nx\n```\n```txt:dir/b.txt\nx\n```\n", "dir/b.txt", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, map[string]string{"a.txt": "mine\n", "mine.txt": "mine\n", "long.txt": "the only line of the file\n",
				"twice.txt": "x\nb\nx\n", "empty.txt": "", "logo.png": png, "data.bin": "\x00\x01\x02"})
			p := s.plan(FromReply(reply.Parse([]byte(c.text)))...)
			for i := range p.Files {
				f := &p.Files[i]
				if f.Path != c.path {
					continue
				}
				if f.Verdict() != c.want || c.rule != "" && (len(f.Findings) == 0 || f.Findings[0].Rule != c.rule) {
					t.Errorf("%q: %+v", f.Verdict(), f.Findings)
				}
				return
			}
			t.Errorf("%s is not in the proposal", c.path)
		})
	}
}

// Edits of a proposal have the same size limit.
func TestEditedTextIsNotTooLarge(t *testing.T) {
	s := newSite(t, nil)
	p := s.plan(write("a.txt", "x\n"))
	if _, err := s.w.Resolve(t.Context(), p, "f1", Edited, []byte(strings.Repeat("x", 10<<20+1))); err == nil {
		t.Error("a text of more than 10 MiB is taken")
	}
}
