package linux

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// Each protection is tested twice with one probe. With the protection the probe must
// fail, and without it the probe must succeed: a probe that always fails would prove
// nothing. The tests use sandboxes that start cold, that are forked from a zygote or
// wait for a command, and processes that enter a sandbox.
func TestProtections(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: only there can one layer be left out and the others stay")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	// open starts two executors, one without a zygote, for the four ways into a sandbox.
	open := func(t *testing.T, weaken ...string) map[string]*executor.Sandbox {
		cold, warm := start(t, weaken...), startWeak(t, weaken...)
		return map[string]*executor.Sandbox{"cold": cold, "entered": cold, "warm": warm, "command": warm}
	}
	whole := open(t)
	// A zygote's child does not have these steps.
	coldOnly := []string{"old root", "network", "signal mask"}
	const status = "status = dict(l.rstrip('\\n').split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)\n"
	for _, tt := range []struct {
		name   string
		weaken []string
		probe  string // prints "breach" if the protection does not hold
	}{
		{"system calls", []string{"system-call filter"}, `import socket
try: socket.socket(16, 3); print('breach')
except OSError: pass`},
		{"new namespaces", []string{"system-call filter"}, `import ctypes
if ctypes.CDLL(None).unshare(0x10000000) == 0: print('breach')`},
		{"landlock", []string{"landlock"}, `import fcntl
try: fcntl.ioctl(open('/dev/urandom'), 0x80045200, bytes(4)); print('breach')
except OSError: pass`},
		{"capabilities", []string{"set user", "set group", "drop capabilities", "drop from the bounding set"},
			status + "if int(status['CapEff'], 16): print('breach')"},
		{"bounding set", []string{"drop from the bounding set"}, status + "if int(status['CapBnd'], 16): print('breach')"},
		{"user", []string{"set user", "drop capabilities"}, "import os\nif os.getuid() == 0: print('breach')"},
		{"no new privileges", []string{"no new privileges", "landlock", "system-call filter"},
			status + "if status['NoNewPrivs'] == '0': print('breach')"},
		{"old root", []string{"detach the old root", "landlock"},
			"import os\nif 'image' in os.listdir('/..'): print('breach')"},
		{"network", []string{"network namespace", "bring up loopback"}, fmt.Sprintf(`import socket
try: socket.create_connection(('127.0.0.1', %s), timeout=2); print('breach')
except OSError: pass`, port)},
		{"host name", []string{"set the host name"}, "import socket\nif socket.gethostname() != 'airlock': print('breach')"},
		{"hidden files", []string{"hide /proc/cmdline"}, "if open('/proc/cmdline').read(): print('breach')"},
		{"read-only /proc", []string{"make /proc read-only"}, "import os\ntry: " +
			"os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'900'); print('breach')\nexcept OSError: pass"},
		{"open files", []string{"limit open files"},
			"import resource\nif resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 1024: print('breach')"},
		{"core files", []string{"limit core files"},
			"import resource\nif resource.getrlimit(resource.RLIMIT_CORE)[1] != 1: print('breach')"},
		{"signal mask", []string{"unblock signals"},
			"import signal\nif signal.pthread_sigmask(signal.SIG_BLOCK, []): print('breach')"},
		{"terminal", []string{"leave the terminal"}, "import os\nif os.getsid(0) == 0: print('breach')"},
		{"control group: memory", []string{"join control group"}, "x = bytearray(300 << 20)\nprint('breach')"},
		{"control group: processes", []string{"join control group"}, `import os, time
try:
    for i in range(40):
        if os.fork() == 0: os.closerange(0, 3); time.sleep(9); os._exit(0)
    print('breach')
except OSError: pass`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for path, weakened := range open(t, tt.weaken...) {
				if path == "warm" && slices.Contains(coldOnly, tt.name) || path == "entered" && tt.name == "old root" {
					continue // where it cannot start
				}
				t.Run(path, func(t *testing.T) {
					for weak, sandbox := range map[bool]*executor.Sandbox{false: whole[path], true: weakened} {
						probe(t, path, tt.probe, sandbox, weak)
					}
				})
			}
		})
	}
}

// probe runs a probe in a sandbox. It must print "breach" if and only if the sandbox is weak.
func probe(t *testing.T, path, code string, sandbox *executor.Sandbox, weak bool) {
	t.Helper()
	spec := sandboxtest.Python(code)
	spec.Limits.Memory, spec.Limits.Processes = 200<<20, 30
	if path == "command" { // no zygote's sandbox has that variable
		spec.Env = map[string]string{"PYTHONHASHSEED": "0"}
	}
	var stdout, stderr string
	if path == "entered" { // by a process, beside a program behind the same walls
		held, _ := standingProgram(t, sandbox, func(l *engine.Limits) {
			l.Memory, l.Processes = spec.Limits.Memory, spec.Limits.Processes
		})
		stdout, stderr, _ = inside(t, sandbox, held, &engine.ProcessSpec{Argv: []string{"python3", "-c", code}})
	} else {
		r := sandboxtest.Run(t, sandbox, spec)
		stdout, stderr = r.Stdout, r.Stderr
	}
	if got := strings.Contains(stdout, "breach"); got != weak {
		t.Errorf("with the protection left out: %v; breach: %v\nstdout: %s\nstderr: %s", weak, got, stdout, stderr)
	}
}

// startWeak starts a sandbox whose zygote, one without packages, forks with some
// protections removed.
func startWeak(t *testing.T, weaken ...string) *executor.Sandbox {
	t.Helper()
	s, err := executor.Start(t.Context(), executor.Config{Log: quiet,
		Launcher: executor.NewLauncher(executor.LaunchOptions{WarmFirst: true, Weaken: weaken})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
