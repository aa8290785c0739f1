package linux

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// always are the languages of every test machine: setup installs them, and
// scripts/test-deps installs C's compiler. The others are installed on request.
var always = []string{"python", "bash", "js", "ts", "c"}

// needLanguage skips a test if its language is not installed.
func needLanguage(t *testing.T, name string) {
	t.Helper()
	if !hasLanguage(t, name) {
		sandboxtest.Skip(t, name+" is not installed: `airlock setup --languages "+name+"` does it")
	}
}

// hasLanguage reports whether a language is installed.
func hasLanguage(t *testing.T, name string) bool {
	t.Helper()
	l, ok := language.Find(name)
	if !ok {
		t.Fatalf("there is no language %s", name)
	}
	_, err := os.Stat(l.Version[0])
	return err == nil
}

// onRequest returns the optional languages that are not installed.
func onRequest(t *testing.T) (missing []string) {
	if os.Getenv("AIRLOCK_TEST_LANGUAGES") == "all" {
		return nil
	}
	for _, test := range programs {
		if !slices.Contains(always, test.language) && !slices.Contains(missing, test.language) &&
			!hasLanguage(t, test.language) {
			missing = append(missing, test.language)
		}
	}
	return missing
}

// programs are one or more programs of each language. Their stdout must match exactly;
// stderr must contain each given line.
var programs = []struct {
	name, language, code string
	stdout               string
	stderr               []string
	exit                 int
}{
	{name: "common", language: "js",
		code:   "const fs = require('fs')\nconsole.log(process.argv.slice(1), require.main === module, __filename)",
		stdout: "[ '/workspace/main.js', 'one', 'two' ] true /workspace/main.js\n"},
	{name: "module", language: "js", code: "import path from 'path'\nconst os = require('os')\nawait null\n" +
		"console.log(path.basename(import.meta.url), typeof os.cpus)",
		stdout: "main.js function\n"},
	{name: "siblings", language: "js", code: "const fs = require('fs')\nfs.writeFileSync('a.js', 'exports.x = 1')\n" +
		"fs.writeFileSync('b.mjs', 'export const y = 2')\nimport('./b.mjs').then(b => console.log(require('./a.js').x, b.y))",
		stdout: "1 2\n"},
	{name: "stdin", language: "js", code: "console.log(require('fs').readFileSync(0, 'utf8').trim())", stdout: "typed\n"},
	{name: "error", language: "js", code: "// one\nfunction f() { throw new Error('no') }\nf()", exit: 1,
		stderr: []string{"/workspace/main.js:2", "Error: no", "    at f (/workspace/main.js:2:22)"}},
	{name: "error in a module", language: "js", code: "import 'fs'\n\nthrow new Error('no')", exit: 1,
		stderr: []string{"file:///workspace/main.js:3"}},
	{name: "syntax error", language: "js", code: "let = = 3", exit: 1, stderr: []string{"/workspace/main.js:1"}},
	{name: "exit code", language: "js", code: "console.log('a'); process.exit(7)", stdout: "a\n", exit: 7},
	{name: "child", language: "js",
		code: "const { execFileSync } = require('child_process')\n" +
			"console.log(execFileSync('echo', ['hi']).toString().trim())", stdout: "hi\n"},
	{name: "worker", language: "js", code: "const { Worker, isMainThread, parentPort } = require('worker_threads')\n" +
		"if (isMainThread) new Worker(__filename).on('message', m => console.log(m))\nelse parentPort.postMessage('hi')",
		stdout: "hi\n"},
	{name: "many lines", language: "js", code: "for (let i = 0; i < 20000; i++) console.log('line')\n",
		stdout: strings.Repeat("line\n", 20000)},

	{name: "types", language: "ts", code: "interface A { x: number }\nenum Color { Red, Green }\n" +
		"const a: A = { x: Color.Green }\nconst os = require('os')\nimport fs from 'fs'\n" +
		"console.log(a.x, typeof os.cpus, typeof fs.readFileSync, process.argv.slice(1))",
		stdout: "1 function function [ '/workspace/main.ts', 'one', 'two' ]\n"},
	{name: "await", language: "ts",
		code:   "const x: number = await Promise.resolve(4)\nconsole.log(x, import.meta.url, __filename)",
		stdout: "4 file:///workspace/main.ts /workspace/main.ts\n"},
	{name: "error", language: "ts",
		code: "type T = {\n  n: number\n}\nfunction f(t: T): never {\n  throw new Error('no')\n}\nf({ n: 1 })", exit: 1,
		stderr: []string{"/workspace/main.ts:5", "    at f (/workspace/main.ts:5:9)", "/workspace/main.ts:7:1"}},
	{name: "compile error", language: "ts", code: "const a = 1\nconst b: number = ;", exit: 1,
		stderr: []string{"main.ts:2:18:"}},
	{name: "missing import", language: "ts", code: "import { x } from './nowhere'\nconsole.log(x)", exit: 1,
		stderr: []string{"main.ts:1:18:", "nowhere"}},
	{name: "stdin", language: "ts", code: "import { readFileSync } from 'fs'\nconsole.log(readFileSync(0, 'utf8').trim())",
		stdout: "typed\n"},
	{name: "exit code", language: "ts", code: "process.exit(3 as number)", exit: 3},

	{name: "runs", language: "c", code: "#include <stdio.h>\nint main(int n, char **a) { char s[9]; scanf(\"%8s\", s); " +
		"printf(\"%s %s %d\\n\", a[1], s, n); return 4; }", stdout: "one typed 3\n", exit: 4},
	{name: "compile error", language: "c", code: "int main(void) {\n  return x;\n}", exit: 1,
		stderr: []string{"main.c:2:10: error"}},
	{name: "crash", language: "c", code: "#include <stdlib.h>\nint main(void) { abort(); }", exit: 134},
	{name: "runs", language: "cpp", code: "#include <iostream>\n#include <vector>\n#include <thread>\n" +
		"int main() { std::vector<int> v{1, 2}; std::thread([&]{ v.push_back(3); }).join(); std::cout << v.size() << " +
		"std::endl; }", stdout: "3\n"},
	{name: "compile error", language: "cpp", code: "int main() {\n  std::cout;\n}", exit: 1,
		stderr: []string{"main.cpp:2:8: error"}},
	{name: "runs", language: "java", code: "import java.util.*;\nclass Helper { static int two() { return 2; } }\n" +
		"public class Code {\n  public static void main(String[] a) {\n" +
		"    System.out.println(Helper.two() + \" \" + a[0] + \" \" + new Scanner(System.in).next());\n" +
		"    System.out.println(new java.security.SecureRandom().nextInt(1));\n  }\n}", stdout: "2 one typed\n0\n"},
	{name: "package", language: "java", code: "package a.b;\nclass One { class Two {} }\nclass Last {\n" +
		"  public static void main(String... a) { System.exit(5); }\n}", exit: 5},
	{name: "compile error", language: "java", code: "public class Code {\n  int x = \"a\";\n}", exit: 1,
		stderr: []string{"Code.java:2: error"}},
	{name: "runs", language: "php",
		code:   "<?php\necho $argv[1], ' ', trim(fgets(STDIN)), ' ', ctype_alpha('a') ? 'y' : 'n', PHP_EOL; exit(6);",
		stdout: "one typed y\n", exit: 6},
	{name: "error", language: "php", code: "<?php\n\nnowhere();", exit: 255, stderr: []string{"main.php:3"}},
	{name: "runs", language: "rust", code: "use std::io;\nfn main() { let mut s = String::new(); " +
		"io::stdin().read_line(&mut s).unwrap(); println!(\"{} {}\", std::env::args().nth(1).unwrap(), s.trim()); " +
		"std::process::exit(3) }", stdout: "one typed\n", exit: 3},
	{name: "compile error", language: "rust", code: "fn main() {\n    let x: i32 = \"a\";\n}", exit: 1,
		stderr: []string{"main.rs:2:18"}},
	{name: "runs", language: "go", code: "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n" +
		"\tvar s string\n\tfmt.Scan(&s)\n\tfmt.Println(os.Args[1], s)\n\tos.Exit(3)\n}", stdout: "one typed\n", exit: 3},
	{name: "compile error", language: "go", code: "package main\n\nfunc main() {\n\tx := 1\n}", exit: 1,
		stderr: []string{"main.go:4:2"}},
	{name: "runs", language: "d",
		code:   "import std.stdio, std.string;\nint main(string[] a) { writeln(a[1], \" \", readln().strip); return 3; }",
		stdout: "one typed\n", exit: 3},
	{name: "compile error", language: "d", code: "void main() {\n  int x = \"a\";\n}", exit: 1,
		stderr: []string{"main.d:2"}},
	{name: "runs", language: "fortran",
		code: "program p\n  character(len=5) :: s\n  read *, s\n  print '(a)', s\n  stop 3\nend program", stdout: "typed\n",
		stderr: []string{"STOP 3"}, exit: 3},
	{name: "compile error", language: "fortran", code: "program p\n  implicit none\n  x = 1\nend program", exit: 1,
		stderr: []string{"main.f90:3:"}},
	{name: "runs", language: "r", code: "args <- commandArgs(trailingOnly = TRUE)\ns <- readLines(file('stdin'))\n" +
		"cat(args[1], s[1], mean(c(1, 2, 3)), '\\n')\nquit(status = 3)", stdout: "one typed 2 \n", exit: 3},
	{
		name: "Cairo and ggplot2", language: "r", stdout: "TRUE TRUE \n",
		code: "library(Cairo)\nlibrary(ggplot2)\nCairoPNG('base.png', width = 400, height = 300)\nplot(1:10)\n" +
			"invisible(dev.off())\n" +
			"p <- ggplot(data.frame(x = 1:5, y = (1:5)^2), aes(x, y)) + geom_line()\n" +
			"suppressMessages(ggsave('gg.png', p, width = 4, height = 3, dpi = 100))\n" +
			"cat(file.size('base.png') > 1000, file.size('gg.png') > 1000, '\\n')",
	},
	{name: "error", language: "r", code: "stop('no')", exit: 1, stderr: []string{"Error: no"}},
}

func TestLanguages(t *testing.T) { testLanguages(t, start(t)) }

// TestLanguagesWaiting runs the same in waiting sandboxes.
func TestLanguagesWaiting(t *testing.T) { testLanguages(t, startBare(t, true)) }

func testLanguages(t *testing.T, sandbox *executor.Sandbox) {
	missing := onRequest(t)
	if len(missing) > 0 {
		t.Logf("not installed and not tested: %s; `make test-languages` installs them", strings.Join(missing, ", "))
	}
	for _, test := range programs {
		if slices.Contains(missing, test.language) {
			continue
		}
		t.Run(test.language+"/"+test.name, func(t *testing.T) {
			needLanguage(t, test.language)
			r := sandboxtest.Run(t, sandbox, ordinary(test.language, test.code))
			if r.Code() != test.exit || r.Stdout != test.stdout {
				t.Errorf("exit code %d (signal %q, out of memory %v), want %d\nstdout: %.300q\nstderr: %.3000s", r.Code(), r.Signal,
					r.OOM, test.exit, r.Stdout, r.Stderr)
			}
			for _, line := range test.stderr {
				if !strings.Contains(r.Stderr, line) {
					t.Errorf("stderr lacks %q:\n%s", line, r.Stderr)
				}
			}
			if len(test.stderr) == 0 && test.exit < 128 && r.Stderr != "" {
				t.Errorf("stderr: %s", r.Stderr)
			}
			for name := range r.Files {
				if !strings.HasSuffix(name, "js") {
					t.Errorf("it left %s", name)
				}
			}
		})
	}
}

// ordinary returns a program with arguments, a stdin, and limits that suffice for a compiler.
func ordinary(name, code string) *engine.Spec {
	spec := sandboxtest.Spec(name, code)
	spec.Args, spec.Stdin = []string{"one", "two"}, []byte("typed\n")
	spec.Limits.Memory, spec.Limits.Timeout, spec.Limits.Processes = 1<<30, 2*time.Minute, 128
	return spec
}

// A compiler runs inside the sandbox, under the program's limits.
func TestCompilerIsInside(t *testing.T) { testCompilerIsInside(t, start(t)) }

// A waiting compiler has the same limits as one that starts cold.
func TestWaitingCompilerIsInside(t *testing.T) { testCompilerIsInside(t, startBare(t, true)) }

func testCompilerIsInside(t *testing.T, sandbox *executor.Sandbox) {
	for name, code := range map[string]string{
		"c":  "#include \"/dev/zero\"\nint main(void) { return 0; }",
		"ts": "export const x = " + strings.Repeat("[", 200_000),
	} {
		t.Run(name, func(t *testing.T) {
			needLanguage(t, name)
			spec := ordinary(name, code)
			spec.Limits.Memory, spec.Limits.Timeout = 256<<20, 10*time.Second
			r := sandboxtest.Run(t, sandbox, spec)
			if r.Code() == 0 || name == "ts" && !r.OOM {
				t.Errorf("out of memory %v: exit code %d, signal %q\n%s", r.OOM, r.Code(), r.Signal, r.Stderr)
			}
			if r := sandboxtest.Run(t, sandbox, sandboxtest.Spec("bash", "echo well")); r.Stdout != "well\n" {
				t.Errorf("afterwards: stdout %q, stderr %q", r.Stdout, r.Stderr)
			}
		})
	}
}

// The compiler's own file can be read and executed, but does not reveal its path on the
// host.
func TestToolchainIsNameless(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := own[:strings.LastIndex(own, "/")]
	r := sandboxtest.Run(t, start(t), sandboxtest.Spec("bash",
		"cat /proc/self/mountinfo; ls -l "+language.Support+"; echo x >> "+language.Toolchain+" && echo written"))
	if strings.Contains(r.Stdout, folder) || strings.Contains(r.Stdout, "written") {
		t.Errorf("%s\n%s", r.Stdout, r.Stderr)
	}
}

// A missing compiler is not the program's fault.
func TestMissingCompiler(t *testing.T) {
	s := start(t)
	for _, name := range []string{"c", "java"} {
		spec := sandboxtest.Spec(name, "")
		for _, words := range []*[]string{&spec.Language.Compile, &spec.Language.Run} {
			*words = strings.Split(strings.ReplaceAll(strings.Join(*words, "\x00"), "/usr/bin/", "/usr/bin/no-"), "\x00")
		}
		_, err := s.Run(t.Context(), spec, silent{})
		e, ok := errors.AsType[*engine.Error](err)
		if !ok || e.Kind != engine.ErrNoLanguage || !strings.Contains(e.Error(), "/usr/bin/no-") ||
			!strings.Contains(e.Hint, spec.Language.Packages[0]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
