package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
)

// plain is the text of a cell's result.
func plain(t *testing.T, c Cell) string {
	t.Helper()
	for _, o := range c.Outputs {
		if o.Type == Result {
			return form(t, o, "text/plain")
		}
	}
	return ""
}

func form(t *testing.T, o Output, kind string) (text string) {
	t.Helper()
	if len(o.Data[kind]) == 0 {
		t.Fatalf("no %s among %d forms", kind, len(o.Data))
	}
	if err := json.Unmarshal(o.Data[kind], &text); err != nil {
		t.Fatal(err)
	}
	return text
}

// text is what a cell wrote to a stream.
func text(c Cell, stream OutputType) (all string) {
	for _, o := range c.Outputs {
		if o.Type == stream {
			all += o.Text
		}
	}
	return all
}

// raised is the error of a cell.
func raised(c Cell) Output {
	for _, o := range c.Outputs {
		if o.Type == Error {
			return o
		}
	}
	return Output{}
}

func (p *place) want(c Cell, status Status) Cell {
	p.t.Helper()
	if c.Status != status {
		p.t.Fatalf("the cell is %s, not %s: %q %s %v", c.Status, status, c.Message, text(c, Stderr), raised(c))
	}
	return c
}

func TestPython(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	t.Run("variables stay", func(t *testing.T) {
		c := p.want(p.run(s, "x = 40\nprint('before')\nx + 2"), StatusOK)
		if got := plain(t, c); got != "42" || text(c, Stdout) != "before\n" || c.ExecutionCount != 1 || c.Restarted {
			t.Errorf("%q, %q, count %d, restarted %v", got, text(c, Stdout), c.ExecutionCount, c.Restarted)
		}
		if got := plain(t, p.run(s, "_ + x")); got != "82" {
			t.Errorf("the second cell says %s", got)
		}
	})
	t.Run("error", func(t *testing.T) {
		c := p.want(p.run(s, "def f():\n    1/0\nf()"), StatusError)
		e := raised(c)
		if e.Name != "ZeroDivisionError" || e.Value != "division by zero" || !strings.Contains(strings.Join(e.Traceback, "\n"), "Cell In[3], line 2") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("figure", func(t *testing.T) {
		c := p.want(p.run(s, "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);"), StatusOK)
		if len(c.Outputs) != 1 || c.Outputs[0].Type != Display || !strings.HasPrefix(form(t, c.Outputs[0], "image/png"), "iVBOR") {
			t.Errorf("%d outputs", len(c.Outputs))
		}
	})
	t.Run("a large picture", func(t *testing.T) {
		c := p.want(p.run(s, "import io, os, numpy as np\nfrom PIL import Image\nfile = io.BytesIO()\n"+
			"Image.fromarray(np.random.default_rng(1).integers(0, 255, (1500, 1600, 3), np.uint8)).save(file, 'png')\n"+
			"display({'image/png': file.getvalue()}, raw=True)\n"+
			"print(open('picture-1.png', 'rb').read() == file.getvalue(), len(file.getvalue()) > 6 << 20)"), StatusOK)
		if len(c.Outputs) != 3 || text(c, Stdout) != "True True\n" || !strings.Contains(text(c, Stderr), "the file picture-1.png") {
			t.Fatalf("%d outputs, %q %q", len(c.Outputs), text(c, Stdout), text(c, Stderr))
		}
		for _, o := range c.Outputs {
			if o.Type == Display && !strings.HasPrefix(form(t, o, "image/png"), "iVBOR") {
				t.Errorf("it is not shown: %v", o.Data)
			}
		}
	})
	t.Run("order", func(t *testing.T) {
		c := p.want(p.run(s, "import os, sys\nprint('a')\nprint('b', file=sys.stderr)\ndisplay('c')\n!echo d\nprint('e')\n'f'"), StatusOK)
		var kinds []string
		for _, o := range c.Outputs {
			kinds = append(kinds, string(o.Type)+o.Text)
		}
		if got := strings.Join(kinds, "|"); got != "stdout"+"a\n|stderrb\n|display|stdoutd\ne\n|result" {
			t.Errorf("%q", got)
		}
		if c := p.run(s, "os.system('echo from below')"); text(c, Stdout) != "from below\n" {
			t.Errorf("a process wrote %q", text(c, Stdout))
		}
	})
	t.Run("an installation", func(t *testing.T) {
		for code, note := range map[string]bool{"%pip list": true, "%pip install nosuch": false} {
			c := p.want(p.run(s, code), StatusOK)
			if got := strings.Contains(text(c, Stdout), "restart the kernel"); got != note {
				t.Errorf("%s says of a restart: %v: %q", code, got, text(c, Stdout))
			}
		}
	})
	t.Run("await", func(t *testing.T) {
		p.want(p.run(s, "import asyncio\nt = asyncio.create_task(asyncio.sleep(0.01, 'later'))"), StatusOK)
		if got := plain(t, p.run(s, "await t")); got != "'later'" {
			t.Errorf("a task of an earlier cell says %s", got)
		}
		if got := plain(t, p.run(s, "asyncio.run(asyncio.sleep(0, 'run'))")); got != "'run'" {
			t.Errorf("asyncio.run says %s", got)
		}
	})
	t.Run("input", func(t *testing.T) {
		checkCell(t, p.want(p.run(s, "input('name? ')"), StatusError), facts{Error: "EOFError", ValueHas: "no input"})
		c, err := p.Start(t.Context(), p.caller, s, CellRequest{Code: "input('name? ') + '!'", AllowInput: true})
		if err != nil {
			t.Fatal(err)
		}
		events, err := p.Watch(t.Context(), p.caller, s, c.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		for e := range events {
			if e.Type != InputEvent {
				continue
			}
			if e.Prompt != "name? " {
				t.Errorf("prompt %q", e.Prompt)
			}
			if err := p.Answer(t.Context(), p.caller, s, "Ann"); err != nil {
				t.Fatal(err)
			}
		}
		if got := plain(t, p.end(s, c.ID)); got != "'Ann!'" {
			t.Errorf("%s", got)
		}
		if err := p.Answer(t.Context(), p.caller, s, "Ann"); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("an answer that nobody waits for: %v", err)
		}
	})
	t.Run("questions", func(t *testing.T) {
		done, err := p.Complete(t.Context(), p.caller, s, "pri", 3)
		if err != nil || !slices.Contains(done.Matches, "print") || done.Start != 0 || done.End != 3 {
			t.Errorf("%+v, %v", done, err)
		}
		seen, err := p.Inspect(t.Context(), p.caller, s, "len", 2, 0)
		if err != nil || !seen.Found || !strings.Contains(string(seen.Data["text/plain"]), "number of items") {
			t.Errorf("%+v, %v", seen, err)
		}
		names, err := p.Variables(t.Context(), p.caller, s)
		if err != nil || !slices.ContainsFunc(names, func(v Variable) bool { return v.Name == "x" && v.Type == "int" && v.Repr == "40" }) {
			t.Errorf("%+v, %v", names, err)
		}
		status, indent, err := p.IsComplete(t.Context(), p.caller, s, "for i in x:")
		if err != nil || status != "incomplete" || indent != "    " {
			t.Errorf("%s %q %v", status, indent, err)
		}
	})
}

func TestLost(t *testing.T) {
	p := open(t, Config{})
	made, err := p.Create(t.Context(), p.caller, Request{Limits: engine.Limits{Memory: 100 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	s := made.ID
	for code, why := range map[string]string{
		"import os; os._exit(3)":            "exit code 3",
		"b = bytearray(200 << 20)":          "memory limit",
		"import os; os.kill(os.getpid(),9)": "SIGKILL",
		"import os; os.close(4)":            "",
	} {
		c := p.want(p.run(s, "open('a.txt', 'a').write('x')\n"+code), StatusLost)
		if !strings.Contains(c.Message, why) || len(c.Files) != 1 {
			t.Errorf("%s: %q, %v", code, c.Message, c.Files)
		}
		checkCell(t, p.want(p.run(s, "len(open('a.txt').read()) > 0"), StatusOK),
			facts{Restarted: new(true), Result: "True"}, "after "+code)
	}
	p.want(p.run(s, "exit()"), StatusOK)
	checkCell(t, p.run(s, "1"), facts{Restarted: new(true), Message: "exit()"}, "after exit()")
}

// exit() ends its cell well, and the cells behind it go to a new interpreter.
func TestExit(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	var cells []Cell
	for _, code := range []string{"x = 1; open('a.txt', 'w').write('kept')", "exit()", "open('a.txt').read()", "x"} {
		c, err := p.Start(t.Context(), p.caller, s, CellRequest{Code: code})
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, c)
	}
	for i, want := range []Status{StatusOK, StatusOK, StatusOK, StatusError} {
		cells[i] = p.want(p.end(s, cells[i].ID), want)
	}
	checkCell(t, cells[2], facts{Restarted: new(true), Result: "'kept'", Message: "exit()"}, "behind exit()")
	checkCell(t, cells[3], facts{Restarted: new(false), Error: "NameError"}, "behind that")
	if n := p.Counts(); n.Lost != 0 {
		t.Errorf("%d interpreters are counted as lost", n.Lost)
	}
}

// The files of a cell outlive the executor and the service.
func TestRestartOfTheService(t *testing.T) {
	blobs, index := enginetest.NewBlobs(), enginetest.NewIndex()
	first := open(t, Config{})
	p := openOn(t, Config{}, first.sandbox, blobs, index)
	s := p.session("python")
	p.run(s, "import os\nopen('a.txt', 'w').write('one')\nopen('b.txt', 'w').write('two')\nos.mkdir('d')\nopen('d/c.txt','w').write('three')")
	if c := p.run(s, "os.remove('b.txt')\nopen('a.txt', 'a').write(', more')"); len(c.Files) != 1 || !slices.Equal(c.Deleted, []string{"b.txt"}) {
		t.Errorf("%v, %v", c.Files, c.Deleted)
	}
	if err := p.engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if err := p.sandbox.Release(t.Context(), s, 0); err != nil { // as the end of the executor does
		t.Fatal(err)
	}
	again := openOn(t, Config{}, first.sandbox, blobs, index)
	c := again.want(again.run(s, "import os\nopen('a.txt').read(), sorted(os.listdir()), open('d/c.txt').read()"), StatusOK)
	if got := plain(t, c); got != "('one, more', ['a.txt', 'd'], 'three')" || !c.Restarted || !strings.Contains(c.Message, "service was restarted") {
		t.Errorf("%s, restarted %v: %q", got, c.Restarted, c.Message)
	}
}

func TestOthers(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	c := p.run(s, "1")
	other, ctx := engine.Caller{Owner: "bob"}, t.Context()
	for name, do := range map[string]func() error{
		"info":      func() error { _, err := p.Info(ctx, other, s); return err },
		"start":     func() error { _, err := p.Start(ctx, other, s, CellRequest{}); return err },
		"wait":      func() error { _, err := p.Wait(ctx, other, s, c.ID); return err },
		"cell":      func() error { _, err := p.Cell(ctx, other, s, c.ID); return err },
		"cells":     func() error { _, err := p.Cells(ctx, other, s); return err },
		"watch":     func() error { _, err := p.Watch(ctx, other, s, c.ID, 0); return err },
		"cancel":    func() error { return p.CancelCell(ctx, other, s, c.ID) },
		"interrupt": func() error { return p.Interrupt(ctx, other, s) },
		"restart":   func() error { return p.Restart(ctx, other, s) },
		"complete":  func() error { _, err := p.Complete(ctx, other, s, "", 0); return err },
		"inspect":   func() error { _, err := p.Inspect(ctx, other, s, "", 0, 0); return err },
		"whole":     func() error { _, _, err := p.IsComplete(ctx, other, s, ""); return err },
		"names":     func() error { _, err := p.Variables(ctx, other, s); return err },
		"answer":    func() error { return p.Answer(ctx, other, s, "") },
	} {
		if err := do(); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who needs room has the interpreter ended that was idle for longest, and its next
// answer says so.
func TestRoom(t *testing.T) {
	p := open(t, Config{PerOwner: 2, Total: 3, Wait: time.Millisecond})
	a, b, c := p.session("python"), p.session("python"), p.session("python")
	p.run(a, "x = 1\nopen('a.txt', 'w').write('x')")
	p.run(b, "x = 2")
	p.run(c, "x = 3")
	if n := p.Counts(); n.Interpreters != 2 || n.Evicted != 1 {
		t.Errorf("%+v", n)
	}
	checkCell(t, p.run(a, "open('a.txt').read()"), facts{Restarted: new(true), Message: "make room", Result: "'x'"})
	checkCell(t, p.run(c, "x"), facts{Restarted: new(false), Result: "3"}, "the one that was used last")
	busy := p.started(c, begun+"import time; time.sleep(60)")
	p.started(a, begun+"import time; time.sleep(60)")
	_, err := p.Start(t.Context(), p.caller, b, CellRequest{Code: "1"})
	if !errors.Is(err, engine.ErrBusy) {
		t.Errorf("with all of them busy: %v", err)
	}
	if err := p.CancelCell(t.Context(), p.caller, c, busy.ID); err != nil {
		t.Fatal(err)
	}
}

func TestIdle(t *testing.T) {
	p := open(t, Config{Idle: 50 * time.Millisecond})
	s := p.session("python")
	p.run(s, "x = 1")
	p.await(func() bool { return p.Counts().Expired == 1 && p.Counts().Interpreters == 0 })
	checkCell(t, p.run(s, "1"), facts{Restarted: new(true), Message: "without a cell"})
}

// await polls until something is so.
func (p *place) await(so func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	for look := time.NewTicker(5 * time.Millisecond); !so(); {
		select {
		case <-look.C:
		case <-ctx.Done():
			p.t.Fatal("it did not come")
		}
	}
}

func TestDeleted(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	c := p.started(s, begun+"import time; time.sleep(60)")
	_, watched, err := p.cell(t.Context(), p.caller, s, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.engine.DeleteSession(t.Context(), p.caller, s); err != nil {
		t.Fatal(err)
	}
	<-watched.done
	if _, err := p.Start(t.Context(), p.caller, s, CellRequest{}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a cell in a deleted session: %v", err)
	}
	p.await(func() bool { return len(p.all()) == 0 })
}

// Sessions that are deleted by another way are not remembered for ever.
func TestSweep(t *testing.T) {
	p := open(t, Config{})
	for range 4 * leastSweep {
		if err := p.engine.DeleteSession(t.Context(), p.caller, p.session("python")); err != nil {
			t.Fatal(err)
		}
	}
	p.await(func() bool { return len(p.all()) <= leastSweep })
}

// Only an interpreter that nobody has ended is said to have ended by itself.
func TestLogOfEnds(t *testing.T) {
	p := open(t, Config{})
	var said bytes.Buffer
	p.log = slog.New(slog.NewTextHandler(&said, nil))
	deleted, killed, stopped := p.session("bash"), p.session("bash"), p.session("bash")
	for _, session := range []engine.ID{deleted, killed, stopped} {
		if c := p.run(session, "echo there"); c.Status != StatusOK {
			t.Fatalf("%+v", c)
		}
	}
	if err := p.Delete(t.Context(), p.caller, deleted); err != nil {
		t.Fatal(err)
	}
	p.run(killed, "kill -9 $$")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.engine.Shutdown(over); err != nil {
		t.Error(err)
	}
	for _, at := range p.all() {
		at.await(t.Context())
	}
	p.stop()
	const message = "an interpreter ended by itself"
	if text := said.String(); strings.Count(text, message) != 1 || !strings.Contains(text, "session="+killed.String()) {
		t.Errorf("the log says %q", text)
	}
}

// The end of the executor takes every interpreter along. Files that were stored are
// there.
func TestEndOfTheExecutor(t *testing.T) {
	p := openAlone(t, Config{})
	s := p.session("python")
	p.run(s, "x = 1\nopen('a.txt', 'w').write('kept')")
	busy := p.started(s, begun+"import time; time.sleep(60)")
	for _, pid := range children(t) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	p.want(p.end(s, busy.ID), StatusLost)
	checkCell(t, p.want(p.run(s, "open('a.txt').read()"), StatusOK), facts{Restarted: new(true), Result: "'kept'"})
}

// children are the processes that this one has started.
func children(t *testing.T) (all []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		b, _ := os.ReadFile(list) // a thread may have ended
		for field := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
		}
	}
	return all
}

// A cell that is not recorded has a result, and leaves count and history alone.
func TestUnrecorded(t *testing.T) {
	p := open(t, Config{})
	for language, want := range map[string]string{"python": "42", "javascript": "42"} {
		s := p.session(language)
		p.run(s, "x = 41")
		for _, unrecorded := range []bool{true, true, false} {
			made, err := p.Start(t.Context(), p.caller, s, CellRequest{Code: "x + 1", Unrecorded: unrecorded})
			if err != nil {
				t.Fatal(err)
			}
			c, err := p.Wait(t.Context(), p.caller, s, made.ID)
			if err != nil || plain(t, c) != want {
				t.Errorf("%s: %v, %v", language, c, err)
			}
			if info, err := p.Info(t.Context(), p.caller, s); err != nil || (info.Count == 1) != unrecorded {
				t.Errorf("%s: unrecorded %v, count %d, %v", language, unrecorded, info.Count, err)
			}
		}
	}
}

// A session may keep its interpreter for another time than all.
func TestIdleOfASession(t *testing.T) {
	p := open(t, Config{})
	made, err := p.Create(t.Context(), p.caller, Request{Idle: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	other := p.session("python")
	p.run(other, "1")
	p.run(made.ID, "1")
	for deadline := time.Now().Add(time.Minute); p.Counts().Expired == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the interpreter is there after a minute")
		}
		<-time.After(time.Millisecond)
	}
	if info, err := p.Info(t.Context(), p.caller, other); err != nil || info.State != StateIdle {
		t.Errorf("the other one: %v, %v", info.State, err)
	}
}
