package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// limits tests that a program gets its limits, and no more.
func limits(t *testing.T, b *bench) {
	t.Run("memory", func(t *testing.T) {
		spec := Python("print('before', flush=True)\nx = []\nwhile True: x.append(bytearray(16 << 20))")
		spec.Limits.Memory = 256 << 20
		r := b.run(t, spec)
		if b.backend.Root && !r.OOM || r.Code() == 0 || r.Stdout != "before\n" {
			t.Errorf("oom %v, exit code %d, stdout %q, stderr %q", r.OOM, r.Code(), r.Stdout, r.Stderr)
		}
	})
	t.Run("memory of many", func(t *testing.T) {
		spec := Python("import os, time\nfor i in range(8):\n    if os.fork() == 0:\n" +
			"        x = b'x' * (64 << 20); time.sleep(3); os._exit(0)\nprint([os.wait()[1] for i in range(8)])")
		spec.Limits.Memory = 256 << 20
		if r := b.run(t, spec); strings.Contains(r.Stdout, "[0, 0, 0, 0, 0, 0, 0, 0]") {
			t.Errorf("eight processes of 64 MiB lived on 256 MiB; peak %d MiB", r.MemoryPeak>>20)
		}
	})
	t.Run("processes", func(t *testing.T) {
		if b.backend.Kernel { // the limit counts what that needs too: see a fork bomb ends
			return
		}
		spec := Python(`import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0: time.sleep(30); os._exit(0)
        n += 1
except OSError: pass
print(n)`)
		spec.Limits.Processes = 20
		r := b.run(t, spec)
		if want := "19\n"; b.backend.Root && r.Stdout != want {
			t.Errorf("%q children beside the program itself, want %q", r.Stdout, want)
		} else if r.Stdout == "1000\n" {
			t.Error("no limit at all")
		}
		if b.backend.Root && (!r.Refused || b.run(t, Python("print(1)")).Refused) {
			t.Error("it is not known which program was refused processes")
		}
	})
	t.Run("a fork bomb ends", func(t *testing.T) {
		spec := Spec("bash", "bomb() { bomb | bomb & }; bomb; sleep 120")
		spec.Limits.Timeout = Slowed(2 * time.Second)
		begin := time.Now()
		b.run(t, spec)
		if d := time.Since(begin); d > spec.Limits.Timeout+answerTime {
			t.Errorf("it took %v to end", d)
		}
		wantOutput(t, b.run(t, Python("print('well')")), "well\n")
	})
	t.Run("disk", func(t *testing.T) {
		spec := Python(`def fill(folder):
    n = 0
    try:
        with open(folder + '/big', 'wb', 0) as f:
            while n < 1 << 30: n += f.write(b'x' * (1 << 20))
    except OSError as e: pass
    return n >> 20
print(fill('/workspace') <= 64, fill('/tmp') <= 64, fill('/dev/shm') <= 64)`)
		wantOutput(t, b.run(t, spec), "True True True\n")
	})
	t.Run("inodes", func(t *testing.T) {
		spec := Python("import os\nn = 0\ntry:\n    while n < 5000: open(f'{n}', 'w').close(); n += 1\n" +
			"except OSError: pass\nprint(n)")
		spec.Limits.Inodes, spec.Limits.Files.Count = 100, 10
		wantOutput(t, b.run(t, spec), "99\n") // the code is one of the files
	})
	t.Run("open files", func(t *testing.T) {
		wantOutput(t, b.run(t, Python("import os\nn = 0\ntry:\n    while n < 1 << 20: os.open('/dev/null', 0); n += 1\n"+
			"except OSError: pass\nprint(n <= 1024)")), "True\n")
	})
	t.Run("time", func(t *testing.T) {
		for name, code := range map[string]string{
			"spinning": "while True: pass",
			"deaf": "import signal, time\nfor s in range(1, 64):\n    try: signal.signal(s, signal.SIG_IGN)\n" +
				"    except (OSError, ValueError): pass\nwhile True: time.sleep(1)",
			"many": "import os\nfor i in range(5): os.fork()\nwhile True: pass",
		} {
			spec := Python(code)
			spec.Limits.Timeout = Slowed(300 * time.Millisecond)
			begin := time.Now()
			r := b.run(t, spec)
			if !r.TimedOut || r.ExitCode != nil {
				t.Errorf("%s: timed out %v, exit code %d", name, r.TimedOut, r.Code())
			}
			if d := time.Since(begin); d > spec.Limits.Timeout+answerTime {
				t.Errorf("%s: answered after %v", name, d)
			}
		}
	})
	t.Run("CPU time", func(t *testing.T) {
		spec := Python("while True: pass")
		spec.Limits.CPUTime = Slowed(time.Second)
		if r := b.run(t, spec); r.TimedOut || r.Code() != 137 || r.Signal != "SIGXCPU" {
			t.Errorf("timed out %v, exit code %d, signal %q", r.TimedOut, r.Code(), r.Signal)
		}
		spec = Python("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass")
		// Beside other tests a kernel of its own counts a second before the program has come to its first line.
		spec.Limits.CPUTime = Slowed(4 * time.Second)
		if r := b.run(t, spec); r.TimedOut || r.Code() != 137 || r.Signal != "SIGKILL" {
			t.Errorf("it ignores the limit: timed out %v, exit code %d, signal %q", r.TimedOut, r.Code(), r.Signal)
		}
	})
	t.Run("a flood of output", func(t *testing.T) {
		n := 0
		host := &recorder{seen: func(_ engine.Stream, b []byte) { n += len(b) }}
		r := run(t.Context(), t, b.sandbox, Python("import sys\nfor i in range(64): sys.stdout.write('x' * (1 << 20))"),
			host)
		wantOK(t, r)
		if n != 64<<20 {
			t.Errorf("%d bytes arrived", n)
		}
	})
}
