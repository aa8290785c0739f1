package linux

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// hostileImage returns runtimes with an image whose interpreter executes code at its start, if
// it is a zygote's.
func hostileImage(t *testing.T, code string) (runtimes string, record *engine.Image) {
	t.Helper()
	runtimes = sandboxtest.LiveRuntimesOf(t)
	record = sandboxtest.Image(t, runtimes, "trixie")
	module := filepath.Join(runtimes, "images", record.ID, "rootfs/usr/lib/python3.13/sitecustomize.py")
	if err := os.Remove(module); err != nil {
		t.Fatal(err)
	}
	code = "import sys\nif sys.orig_argv[-1].endswith('zygote.py'):\n\t" + strings.ReplaceAll(code, "\n", "\n\t")
	if err := os.WriteFile(module, []byte(code), 0o644); err != nil { //nolint:gosec // programs read it
		t.Fatal(err)
	}
	return runtimes, record
}

// trials are what the interpreter of a hostile image tries as a zygote. Its programs find what it
// could do.
const trials = `import builtins, ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
could = builtins.could = []
def attempt(name, what):
	child = os.fork() # what it could do, a sandbox must not suffer from
	if child == 0:
		try: os._exit(0 if what() else 1)
		except OSError: os._exit(1)
	if os.waitpid(child, 0)[1] == 0: could.append(name)
def status(key):
	return next(l.split()[1] for l in open("/proc/self/status") if l.startswith(key + ":"))
attempt("be root", lambda: os.getuid() == 0)
attempt("become root", lambda: os.setresuid(0, 0, 0) or os.setresuid(os.getuid(), os.getuid(), os.getuid()) or True)
attempt("become somebody else", lambda: os.setresuid(1000, 1000, -1) or True)
attempt("have more capabilities", lambda: int(status("CapEff"), 16) & ~(1 << 21 | 1 << 7 | 1 << 6))
attempt("gain a capability", lambda: int(status("CapBnd"), 16))
attempt("see other processes", lambda: len([n for n in os.listdir("/proc") if n.isdigit()]) > 3)
attempt("make a user namespace", lambda: libc.unshare(0x10000000) == 0)
attempt("configure networks", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("change the host name", lambda: socket.sethostname("elsewhere") or True)
attempt("write to the kernel's settings", lambda: open("/proc/sys/kernel/core_pattern", "w"))
attempt("use an old root", lambda: libc.chroot(b"/tmp") == 0)
attempt("trace", lambda: libc.ptrace(0, 0, 0, 0) == 0)
`

// The interpreter of an image makes sandboxes, and has no rights over anything else.
func TestInterpreterOfImage(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: only there can one layer be left out and the others stay")
	}
	runtimes, record := hostileImage(t, trials)
	for _, weak := range []bool{false, true} {
		options := executor.LaunchOptions{Runtimes: runtimes, WarmFirst: true}
		if weak {
			options.Weaken = []string{weakImage}
		}
		r := sandboxtest.Run(t, sandboxtest.InImage(startWith(t, options), record),
			sandboxtest.Python("print(*could, sep='\\n')"))
		if could := strings.TrimSpace(r.Stdout); r.Start != engine.StartWarm || (could != "") != weak || r.Stderr != "" {
			t.Errorf("with the executor's rights: %v; %s start, %s; it could:\n%s", weak, r.Start, r.Stderr, could)
		} else {
			t.Logf("with the executor's rights: %v; it could:\n%s", weak, could)
		}
	}
}

// The zygote of an image learns what programs touch as the machine's own does, without its rights.
func TestImageLearns(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	var log syncBuffer
	sandbox := startWith(t, executor.LaunchOptions{Runtimes: runtimes, WarmFirst: true,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 5 {
		for _, s := range []engine.Sandbox{sandbox, sandboxtest.InImage(sandbox, record)} {
			if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Stdout != "1\n" {
				t.Fatalf("%+v", r)
			}
		}
	}
	if log.String() != "" {
		t.Error(log.String())
	}
}

// An interpreter that does not do as it is told costs its image the quick start, and others nothing.
func TestDisobedientInterpreter(t *testing.T) {
	const answers = `import os, socket, struct
server = socket.socket(fileno=3)
server.recv(1 << 18); server.recv(1 << 18)
server.send(b'{"LeftOut": {}, "Threads": 1}')
while True:
	_, rights, _, _ = server.recvmsg(1 << 18, 4096)
	files = memoryview(rights[0][2]).cast("i")
	%s
	for file in files: os.close(file)
`
	for name, code := range map[string]string{
		"silent":          "import time\ntime.sleep(1e6)",
		"gone":            "import os\nos._exit(0)",
		"speaks nonsense": "import os\nos.write(3, b'x' * 100000)",
		"never answers":   strings.ReplaceAll(answers, "%s", "continue"),
		"lies about itself": strings.ReplaceAll(answers, "%s",
			"server.sendmsg([struct.pack('i', 1)], [(1, 1, struct.pack('i', os.pidfd_open(os.getpid())))])"),
		"lies about files": strings.ReplaceAll(answers, "%s",
			"server.sendmsg([struct.pack('i', 1)], [(1, 1, struct.pack('i', 0))])"),
		"takes all memory": "x = []\nwhile True: x.append(bytearray(1 << 24))",
		"forks":            "import os\nwhile True:\n\ttry: os.fork()\n\texcept OSError: pass",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runtimes, record := hostileImage(t, code)
			s := startWith(t, executor.LaunchOptions{Runtimes: runtimes, Warm: true,
				Weaken: []string{weakAnswerTime, executor.WeakIdleTime}})
			began := time.Now()
			for range 2 {
				r := sandboxtest.Run(t, sandboxtest.InImage(s, record), sandboxtest.Python("print(1)"))
				if r.Stdout != "1\n" || r.Start == engine.StartWarm {
					t.Errorf("%s start, %q, %q", r.Start, r.Stdout, r.Stderr)
				}
			}
			t.Log(time.Since(began))
			if r := sandboxtest.Run(t, s, sandboxtest.Python("print(2)")); r.Stdout != "2\n" {
				t.Errorf("without an image: %q, %q", r.Stdout, r.Stderr)
			}
		})
	}
}

// A live interpreter in an image does not end with those that wait, on which it depends.
func TestImageOutlivesWaiting(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	s := startWith(t, executor.LaunchOptions{Runtimes: runtimes, WarmFirst: true, Weaken: []string{executor.WeakIdleTime}})
	c := newCells(t, sandboxtest.InImage(s, record))
	made, err := c.live.Create(t.Context(), c.caller, live.Request{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	run := func(code string) string {
		got := c.cell(t.Context(), t, made.ID, code, time.Minute)
		return string(got.Status) + " " + said(got, live.Stdout)
	}
	if got := run("x = 1"); got != "ok " {
		t.Fatal(got)
	}
	if !sandboxtest.Await(func() bool {
		pools, err := s.Pools(t.Context())
		ofImage := func(p engine.Pool) bool { return strings.HasPrefix(p.Name, "sha256-") }
		return err == nil && !slices.ContainsFunc(pools, ofImage)
	}) {
		t.Error("the interpreters of an idle image wait for ever")
	}
	if got := run("print(x)"); got != "ok 1\n" {
		t.Error(got)
	}
}
