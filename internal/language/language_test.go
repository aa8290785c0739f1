package language

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each row is complete, and no two claim the same name or file.
func TestTable(t *testing.T) {
	names, entries := map[string]string{}, map[string]string{}
	for _, l := range All() {
		for _, name := range append([]string{l.Name}, l.Aliases...) {
			if names[name] != "" || name != strings.ToLower(name) {
				t.Errorf("%s: the name %q is taken by %s, or not in lower case", l.Name, name, names[name])
			}
			names[name] = l.Name
		}
		if entries[l.Entry] != "" || filepath.Ext(l.Entry) == "" {
			t.Errorf("%s: the file %q is taken by %s, or has no ending", l.Name, l.Entry, entries[l.Entry])
		}
		entries[l.Entry] = l.Name
		if l.Title == "" || len(l.Packages) == 0 || len(l.Version) == 0 || !filepath.IsAbs(l.Version[0]) {
			t.Errorf("%s: incomplete", l.Name)
		}
		if argv := l.Command(Program{Entry: "/workspace/" + l.Entry, Memory: 1 << 30}); !filepath.IsAbs(argv[0]) ||
			strings.ContainsAny(strings.Join(argv, " "), "{}") != (l.Compile != nil) {
			t.Errorf("%s: command %q", l.Name, argv)
		}
	}
	for client, want := range map[string]string{
		"py": "python", "js": "js", "ts": "ts", "bash": "bash", "c": "c", "cpp": "cpp", "java": "java", "php": "php",
		"rs": "rust",
		"go": "go", "d": "d", "f90": "fortran", "r": "r", "JavaScript": "js", "node": "js", "bun": "js", "TypeScript": "ts",
		"R": "r",
	} {
		if l, ok := Find(client); !ok || l.Name != want {
			t.Errorf("%s is %q, want %s", client, l.Name, want)
		}
	}
}

func TestCommand(t *testing.T) {
	plain := Language{Run: []string{"/bin/x", "{entry}", "-m{memory}"}, Inline: []string{"/bin/x", "-c", "{code}"}}
	for _, test := range []struct {
		name    string
		program Program
		want    []string
	}{
		{"file", Program{Entry: "/w/a", Args: []string{"{entry}", "b c"}, Memory: 1 << 30},
			[]string{"/bin/x", "/w/a", "-m768", "{entry}", "b c"}},
		{"names in values", Program{Entry: "/w/{memory}"}, []string{"/bin/x", "/w/{memory}", "-m0"}},
		{"inline", Program{Entry: "/w/a", Code: "{code} {entry}", Inline: true, Args: []string{"z"}},
			[]string{"/bin/x", "-c", "{code} {entry}", "z"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, plain.Command(test.program)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What a program is called and given reaches it as it is, through the shell
// that compiles it first.
func TestCompileCommand(t *testing.T) {
	folder := t.TempDir() + `/a 'b" $(c) \`
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	l := Language{Compile: []string{"/bin/sh", "-c", `echo "compiled $1 in $PWD"; cat`, "sh", "{entry}"},
		Run: []string{"/bin/sh", "-c", `printf '%s|' "$@"; cat`, "sh"}}
	argv := l.Command(Program{Entry: folder + "/x'y", Args: []string{"", "it's", "$HOME `id` \\", "a\nb"}})
	run := exec.Command(argv[0], argv[1:]...)
	run.Stdin = strings.NewReader("for the program")
	var stderr strings.Builder
	run.Stderr = &stderr
	stdout, err := run.Output()
	if err != nil || string(stdout) != "|it's|$HOME `id` \\|a\nb|for the program" ||
		stderr.String() != "compiled "+folder+"/x'y in "+folder+"\n" {
		t.Errorf("%v\nstdout %q\nstderr %q", err, stdout, stderr.String())
	}
	for compile, want := range map[string]string{"exit 7": "exit status 1", "kill -9 $$": "signal: killed"} {
		l.Compile = []string{"/bin/sh", "-c", compile}
		argv := l.Command(Program{Entry: folder + "/x"})
		if out, err := exec.Command(argv[0], argv[1:]...).Output(); err == nil || err.Error() != want || len(out) > 0 {
			t.Errorf("%s: %v, %q", compile, err, out)
		}
	}
}

func TestJavaClasses(t *testing.T) {
	for _, test := range []struct{ name, code, class, main string }{
		{"public", "public class Code { public static void main(String[] a) {} }", "Code", "Code"},
		{"helper first", "class Helper {} \n public final class Main { static class Inner { void x() {} } public static " +
			"void main(String[] a) {} }", "Main", "Main"},
		{"none public", "class A {}\nclass B { public static void main(String... a) {} }", "B", "B"},
		{"public without main", "public interface Shape {}\nclass Run { static void main(String[] a) {} }", "Shape", "Run"},
		{"package", "package x.y;\npublic class C { public static void main(String[] a) {} }", "C", "x.y.C"},
		{"record", "public record P(int x) { public static void main(String[] a) {} }", "P", "P"},
		{"enum", "enum E { A, B; public static void main(String[] a) {} }", "E", "E"},
		{"in comments", "// public class No {\n/* class Nor { void main( */ public class Yes { public static void " +
			"main(String[] a) {} }", "Yes", "Yes"},
		{"in strings", `public class S { String s = "class X { \" void main("; char c = '{', d = '\''; String t = """` +
			"\n class Y { \n" + `"""; public static void main(String[] a) {} }`, "S", "S"},
		{"main of an inner class",
			"public class O { class I { void main() {} } }\nclass P { public static void main(String[] a) {} }", "O", "P"},
		{"no main", "public class A {}", "A", "A"},
		{"nothing", "", "Main", "Main"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if class, main := javaClasses(test.code); class != test.class || main != test.main {
				t.Errorf("class %s, main %s; want %s, %s", class, main, test.class, test.main)
			}
		})
	}
}

func FuzzJavaClasses(f *testing.F) {
	f.Add("public class Code { public static void main(String[] a) {} }")
	f.Add("package a; /* class \"B { '\\")
	f.Fuzz(func(t *testing.T, code string) {
		class, main := javaClasses(code)
		if class == "" || strings.ContainsAny(class, "/. \n'") || main == "" || strings.ContainsAny(main, "/ \n'") {
			t.Errorf("class %q, main %q", class, main)
		}
	})
}

// The files that Node reads know the numbers that its starter knows.
func TestNodeNumbers(t *testing.T) {
	for want, name := range map[string]string{
		fmt.Sprintf("const DOOR = %#x;", HandoffFD):       "node.cjs",
		fmt.Sprintf("const HANDED = %d;", NodeHanded):     "waiting.cjs",
		fmt.Sprintf("const COMPILED = %d;", NodeCompiled): "waiting.cjs",
	} {
		if !strings.Contains(string(SupportFiles()[name]), want) {
			t.Errorf("%s lacks %s", name, want)
		}
	}
}

func TestVersions(t *testing.T) {
	var v Versions
	found := v.Get(t.Context())
	if !strings.HasPrefix(found["bash"], "GNU bash") {
		t.Errorf("bash is %q", found["bash"])
	}
	found["bash"] = "mine"
	if again := v.Get(t.Context()); again["bash"] == "mine" {
		t.Error("what was handed out is what is remembered")
	}
	if version, ok := (Language{Version: []string{"/nowhere"}}).InstalledVersion(t.Context()); ok {
		t.Errorf("a command that is not there says %q", version)
	}
}

// A program's text is the same whatever encoding it names for its file.
func TestSource(t *testing.T) {
	python, _ := Find("python")
	bash, _ := Find("bash")
	for code, want := range map[string]string{
		"# -*- coding: latin-1 -*-\nx = 'ü'":              "# -*- coding: utf-8 -*-\nx = 'ü'",
		"#!/usr/bin/python\r\n# coding=cp1252\r\nx = '€'": "#!/usr/bin/python\r\n# coding=utf-8\r\nx = '€'",
		"\n  # vim: set fileencoding=iso-8859-15 :\n'é'":  "\n  # vim: set fileencoding=utf-8 :\n'é'",
		"# coding: latin-1\nx = 'u'":                      "",
		"# coding: UTF-8\nx = 'ü'":                        "",
		"# -*- coding: utf_8_sig -*-\nx = 'ü'":            "",
		"x = 1\n# coding: latin-1\ny = 'ü'":               "",
		"\n\n# coding: latin-1\ny = 'ü'":                  "",
		"x = 'coding: latin-1 ü'":                         "",
		"# ü is no encoding\n# nor encoded: latin-1\n'ü'": "",
	} {
		if want == "" {
			want = code
		}
		if got := python.Source(code); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
		if got := bash.Source(code); got != code {
			t.Errorf("bash: %q", got)
		}
	}
}
