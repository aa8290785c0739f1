package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// The same of the other languages, whose drivers are others.
func TestAbuseOfShells(t *testing.T) {
	p := open(t, Config{})
	for language, tries := range map[string]map[string]struct {
		code   string
		status Status
		lost   bool
	}{
		"bash": {
			"1 MB":                     {"x=" + strings.Repeat("a", 1<<20) + "; echo ${#x}", StatusOK, false},
			"NULs":                     {strings.Repeat("\x00", 1000), StatusError, false},
			"no UTF-8":                 {"printf '\\xff\\xed\\xa0\\x80'", StatusOK, false},
			"an endless line":          {"while :; do printf aaaaaaaa; done", StatusTimeout, false},
			"it reads what is to come": {"cat <&9 & read -t 0.2 -u 9 x; echo read; kill %1 2>/dev/null; kill $!", "", false},
			"it tells lies":            {"printf 'nonsense\\0 7 begun\\0 99 3\\0' >&8", "", false},
			"it closes its files":      {"exec >&- 2>&-", StatusOK, false},
			"it closes all":            {"exec 8>&- 9<&- 0<&-", "", true},
			"it kills its parent":      {"kill -9 $PPID", StatusLost, true},
			"it kills all":             {"kill -9 -1", StatusLost, true},
			"it becomes another":       {"exec sleep 0.1", StatusLost, true},
			"it redefines":             {"printf() { :; }; read() { :; }; eval() { :; }", StatusTimeout, true},
			"it leaves a child":        {"sleep 1000 & exit 4", StatusLost, true},
			"a fork bomb":              {"f() { f | f & }; f", "", true},
		},
		"javascript": {
			"10 MB":                   {"var x = '" + strings.Repeat("a", 10<<20) + "'; x.length", StatusOK, false},
			"NULs":                    {strings.Repeat("\x00", 1000), StatusError, false},
			"half a surrogate":        {"console.log('\\ud800'); '\\ud800'", StatusOK, false},
			"10,000 displays":         {"for (let i = 0; i < 10000; i++) display(i)", StatusOK, false},
			"50 MB of HTML":           {"display({'text/html': 'a'.repeat(50e6)})", StatusOK, false},
			"an endless line":         {"for (;;) process.stdout.write('a')", StatusTimeout, false},
			"inspect raises":          {"({[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('no') }})", StatusError, false},
			"inspect loops":           {"({[Symbol.for('nodejs.util.inspect.custom')]() { for (;;); }})", StatusTimeout, true},
			"the error's name raises": {"throw {get name() { throw 1 }, get message() { throw 2 }}", StatusError, false},
			"it throws null":          {"throw null", StatusError, false},
			"it throws later":         {"setTimeout(() => { throw new Error('later') }, 0); await new Promise((r) => setTimeout(r, 50))", "", false},
			"deep recursion":          {"(function f() { f() })()", StatusError, false},
			"it closes its streams":   {"process.stdout.end(); process.stderr.destroy(); require('fs').closeSync(1)", "", false},
			"it redefines display":    {"globalThis.display = null; JSON.stringify = null", "", true},
			"it closes the channel":   {"require('fs').closeSync(4)", StatusLost, true},
			"it writes to it":         {"require('fs').writeSync(4, 'nonsense'.repeat(100))", StatusLost, true},
			"it stops listening":      {"process.removeAllListeners(); for (;;);", StatusTimeout, true},
			"it kills its parent":     {"process.kill(process.ppid, 9)", "", false},
			"memory":                  {"const all = []; for (;;) all.push(Buffer.alloc(1e8, 1))", StatusLost, true},
			"a crash":                 {"process.abort()", StatusLost, true},
		},
	} {
		made, err := p.Create(t.Context(), p.caller, Request{Language: language, Limits: engine.Limits{Memory: 512 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		for name, try := range tries {
			t.Run(language+"/"+name, func(t *testing.T) {
				p.t = t
				limit := time.Minute
				if try.status == StatusTimeout || try.status == "" {
					limit = time.Second
				}
				c := p.runCell(made.ID, CellRequest{Code: try.code, Timeout: limit, Grace: graceOf(try.lost)})
				if try.status != "" && c.Status != try.status {
					t.Errorf("it is %s, not %s: %.500s", c.Status, try.status, fmt.Sprint(raised(c), c.Message, text(c, Stderr)))
				}
				code := map[string]string{"bash": "echo alive", "javascript": "console.log('alive')"}[language]
				next := p.runCell(made.ID, CellRequest{Code: code, Timeout: time.Minute})
				if next.Status != StatusOK || next.Restarted && !try.lost || !next.Restarted && !strings.Contains(text(next, Stdout)+name, "alive") {
					t.Errorf("after %s the next cell is %s, restarted %v: %.500s", c.Status, next.Status, next.Restarted, fmt.Sprint(raised(next), next.Message, text(next, Stdout)))
				}
			})
		}
	}
}

// graceOf returns how long an interpreter has to react to an interrupt. The grace is long
// enough for a busy machine, and zero for an interpreter that will be lost.
func graceOf(lost bool) time.Duration {
	if lost {
		return 0
	}
	return time.Minute
}

// Whatever a cell is or does, it has an answer, and the next cell works.
func TestAbuse(t *testing.T) {
	p := openWithPackages(t, Config{})
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
		"10,000 displays":          {"from IPython.display import display\nfor i in range(10_000): display(i)", StatusOK, "left out", false},
		"3 MB of text":             {"print('a' * 3_000_000)", StatusOK, "", false},
		"an endless line":          {"while True: print('a', end='')", StatusTimeout, "", false},
		"50 MB of HTML":            {"from IPython.display import HTML\nHTML('a' * 50_000_000)", StatusOK, "left out", false},
		"repr raises":              {"class A:\n  def __repr__(self): raise ValueError('no repr')\nA()", StatusError, "no repr", false},
		"repr exits":               {"class A:\n  def __repr__(self): sys.exit(1)\nA()", StatusError, "", false}, // as a script that exits
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
		"memory":                   {"b = []\nwhile True: b.append(bytearray(1 << 20))", StatusLost, "memory", true},
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
			c := p.runCell(s, CellRequest{Code: "import os, sys\n" + try.code, Timeout: limit, Grace: graceOf(try.lost)})
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
			if size > displayBytes+4<<20 || len(c.Outputs) > 2*maxDisplays+10 { // text of an earlier cell's thread may be between
				t.Errorf("%d outputs of %d bytes", len(c.Outputs), size)
			}
			next := p.runCell(s, CellRequest{Code: "print(6 * 7)\n'alive'", Timeout: time.Minute})
			if next.Status != StatusOK || !strings.Contains(plain(t, next), "alive") || next.Restarted != try.lost && try.status != "" {
				t.Errorf("the next cell is %s, restarted %v: %.500s", next.Status, next.Restarted, fmt.Sprint(raised(next), next.Message))
			}
		})
	}
}
