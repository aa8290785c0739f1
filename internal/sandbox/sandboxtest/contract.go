package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// contract tests the guarantees for programs.
func contract(t *testing.T, b *bench) {
	for _, tt := range []struct {
		name, lang, code string
		code128          int
		stdout, stderr   string // exactly; stderr: contained
		signal           string
	}{
		{name: "print", lang: "python", code: "print(1)", stdout: "1\n"},
		{name: "bash", lang: "bash", code: "echo $((1+1)); echo oops >&2", stdout: "2\n", stderr: "oops\n"},
		{name: "unicode", lang: "python", code: "print('naïve ☃ 日本')", stdout: "naïve ☃ 日本\n"},
		{name: "exit code", lang: "python", code: "import sys; sys.exit(3)", code128: 3},
		{name: "exit text", lang: "python", code: "import sys; sys.exit('no')", code128: 1, stderr: "no\n"},
		{name: "traceback", lang: "python", code: "x = 1\n1/0\n", code128: 1, stderr: "File \"/workspace/main.py\", line 2"},
		{name: "traceback shows source", lang: "python", code: "x = 1\n1/0\n", code128: 1, stderr: "    1/0\n"},
		{name: "syntax error", lang: "python", code: "def", code128: 1, stderr: "SyntaxError"},
		{name: "empty program", lang: "python", code: ""},
		{name: "terminated", lang: "python",
			code: "import os,signal; os.kill(os.getpid(), signal.SIGTERM); import time; time.sleep(9)", code128: 143,
			signal: "SIGTERM"},
		{name: "aborted", lang: "python", code: "import os; os.abort()", code128: 134, signal: "SIGABRT"},
		{name: "segfault", lang: "python", code: "import ctypes; ctypes.string_at(0)", code128: 139, signal: "SIGSEGV"},
		{name: "killed", lang: "bash", code: "kill -9 $$", code128: 137, signal: "SIGKILL"},
		{name: "no stdin", lang: "python", code: "import sys; print(repr(sys.stdin.read()))", stdout: "''\n"},
		{name: "main module", lang: "python", code: "print(__name__, __file__)", stdout: "__main__ /workspace/main.py\n"},
		{name: "own loopback", lang: "python", code: `import socket, threading
s = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b"hello")).start()
print(socket.create_connection(s.getsockname()).recv(9).decode())`, stdout: "hello\n"},
		{name: "threads and processes", lang: "python", code: `import multiprocessing as mp, threading
def f(x): return x * x
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        with mp.get_context(how).Pool(2) as p: print(p.map(f, range(4)))
    t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()`, stdout: "[0, 1, 4, 9]\n[0, 1, 4, 9]\nthread\n"},
		{name: "names of users", lang: "python",
			code:   "import getpass, pwd, os; print(getpass.getuser()[:7], pwd.getpwuid(os.getuid()).pw_dir)",
			stdout: "sandbox /workspace\n"},
		{name: "temporary files", lang: "python",
			code: "import tempfile; f = tempfile.NamedTemporaryFile(); print(f.name.split('/')[1])", stdout: "tmp\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := b.run(t, Spec(tt.lang, tt.code))
			if r.Code() != tt.code128 || r.Signal != tt.signal {
				t.Errorf("exit code %d, signal %q; want %d, %q\nstderr: %s", r.Code(), r.Signal, tt.code128, tt.signal, r.Stderr)
			}
			if r.Stdout != tt.stdout {
				t.Errorf("stdout %q, want %q", r.Stdout, tt.stdout)
			}
			if !strings.Contains(r.Stderr, tt.stderr) {
				t.Errorf("stderr %q, want %q in it", r.Stderr, tt.stderr)
			}
		})
	}
	t.Run("arguments, stdin, environment", func(t *testing.T) { contractInputs(t, b) })
	t.Run("the workspace has two names", func(t *testing.T) {
		spec := Python("open('/workspace/a','w').write('x'); import os; print(os.getcwd(), open('a').read(), " +
			"os.environ['HOME'])")
		spec.Root, spec.Home = "/mnt/data", "/mnt/data"
		wantOutput(t, b.run(t, spec), "/mnt/data x /mnt/data\n")
	})
	t.Run("code on the command line", func(t *testing.T) {
		spec := Spec("bash", `echo "$1"; ls`)
		spec.Inline, spec.Args = true, []string{"arg"}
		wantOutput(t, b.run(t, spec), "arg\n")
	})
	t.Run("output comes while the program runs", func(t *testing.T) { contractStreaming(t, b) })
	if !b.backend.Image {
		t.Run("commands", func(t *testing.T) { contractCommands(t, b) })
	}
	t.Run("streams by name", func(t *testing.T) {
		const names = "import os\nprint(open('/dev/stdin').read())\nopen('/dev/stdout', 'w').write('out')\n" +
			"open('/proc/self/fd/2', 'w').write('err')"
		for lang, code := range map[string]string{"python": names,
			"bash": "cat /dev/stdin; echo; printf out > /dev/stdout; printf err > /dev/stderr"} {
			spec := Spec(lang, code)
			spec.Stdin = []byte("in")
			r := b.run(t, spec)
			wantOutput(t, r, "in\nout")
			if r.Stderr != "err" {
				t.Errorf("%s: stderr %q", lang, r.Stderr)
			}
		}
	})
	t.Run("both streams in one", func(t *testing.T) {
		for lang, code := range map[string]string{
			"python": "import os, sys\nfor i in range(100):\n    print(i)\n    print(i, file=sys.stderr)\n" +
				"    os.system(f'echo {i}' + ' >&2' * (i % 2))",
			"bash": "for i in {0..99}; do echo $i; echo $i >&2; sh -c \"echo $i\"; done",
		} {
			spec := Spec(lang, code)
			spec.Merge = true
			var want strings.Builder
			for i := range 100 {
				fmt.Fprintf(&want, "%d\n%d\n%d\n", i, i, i)
			}
			r := b.run(t, spec)
			wantOutput(t, r, want.String())
			if r.Stderr != "" {
				t.Errorf("stderr %q", r.Stderr)
			}
		}
	})
	t.Run("calls", func(t *testing.T) { contractCalls(t, b) })
	t.Run("account", func(t *testing.T) { contractAccount(t, b) })
	t.Run("at once", func(t *testing.T) { contractParallel(t, b) })
	t.Run("a missing interpreter", func(t *testing.T) {
		spec := Python("")
		spec.Language.Run = []string{"/usr/bin/no-such-interpreter", "{entry}"}
		_, err := b.sandbox.Run(t.Context(), spec, &recorder{})
		if !errors.Is(err, engine.ErrNoLanguage) {
			t.Errorf("error %v, want no language", err)
		}
	})
}

func contractInputs(t *testing.T, b *bench) {
	t.Setenv("AIRLOCK_TEST_SECRET", "do not tell")
	spec := Python("import sys, os, json; print(json.dumps([sys.argv[1:], sys.stdin.read(), dict(os.environ)]))")
	spec.Args = []string{"a b", "$HOME", "--", "é"}
	spec.Stdin = []byte("line\nline")
	spec.Env = map[string]string{"MINE": "yes", "PYTHONUNBUFFERED": "0"}
	r := b.run(t, spec)
	wantOK(t, r)
	var got struct {
		args  []string
		stdin string
		env   map[string]string
	}
	if err := json.Unmarshal([]byte(r.Stdout), &[]any{&got.args, &got.stdin, &got.env}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.args) != "[a b $HOME -- é]" || got.stdin != "line\nline" {
		t.Errorf("arguments %q, stdin %q", got.args, got.stdin)
	}
	if got.env["MINE"] != "yes" || got.env["PYTHONUNBUFFERED"] != "0" || got.env["HOME"] != "/workspace" {
		t.Errorf("environment %v", got.env)
	}
	for name, value := range got.env {
		if strings.Contains(name+value, "SECRET") || strings.Contains(value, "do not tell") {
			t.Errorf("the environment leaks %s", name)
		}
	}
}

func contractStreaming(t *testing.T, b *bench) {
	first := make(chan struct{})
	var once sync.Once
	host := &recorder{
		seen: func(engine.Stream, []byte) { once.Do(func() { close(first) }) },
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-first // output arrives before the end: only then may the program continue
		cancel()
	}()
	r := run(ctx, t, b.sandbox, Python("print('now', end='', flush=True)\nimport time; time.sleep(15)"), host)
	if !r.Cancelled || r.Stdout != "now" {
		t.Errorf("cancelled %v, stdout %q", r.Cancelled, r.Stdout)
	}
}

// contractCommands checks for common commands, from a shell and from Python. The
// backend may start one of them cold and the other warm.
func contractCommands(t *testing.T, b *bench) {
	commands := []struct{ line, want string }{
		{"python -c 'import sys; print(sys.version_info[0])'", "3\n0"},
		{"python3 -c 'print(3)'", "3\n0"},
		{"/usr/bin/env python -c 'import sys; print(sys.prefix)'", "/usr\n0"},
		{"sh -c 'echo sh'", "sh\n0"},
		{"pip --version >/dev/null 2>&1", "1"},
		{"pip install nothing 2>&1 | grep -o 'no network'", "no network\n0"},
		{"pip3 install nothing 2>&1 | grep -o 'nothing cannot be installed here'", "nothing cannot be installed here\n0"},
		{"python -m pip install nothing >/dev/null 2>&1", "1"},
		{"python3 -m pip install nothing 2>&1 | grep -o 'no network'", "no network\n0"},
		{"pip list >/dev/null", "0"},
	}
	if _, err := os.Stat("/usr/bin/node"); err == nil {
		commands = append(commands, struct{ line, want string }{"node -e 'console.log(4)'", "4\n0"})
	}
	for _, c := range commands {
		wantOutput(t, b.run(t, Spec("bash", c.line+"; printf $?")), c.want)
		program := fmt.Sprintf(
			"import subprocess\nprint(subprocess.run(['bash', '-c', %q], capture_output=True, text=True).stdout, end='')",
			c.line+"; printf $?")
		wantOutput(t, b.run(t, Python(program)), c.want)
	}
	wantOutput(t, b.run(t, Python("import subprocess, sys\nprint(subprocess.run(['python', '-c', 'print(5)'], "+
		"capture_output=True).stdout, subprocess.run([sys.executable, '-m', 'pip', 'install', 'x'], "+
		"capture_output=True).returncode)")), "b'5\\n' 1\n")
}

const callProgram = `import os, json, struct
answers, calls = (open(int(fd), mode, buffering=0) for fd, mode in zip(os.environ["AIRLOCK_CALLS_FDS"].split(), ("rb", "wb")))
def call(i, name, **kw):
    m = json.dumps({"id": i, "name": name, "input": kw}).encode()
    calls.write(struct.pack(">I", len(m)) + m)
def answer():
    n, = struct.unpack(">I", answers.read(4))
    return json.loads(answers.read(n))
call(1, "add", a=2, b=3); print(answer())
call(2, "fail"); print(answer())
`

func contractCalls(t *testing.T, b *bench) {
	spec := Python(callProgram)
	spec.Calls = true
	host := &recorder{call: func(name string, input []byte) ([]byte, error) {
		if name != "add" {
			return nil, errors.New("no such tool")
		}
		var in struct{ A, B int }
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, err
		}
		return json.Marshal(in.A + in.B)
	}}
	r := run(t.Context(), t, b.sandbox, spec, host)
	wantOutput(t, r, "{'id': 1, 'result': 5}\n{'id': 2, 'error': 'no such tool'}\n")
	// A socket created by the service would reveal the host's network, and bind names in it.
	spec = Python("import os, stat\nprint([n for n in range(64) if os.path.exists(f'/proc/self/fd/{n}') and " +
		"stat.S_ISSOCK(os.fstat(n).st_mode)])")
	spec.Calls = true
	wantOutput(t, run(t.Context(), t, b.sandbox, spec, &recorder{}), "[]\n")
	// A malformed message ends only the channel.
	spec = Python("import os\nos.write(4, b'\\xff' * 100)\nprint(repr(os.read(3, 10)))")
	spec.Calls = true
	if r := run(t.Context(), t, b.sandbox, spec, &recorder{}); r.Code() == -1 {
		t.Errorf("nonsense on the channel: %+v", r.Outcome)
	}
}

func contractAccount(t *testing.T, b *bench) {
	r := b.run(t, Python("x = bytearray(100 << 20)\nimport time\nend = time.process_time() + 0.3\n"+
		"while time.process_time() < end: pass\ntime.sleep(0.2)"))
	wantOK(t, r)
	if r.CPU < 250*time.Millisecond || r.CPU > 3*time.Second {
		t.Errorf("CPU time %v for 0.3 s of work", r.CPU)
	}
	if r.Duration < 500*time.Millisecond {
		t.Errorf("duration %v for 0.3 s of work and 0.2 s of sleep", r.Duration)
	}
	if b.backend.Root && (r.MemoryPeak < 100<<20 || r.MemoryPeak > 200<<20) {
		t.Errorf("peak memory %d MiB for a 100 MiB array", r.MemoryPeak>>20)
	}
}

func contractParallel(t *testing.T, b *bench) {
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			spec := Python(fmt.Sprintf(
				"import time, os\nopen('mine', 'w').write('%d')\ntime.sleep(0.1)\nprint(open('mine').read(), len(os.listdir('.')))",
				i))
			spec.Limits.Files.Count = 0
			host := &recorder{}
			if _, err := b.sandbox.Run(t.Context(), spec, host); err != nil {
				t.Error(err)
			}
			if want := fmt.Sprintf("%d 2\n", i); host.stdout.String() != want {
				t.Errorf("stdout %q, want %q", host.stdout.String(), want)
			}
		})
	}
	all.Wait()
}
