package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Whatever a cell is or does, it has an answer, and the next cell works.
func TestAbuse(t *testing.T) {
	p := open(t, Config{})
	made, err := p.Create(t.Context(), p.caller, Request{Limits: engine.Limits{Memory: 512 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	s := made.ID
	for name, try := range map[string]struct {
		code   string
		status Status
		says   string // in the error, the message or stderr
		lost   bool
	}{
		"10 MB":                    {"x = '" + strings.Repeat("a", 10<<20) + "'\nlen(x)", StatusOK, "", false},
		"NULs":                     {strings.Repeat("\x00", 1000), StatusError, "null bytes", false},
		"nothing":                  {" \n", StatusOK, "", false},
		"half a surrogate":         {"'\\ud800'", StatusOK, "", false},
		"it prints a surrogate":    {"print('\\ud800')", StatusOK, "", false},
		"10,000 displays":          {"for i in range(10_000): display(i)", StatusOK, "left out", false},
		"3 MB of text":             {"print('a' * 3_000_000)", StatusOK, "", false},
		"an endless line":          {"while True: print('a', end='')", StatusTimeout, "", false},
		"50 MB of HTML":            {"from IPython.display import HTML\nHTML('a' * 50_000_000)", StatusOK, "left out", false},
		"repr raises":              {"class A:\n  def __repr__(self): raise ValueError('no repr')\nA()", StatusError, "no repr", false},
		"repr exits":               {"class A:\n  def __repr__(self): sys.exit(1)\nA()", StatusError, "SystemExit", false},
		"repr loops":               {"class A:\n  def __repr__(self):\n    while True: pass\nA()", StatusTimeout, "", false},
		"repr forks":               {"class A:\n  def __repr__(self): return str(os.fork() >= 0)\nA()", StatusOK, "", false},
		"str of the error raises":  {"class E(Exception):\n  def __str__(self): raise ValueError\nraise E", StatusError, "", false},
		"deep recursion":           {"def f(): f()\nf()", StatusError, "RecursionError", false},
		"it closes its streams":    {"sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2)", StatusOK, "", false},
		"no streams":               {"sys.stdout = sys.stderr = None", StatusOK, "", false},
		"it kills its parent":      {"os.kill(os.getppid(), 9)", StatusOK, "", false},
		"it redefines display":     {"import builtins\nbuiltins.display = None\ndisplay = None", StatusOK, "", false},
		"it loses the shell":       {"get_ipython().run_cell_async = None\nimport IPython", StatusOK, "", false},
		"it closes the loop":       {"import asyncio\nasyncio.get_event_loop().stop()", StatusOK, "", false},
		"it writes to the channel": {"os.write(4, b'nonsense' * 100)", StatusLost, "", true},
		"it lies on the channel":   {`import struct; m = b'{"name":"result","input":{"data":{"text/plain":"1"}}}'; os.write(4, struct.pack('>I', len(m)) + m)`, StatusOK, "", false},
		"it closes the channel":    {"os.close(4)", StatusLost, "", true},
		"it stops itself":          {"import signal; os.kill(os.getpid(), signal.SIGSTOP)", StatusTimeout, "killed", true},
		"a fork bomb":              {"while True:\n  try: os.fork()\n  except OSError: pass", StatusTimeout, "", true},
		"memory":                   {"b = bytearray(1 << 30)", StatusLost, "memory", true},
		"a large figure":           {"import matplotlib.pyplot as plt\nplt.figure(figsize=(300, 300))\nplt.plot([1, 2]);", "", "", true},
		"a crash":                  {"import ctypes; ctypes.string_at(0)", StatusLost, "SIGSEGV", true},
		"threads go on":            {"import threading, time\nthreading.Thread(target=lambda: [time.sleep(0.001) or print('late') for _ in range(100)]).start()", StatusOK, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			p.t = t
			limit := time.Minute
			if try.status == StatusTimeout {
				limit = time.Second
			}
			c := p.runCell(s, CellRequest{Code: "import os, sys\n" + try.code, Timeout: limit})
			said := fmt.Sprint(raised(c), c.Message, text(c, Stderr))
			if try.status != "" && c.Status != try.status || !strings.Contains(said, try.says) {
				t.Errorf("it is %s, not %s: %.500s", c.Status, try.status, said)
			}
			size := 0
			for _, o := range c.Outputs {
				size += len(o.Text) + len(o.Value)
				for _, form := range o.Data {
					size += len(form)
				}
			}
			if size > displayBytes+4<<20 || len(c.Outputs) > 2*mostDisplays+10 { // text of an earlier cell's thread may be between
				t.Errorf("%d outputs of %d bytes", len(c.Outputs), size)
			}
			next := p.runCell(s, CellRequest{Code: "print(6 * 7)\n'alive'", Timeout: 30 * time.Second})
			if next.Status != StatusOK || !strings.Contains(plain(t, next), "alive") || next.Restarted != try.lost && try.status != "" {
				t.Errorf("the next cell is %s, restarted %v: %.500s", next.Status, next.Restarted, fmt.Sprint(raised(next), next.Message))
			}
		})
	}
}
