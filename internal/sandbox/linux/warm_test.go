package linux

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// startWarm starts a sandbox whose zygotes are ready.
func startWarm(t testing.TB) *Sandbox {
	t.Helper()
	launcher := NewLauncher(LaunchOptions{Runtimes: os.Getenv("AIRLOCK_TEST_DATA") + "/runtimes", warmFirst: true})
	s, err := Start(t.Context(), Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// What holds for a cold sandbox holds for one that was forked from a zygote.
func TestSuiteWarm(t *testing.T) {
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open: func(t *testing.T) engine.Sandbox { return startWarm(t) },
		Root: os.Geteuid() == 0,
	})
}

// behaviours are programs whose output must not tell whether the interpreter
// was there before them.
var behaviours = map[string]string{
	"main":           "import sys\nprint(__name__, __file__, sys.argv, sys.path[0], __spec__, __doc__, sorted(k for k in globals() if k != 'sys'))",
	"main is module": "import sys, __main__\nx = 5\nprint(sys.modules['__main__'].x, __main__ is sys.modules['__main__'])",
	"pickle":         "import pickle\nclass A:\n    def __init__(self, v): self.v = v\nprint(pickle.loads(pickle.dumps(A(3))).v, A.__module__)",
	"getsource":      "import inspect\ndef f(x):\n    return x + 1  # one\nprint(inspect.getsource(f))",
	"traceback":      "def f():\n    raise ValueError('no')\ntry:\n    f()\nexcept ValueError as e:\n    raise KeyError('k') from e",
	"syntax error":   "x = (1,\nprint(x\n",
	"exit int":       "import sys\nprint('a')\nsys.exit(7)",
	"exit text":      "import sys\nsys.exit('gone')",
	"exit none":      "raise SystemExit",
	"exit float":     "raise SystemExit(1.5)",
	"os exit":        "import os\nprint('x', flush=True)\nos._exit(9)",
	"atexit":         "import atexit\natexit.register(print, 'bye')\nprint('hi')",
	"atexit error":   "import atexit\ndef f(): raise ValueError('late')\natexit.register(f)\nprint('hi')",
	"thread goes on": "import threading, time\ndef f():\n    time.sleep(0.1); print('late')\nthreading.Thread(target=f).start()\nprint('early')",
	"daemon thread":  "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('done')",
	"thread error":   "import threading\nt = threading.Thread(target=lambda: 1/0, name='T')\nt.start(); t.join()\nprint('on')",
	"future":         "from __future__ import annotations\ndef f(x: Unknown): pass\nprint(f.__annotations__)",
	"encoding":       "# -*- coding: latin-1 -*-\nprint('ok')",
	"stdin":          "print(input() + '!')\nimport sys\nprint(sys.stdin.readline().strip(), sys.stdin.isatty())",
	"eof":            "input(); input(); input()",
	"streams":        "import sys\nprint(sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors, sys.stdin.encoding)",
	"environment":    "import os\nprint(sorted(os.environ))\nos.system('echo $HOME $USER')",
	"abort":          "import os\nos.abort()",
	"terminate":      "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time; time.sleep(5)",
	"interrupt":      "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(5)",
	"signals":        "import signal\nprint([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)], signal.pthread_sigmask(signal.SIG_BLOCK, []))",
	"excepthook":     "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1/0",
	"recursion":      "def f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError as e: print(e)",
	"subprocess":     "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv)', 'a'], capture_output=True, text=True).stdout)",
	"spawn":          "import multiprocessing as mp\ndef f(x): return x + 1\nif __name__ == '__main__':\n    with mp.get_context('spawn').Pool(1) as p: print(p.map(f, [1, 2]))",
	"fork":           "import multiprocessing as mp\ndef f(x): return x * 2\nif __name__ == '__main__':\n    with mp.get_context('fork').Pool(2) as p: print(p.map(f, [1, 2]))",
	"asyncio":        "import asyncio\nasync def f():\n    await asyncio.sleep(0.01); return 4\nprint(asyncio.run(f()))",
	"import beside":  "open('helper_module.py','w').write('y = 8')\nimport helper_module\nprint(helper_module.y, helper_module.__file__)",
	"gc":             "import gc\nprint(gc.isenabled(), gc.get_threshold())",
	"warnings":       "import warnings\nwarnings.warn('careful')\nprint('on')",
	"limits":         "import sys\nprint(sys.getrecursionlimit(), sys.flags.optimize, sys.dont_write_bytecode)",
	"descriptor":     "import os\nprint(os.listdir('/proc/self/fd'))",
	"process":        "import os\nprint(os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0))",
	"logging":        "import logging\nlogging.warning('w')\nlogging.basicConfig(level=logging.INFO)\nlogging.info('i')",
	"big output":     "print('x' * 300000)",
	"unflushed":      "import sys\nsys.stdout.write('no newline')",
	"closed stdout":  "import sys\nsys.stdout.close()",
	"del main":       "import sys\ndel sys.modules['__main__']\nprint('fine')",
	"dataclass":      "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\nprint(P())",
	"annotations":    "x: int = 3\nprint(__annotations__)",
	"itself":         "print(len(open('/proc/self/environ', 'rb').read()) > 0, open('/proc/self/mem', 'rb') is not None)",
	"doc":            "'''docs'''\nprint(__doc__)",
}

var addresses = regexp.MustCompile("0x[0-9a-f]+")

func TestBehavesLikePlainPython(t *testing.T) {
	cold, warm := start(t), startWarm(t)
	for name, code := range behaviours {
		t.Run(name, func(t *testing.T) {
			program := func() *engine.Spec {
				spec := sandboxtest.Python(code)
				spec.Args, spec.Stdin = []string{"one", "two"}, []byte("line\nmore\n")
				return spec
			}
			want, got := sandboxtest.Run(t, cold, program()), sandboxtest.Run(t, warm, program())
			if got.Code() != want.Code() || got.Signal != want.Signal {
				t.Errorf("exit code %d, signal %q; cold %d, %q", got.Code(), got.Signal, want.Code(), want.Signal)
			}
			if diff := cmp.Diff(want.Stdout, got.Stdout); diff != "" {
				t.Errorf("stdout (-cold +warm)\n%s", diff)
			}
			if diff := cmp.Diff(addresses.ReplaceAllString(want.Stderr, "0x"), addresses.ReplaceAllString(got.Stderr, "0x")); diff != "" {
				t.Errorf("stderr (-cold +warm)\n%s", diff)
			}
		})
	}
}

// Siblings share a zygote, and no random numbers.
func TestRandomNumbersDiffer(t *testing.T) {
	warm := startWarm(t)
	code := "import random, os\nprint(random.random(), os.urandom(8))\n"
	if _, err := os.Stat(os.Getenv("AIRLOCK_TEST_DATA") + "/runtimes/python/lib/numpy"); err == nil {
		code += "import numpy\nprint(numpy.random.rand(), numpy.random.default_rng().random())\n"
	}
	seen := map[string]bool{}
	for range 8 {
		for line := range strings.Lines(sandboxtest.Run(t, warm, sandboxtest.Python(code)).Stdout) {
			for _, number := range strings.Fields(line) {
				if seen[number] {
					t.Errorf("%s came twice", number)
				}
				seen[number] = true
			}
		}
	}
	if len(seen) < 16 {
		t.Errorf("only %d numbers were drawn", len(seen))
	}
}

// A zygote that dies is replaced, and programs run meanwhile.
func TestZygoteDies(t *testing.T) {
	s := startWarm(t)
	executor := executors(t)[0]
	zygotes := func() (pids []int) {
		for _, pid := range descendants(executor) {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if strings.Contains(string(command), zygotePath) && strings.Contains(string(groups), "Seccomp:\t0") {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	before := zygotes()
	if len(before) == 0 {
		t.Fatal("there are no zygotes")
	}
	for _, pid := range before {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if r := sandboxtest.Run(t, s, sandboxtest.Python("print('on')")); r.Stdout != "on\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
		}
	}
	for range 200 {
		if len(zygotes()) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(zygotes()) == 0 {
		t.Fatal("the zygote was not replaced")
	}
	if z := zombies(t, executor); z > 0 {
		t.Errorf("%d processes of the dead zygote were not reaped", z)
	}
}

// Sandboxes that die while they wait cost nobody an answer.
func TestWaitingSandboxesDie(t *testing.T) {
	s := startWarm(t)
	executor := executors(t)[0]
	program := sandboxtest.Python("print('on')")
	sandboxtest.Run(t, s, program)
	for range 100 { // until those for the next programs wait
		if len(waitingPids(executor)) >= poolSize {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	pids := waitingPids(executor)
	if len(pids) == 0 {
		t.Fatal("nothing waits")
	}
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	// A program that was handed to one that was just dying may be lost; that is
	// said, and never taken for an outcome.
	if _, err := s.Run(t.Context(), program, silent{}); err != nil && !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	for _, pid := range pids {
		for unix.Kill(pid, 0) == nil {
			time.Sleep(time.Millisecond)
		}
	}
	for range 5 {
		if r := sandboxtest.Run(t, s, program); r.Stdout != "on\n" {
			t.Errorf("exit code %d, stdout %q, stderr %q", r.Code(), r.Stdout, r.Stderr)
		}
	}
}

// waitingPids are the first processes of sandboxes that zygotes have forked.
func waitingPids(executor int) (pids []int) {
	for _, pid := range descendants(executor) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, inside, _ := strings.Cut(string(status), "NSpid:")
		inside, _, _ = strings.Cut(inside, "\n")
		if fields := strings.Fields(inside); strings.Contains(string(command), zygotePath) && len(fields) == 3 && fields[2] == "1" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func zombies(t *testing.T, executor int) (count int) {
	t.Helper()
	for _, pid := range descendants(executor) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err == nil && strings.Contains(string(status), "State:\tZ") {
			count++
		}
	}
	return count
}

func TestTierOf(t *testing.T) {
	for code, want := range map[string]string{
		"print(1)": "bare", "import numpy as np": "numpy", "from pandas import DataFrame": "pandas", "import os, sys, matplotlib.pyplot": "full",
		"def f():\n    import seaborn as sns": "full", "import numpy\nimport pandas": "pandas", "x = 'matplotlib'": "bare", "importpandas": "bare",
		"import numpyish": "bare", "from scipy.stats import norm": "numpy",
	} {
		if got := tierOf(code); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
}
