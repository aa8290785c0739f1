package linux

import (
	"bytes"
	"image/png"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// paths are the ways in which a Python program can start. Its output must not depend on
// the way.
func paths(t *testing.T) map[string]*executor.Sandbox {
	return map[string]*executor.Sandbox{"cold": startBare(t, false), "warm": startBare(t, true)}
}

// startBare starts a sandbox with only the standard library. Its zygote, if it has one,
// is ready at once.
func startBare(t *testing.T, warm bool) *executor.Sandbox {
	t.Helper()
	s, err := executor.Start(t.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{WarmFirst: warm})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// echoes are programs and their output with the last expression echoed. If no stderr is
// given, it must be empty.
var echoes = []struct {
	name, code     string
	stdout, stderr string
	exit           int
}{
	{name: "an expression", code: "1 + 1\n2 + 2", stdout: "4\n"},
	{name: "after output", code: "print('a')\n'b'\n", stdout: "a\n'b'\n"},
	{name: "none", code: "x = []\nx.append(1)", stdout: ""},
	{name: "print last", code: "print('once')", stdout: "once\n"},
	{name: "assignment", code: "x = 5", stdout: ""},
	{name: "walrus", code: "(y := 5)", stdout: "5\n"},
	{name: "semicolons", code: "1; 2", stdout: "2\n"},
	{name: "trailing semicolon", code: "7;", stdout: "7\n"},
	{name: "trailing comments", code: "3  # three\n\n# the end\n", stdout: "3\n"},
	{name: "docstring only", code: "'''words'''", stdout: "'words'\n"},
	{name: "docstring first", code: "'''words'''\n__doc__", stdout: "'words'\n"},
	{name: "nothing", code: "", stdout: ""},
	{name: "comment only", code: "# nothing\n", stdout: ""},
	{name: "block last", code: "for i in range(3):\n    i\n", stdout: ""},
	{name: "if last", code: "if True:\n    5\n", stdout: ""},
	{name: "definition last", code: "def f():\n    return 5\n", stdout: ""},
	{name: "over several lines", code: "(1 +\n 2 +\n 3)", stdout: "6\n"},
	{name: "return value", code: "open('f', 'w').write('abc')", stdout: "3\n"},
	{name: "multi-line string", code: "s = '''a\n  b\n\tc'''\ns", stdout: "'a\\n  b\\n\\tc'\n"},
	{name: "byte order mark", code: "\ufeff4 + 4", stdout: "8\n"},
	{name: "encoding", code: "# -*- coding: latin-1 -*-\nlen('é')", stdout: "1\n"},
	{name: "windows lines", code: "x = 1\r\nx\r\n", stdout: "1\n"},
	{name: "names are the program's",
		code:   "tree = ast = code = exec = last = echo = run = 1\nsorted(k for k in globals() if not k.startswith('__'))",
		stdout: "['ast', 'code', 'echo', 'exec', 'last', 'run', 'tree']\n"},
	{name: "builtins redefined", code: "isinstance = compile = exec = print = None\n9", stdout: "9\n"},
	{name: "main", code: "__name__, __file__", stdout: "('__main__', '/workspace/main.py')\n"},
	{name: "future", code: "from __future__ import annotations\ndef f(x: Nowhere): pass\nf.__annotations__",
		stdout: "{'x': 'Nowhere'}\n"},
	{name: "future in the last",
		code:   "from __future__ import annotations\n(lambda: __import__('sys')._getframe().f_code.co_flags & 0x1000000)()",
		stdout: "16777216\n"},
	{name: "future is not ours", code: "def f(x: int): pass\nf.__annotations__", stdout: "{'x': <class 'int'>}\n"},
	{name: "underscore", code: "import builtins, atexit\natexit.register(lambda: print(builtins._))\n41 + 1",
		stdout: "42\n42\n"},
	{name: "displayhook", code: "import sys\nsys.displayhook = lambda v: print('<', v, '>')\n5", stdout: "< 5 >\n"},
	{name: "getsource", code: "import inspect\ndef f(x):\n    return x  # here\ninspect.getsource(f)",
		stdout: "'def f(x):\\n    return x  # here\\n'\n"},
	{name: "comprehension", code: "n = 3\n[n * i for i in range(n)]", stdout: "[0, 3, 6]\n"},
	{name: "error before", code: "print('a')\n1/0\n2", exit: 1, stdout: "a\n",
		stderr: "Traceback (most recent call last):\n  File \"/workspace/main.py\", line 2, in <module>\n    1/0\n    ~^~\n" +
			"ZeroDivisionError: division by zero\n"},
	{name: "error in the last", code: "def f(n):\n    return 1 / n\n\nf(0)", exit: 1,
		stderr: "Traceback (most recent call last):\n  File \"/workspace/main.py\", line 4, in <module>\n    f(0)\n" +
			"  File \"/workspace/main.py\", line 2, in f\n    return 1 / n\n           ~~^~~\n" +
			"ZeroDivisionError: division by zero\n"},
	{name: "error in a repr", code: "class A:\n    def __repr__(self):\n        raise ValueError('r')\nA()", exit: 1,
		stderr: "Traceback (most recent call last):\n  File \"/workspace/main.py\", line 4, in <module>\n    A()\n" +
			"  File \"/workspace/main.py\", line 3, in __repr__\n    raise ValueError('r')\nValueError: r\n"},
	{name: "syntax error", code: "x = 1\ny = = 2\nx", exit: 1,
		stderr: "  File \"/workspace/main.py\", line 2\n    y = = 2\n        ^\nSyntaxError: invalid syntax\n"},
	{name: "syntax error that parses", code: "print('no')\nreturn 5\n5", exit: 1,
		stderr: "  File \"/workspace/main.py\", line 2\n    return 5\n    ^^^^^^^^\n" +
			"SyntaxError: 'return' outside function\n"},
	{name: "syntax error in the last", code: "print('no')\n(yield)", exit: 1,
		stderr: "  File \"/workspace/main.py\", line 2\n    (yield)\n     ^^^^^\nSyntaxError: 'yield' outside function\n"},
	{name: "await is not for the top", code: "import asyncio\nawait asyncio.sleep(0)", exit: 1,
		stderr: "  File \"/workspace/main.py\", line 2\n    await asyncio.sleep(0)\n    ^^^^^^^^^^^^^^^^^^^^^^\n" +
			"SyntaxError: 'await' outside function\n"},
	{name: "exit in the last", code: "import sys\nsys.exit('gone')", exit: 1, stderr: "gone\n"},
	{name: "exit code", code: "raise SystemExit(7)", exit: 7},
	{name: "stack", code: "import inspect, sys\n(len(inspect.stack()), sys._getframe().f_back)", stdout: "(1, None)\n"},
	{name: "modules", code: "import sys\nsorted(n for n in sys.modules if n in ('program', 'zygote', '__future__'))",
		stdout: "[]\n"},
}

func TestEchoLast(t *testing.T) {
	for way, sandbox := range paths(t) {
		for _, test := range echoes {
			t.Run(way+"/"+test.name, func(t *testing.T) {
				spec := sandboxtest.Python(test.code)
				spec.EchoLast = true
				r := sandboxtest.Run(t, sandbox, spec)
				got := [3]any{r.Code(), r.Stdout, callMarks.ReplaceAllString(r.Stderr, "")}
				if diff := cmp.Diff([3]any{test.exit, test.stdout, test.stderr}, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		}
	}
}

// callMarks are the lines with which CPython from 3.13 marks a call that is all of its line.
var callMarks = regexp.MustCompile(`(?m)^ {4}~\^\^+\n`)

// Globals adds modules that a program does not import, and changes nothing else.
func TestGlobals(t *testing.T) {
	for way, sandbox := range paths(t) {
		t.Run(way, func(t *testing.T) {
			for code, want := range map[string]string{
				"print(os.sep, traceback.__name__, __file__, __name__)": "/ traceback /workspace/main.py __main__\n",
				"from __future__ import annotations\nprint(sys.argv)":   "['/workspace/main.py']\n",
				"os = 1\nprint(os, len(globals()) > 3)":                 "1 True\n",
			} {
				spec := sandboxtest.Python(code)
				spec.Globals = []string{"os", "sys", "traceback"}
				if r := sandboxtest.Run(t, sandbox, spec); r.Code() != 0 || r.Stdout != want || r.Stderr != "" {
					t.Errorf("%q: exit code %d, stdout %q, stderr %q", code, r.Code(), r.Stdout, r.Stderr)
				}
			}
			if r := sandboxtest.Run(t, sandbox, sandboxtest.Python("os")); r.Code() != 1 {
				t.Errorf("not asked for: exit code %d", r.Code())
			}
			spec := sandboxtest.Spec("bash", "echo 5")
			if spec.Globals = []string{"os"}; sandboxtest.Run(t, sandbox, spec).Stdout != "5\n" {
				t.Error("another language")
			}
		})
	}
}

// EchoLast has no other effects, and is off by default.
func TestEchoLastElsewhere(t *testing.T) {
	for way, sandbox := range paths(t) {
		t.Run(way, func(t *testing.T) {
			for _, test := range []struct {
				name   string
				spec   *engine.Spec
				echo   bool
				stdout string
			}{
				{"not asked for", sandboxtest.Python("5"), false, ""},
				{"arguments", args(sandboxtest.Python("import sys\nsys.argv, sys.orig_argv[1:], sys.path[0]"), "echo", "-c"), true,
					"(['/workspace/main.py', 'echo', '-c'], ['/workspace/main.py', 'echo', '-c'], '/workspace')\n"},
				{"inline", inline(sandboxtest.Python("6 * 7")), true, "42\n"},
				{"another language", sandboxtest.Spec("bash", "echo 5"), true, "5\n"},
			} {
				test.spec.EchoLast = test.echo
				if r := sandboxtest.Run(t, sandbox, test.spec); r.Code() != 0 || r.Stdout != test.stdout || len(r.Files) > 0 {
					t.Errorf("%s: exit code %d, stdout %q, stderr %q, files %v", test.name, r.Code(), r.Stdout, r.Stderr, r.Files)
				}
			}
		})
	}
}

func args(spec *engine.Spec, list ...string) *engine.Spec {
	spec.Args = list
	return spec
}

func inline(spec *engine.Spec) *engine.Spec {
	spec.Inline = true
	return spec
}

const plotted = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"

// plots are programs and the pictures that they save. The first ones also run in cold interpreters, which
// differ only in how they learn what to show, and import the libraries for seconds.
var plots = []struct {
	name, code, stdout string
	files              []string
}{
	{"one", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint(plt.get_fignums())", "[]\n",
		[]string{"plot_1.png"}},
	{"saved and changed", plotted + "plt.savefig('c.png')\nplt.title('t')\nplt.show()", "",
		[]string{"c.png", "plot_1.png"}},
	{"images of Pillow", "from PIL import Image\nImage.new('RGB', (4, 4)).show()\n" +
		"Image.new('CMYK', (4, 4)).show('title')", "", []string{"image_1.png", "image_2.png"}},
	{"two at once", "import matplotlib.pyplot as plt\nplt.figure(); plt.figure()\nplt.show()", "",
		[]string{"plot_1.png", "plot_2.png"}},
	{"one after the other", "from matplotlib.pyplot import plot, show\nplot([1])\nshow()\nplot([2])\nshow()", "",
		[]string{"plot_1.png", "plot_2.png"}},
	{"of a figure", "import matplotlib.pyplot as plt\nf, a = plt.subplots()\nf.show()\na.plot([1])\nf.show()\n" +
		"print(plt.get_fignums())", "[1]\n", []string{"plot_1.png"}},
	{"left open", "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show(block=False)\nprint(plt.get_fignums())\n" +
		"plt.show()", "[1]\n", []string{"plot_1.png"}},
	{"never shown", "import matplotlib.pyplot as plt\nplt.plot([1])", "", nil},
	{"nothing to show", "import matplotlib.pyplot as plt\nplt.show()", "", nil},
	{"a name that is taken", "open('plot_1.png', 'w').write('mine')\nimport matplotlib.pyplot as plt\nplt.plot([1])\n" +
		"plt.show()\nprint(open('plot_1.png').read())", "mine\n", []string{"plot_1.png", "plot_2.png"}},
	{"not too fine", "import matplotlib.pyplot as plt\nplt.figure(figsize=(2, 1), dpi=900)\nplt.show()\n" +
		"from PIL import Image\nprint(Image.open('plot_1.png').size)", "(400, 200)\n", []string{"plot_1.png"}},
	{"through seaborn",
		"import seaborn as sns\nsns.lineplot(x=[1, 2], y=[3, 4])\nimport matplotlib.pyplot as plt\nplt.show()", "",
		[]string{"plot_1.png"}},
	{"another renderer",
		"import matplotlib\nmatplotlib.use('svg')\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()", "",
		[]string{"plot_1.png"}},
	{"saved", plotted + "plt.savefig('c.png')\nplt.show()\nprint(plt.get_fignums())", "[]\n", []string{"c.png"}},
	{"saved without an ending", plotted + "from pathlib import Path\n" +
		"plt.gcf().savefig(Path('c'), transparent=True)\nplt.show()", "", []string{"c.png"}},
	{"saved and removed", plotted + "plt.savefig('c.png')\n__import__('os').remove('c.png')\nplt.show()", "",
		[]string{"plot_1.png"}},
	{"saved elsewhere", plotted + "plt.savefig('/tmp/c.png')\nplt.savefig(__import__('io').BytesIO())\nplt.show()", "",
		[]string{"plot_1.png"}},
	{"saved as no picture", plotted + "plt.savefig('c.pdf')\nplt.show()", "", []string{"c.pdf", "plot_1.png"}},
	{"saved nowhere", plotted + "import traceback\ntry: plt.savefig('no/c.png')\n" +
		"except OSError: print('/opt/airlock/' in traceback.format_exc().replace('/opt/airlock/python', ''))",
		"False\n", nil},
	{"a program of no plots", "import sys\nprint('matplotlib' in sys.modules, sys.argv)", "False ['/workspace/main.py']\n",
		nil},
}

func TestShowPlots(t *testing.T) {
	installed(t)
	for way, sandbox := range map[string]*executor.Sandbox{"cold": start(t), "warm": startWarmWithPackages(t)} {
		t.Run(way+"/not asked for", func(t *testing.T) {
			spec := sandboxtest.Python("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nplt.savefig('mine.png')")
			spec.Limits.Memory = 1 << 30
			if r := sandboxtest.Run(t, sandbox, spec); r.Code() != 0 || len(r.Files) != 1 {
				t.Errorf("exit code %d, stderr %q, %d files", r.Code(), r.Stderr, len(r.Files))
			}
		})
		list := plots
		if way == "cold" {
			list = plots[:3]
		}
		for _, test := range list {
			t.Run(way+"/"+test.name, func(t *testing.T) {
				spec := sandboxtest.Python(test.code)
				spec.ShowPlots = true
				spec.Limits.Memory, spec.Limits.Timeout = 1<<30, time.Minute
				r := sandboxtest.Run(t, sandbox, spec)
				if r.Code() != 0 || r.Stdout != test.stdout || r.Stderr != "" {
					t.Fatalf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
				}
				if diff := cmp.Diff(test.files, slices.Sorted(maps.Keys(r.Files))); diff != "" {
					t.Errorf("files (-want +got)\n%s", diff)
				}
				for name, content := range r.Files {
					_, err := png.Decode(bytes.NewReader([]byte(content)))
					if err != nil && content != "mine" && !strings.HasSuffix(name, ".pdf") {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
	}
}

// Variables that take effect at the interpreter's start take effect on each path.
func TestEnvironmentReadAtStart(t *testing.T) {
	ways := paths(t)
	for name, test := range map[string]struct{ value, code, stdout string }{
		"PYTHONOPTIMIZE":   {"1", "print(__debug__)\nassert False", "False\n"},
		"PYTHONHASHSEED":   {"0", "print(__import__('sys').flags.hash_randomization, hash('a'))", ""},
		"PYTHONWARNINGS":   {"ignore", "import sys\nprint(sys.warnoptions)", "['ignore']\n"},
		"PYTHONIOENCODING": {"latin-1", "import sys\nprint(sys.stdout.encoding)", "iso8859-1\n"},
		"LC_ALL":           {"C", "import locale\nprint(locale.setlocale(locale.LC_CTYPE))", ""},
		"TZ":               {"Asia/Tokyo", "import time\nprint(time.tzname[0], time.localtime(0).tm_hour)", "JST 9\n"},
		"MINE":             {"yes", "import os\nprint(os.environ['MINE'])", "yes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]bool{}
			for way, sandbox := range ways {
				spec := sandboxtest.Python(test.code)
				spec.Env = map[string]string{name: test.value}
				r := sandboxtest.Run(t, sandbox, spec)
				if r.Code() != 0 || test.stdout != "" && r.Stdout != test.stdout {
					t.Errorf("%s: exit code %d, stdout %q, stderr %q", way, r.Code(), r.Stdout, r.Stderr)
				}
				seen[r.Stdout] = true
			}
			if len(seen) != 1 {
				t.Errorf("the paths differ: %v", seen)
			}
		})
	}
}
