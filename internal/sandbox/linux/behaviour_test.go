package linux

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// behaviours are programs whose behavior must equal that under a plain `python3
// main.py`.
var behaviours = map[string]string{
	// What a program is.
	"main": "import sys\nprint(__name__, __file__, sys.argv, sys.path[0], __spec__, __doc__, __package__, " +
		"type(__loader__).__name__, sorted(k for k in globals() if k != 'sys'))",
	"main is module": "import sys, __main__\nx = 5\nprint(sys.modules['__main__'].x, __main__ is " +
		"sys.modules['__main__'], __builtins__)",
	"del main":       "import sys\ndel sys.modules['__main__']\nprint('fine')",
	"command":        "import sys\nprint(sys.argv, sys.orig_argv, sys.executable, sys.prefix)",
	"flags":          "import sys\nprint(sys.flags, sys.warnoptions, sys._xoptions)",
	"path":           "import sys\nprint([p for p in sys.path if 'dist-packages' not in p])",
	"doc":            "'''docs'''\nprint(__doc__)",
	"annotations":    "x: int = 3\nprint(__annotations__)",
	"future":         "from __future__ import annotations\ndef f(x: Unknown): pass\nprint(f.__annotations__)",
	"future is ours": "def f(x: int): pass\nprint(f.__annotations__, compile('x', 'x', 'eval').co_flags)",
	"limits": "import sys\nprint(sys.getrecursionlimit(), sys.dont_write_bytecode, sys.getswitchinterval(), " +
		"sys.int_info)",
	"hooks": "import sys, threading\nprint(sys.excepthook is sys.__excepthook__, sys.displayhook is " +
		"sys.__displayhook__, sys.gettrace(), sys.getprofile(), threading.excepthook.__module__)",
	"environment":     "import os\nprint(sorted(os.environ.items()))\nos.system('echo $HOME $USER $PATH')",
	"set environment": "import os\nos.environ['NEW'] = 'a'\nos.putenv('OTHER', 'b')\nos.system('echo $NEW $OTHER')",
	"encodings": "import sys, locale\nprint(sys.getdefaultencoding(), sys.getfilesystemencoding(), " +
		"sys.getfilesystemencodeerrors(), locale.getpreferredencoding(), " +
		"locale.setlocale(locale.LC_ALL), locale.getlocale())",
	// the kernel says on which one a thread runs: registered already
	"processor": "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.pthread_self.restype = ctypes.c_size_t\n" +
		"area = libc.pthread_self() + ctypes.c_ssize_t.in_dll(libc, '__rseq_offset').value\n" +
		"print(libc.syscall(334, ctypes.c_void_p(area), 32, 0, 0x53053053), ctypes.get_errno())",
	"time zone": "import time, datetime\nprint(time.tzname, time.timezone, datetime.datetime.fromtimestamp(0))",
	"umask": "import os\nold = os.umask(0); os.umask(old); print(oct(old)); open('f', 'w').close(); " +
		"print(oct(os.stat('f').st_mode))",
	"working folder":  "import os\nprint(os.getcwd(), os.listdir('.'), os.path.abspath(__file__))",
	"old encoding":    "# -*- coding: latin-1 -*-\nprint('ok')",
	"byte order mark": "\ufeffprint('marked')",
	"windows lines":   "x = '''a\r\nb'''\r\nprint(repr(x))\r\n",
	"no last newline": "if True:\n    print('in')",
	"form feed":       "\fprint('fed')\n\f\nprint('again')",
	"empty":           "",
	"hash bang":       "#!/usr/bin/env python3\nprint('run')",

	// Where it stands.
	"stack": "import inspect, sys, traceback\ntraceback.print_stack()\n" +
		"print(len(inspect.stack()), sys._getframe().f_back, inspect.currentframe().f_code.co_name)",
	"stack at exit": "import atexit, sys, traceback\natexit.register(lambda: (traceback.print_stack(), " +
		"print(sys._getframe().f_back)))",
	"stack in a signal": "import signal, os, traceback\nsignal.signal(signal.SIGUSR1, lambda *a: " +
		"traceback.print_stack())\nos.kill(os.getpid(), signal.SIGUSR1)",
	"stack level": "import warnings\nwarnings.warn('from above', stacklevel=2)\nwarnings.warn('from here')",
	"getsource": "import inspect\ndef f(x):\n    return x + 1  # one\n" +
		"print(inspect.getsource(f), inspect.getsourcefile(f), inspect.getmodule(f))",
	"modules": "import sys\nprint([n for n in ('program', 'zygote', 'main') if n in sys.modules], " +
		"len(sys.path_hooks))",
	"trace": "import sys\ndef f(frame, event, arg): print(event, frame.f_code.co_name, frame.f_lineno)\n" +
		"def g(): return 1\nsys.settrace(f); g(); sys.settrace(None)",
	"profile": "import cProfile, pstats, io\np = cProfile.Profile()\np.enable(); sorted([2, 1]); p.disable()\n" +
		"print('sorted' in (lambda s: (pstats.Stats(p, stream=s).print_stats(), s.getvalue())[1])(io.StringIO()))",

	// How it fails.
	"traceback": "def f():\n    raise ValueError('no')\ntry:\n    f()\nexcept ValueError as e:\n" +
		"    raise KeyError('k') from e",
	"context":            "try:\n    1/0\nexcept ZeroDivisionError:\n    int('x')",
	"note and group":     "e = ValueError('v')\ne.add_note('a note')\nraise ExceptionGroup('g', [e, KeyError('k')])",
	"deep":               "def f(n):\n    if n: f(n - 1)\n    else: raise RuntimeError('deep')\nf(20)",
	"syntax error":       "x = (1,\nprint(x\n",
	"late syntax error":  "print('no')\nreturn 5\n",
	"indentation":        "def f():\nprint(1)",
	"tabs":               "if True:\n\tx = 1\n        y = 2\n",
	"syntax warning":     "x = 1\nprint(x is 1)\nassert (x, 'y')\n",
	"escape warning":     "import warnings\nprint('\\d')",
	"eval error":         "eval('1 +')",
	"exec error":         "exec('def f():\\n    1/0\\nf()')",
	"compiled elsewhere": "exec(compile('\\n1/0', 'elsewhere.py', 'exec'))",
	"import error":       "import no_such_module",
	"excepthook":         "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\n1/0",
	"excepthook fails":   "import sys\ndef hook(*a): raise KeyError('hook')\nsys.excepthook = hook\n1/0",
	"excepthook exits":   "import sys\nsys.excepthook = lambda *a: sys.exit(9)\n1/0",
	"excepthook gone":    "import sys\ndel sys.excepthook\n1/0",
	"last error": "import sys, atexit\natexit.register(lambda: print(sys.last_type, sys.last_value, " +
		"sys.last_traceback.tb_lineno))\n1/0",
	"bad str":         "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
	"unraisable":      "class A:\n    def __del__(self): raise ValueError('late')\na = A()\ndel a\nprint('on')",
	"recursion":       "def f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError as e: print(e)",
	"no more memory":  "try: x = bytearray(1 << 60)\nexcept MemoryError as e: print('caught', e)",
	"surrogates":      "print('\\udc80')",
	"error on stderr": "import sys\nprint('out'); print('err \\udc80é', file=sys.stderr)",

	// How it ends.
	"exit int":      "import sys\nprint('a')\nsys.exit(7)",
	"exit text":     "import sys\nsys.exit('gone')",
	"exit none":     "raise SystemExit",
	"exit float":    "raise SystemExit(1.5)",
	"exit true":     "raise SystemExit(True)",
	"exit tuple":    "raise SystemExit(1, 2)",
	"exit big":      "raise SystemExit(256 + 3)",
	"exit huge":     "raise SystemExit(10 ** 30)",
	"exit negative": "raise SystemExit(-1)",
	"exit builtin":  "print(repr(exit))\nexit(4)",
	"exit subclass": "class E(SystemExit): pass\nraise E(6)",
	"os exit":       "import os, atexit\natexit.register(print, 'never')\nprint('x', flush=True)\nos._exit(9)",
	"exit in exit":  "import atexit, sys\natexit.register(lambda: sys.exit(3))\nprint('hi')",
	"exit in a thread": "import threading, sys\nt = threading.Thread(target=sys.exit, args=(5,))\n" +
		"t.start(); t.join(); print('on')",
	"atexit": "import atexit\natexit.register(print, 'last')\natexit.register(print, 'first')\nprint('hi')",
	"atexit error": "import atexit\ndef f(): raise ValueError('late')\natexit.register(f)\n" +
		"atexit.register(print, 'other')\nprint('hi')",
	"atexit and error": "import atexit\natexit.register(print, 'bye')\n1/0",
	"order at the end": "import atexit, threading, time, weakref\nclass A:\n    def __del__(self): print('del')\n" +
		"a = A()\nb = A.__new__(A)\nweakref.finalize(b, print, 'finalize')\natexit.register(print, 'atexit')\n" +
		"said = threading.Event()\n" +
		"threading.Thread(target=lambda: (said.wait(), time.sleep(0.05), print('thread'))).start()\n" +
		"print('end')\nsaid.set()",
	"del at the end": "class A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('del', self.n)\n" +
		"x = A(1)\ny = [A(2)]",
	"open file": "f = open('out.txt', 'w')\nf.write('kept')\nimport atexit\n" +
		"atexit.register(lambda: print(open('out.txt').read() in ('', 'kept')))",
	"abort":     "import os\nos.abort()",
	"terminate": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time; time.sleep(5)",
	"interrupt": "import os, signal, atexit\natexit.register(print, 'bye')\nos.kill(os.getpid(), signal.SIGINT)\n" +
		"import time; time.sleep(5)",
	"raise interrupt": "raise KeyboardInterrupt('mine')",
	"interrupted once": "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n" +
		"    import time; time.sleep(5)\nexcept KeyboardInterrupt: print('caught')",
	"kill":     "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
	"segfault": "import ctypes\nctypes.string_at(0)",
	"alarm":    "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(5)",
	"signals": "import signal\nprint([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, " +
		"signal.SIGPIPE, signal.SIGCHLD)], signal.pthread_sigmask(signal.SIG_BLOCK, []))",
	"broken pipe": "import os\nr, w = os.pipe(); os.close(r)\ntry: os.write(w, b'x')\n" +
		"except BrokenPipeError as e: print(e)",

	// What it reads and writes.
	"stdin": "print(input() + '!')\nimport sys\nprint(sys.stdin.readline().strip(), sys.stdin.isatty(), " +
		"sys.stdin.read())",
	"prompt":      "print(repr(input('name? ')))",
	"eof":         "input(); input(); input()",
	"stdin lines": "import sys\nfor line in sys.stdin: print(repr(line))",
	"stdin bytes": "import sys, os\nprint(sys.stdin.buffer.read(3), os.read(0, 100), sys.stdin.fileno())",
	"file input":  "import fileinput\nfor line in fileinput.input('-'): print(line.strip(), fileinput.lineno())",
	"streams": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr): print(s.name, s.mode, s.encoding, " +
		"s.errors, s.line_buffering, s.write_through, s.newlines, type(s.buffer).__name__, s.seekable() if s is not " +
		"sys.stdin else '')",
	"big output": "print('x' * 300000)",
	"interleaved": "import sys, os\nsys.stdout.write('a'); os.write(1, b'b'); print('c'); " +
		"sys.stdout.buffer.write(b'd\\n'); os.system('echo e')",
	"unflushed":       "import sys\nsys.stdout.write('no newline')",
	"closed stdout":   "import sys\nsys.stdout.close()",
	"no stdout":       "import sys\nsys.stdout = None\nprint('nothing')",
	"closed stdout 1": "import os\nos.close(1)\nprint('nowhere')",
	"redirected": "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as s: print('in')\n" +
		"print(repr(s.getvalue()))",
	"reconfigured": "import sys\nsys.stdout.reconfigure(encoding='ascii', errors='backslashreplace')\nprint('é')",
	"warnings": "import warnings\nwarnings.warn('careful')\nwarnings.warn('old', DeprecationWarning)\n" +
		"print(warnings.filters[:2])",
	"warnings last": "import warnings\nfor i in range(3): warnings.warn('same')\nwarnings.simplefilter('error')\n" +
		"warnings.warn('now')",
	"logging": "import logging\nlogging.warning('w')\nlogging.basicConfig(level=logging.INFO, " +
		"format='%(levelname)s %(module)s %(funcName)s %(lineno)d %(process)s %(message)s'.replace(' %(process)s', ''))\n" +
		"logging.info('i')\nprint(logging.getLogger().handlers, list(logging.root.manager.loggerDict)[:0])",
	"help": "def f(x: int = 1) -> str:\n    '''Does f.'''\nhelp(f)",

	// What it does.
	"pickle": "import pickle\nclass A:\n    def __init__(self, v): self.v = v\n" +
		"print(pickle.loads(pickle.dumps(A(3))).v, A.__module__, pickle.dumps(A(1)).count(b'__main__'))",
	"copy": "import copy\nclass A: pass\na = A(); a.x = [1]\nb = copy.deepcopy(a); b.x.append(2); print(a.x, b.x)",
	"dataclass": "from dataclasses import dataclass, asdict\n@dataclass(order=True, slots=True)\nclass P:\n" +
		"    x: int = 1\nprint(P(), asdict(P(2)), P() < P(2))",
	"typing": "from typing import get_type_hints, NamedTuple\nclass N(NamedTuple):\n    x: 'int'\n" +
		"print(get_type_hints(N), N(1))",
	"enum": "from enum import Enum\nclass C(Enum):\n    A = 1\nprint(C.A, repr(C.A), C.__module__)",
	"gc": "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks)\nclass A:\n" +
		"    def __del__(self): print('collected')\na = A(); a.a = a; del a; gc.collect()",
	"weakref": "import weakref\nclass A: pass\na = A(); r = weakref.ref(a, lambda _: print('dead')); del a; " +
		"print(r())",
	"random seeded": "import random\nrandom.seed(42)\nprint(random.random(), random.randint(1, 100), " +
		"random.sample(range(9), 3))",
	"import beside": "open('helper_module.py','w').write('y = 8')\nimport helper_module\n" +
		"print(helper_module.y, helper_module.__file__, helper_module.__cached__)",
	"import package": "import os\nos.mkdir('pkg'); open('pkg/__init__.py','w').write('from .m import z'); " +
		"open('pkg/m.py','w').write('z = __name__')\nimport pkg\nprint(pkg.z)",
	"reload": "import importlib\nopen('m.py','w').write('v = 1')\nimport m\nopen('m.py','w').write('v = 22')\n" +
		"importlib.reload(m); print(m.v)",
	"error beside": "open('broken.py','w').write('def f():\\n    1/0\\n')\nimport broken\nbroken.f()",
	"runpy": "import runpy\nopen('other.py','w').write('print(__name__, __file__)\\nx = 4')\n" +
		"print(runpy.run_path('other.py', run_name='__main__')['x'], __name__)",
	"run module": "import runpy, sys\nopen('mod.py','w').write('import sys\\nprint(__name__, sys.argv)')\n" +
		"sys.argv = ['a', 'b']\nrunpy.run_module('mod', run_name='__main__', alter_sys=True)",
	"doctest": "def f():\n    '''\n    >>> f()\n    3\n    '''\n    return 4\nimport doctest\n" +
		"print(doctest.testmod())",
	"unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 2)\n" +
		"    def test_b(self): pass\nif __name__ == '__main__': unittest.main(argv=['main.py'])",
	"argparse": "import argparse\np = argparse.ArgumentParser()\np.add_argument('n', type=int)\np.parse_args()",
	"sqlite": "import sqlite3\nc = sqlite3.connect('a.db'); c.execute('create table t(x)'); c.execute('insert " +
		"into t values (5)'); c.commit(); print(c.execute('select * from t').fetchall(), c.in_transaction)",
	"temporary": "import tempfile, os\nwith tempfile.TemporaryDirectory() as d: print(tempfile.gettempdir(), " +
		"os.path.dirname(d))\nprint(os.path.exists(d))",
	"ctypes": "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n" +
		"print(libc.abs(-3), libc.close(99), ctypes.get_errno())",
	"resource": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n" +
		"try: fs = [open('/dev/null') for i in range(30)]\nexcept OSError as e: print(e)",
	"mmap": "import mmap\nopen('f','wb').write(b'abc')\nwith open('f','r+b') as f:\n" +
		"    m = mmap.mmap(f.fileno(), 0); m[0:1] = b'x'; m.flush(); print(open('f').read())",
	"decimal":     "import decimal\nprint(decimal.getcontext())",
	"locale":      "import locale\nprint(locale.setlocale(locale.LC_ALL, ''), locale.localeconv()['decimal_point'])",
	"contextvars": "import contextvars\nprint(list(contextvars.copy_context().items()))",
	"breakpoint":  "import sys\nsys.breakpointhook = lambda *a: print('hooked')\nbreakpoint()",
	"debugger":    "x = 1\nimport pdb\npdb.set_trace()\nprint('after')",
	"code object": "import dis\ndef f(): return 1\nprint(f.__code__.co_filename, f.__code__.co_firstlineno, " +
		"f.__globals__ is globals())",

	// Whom it brings along.
	"thread goes on": "import threading, time\ndef f():\n    time.sleep(0.1); print('late')\n" +
		"threading.Thread(target=f).start()\nprint('early')",
	"daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n" +
		"print('done')",
	"thread error": "import threading\nt = threading.Thread(target=lambda: 1/0, name='T')\nt.start(); t.join()\n" +
		"print('on')",
	"threads": "import threading\nprint(threading.main_thread() is threading.current_thread(), " +
		"threading.enumerate(), threading.active_count())",
	"thread local": "import threading\nd = threading.local(); d.x = 1\n" +
		"t = threading.Thread(target=lambda: print(hasattr(d, 'x'))); t.start(); t.join()",
	"timer": "import threading\nthreading.Timer(0.05, print, ['timed']).start()\nprint('set')",
	"thread pool": "from concurrent.futures import ThreadPoolExecutor\n" +
		"with ThreadPoolExecutor(3) as p: print(list(p.map(lambda x: x * x, range(5))))",
	"thread pool left": "from concurrent.futures import ThreadPoolExecutor\nimport time\np = ThreadPoolExecutor(1)\n" +
		"p.submit(lambda: (time.sleep(0.05), print('late')))\nprint('early')",
	"process pool": "from concurrent.futures import ProcessPoolExecutor\ndef f(x): return x + 1\n" +
		"if __name__ == '__main__':\n    with ProcessPoolExecutor(2) as p: print(list(p.map(f, range(4))))",
	"subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; " +
		"print(sys.argv, sys.path[0])', 'a'], capture_output=True, text=True).stdout)",
	"subprocess itself": "import subprocess, sys\nif len(sys.argv) == 3: print(subprocess.run([sys.executable, " +
		"__file__, 'x'], capture_output=True, text=True).stdout)\nelse: print('inner', sys.argv)",
	"subprocess error": "import subprocess\nsubprocess.run(['false'], check=True)",
	"subprocess stdin": "import subprocess\nprint(subprocess.run(['cat'], capture_output=True).stdout)",
	"shell":            "import os\nprint(os.system('exit 3'), os.popen('echo hi').read())",
	"fork": "import multiprocessing as mp\ndef f(x): return x * 2\nif __name__ == '__main__':\n" +
		"    with mp.get_context('fork').Pool(2) as p: print(p.map(f, [1, 2]))",
	"spawn": "import multiprocessing as mp\ndef f(x): return x + 1\nprint('imported', __name__)\n" +
		"if __name__ == '__main__':\n    with mp.get_context('spawn').Pool(1) as p: print(p.map(f, [1, 2]))",
	"fork server": "import multiprocessing as mp\ndef f(x): return x + 1\nif __name__ == '__main__':\n" +
		"    with mp.get_context('forkserver').Pool(1) as p: print(p.map(f, [1, 2]))",
	"process error": "import multiprocessing as mp\ndef f(): 1/0\nif __name__ == '__main__':\n" +
		"    p = mp.get_context('fork').Process(target=f, name='P'); p.start(); p.join(); print(p.exitcode)",
	"queue": "import multiprocessing as mp\ndef f(q): q.put('from below')\nif __name__ == '__main__':\n" +
		"    q = mp.Queue(); p = mp.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join()",
	"manager": "import multiprocessing as mp\nif __name__ == '__main__':\n" +
		"    with mp.Manager() as m: d = m.dict(a=1); print(dict(d))",
	"shared memory": "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, " +
		"size=8); s.buf[0] = 7; print(s.buf[0]); s.close(); s.unlink()",
	"forks by hand": "import os, sys\npid = os.fork()\nif pid == 0:\n    print('child', flush=True)\nelse:\n" +
		"    print('parent', os.waitpid(pid, 0)[1])",
	"fork exits": "import os, sys, atexit\natexit.register(lambda: print('exit', flush=True))\npid = os.fork()\n" +
		"if pid == 0: sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
	"fork fails": "import os\npid = os.fork()\nif pid == 0: 1/0\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, " +
		"0)[1]))",
	"fork stays": "import os, time\nif os.fork() == 0:\n    os.close(1); os.close(2)\n    time.sleep(60)\n" +
		"print('gone')\nos._exit(0)",
	"asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0.01); return 4\nprint(asyncio.run(f()))",
	"asyncio process": "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec('echo', 'hi', " +
		"stdout=asyncio.subprocess.PIPE)\n    print((await p.communicate())[0], p.returncode)\nasyncio.run(f())",
	"asyncio error": "import asyncio\nasync def f():\n    asyncio.create_task(g()); await asyncio.sleep(0.01)\n" +
		"async def g(): raise ValueError('task')\nasyncio.run(f())",
	"never awaited": "async def f(): pass\nf()\nprint('on')",
	"asyncio threads": "import asyncio, time\nasync def f(): return await asyncio.to_thread(lambda: time.sleep(0.01) " +
		"or 3)\nprint(asyncio.run(f()))",
	"socket pair": "import socket\na, b = socket.socketpair(); a.send(b'hi'); print(b.recv(9))",
	"server": "import http.server, threading, urllib.request\n" +
		"s = http.server.HTTPServer(('127.0.0.1', 0), type('H', (http.server.BaseHTTPRequestHandler,), dict(do_GET=lambda " +
		"h: (h.send_response(204), h.end_headers()), log_message=lambda *a: None)))\n" +
		"threading.Thread(target=s.serve_forever, daemon=True).start()\n" +
		"print(urllib.request.urlopen(f'http://127.0.0.1:{s.server_port}').status)",
}

// insiders are programs that only work in a sandbox: they are compared with an
// interpreter that starts cold in one.
var insiders = map[string]string{
	"descriptor": "import os\nprint(os.listdir('/proc/self/fd'))",
	"process": "import os\nprint(os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), os.getuid() != 0, " +
		"os.uname().nodename)",
	"itself": "print(len(open('/proc/self/environ', 'rb').read()) > 0, open('/proc/self/mem', 'rb') is not None)",
	"who": "import getpass, os, pwd\nprint(getpass.getuser(), " +
		"pwd.getpwuid(os.getuid()).pw_name.rstrip('0123456789'), os.path.expanduser('~'))",
	"limits": "import resource\nprint([resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if " +
		"n.startswith('RLIMIT_')])",
	"signals": "print([l for l in open('/proc/self/status') if l.startswith(('Sig', 'Shd', 'NoNewPrivs', 'Seccomp', " +
		"'Cap', 'Threads', 'Groups'))])",
	"mounts": "print(sorted({l.split()[4] for l in open('/proc/self/mountinfo')}))",
	"nice":   "import os\nprint(os.nice(0), os.sched_getscheduler(0), len(os.sched_getaffinity(0)))",
}

// ending is the visible result of a program.
type ending struct {
	Code           int
	Stdout, Stderr string
}

// numbers matches addresses, threads and times, which differ between runs.
var numbers = regexp.MustCompile(`0x[0-9a-f]+|started \d+|in \d+\.\d+s`)

func (e ending) plain(folder string) ending {
	for _, s := range []*string{&e.Stdout, &e.Stderr} {
		*s = numbers.ReplaceAllString(strings.ReplaceAll(*s, folder, image.RootWorkspace), "#")
	}
	return e
}

// plainPython runs a program under the plain interpreter, outside of any sandbox, with
// the same environment.
func plainPython(t *testing.T, spec *engine.Spec) ending {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	entry := filepath.Join(folder, spec.Entry)
	if err := os.WriteFile(entry, []byte(spec.Code), 0o644); err != nil {
		t.Fatal(err)
	}
	stdin, err := executor.MemoryFile("stdin", spec.Stdin)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	ctx, cancel := context.WithTimeout(t.Context(), spec.Limits.Timeout)
	defer cancel()
	command := exec.CommandContext(ctx, spec.Language.Run[0], append([]string{entry}, spec.Args...)...)
	command.Dir, command.Stdin = folder, stdin
	for _, entry := range executor.Variables(spec) {
		command.Env = append(command.Env, strings.ReplaceAll(entry, image.RootWorkspace, folder))
	}
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	err = command.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	_ = unix.Kill(-command.Process.Pid, unix.SIGKILL) // remaining processes; a sandbox's end kills them as well
	code := command.ProcessState.ExitCode()
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return ending{code, stdout.String(), stderr.String()}.plain(folder)
}

func sandboxed(t *testing.T, sandbox *executor.Sandbox, spec *engine.Spec) ending {
	t.Helper()
	r := sandboxtest.Run(t, sandbox, spec)
	return ending{r.Code(), r.Stdout, r.Stderr}.plain(image.RootWorkspace)
}

// ordinaryPython returns a program with arguments and a stdin.
func ordinaryPython(code string) *engine.Spec {
	spec := sandboxtest.Python(code)
	spec.Args, spec.Stdin = []string{"one", "two"}, []byte("line\nmore\n")
	return spec
}

// ways returns the ways in which a Python program can start.
func ways(t *testing.T) map[string]func(*testing.T, *engine.Spec) ending {
	cold, pooled, demand := startBare(t, false), startBare(t, true), startBare(t, true)
	sizes := 0
	return map[string]func(*testing.T, *engine.Spec) ending{
		"cold": func(t *testing.T, spec *engine.Spec) ending { return sandboxed(t, cold, spec) },
		"driven": func(t *testing.T, spec *engine.Spec) ending { // by the driver, which has no effect on these
			spec.ShowPlots = true
			return sandboxed(t, cold, spec)
		},
		"pooled": func(t *testing.T, spec *engine.Spec) ending { return sandboxed(t, pooled, spec) },
		"on demand": func(t *testing.T, spec *engine.Spec) ending { // because no sandbox of that size waits
			sizes++
			spec.Limits.Inodes += sizes
			return sandboxed(t, demand, spec)
		},
	}
}

func TestBehavesLikePlainPython(t *testing.T) {
	if len(behaviours) < 60 {
		t.Fatalf("only %d programs", len(behaviours))
	}
	ways := ways(t)
	for name, code := range behaviours {
		want := plainPython(t, ordinaryPython(code))
		for way, run := range ways {
			t.Run(way+"/"+name, func(t *testing.T) {
				if diff := cmp.Diff(want, run(t, ordinaryPython(code))); diff != "" {
					t.Errorf("(-plain +%s)\n%s\n%s", way, diff, code)
				}
			})
		}
	}
}

func TestBehavesAlikeInside(t *testing.T) {
	ways := ways(t)
	for name, code := range insiders {
		want := ways["cold"](t, ordinaryPython(code))
		if want.Code != 0 || want.Stdout == "" {
			t.Errorf("%s: %+v", name, want)
		}
		for way, run := range ways {
			t.Run(way+"/"+name, func(t *testing.T) {
				if diff := cmp.Diff(want, run(t, ordinaryPython(code))); diff != "" {
					t.Errorf("(-cold +%s)\n%s\n%s", way, diff, code)
				}
			})
		}
	}
}

// Random numbers, and all values derived from them, differ from run to run.
func TestRandomNumbersDifferEverywhere(t *testing.T) {
	ways := ways(t)
	code := "import random, os, uuid, secrets, tempfile\nprint(random.random(), random.Random().random(), " +
		"os.urandom(8).hex(), uuid.uuid4(), secrets.token_hex(8), tempfile.mktemp())\n"
	seen := map[string]string{}
	for range 3 {
		for way, run := range ways {
			began := time.Now()
			r := run(t, ordinaryPython(code))
			words := strings.Fields(r.Stdout)
			if len(words) != 6 {
				t.Fatalf("%s after %v: %+v", way, time.Since(began), r)
			}
			for _, word := range words {
				if seen[word] != "" {
					t.Errorf("%s: %s came before, %s", way, word, seen[word])
				}
				seen[word] = way
			}
		}
	}
}

// A program's own modules take precedence over modules of the same name that a zygote
// has imported, as over those of the library.
func TestOwnModulesComeFirst(t *testing.T) {
	files := map[string]string{"random.py": "x = 1", "csv.py": "x = 2", "html/__init__.py": "x = 3",
		"html/parser.py": "x = 4", "json/data.txt": "no module", "os.py": "x = 5"}
	code := "import random, csv, html, html.parser, json, os\nprint(random.x, csv.x, html.x, html.parser.x, " +
		"json.dumps(1), os.path.exists('.'))"
	for way, run := range ways(t) {
		t.Run(way, func(t *testing.T) {
			spec := ordinaryPython(code)
			for name, content := range files {
				spec.Inputs = append(spec.Inputs, sandboxtest.Input(t, name, content))
			}
			want := "1 2 3 4 1 True\n"
			if r := run(t, spec); r.Code != 0 || r.Stdout != want {
				t.Errorf("exit code %d, stdout %q, want %q\n%s", r.Code, r.Stdout, want, r.Stderr)
			}
		})
	}
}
