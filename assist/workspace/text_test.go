package workspace

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func utf16le(s string) string {
	return string(TextFacts{BOM: "utf-16le"}.encode(s))
}

// TestFidelity tests all line ends, byte order marks and final newlines: a new content that
// differs in one line changes only the bytes of that line.
func TestFidelity(t *testing.T) {
	for _, tc := range []struct{ name, old, write, want string }{
		{"lf", "a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n"},
		{"crlf", "a\r\nb\r\nc\r\n", "a\nB\nc\n", "a\r\nB\r\nc\r\n"},
		{"crlf in both", "a\r\nb\r\n", "a\r\nB\r\n", "a\r\nB\r\n"},
		{"crlf over lf", "a\nb\n", "a\r\nB\r\n", "a\nB\n"},
		{"mixed", "a\r\nb\nc\r\nd\r\n", "a\nb\nC\nd\n", "a\r\nb\nC\r\nd\r\n"},
		{"mixed, a line more", "a\nb\r\nc\nd\n", "a\nb\nnew\nc\nd\n", "a\nb\r\nnew\nc\nd\n"},
		{"mixed, no final newline", "a\r\nb\nc", "a\nB\nc\n", "a\r\nB\nc"},
		{"no final newline", "a\nb", "a\nB\n", "a\nB"},
		{"final newline", "a\nb\n", "a\nB", "a\nB\n"},
		{"crlf, no final newline", "a\r\nb", "a\nB\n", "a\r\nB"},
		{"crlf, final newline", "a\r\nb\r\n", "a\nB", "a\r\nB\r\n"},
		{"mark", bomUTF8 + "a\nb\n", "a\nB\n", bomUTF8 + "a\nB\n"},
		{"mark in both", bomUTF8 + "a\nb\n", bomUTF8 + "a\nB\n", bomUTF8 + "a\nB\n"},
		{"mark and crlf", bomUTF8 + "a\r\nb\r\n", "a\nB\n", bomUTF8 + "a\r\nB\r\n"},
		{"utf-16", utf16le("a\r\né\r\n"), "a\nü\n", utf16le("a\r\nü\r\n")},
		{"lone cr is data", "a\rb\nc\n", "a\rb\nC\n", "a\rb\nC\n"},
		{"lone cr in crlf", "a\rb\r\nc\r\n", "a\rb\nC\n", "a\rb\r\nC\r\n"},
		{"emptied", "a\nb\n", "", ""},
		{"from empty", "", "a\n", "a\n"},
		{"binary stays as it is", "\x00a\r\nb", "\x00a\nB\n", "\x00a\nB\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, map[string]string{"f": tc.old})
			p := s.plan(write("f", tc.write))
			s.commit(p)
			if got := s.files()["f"]; got != tc.want {
				t.Errorf("%q over %q is %q; want %q", tc.write, tc.old, got, tc.want)
			}
			s.commit(s.must(s.w.UndoLatest(t.Context())))
			if got := s.files()["f"]; got != tc.old {
				t.Errorf("undo gives %q; want %q", got, tc.old)
			}
		})
	}
}

// TestOneLineChanges: for random texts with random line ends, a change of one
// line changes one line of the bytes.
func TestOneLineChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		ends := []string{"\n", "\r\n"}
		var old, shown strings.Builder
		n := 2 + random.IntN(30)
		changed := random.IntN(n)
		for i := range n {
			line := strings.Repeat(string(rune('a'+random.IntN(4))), random.IntN(3))
			end := ends[random.IntN(2)]
			old.WriteString(line + end)
			if i == changed {
				line = "CHANGED"
			}
			shown.WriteString(line + "\n")
		}
		got := splitLines(string(adopt([]byte(old.String()), []byte(shown.String()))))
		for i, line := range splitLines(old.String()) {
			if i == changed {
				if strings.TrimRight(got[i], "\r\n") != "CHANGED" {
					t.Fatalf("line %d is %q", i, got[i])
				}
			} else if got[i] != line {
				t.Fatalf("line %d was %q and is %q, though only line %d was to change", i, line, got[i], changed)
			}
		}
	}
}

func TestNewFileEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing to go by", nil, "a\nb\n"},
		{"neighbours", map[string]string{"src/x.ts": "a\r\nb\r\n", "src/y.ts": "a\r\n", "src/z.ts": "a\n"}, "a\r\nb\r\n"},
		{"neighbours of another kind", map[string]string{"src/x.py": "a\r\nb\r\n"}, "a\nb\n"},
		{"attributes", map[string]string{".gitattributes": "*.ts text eol=crlf\n"}, "a\r\nb\r\n"},
		{"attributes against neighbours", map[string]string{".gitattributes": "* text eol=lf\n", "src/x.ts": "a\r\n"},
			"a\nb\n"},
		{"editorconfig",
			map[string]string{".editorconfig": "root = true\n[*]\nend_of_line = lf\n[*.{ts,js}]\nend_of_line = crlf\n"},
			"a\r\nb\r\n"},
		{"editorconfig of another kind", map[string]string{".editorconfig": "[*.py]\nend_of_line = crlf\n"}, "a\nb\n"},
		{"editorconfig against attributes", map[string]string{".editorconfig": "[*]\nend_of_line = lf\n",
			".gitattributes": "* eol=crlf\n"}, "a\nb\n"},
		{"nearer editorconfig", map[string]string{".editorconfig": "[*]\nend_of_line = lf\n",
			"src/.editorconfig": "[*]\nend_of_line = crlf\n"}, "a\r\nb\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, tc.files)
			s.commit(s.plan(write("src/new.ts", "a\nb\n")))
			if got := s.files()["src/new.ts"]; got != tc.want {
				t.Errorf("%q; want %q", got, tc.want)
			}
		})
	}
}

func TestExecutable(t *testing.T) {
	s := newSite(t, map[string]string{"old.sh": "#!/bin/sh\n"})
	if err := os.Chmod(filepath.Join(s.dir, "old.sh"), 0o750); err != nil {
		t.Fatal(err)
	}
	p := s.plan(
		Change{Verb: Write, Path: "a.sh", Content: Bytes([]byte("#!/bin/sh\n")), Executable: true},
		Change{Verb: Write, Path: "b.txt", Content: Bytes([]byte("text\n")), Executable: true},
		write("c.sh", "#!/bin/sh\n"),
		write("old.sh", "#!/bin/sh\necho\n"))
	s.commit(p)
	for name, want := range map[string]os.FileMode{"a.sh": 0o100, "b.txt": 0, "c.sh": 0, "old.sh": 0o100} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil || info.Mode()&0o100 != want {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
	if info, _ := os.Stat(filepath.Join(s.dir, "old.sh")); info.Mode().Perm() != 0o750 {
		t.Errorf("the mode was 0750 and is %v", info.Mode())
	}
}

func TestDecodeText(t *testing.T) {
	for data, want := range map[string]struct {
		encoding string
		ok       bool
	}{
		"plain\n": {"utf-8", true}, "": {"utf-8", true}, "\x00": {"", false},
		"caf\xe9 au lait, a longer text that is Latin-1": {"unknown", true},
		"\x01\x02\x03\xff": {"", false}, utf16le("x"): {"utf-16", true}, "\xff\xfeodd": {"", false},
		"\xff\xfe\x00\xd8": {"", false}, bomUTF8 + "x": {"utf-8", true},
	} {
		text, facts, ok := decodeText([]byte(data))
		if ok != want.ok || ok && facts.Encoding != want.encoding {
			t.Errorf("decodeText(%q) = %q, %v, %v", data, text, facts, ok)
		}
		if ok && facts.Encoding != "unknown" && string(facts.encode(text)) != data {
			t.Errorf("%q comes back as %q", data, facts.encode(text))
		}
	}
}
