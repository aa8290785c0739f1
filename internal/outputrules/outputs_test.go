package outputrules

import (
	"fmt"
	"strings"
	"testing"
)

// TestSensitiveNames: names that tools execute or obey by themselves need a person, in any
// directory and in every spelling that some file system accepts for them.
func TestSensitiveNames(t *testing.T) {
	for _, name := range []string{
		".envrc", "sub/.envrc", ".ENVRC", ".envrc.", ".envrc. .", ".envrc::$DATA", ".en\u200dvrc", "．envrc",
		".ſsh/authorized_keys", ".SSH/Authorized_Keys",
		".vscode/tasks.json", ".idea/workspace.xml", "node_modules/.bin/eslint", "node_modules/x/index.js", "Makefile",
		"makefile", "GNUmakefile", "sub/MAKEFILE",
		"makef\u0131le", "conftest.py", "tests/ConfTest.py", "sitecustomize.py", "usercustomize.py", "a/evil.pth", ".npmrc",
		".yarnrc.yml", ".bashrc", ".zshenv",
		".profile", ".vimrc", "_vimrc", ".emacs.d/init.el", ".dir-locals.el", ".gdbinit", "desktop.ini", "AUTORUN.INF",
		"a.lnk", "x.EXE", "run.bat", "go.ps1",
		"Microsoft.PowerShell_profile.ps1", "x.desktop", ".config/autostart/x.desktop", ".config/anything", ".unheard-of",
		"a/.b/c.txt", ".gitattributes", ".gitmodules",
		"GITMOD~1", "GI7EBA~1", "ENVRC~1", "BASHRC~1.TXT", "package.json", "setup.py", "build.rs", "gulpfile.js",
		"vite.config.ts", ".eslintrc.js", ".cargo/config.toml",
		"docker-compose.yml", "Vagrantfile", "CMakeLists.txt", "App.csproj", "pom.xml", "build.gradle.kts",
		"gradle/wrapper/gradle-wrapper.jar", ".Rprofile", ".RData",
		"AGENTS.md", ".mcp.json", ".github/workflows/x.yml", "id_rsa", "keys/id_ed25519", "authorized_keys",
		"module.cpython-311.pyc", "lib.so.1", "x.dylib", "pyvenv.cfg",
		"shell.nix", "mise.toml", "systemd/user/x.service", "cron.d/x", "x.app/Contents/MacOS/x", "x.command",
		"libreoffice.jar",
	} {
		if Sensitive(name) == "" {
			t.Errorf("%q needs no person", name)
		}
	}
	for _, name := range []string{
		"plot.png", "out/data.csv", "report.xlsx", "main.py", "src/app.js", "index.html", "notes.md", "README.md",
		"git/config", "env", "profile", "make.py", "vscode/x",
		"model.pt", "a.tar.gz", "bin/tool.py", "x.so.txt", "config.json", "settings.yaml", "data~", "a~b.txt", ".gitkeep",
		"src/.gitkeep", ".editorconfig", ".dockerignore",
		"build/index.html", "startup/x.js", "service.py", "mydesktop.txt", "gradle/x.txt", "confTest.txt", "Straße.txt",
		"گزارش.csv",
	} {
		if why := Sensitive(name); why != "" {
			t.Errorf("%q needs a person: %s", name, why)
		}
	}
}

// TestNameRules checks that each row has a reason, and that its names are folded and unique.
func TestNameRules(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range nameRules {
		if rule.why == "" || len(rule.globs) == 0 {
			t.Errorf("a row without a reason or names: %+v", rule)
		}
		for _, glob := range rule.globs {
			if glob != Fold(glob) {
				t.Errorf("%q can never match: names are folded", glob)
			}
			if seen[glob] {
				t.Errorf("%q is there twice", glob)
			}
			seen[glob] = true
			example := strings.NewReplacer("**", "x", "*", "x", "[0-9a-f]", "1", "[0-9]", "1").Replace(glob)
			for strings.Contains(example, "{") {
				before, rest, _ := strings.Cut(example, "{")
				list, after, _ := strings.Cut(rest, "}")
				first, _, _ := strings.Cut(list, ",")
				example = before + first + after
			}
			if Sensitive("a/b/"+example) == "" {
				t.Errorf("%q does not match %q", glob, example)
			}
		}
	}
}

func TestCheckOutputs(t *testing.T) {
	refused := func(names ...string) {
		t.Helper()
		for i, o := range CheckOutputs(names, nil) {
			if o.Verdict != Refuse || o.Reason == "" || o.Path != "" {
				t.Errorf("%q of %q: %+v", names[i], names, o)
			}
		}
	}
	refused(".git/config", ".git/commondir", "a/.GIT/hooks/post-checkout", ".git", ".git./config", "GIT~1/config",
		".hg/hgrc", ".svn/wc.db", ".jj/repo", "_darcs/prefs/defaults",
		".pijul/config", ".fslckout", "_FOSSIL_", "../x", "/etc/passwd", ".g\u200cit/config",
		".git::$INDEX_ALLOCATION/config",
		`a\\.git\\config`, TempPrefix+"x", "a//b", "a\x00")
	refused("r/HEAD", "r/objects/x", "r/refs/heads/x", "r/config")
	refused("HEAD", "commondir", "config")
	refused("r/head", "r/CommonDir")
	for _, o := range CheckOutputs([]string{"HEAD", "objects/x", "config", "r/refs/x"}, nil) {
		if o.Verdict == Refuse {
			t.Errorf("%+v", o)
		}
	}
	there := func(dir, name string) bool { return dir == "r" && (name == "head" || name == "objects") }
	if o := CheckOutputs([]string{"r/refs/x"}, there)[0]; o.Verdict != Refuse {
		t.Errorf("a repository is completed: %+v", o)
	}
	if o := CheckOutputs([]string{"گزارش\u200cها.csv"}, nil)[0]; o != (Leaving{Path: "گزارش\u200cها.csv", Verdict: Save}) {
		t.Errorf("a name with a joiner: %+v", o)
	}
	if o := CheckOutputs([]string{".envrc"}, nil)[0]; o.Verdict != Ask || o.Path != ".envrc" {
		t.Errorf("%+v", o)
	}
	if o := CheckOutputs([]string{"plot.png"}, nil)[0]; o != (Leaving{Path: "plot.png", Verdict: Save}) {
		t.Errorf("%+v", o)
	}
}

func TestLeftOut(t *testing.T) {
	names := []string{"plot.png", ".envrc", ".git/config", "left-out.txt"}
	for held, want := range map[bool]string{false: "[false true true false]", true: "[false false true false]"} {
		left, note := LeftOut(names, held)
		if fmt.Sprint(left) != want || !strings.Contains(note, `".git/config"`) ||
			strings.Contains(note, `".envrc"`) == held {
			t.Errorf("held %v: %v, %q", held, left, note)
		}
	}
	if name := NoteName(names); name != "LEFT-OUT-2.txt" {
		t.Error(name)
	}
	if left, note := LeftOut([]string{"plot.png"}, false); left[0] || note != "" {
		t.Errorf("%v %q", left, note)
	}
}

func TestCheckContent(t *testing.T) {
	for content, asks := range map[string]bool{
		"#!/bin/sh\n": true, "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00": true,
		"MZ\x90\x00\x03\x00\x00\x00\x04\x00": true,
		"print(1)\n":                         false, "a,b\n": false, "\x89PNG\r\n\x1a\n": false, "PK\x03\x04": false,
		"": false,
	} {
		why, err := CheckContent("x", strings.NewReader(content), int64(len(content)))
		if err != nil || (why != "") != asks {
			t.Errorf("%q: %q, %v", content, why, err)
		}
	}
}

func BenchmarkSensitive(b *testing.B) {
	for b.Loop() {
		Sensitive("src/components/button.tsx")
	}
}
