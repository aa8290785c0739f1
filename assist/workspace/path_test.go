package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attack is a path that an attacker tries, and the rule that must refuse it or hold it for
// a person.
type attack struct {
	path string
	rule string
}

// attacks returns attacks that need only their text.
func attacks() []attack {
	list := func(rule string, paths ...string) (all []attack) {
		for _, p := range paths {
			all = append(all, attack{p, rule})
		}
		return all
	}
	var all []attack
	for _, group := range [][]attack{
		list("path.empty", "", ".", "././."),
		list("path.traversal", "..", "../x", "../../etc/passwd", "a/../b", "a/../../x", "./../x", "a/..", "a/b/../../../x",
			"x/./../../y", `..\x`, `a\..\..\x`, `a/..\..\x`, "...//../x", "..//x", ".././x", "'../x'", "`../x`", "<../x>",
			"[x](../y)"),
		list("path.absolute", "/", "/etc/passwd", "/x", "/./x", "/..", "/a/../../etc/x", `"/etc/passwd"`, "`/root/.ssh/authorized_keys`", "</etc/x>", "[a](/etc/passwd)", `\etc\passwd`, "/proc/self/environ", "/dev/sda", "/tmp/x"),
		list("path.unc", "//host/share/x", `\\host\share\x`, `\\localhost\c$\x`, "//x"),
		list("path.device-namespace", `\\?\C:\x`, `\\.\PhysicalDrive0`, `//?/C:/x`, `//./COM1`, `\\?\UNC\host\x`),
		list("path.drive", `C:\Windows\x`, "C:/x", "c:x", "Z:", "d:/Programming Repos/x.ts", `C:..\x`, "a:b"),
		list("path.home", "~", "~/x", "~root/x", "~/.ssh/authorized_keys", `~\x`, "~user", "~/../x"),
		list("path.url", "file:///etc/passwd", "file:x", "FILE:/x", "http://host/x", "https://host/x.js",
			"sandbox:/mnt/data/x", "ftp://x/y", "data:text/plain,x", "javascript://x"),
		list("path.directory", "./", "a/", "a/b/", "src//"),
		list("path.control", "a\x00b", "a\x00.txt", "a\nb", "a\rb", "a\tb", "\x1b[31mred", "a\x7fb", "a\u0085b", "a\u009bb",
			"\x01", "a/b\x0bc", "a\u2028b", "a\u2029b"),
		list("path.invisible", "a\u202egnp.exe", "\u202ea", "a\u202ab", "a\u2066b\u2069", "a\u200bb", "a\u200cb", "a\u200db",
			"\ufeffa", "a\ufeff", ".g\u200cit/config", "a\u2060b", "a\u00adb", ".git\u200b/x", "a\u200eb", "a\u061cb",
			"a\U000e0041b", "a\u180eb"),
		list("path.utf8", "a\xffb", "\xc0\xae\xc0\xae/x", "a\xed\xa0\x80", "\x80", "a/\xfe/b"),
		list("path.space", " a", "a ", "a/ b", "a /b", "a/b ", "\u00a0a", "a\u3000", "a/\u2003b", ".git /config", ".. /x"),
		list("path.trailing-dot", "a.", "a/b.", "a./b", "a..", ".../x", "a/...", ".git./config", "con./x"),
		list("path.character", "ab:c", "x.txt::$DATA", "x.txt:stream", "a<b", "a>b", `a"b`, "a|b", "a?b", "a*b", "dir:/x",
			".git::$INDEX_ALLOCATION/config", "src/a.ts:10:20"),
		list("path.device", "CON", "con", "PRN", "aux", "NUL", "nul.txt", "NUL.tar.gz", "COM0", "com1", "COM9.txt", "LPT0",
			"lpt1", "LPT9.x", "COM¹", "com².txt", "LPT³", "CONIN$", "conout$", "src/aux.h", "src/con/x", "CLOCK$", "con .txt",
			"src/Nul"),
		list("path.vcs", ".git", ".git/config", ".git/hooks/pre-commit", ".GIT/config", ".Git/HEAD", ".gIt/x", "git~1",
			"GIT~1/config", "a/.git/hooks/x", "sub/.git", ".hg/hgrc", ".HG", ".svn/entries", "_svn/x", ".jj/config", ".bzr/x",
			"．git/config", "vendor/x/.git/config", ".ｇｉｔ/x", "hg~1/x"),
		list("path.engine", ".airlock-x", ".airlock-abc-1", "src/.airlock-1", ".AIRLOCK-x", "a/.Airlock-/x"),
		list("path.long", strings.Repeat("a", 256), "a/"+strings.Repeat("b", 300), strings.Repeat("é", 128)+".txt",
			strings.Repeat("abc/", 1200)+"x"),
		list("path.deep", strings.Repeat("a/", 32)+"x", strings.Repeat("d/", 60)+"y"),
	} {
		all = append(all, group...)
	}
	return all
}

func TestPathAttacks(t *testing.T) {
	all := attacks()
	if len(all) < 150 {
		t.Fatalf("%d rows; at least 150 are wanted", len(all))
	}
	s := newSite(t, map[string]string{"src/a.ts": "a\n", ".git/config": "[core]\n"})
	outside := filepath.Dir(s.dir)
	before := readTree(t, outside)
	for _, a := range all {
		for _, verb := range []Verb{Write, Delete, Rename} {
			c := Change{Verb: verb, Path: a.path, To: "to.txt", Content: Bytes([]byte("attack\n"))}
			if verb == Rename { // onto the path
				c.Path, c.To = "src/a.ts", a.path
			}
			p := s.plan(c)
			refused := false
			for i := range p.Files {
				f := &p.Files[i]
				for _, finding := range f.Findings {
					refused = refused || finding.Rule == a.rule && finding.Severity == Refuse
				}
				if approval, err := p.Approve(f.ID); err == nil && f.Path != "src/a.ts" {
					_, err := s.w.Commit(t.Context(), p, approval, CommitOptions{})
					t.Errorf("%s %q (%s) could be approved: %v", verb, a.path, f.Path, err)
				}
			}
			if !refused {
				t.Errorf("%s %q: %s does not refuse it: %+v", verb, a.path, a.rule, p.Files)
			}
		}
	}
	if diff := cmp.Diff(before, readTree(t, outside)); diff != "" {
		t.Errorf("something was changed:\n%s", diff)
	}
}

// TestPathsAllowed: unusual names that are valid.
func TestPathsAllowed(t *testing.T) {
	for spelled, want := range map[string]string{
		"a.txt": "a.txt", "./src/a.ts": "src/a.ts", "a//b": "a/b", `src\a.ts`: "src/a.ts", "`src/a.ts`": "src/a.ts",
		`"a b.txt"`:             "a b.txt",
		"[the file](docs/x.md)": "docs/x.md", "app/[id]/page.tsx": "app/[id]/page.tsx",
		"app/(group)/page.tsx": "app/(group)/page.tsx",
		"routes/$user.tsx":     "routes/$user.tsx", "..a": "..a", "a..b": "a..b", ".gitkeep": ".gitkeep",
		".github/x.yml": ".github/x.yml", "console.log": "console.log",
		"com.txt": "com.txt", "COM10": "COM10", "nulls.go": "nulls.go", "é/日本語.md": "é/日本語.md", "a~1.txt": "a~1.txt",
		"file~": "file~", "%PATH%": "%PATH%",
		"@scope/pkg.json": "@scope/pkg.json", "a'b": "a'b", "git/config": "git/config", "Makefile": "Makefile",
		"x.git": "x.git", strings.Repeat("a/", 31) + "x": strings.Repeat("a/", 31) + "x",
		strings.Repeat("a", 255): strings.Repeat("a", 255), "😀.txt": "😀.txt", "a&b;c.sh": "a&b;c.sh", "-rf": "-rf",
		"#x": "#x",
	} {
		got, findings := CleanPath(spelled)
		if got != want || worst(findings) == Refuse {
			t.Errorf("CleanPath(%q) = %q, %v; want %q", spelled, got, findings, want)
		}
	}
}

// TestFolderAttacks tries attacks that need a prepared folder.
func TestFolderAttacks(t *testing.T) {
	type folder struct {
		files map[string]string
		links map[string]string
		fifo  string
	}
	for _, tc := range []struct {
		name    string
		in      folder
		changes []Change
		path    string
		rule    string
		sev     Severity
		hint    string
	}{
		{"link out of the folder", folder{links: map[string]string{"out": "/etc"}}, []Change{write("out/x", "x")}, "out/x",
			"path.symlink", Refuse, ""},
		{"file that links out", folder{links: map[string]string{"f": "/etc/passwd"}}, []Change{write("f", "x")}, "f",
			"path.symlink", Refuse, ""},
		{"dangling link", folder{links: map[string]string{"f": "/nonexistent/x"}}, []Change{write("f", "x")}, "f",
			"path.symlink", Refuse, ""},
		{"link to the parent", folder{links: map[string]string{"up": ".."}}, []Change{write("up/x", "x")}, "up/x",
			"path.symlink", Refuse, ""},
		{"link that stays inside", folder{files: map[string]string{"real/a": "a"}, links: map[string]string{"l": "real"}},
			[]Change{write("l/a", "x")}, "l/a", "path.symlink", Refuse, `the real file is "real/a"`},
		{"link into .git", folder{files: map[string]string{".git/hooks/x": ""}, links: map[string]string{"h": ".git/hooks"}},
			[]Change{write("h/pre-commit", "x")}, "h/pre-commit", "path.symlink", Refuse, ""},
		{"link chain", folder{links: map[string]string{"a": "b", "b": "/etc"}}, []Change{write("a/x", "x")}, "a/x",
			"path.symlink", Refuse, ""},
		{"link loop", folder{links: map[string]string{"a": "b", "b": "a"}}, []Change{write("a/x", "x")}, "a/x",
			"path.symlink", Refuse, ""},
		{"delete of a link", folder{links: map[string]string{"l": "/etc/passwd"}}, []Change{{Verb: Delete, Path: "l"}}, "l",
			"path.symlink", Refuse, ""},
		{"rename of a link", folder{links: map[string]string{"l": "/etc/passwd"}},
			[]Change{{Verb: Rename, Path: "l", To: "m"}}, "l", "path.symlink", Refuse, ""},
		{"pipe", folder{fifo: "p"}, []Change{write("p", "x")}, "p", "path.special", Refuse, ""},
		{"directory as a file", folder{files: map[string]string{"d/x": ""}}, []Change{write("d", "x")}, "d", "path.clash",
			Refuse, ""},
		{"file as a directory", folder{files: map[string]string{"f": ""}}, []Change{write("f/x", "x")}, "f/x", "path.clash",
			Refuse, ""},
		{"file and directory in one batch", folder{}, []Change{write("n", "x"), write("n/x", "y")}, "n", "path.clash", Refuse,
			""},
		{"two spellings in one batch", folder{}, []Change{write("New.txt", "x"), write("new.txt", "y")}, "new.txt",
			"path.collision", Refuse, ""},
		{"two Unicode forms in one batch", folder{}, []Change{write("caf\u00e9", "x"), write("cafe\u0301", "y")},
			"cafe\u0301", "path.collision", Refuse, ""},
		{"sharp s in one batch", folder{}, []Change{write("stra\u00dfe", "x"), write("STRASSE", "y")}, "STRASSE",
			"path.collision", Refuse, ""},
		{"another case exists", folder{files: map[string]string{"src/App.tsx": "a"}}, []Change{write("src/app.tsx", "x")},
			"src/app.tsx", "path.spelling", Conflict, `did you mean "src/App.tsx"?`},
		{"another case of a directory", folder{files: map[string]string{"Src/a.ts": "a"}}, []Change{write("src/a.ts", "x")},
			"src/a.ts", "path.spelling", Conflict, `did you mean "Src/a.ts"?`},
		{"another Unicode form exists", folder{files: map[string]string{"cafe\u0301.txt": "a"}},
			[]Change{write("caf\u00e9.txt", "x")}, "caf\u00e9.txt", "path.spelling", Conflict, ""},
		{"bare repository at once", folder{}, []Change{write("r/HEAD", "x"), write("r/refs/heads/x", "x"),
			write("r/objects/x", "x")}, "r/HEAD", "path.bare-repository", Refuse, ""},
		{"bare repository completed", folder{files: map[string]string{"r/HEAD": "x", "r/objects/x": "x"}},
			[]Change{write("r/refs/x", "x")}, "r/refs/x", "path.bare-repository", Refuse, ""},
		{"settings of a bare repository", folder{files: map[string]string{
			"r/HEAD": "x", "r/objects/x": "x", "r/refs/x": "x"}}, []Change{write("r/config", "[core]\nfsmonitor=x")}, "r/config",
			"path.bare-repository", Refuse, ""},
		{"rename onto a file", folder{files: map[string]string{"a": "a", "b": "b"}},
			[]Change{{Verb: Rename, Path: "a", To: "b"}}, "b", "rename.exists", Conflict, ""},
		{"delete of nothing", folder{}, []Change{{Verb: Delete, Path: "n"}}, "n", "delete.missing", Note, ""},
		{"edit of nothing", folder{}, []Change{replaceText("n", "a", "b")}, "n", "edit.missing", Conflict, ""},
		{"edit that does not fit", folder{files: map[string]string{"a": "a"}}, []Change{replaceText("a", "zzz", "b")}, "a",
			"edit.failed", Conflict, ""},
		{"new file that exists", folder{files: map[string]string{"a": "a"}},
			[]Change{{Verb: Write, Path: "a", Content: Bytes([]byte("b")), Clash: ClashRefuse}}, "a", "write.exists", Conflict,
			""},
		{"workflow", folder{}, []Change{write(".github/workflows/x.yml", "x")}, ".github/workflows/x.yml", "path.sensitive",
			Ask, ""},
		{"workflow below", folder{}, []Change{write("sub/.GitHub/workflows/x.yml", "x")}, "sub/.GitHub/workflows/x.yml",
			"path.sensitive", Ask, ""},
		{"secrets", folder{}, []Change{write("api/.env.local", "x")}, "api/.env.local", "path.sensitive", Ask, ""},
		{"assistant's orders", folder{}, []Change{write("CLAUDE.md", "x")}, "CLAUDE.md", "path.sensitive", Ask, ""},
		{"lock file", folder{}, []Change{write("package-lock.json", "{}")}, "package-lock.json", "path.sensitive", Ask, ""},
		{"shell settings", folder{}, []Change{write(".bashrc", "x")}, ".bashrc", "path.sensitive", Ask, ""},
		{"editor tasks", folder{}, []Change{write(".vscode/tasks.json", "{}")}, ".vscode/tasks.json", "path.sensitive", Ask,
			""},
		{"hooks", folder{}, []Change{write(".husky/pre-commit", "x")}, ".husky/pre-commit", "path.sensitive", Ask, ""},
		{"new program", folder{}, []Change{{Verb: Write, Path: "x.sh", Content: Bytes([]byte("#!/bin/sh\n")),
			Executable: true}}, "x.sh", "path.executable", Ask, ""},
		{"ELF", folder{}, []Change{write("tool", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00>\x00")},
			"tool", "binary.active", Ask, ""},
		{"archive", folder{}, []Change{write("x.zip", "PK\x03\x04\x14\x00\x00\x00\x08\x00")}, "x.zip", "binary.active", Ask,
			""},
		{"picture that is none", folder{}, []Change{write("x.png", "GIF89a\x01\x00\x01\x00\x00\xff\x00,")}, "x.png",
			"binary.mismatch", Note, ""},
		{"ignored", folder{files: map[string]string{".gitignore": "dist/\n*.log\n!keep.log\n"}},
			[]Change{write("dist/x.js", "x")}, "dist/x.js", "path.ignored", Note, ""},
		{"ignored by name", folder{files: map[string]string{".gitignore": "*.log\n"}}, []Change{write("a/b.log", "x")},
			"a/b.log", "path.ignored", Note, ""},
		{"an edit of Latin-1", folder{files: map[string]string{"l": "caf\xe9 and a lot more of text\n"}},
			[]Change{replaceText("l", "and", "or")}, "l", "text.encoding", Conflict, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, tc.in.files)
			for name, target := range tc.in.links {
				if err := os.Symlink(target, filepath.Join(s.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.in.fifo != "" {
				if err := syscall.Mkfifo(filepath.Join(s.dir, tc.in.fifo), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := s.plan(tc.changes...)
			for i := range p.Files {
				f := &p.Files[i]
				if f.Path != tc.path {
					continue
				}
				for _, finding := range f.Findings {
					if finding.Rule != tc.rule || finding.Severity != tc.sev {
						continue
					}
					if !strings.Contains(finding.Hint, tc.hint) {
						t.Errorf("the hint is %q, and not %q", finding.Hint, tc.hint)
					}
					if _, err := p.Approve(f.ID); (err != nil) != (tc.sev == Refuse || tc.sev == Conflict) {
						t.Errorf("approval: %v", err)
					}
					_, held := p.ApproveBy(Automatic())
					if got := len(held) > 0; got != (tc.sev != Note) {
						t.Errorf("automatic approval holds %v", held)
					}
					return
				}
				t.Fatalf("no %s of %s: %+v", tc.sev, tc.rule, f.Findings)
			}
			t.Fatalf("no file %s: %+v", tc.path, p.Files)
		})
	}
}

func TestNotIgnored(t *testing.T) {
	s := newSite(t, map[string]string{".gitignore": "# a comment\n*.log\n!keep.log\n/only-here.txt\nbuild/\n",
		"sub/.gitignore": "x.txt\n"})
	pl, err := s.w.newPlanner()
	if err != nil {
		t.Fatal(err)
	}
	defer pl.tree.close()
	for path, want := range map[string]bool{
		"a.log": true, "d/a.log": true, "keep.log": false, "only-here.txt": true, "sub/only-here.txt": false, "build/x": true,
		"build": false, "sub/build/x": true, "sub/x.txt": true, "x.txt": false, "a.txt": false,
	} {
		if got := pl.tree.ignored(path); got != want {
			t.Errorf("ignored(%q) = %v", path, got)
		}
	}
}

func TestQuotas(t *testing.T) {
	s := newSite(t, nil)
	s.w.limits = Limits{Files: 3, TextBytes: 100, BinaryBytes: 50, BatchBytes: 300, NewDirs: 2}
	text, binary := strings.Repeat("x", 101), strings.Repeat("\x00", 51)
	for _, tc := range []struct {
		rule    string
		changes []Change
	}{
		{"quota.files", []Change{write("a", "x"), write("b", "x"), write("c", "x"), write("d", "x")}},
		{"quota.size", []Change{write("a", text)}},
		{"quota.size", []Change{write("a", binary)}},
		{"quota.directories", []Change{write("a/b/c/x", "x")}},
	} {
		p := s.plan(tc.changes...)
		findings := p.Findings
		for _, f := range p.Files {
			findings = append(findings, f.Findings...)
		}
		if len(findings) != 1 || findings[0].Rule != tc.rule || findings[0].Severity != Refuse {
			t.Errorf("%s: %v", tc.rule, findings)
		}
		a, err := p.Approve()
		if err == nil {
			_, err = s.w.Commit(t.Context(), p, a, CommitOptions{})
		}
		if err == nil {
			t.Errorf("%s: it was committed", tc.rule)
		}
	}
	s.w.limits = Limits{Files: 200, TextBytes: 200, BinaryBytes: 200, BatchBytes: 300, NewDirs: 2}
	p := s.plan(write("a", text), write("b", text), write("c", text))
	if len(p.Findings) != 1 || p.Findings[0].Rule != "quota.batch" {
		t.Errorf("quota.batch: %v", p.Findings)
	}
	p = s.plan(write("a", "x"), write("b/c/x", "y"))
	if len(p.Findings) > 0 {
		t.Errorf("within the limits: %v", p.Findings)
	}
}

// TestProtected: a store inside of the folder is never written to.
func TestProtected(t *testing.T) {
	s := newSite(t, nil)
	w, err := Open(t.Context(), s.dir, Options{Store: s.store,
		Protected: []string{filepath.Join(s.dir, ".local/airlock"), "/somewhere/else"}})
	if err != nil {
		t.Fatal(err)
	}
	s.w = w
	for path, refused := range map[string]bool{".local/airlock/state.db": true, ".local/airlock": true,
		".local/airlock2": false, ".local/x": false} {
		p := s.plan(write(path, "x"))
		if got := p.Files[0].Verdict() == Refuse; got != refused {
			t.Errorf("%s: %v", path, p.Files[0].Findings)
		}
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, a := range attacks() {
		f.Add(a.path)
	}
	f.Fuzz(func(t *testing.T, spelled string) {
		got, findings := CleanPath(spelled)
		if worst(findings) == Refuse {
			if got != "" {
				t.Fatalf("%q is refused, and comes as %q", spelled, got)
			}
			return
		}
		if !filepath.IsLocal(got) || strings.ContainsAny(got, "\\\x00:") {
			t.Fatalf("%q came through as %q", spelled, got)
		}
		for part := range strings.SplitSeq(got, "/") {
			if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") || len(part) > maxName {
				t.Fatalf("%q came through with the part %q", spelled, part)
			}
		}
		again, findings := CleanPath(got)
		if unwrapped := fmt.Sprint(findings); again != got && !strings.Contains(unwrapped, "path.unwrapped") {
			t.Fatalf("%q is cleaned to %q, and that to %q", spelled, got, again)
		}
	})
}
