package live

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestInterrupt(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	p.run(s, "x = 1")
	for _, code := range []string{"while True: pass", "import time; time.sleep(60)", "import asyncio; await asyncio.sleep(60)", "!sleep 60"} {
		c := p.started(s, begun+code)
		if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
			t.Fatal(err)
		}
		c = p.want(p.end(s, c.ID), StatusInterrupted)
		checkCell(t, c, facts{Error: "KeyboardInterrupt"}, code)
	}
	checkCell(t, p.run(s, "x"), facts{Result: "1", Restarted: new(false)}, "after interrupts")
	c := p.begin(s, CellRequest{Code: "open('left.txt', 'w').write('x')\nimport signal\n" +
		"signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + begun + "while True: pass"})
	if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
		t.Fatal(err)
	}
	if c = p.want(p.end(s, c.ID), StatusInterrupted); !strings.Contains(c.Message, "was killed") || len(c.Files) != 1 {
		t.Errorf("%q, %v", c.Message, c.Files)
	}
	checkCell(t, p.want(p.run(s, "open('left.txt').read()"), StatusOK),
		facts{Restarted: new(true), Result: "'x'", Message: "variables are gone"}, "after a kill")
	checkCell(t, p.want(p.run(s, "x"), StatusError), facts{Error: "NameError", Restarted: new(false)})
}

// A cell can be interrupted while it waits, after it was sent, and after its code has
// begun, also the first cell of an interpreter. The next cell is not interrupted.
func TestInterruptAtOnce(t *testing.T) {
	p := open(t, Config{})
	for language, codes := range map[string][2]string{"python": {"while True: pass", "1"}, "bash": {"while :; do :; done", "true"}, "javascript": {"for (;;) {}", "1"}} {
		s := p.session(language)
		for i := range 30 {
			c, err := p.Start(t.Context(), p.caller, s, CellRequest{Code: codes[0], Grace: graceOf(false)})
			if err != nil {
				t.Fatal(err)
			}
			if i%3 > 0 {
				p.seen(s, c.ID, StartedEvent)
			}
			if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
				t.Fatal(err)
			}
			if c = p.want(p.end(s, c.ID), StatusInterrupted); c.Restarted || strings.Contains(c.Message, "killed") {
				t.Fatalf("%s, try %d: %+v", language, i, c)
			}
			p.want(p.run(s, codes[1]), StatusOK)
		}
	}
}

// A signal never ends Node, whether it meets a script, its first or last step, or none, nor after
// a cell listened itself.
func TestSignalsInNode(t *testing.T) {
	p := open(t, Config{})
	s := p.session("javascript")
	p.want(p.run(s, "x = 1; process.once('SIGINT', () => {}); process.removeAllListeners('SIGINT')"), StatusOK)
	// It ends when its listener is gone: Node restores the default action for a moment then.
	p.want(p.run(s, "await new Promise((met) => { process.once('SIGINT', met); process.kill(process.pid, 'SIGINT') })"),
		StatusOK)
	p.want(p.run(s, "storm = require('child_process').spawn('/bin/sh', "+
		"['-c', `while kill -INT ${process.pid}; do :; done`], { detached: true, stdio: 'ignore' }); 1"), StatusOK)
	for i := range 200 {
		if c := p.run(s, "1"); c.Restarted || c.Status != StatusOK && raised(c).Name != "Interrupted" {
			t.Fatalf("cell %d: status %s, restarted %v, %q", i, c.Status, c.Restarted, c.Message)
		}
	}
	for c := (Cell{}); c.Status != StatusOK; { // until a cell is not met
		if c = p.run(s, "storm.kill(9)"); c.Restarted || c.Status == StatusLost {
			t.Fatalf("the last cell: status %s, restarted %v, %q", c.Status, c.Restarted, c.Message)
		}
	}
	if c := p.run(s, "x"); c.Restarted || plain(t, c) != "1" {
		t.Errorf("afterwards: status %s, restarted %v, %q", c.Status, c.Restarted, c.Message)
	}
}

// A cell that swallows an interrupt gets another one before it is killed.
func TestInterruptAgain(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	p.run(s, "x = 1")
	c := p.begin(s, CellRequest{Grace: 6 * time.Second, Code: "def f():\n" + "    for i in range(3):\n" +
		"        try:\n            print('begun')\n            while True: pass\n        except: pass\n" +
		"    while True: pass\nf()"})
	if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
		t.Fatal(err)
	}
	if c = p.want(p.end(s, c.ID), StatusInterrupted); c.Message != "" || raised(c).Name != "KeyboardInterrupt" {
		t.Errorf("%q, %+v", c.Message, raised(c))
	}
	checkCell(t, p.run(s, "x"), facts{Result: "1", Restarted: new(false)}, "after it")
}

// seen returns when a cell has had an event.
func (p *place) seen(session, cell engine.ID, kind OutputType) {
	p.t.Helper()
	events, err := p.Watch(p.t.Context(), p.caller, session, cell, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for e := range events {
		if e.Type == kind {
			return
		}
	}
}

// The traceback of an interrupt shows the cell's own lines, wherever it met it.
func TestTracebackOfInterrupt(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	for _, code := range []string{
		begun + "while True: pass", "import time\n" + begun + "time.sleep(60)", begun + "!sleep 60", begun + "while True: print(end='')",
		begun + "try:\n    while True: pass\nexcept KeyboardInterrupt:\n    raise ValueError('after')",
		"try:\n    input()\nfinally:\n    print('begun')\n    while True: pass",
	} {
		// In a function: between two statements it may meet the compiler.
		c := p.started(s, "def f():\n    "+strings.ReplaceAll(code, "\n", "\n    ")+"\nf()")
		if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
			t.Fatal(err)
		}
		c = p.want(p.end(s, c.ID), StatusInterrupted)
		trace := strings.Join(raised(c).Traceback, "\n")
		if strings.Contains(trace, "/opt/airlock") || !strings.Contains(trace, "Cell In[") || strings.Contains(c.Message, "killed") {
			t.Errorf("%s: %s\n%s", code, c.Message, trace)
		}
	}
}

const begun = "print('begun')\n"

// started starts a cell that heeds an interrupt, and returns when it has printed
// something. So does begin, with any.
func (p *place) started(session engine.ID, code string) Cell {
	p.t.Helper()
	return p.begin(session, CellRequest{Code: code, Grace: graceOf(false)})
}

func (p *place) begin(session engine.ID, req CellRequest) Cell {
	p.t.Helper()
	c, err := p.Start(p.t.Context(), p.caller, session, req)
	if err != nil {
		p.t.Fatal(err)
	}
	events, err := p.Watch(p.t.Context(), p.caller, session, c.ID, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for e := range events {
		if e.Type == Stdout {
			return c
		}
	}
	p.t.Fatalf("%s has not begun: %+v", req.Code, p.end(session, c.ID))
	return c
}

func TestTimeout(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	c := p.want(p.runCell(s, CellRequest{Code: "while True: pass", Timeout: 100 * time.Millisecond,
		Grace: graceOf(false)}), StatusTimeout)
	checkCell(t, c, facts{Error: "KeyboardInterrupt", Message: "100 ms"})
	if _, err := p.Start(t.Context(), p.caller, s, CellRequest{Timeout: 24 * time.Hour}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a day: %v", err)
	}
}
