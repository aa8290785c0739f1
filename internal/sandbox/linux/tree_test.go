package linux

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// session makes a live session.
func (c *cells) session(t *testing.T, language string, processes int) engine.ID {
	t.Helper()
	made, err := c.live.Create(t.Context(), c.caller, live.Request{Language: language,
		Limits: engine.Limits{Processes: processes}})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// process starts a line of the shell.
func (c *cells) process(t *testing.T, session engine.ID, line string) live.Process {
	t.Helper()
	p, err := c.live.StartProcess(t.Context(), c.caller, session, live.ProcessRequest{Shell: line})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ended returns the output of a process, and how it ended.
func (c *cells) ended(t *testing.T, p live.Process) (output string, end live.Process) {
	t.Helper()
	events, err := c.live.WatchProcess(t.Context(), c.caller, p.Session, p.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		output += string(e.Data)
		if e.Process != nil {
			end = *e.Process
		}
	}
	return output, end
}

// shell runs a line of the shell beside the interpreter, and returns its output.
func (c *cells) shell(t *testing.T, session engine.ID, line string) string {
	t.Helper()
	output, _ := c.ended(t, c.process(t, session, line))
	return output
}

// The processes of a session see and signal one another, whatever started them, and no
// others.
func TestOneTree(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *executor.Sandbox{
		"cold": func(t *testing.T) *executor.Sandbox { return start(t) },
		"warm": func(t *testing.T) *executor.Sandbox { return startWarm(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCells(t, start(t))
			session, other := c.session(t, "python", 60), c.session(t, "python", 60)
			const code = "import subprocess; p = subprocess.Popen(['sleep', '1001'])\nprint(p.pid)"
			if cell := c.cell(t.Context(), t, session, code, time.Minute); cell.Status != live.StatusOK {
				t.Fatalf("the cell: %+v", cell.Message)
			}
			server := c.process(t, session, "echo $$ > pid; exec sleep 1002")
			foreign := c.process(t, other, "exec sleep 1003")
			const list = "until test -s pid; do :; done; pgrep -af 'sleep 100[0-9]$' | cut -d' ' -f2- | sort"
			if got := c.shell(t, session, list); got != "sleep 1001\nsleep 1002\n" {
				t.Errorf("a command sees %q", got)
			}
			// They look into one another: they have one landlock domain.
			const look = "tr '\\0' '\\n' < /proc/%s/environ | grep -c ^HOME=; readlink /proc/%[1]s/exe; " +
				"ls /proc/%[1]s/fd | head -n 1; head -c 4 /proc/%[1]s/maps | wc -c"
			const found = "1\n/usr/bin/%s\n0\n4\n"
			for whose, number := range map[string]string{
				"sleep": "$(cat pid)", "sleep of a cell": "$(pgrep -of 'sleep 100[1]')",
			} {
				line, want := fmt.Sprintf(look, number), fmt.Sprintf(found, "sleep")
				if got := c.shell(t, session, line); got != want {
					t.Errorf("a command finds %q in the %s, want %q", got, whose, want)
				}
				if got := said(c.cell(t.Context(), t, session, "!"+line, time.Minute), live.Stdout); got != want {
					t.Errorf("a cell finds %q in the %s, want %q", got, whose, want)
				}
			}
			cell := c.cell(t.Context(), t, session, "!ps -eo args | grep -c '^sleep'\n!kill $(cat pid)", time.Minute)
			if got := said(cell, live.Stdout); got != "2\n" {
				t.Errorf("a cell sees %q processes", got)
			}
			if _, end := c.ended(t, server); end.Signal != "SIGTERM" {
				t.Errorf("after kill in a cell: %+v", end)
			}
			const ended = "print(p.wait(20))"
			c.shell(t, session, "pkill -f 'sleep 1001'")
			if got := said(c.cell(t.Context(), t, session, ended, time.Minute), live.Stdout); got != "-15\n" {
				t.Errorf("after pkill in a command: %q", got)
			}
			if p, err := c.live.Process(t.Context(), c.caller, other, foreign.ID); err != nil || !p.Running {
				t.Errorf("the process of another session: %+v %v", p, err)
			}
		})
	}
}

// A command begins as a program on any machine does, whatever the parents of its sandbox have set.
func TestNewcomersBegin(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *executor.Sandbox{
		"cold": func(t *testing.T) *executor.Sandbox { return start(t) },
		"warm": func(t *testing.T) *executor.Sandbox { return startWarm(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCells(t, start(t))
			session := c.session(t, "python", 60)
			c.cell(t.Context(), t, session, "x = 1", time.Minute)
			const line = "grep -E '^(Sig(Blk|Ign)|CapEff|NoNewPrivs|Seccomp):' /proc/self/status; umask; " +
				"ls /proc/self/fd | wc -w; cat /proc/self/timerslack_ns /proc/self/oom_score_adj; ps -o ppid= $$ | tr -d ' '"
			const want = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n" +
				"CapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n0022\n4\n50000\n500\n1\n"
			if got := c.shell(t, session, line); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			// Pid 1 has no room for so many arguments: the process enters by itself.
			many := slices.Repeat([]string{"a"}, 10_000)
			p, err := c.live.StartProcess(t.Context(), c.caller, session, live.ProcessRequest{
				Argv: append([]string{"bash", "-c", `echo $# $(ps -o ppid= $$)`}, many...)})
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := c.ended(t, p); got != "9999 0\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

// Nothing of Airlock in the sandbox can be inspected or ended by a process beside it, and
// the interpreter survives what ends by name.
func TestTreeOfAirlock(t *testing.T) {
	c := newCells(t, startWarm(t))
	session := c.session(t, "python", 100)
	c.cell(t.Context(), t, session, "x = 41", time.Minute)
	for line, want := range map[string]string{
		"ls -A /proc/1; cat /proc/1/* /proc/1/task/1/* 2>/dev/null | wc -c":                        "0\n",
		"for n in $(seq 64); do kill -$n 1 2>/dev/null; done; echo alive":                          "alive\n",
		"pkill python; pkill -f /zygote[.]py; pkill airlock; echo alive":                           "alive\n",
		"cat /proc/[0-9]*/environ /proc/[0-9]*/mem 2>/dev/null | grep -ac -e Runtimes -e Instance": "0\n",
	} {
		if got := c.shell(t, session, line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if got := c.cell(t.Context(), t, session, "x + 1", time.Minute); got.Status != live.StatusOK || shown(got) != "42" {
		t.Errorf("the interpreter afterwards: %s %q", got.Status, got.Message)
	}
}

// What keeps the processes of a live session apart from others, which landlock does not
// do there: each probe sees something exactly if its protection is left out.
func TestTreeProtections(t *testing.T) {
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "needs root: only there can one layer be left out and the others stay")
	}
	for _, tt := range []struct{ weaken, probe string }{
		{weakProcesses, "pgrep -f 'sleep 100[4]'"},
		{"hide pid 1", "ls -A /proc/1"},
	} {
		for _, weak := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", tt.weaken, weak), func(t *testing.T) {
				var leave []string
				if weak {
					leave = []string{tt.weaken}
				}
				c := newCells(t, start(t, leave...))
				session, other := c.session(t, "python", 60), c.session(t, "python", 60)
				c.process(t, other, "exec sleep 1004")
				if got := c.shell(t, session, tt.probe); (got != "") != weak {
					t.Errorf("it saw %q", got)
				}
				if got := said(c.cell(t.Context(), t, session, "!"+tt.probe, time.Minute), live.Stdout); (got != "") != weak {
					t.Errorf("a cell saw %q", got)
				}
			})
		}
	}
}

// A process that enters is a copy of the executor at first. Its arguments tell nothing of
// the host.
func TestArgumentsOfNewcomers(t *testing.T) {
	c := newCells(t, start(t))
	session := c.session(t, "python", 100)
	watch := c.process(t, session, `python3 -c "
import os
print('up', flush=True)
while not os.path.exists('done'):
    for p in os.listdir('/proc'):
        try: b = open('/proc/%s/cmdline' % p, 'rb').read() if p.isdigit() else b''
        except OSError: continue
        if b'{' in b and b'python3' not in b: print(b)
"`)
	for range 60 {
		c.shell(t, session, "true")
	}
	c.shell(t, session, "touch done")
	if got, _ := c.ended(t, watch); got != "up\n" {
		t.Errorf("it saw %.300q", got)
	}
}

// shown returns the text of a cell's result.
func shown(c live.Cell) (text string) {
	for _, o := range c.Outputs {
		if o.Type == live.Result {
			text += string(o.Data["text/plain"])
		}
	}
	return strings.Trim(text, `"`)
}

// Ending a process ends all that it has started, in sessions of their own too, and nothing
// else.
func TestEndOfTree(t *testing.T) {
	s := start(t)
	held, _ := standingProgram(t, s, func(l *engine.Limits) { l.Processes = 400 })
	executorPID := executors(t)[0]
	open := func(line string) engine.Process {
		p, err := s.Start(t.Context(), held, shell(line))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	beside := open("exec sleep 1005")
	count := func() int { return len(executor.Descendants(executorPID)) }
	before := count()
	for name, line := range map[string]string{
		"running": "wait; sleep 1006", "ended": "exit 3", "storm": "while :; do (setsid sleep 0.01 &); done",
		"bomb": "bomb() { bomb & bomb & wait; }; bomb 2>/dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			tree := open(`trap '' HUP TERM INT
for n in $(seq 50); do (setsid sh -c 'trap "" HUP TERM; sleep 1006 & sleep 1006' &); done; ` + line)
			if !sandboxtest.Await(func() bool { return count() >= before+100 }) {
				t.Fatalf("%d processes", count()-before)
			}
			if name == "ended" {
				if end, err := tree.Wait(); err != nil || !end.Left || end.ExitCode != 3 {
					t.Errorf("its end: %+v %v", end, err)
				}
			}
			began := time.Now()
			if err := tree.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if name != "ended" {
				if _, err := tree.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			if err := tree.WaitAll(); err != nil {
				t.Fatal(err)
			}
			t.Logf("after %v", time.Since(began))
			if !sandboxtest.Await(func() bool { return count() == before }) { // pid 1 collects the last
				t.Errorf("%d processes are left", count()-before)
			}
		})
	}
	if err := beside.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if end, err := beside.Wait(); err != nil || end.Signal != "SIGTERM" {
		t.Errorf("the process beside it: %+v %v", end, err)
	}
}

// A process is over when it has ended. What it leaves goes on, is told, and ends by its
// name.
func TestBackground(t *testing.T) {
	c := newCells(t, start(t))
	session := c.session(t, "python", 100)
	for _, line := range []string{"sleep 1007 & echo up", "setsid sleep 1007 >/dev/null 2>&1 & echo up"} {
		p := c.process(t, session, line)
		output, end := c.ended(t, p)
		if output != "up\n" || end.Running || !end.Background || end.ExitCode == nil || *end.ExitCode != 0 {
			t.Fatalf("%s: %q %+v", line, output, end)
		}
		if !sandboxtest.Await(func() bool { return c.shell(t, session, "pgrep -c -x sleep") == "1\n" }) {
			t.Errorf("%s: nothing is left", line)
		}
		if err := c.live.KillProcess(t.Context(), c.caller, session, p.ID); err != nil {
			t.Fatal(err)
		}
		if p, err := c.live.Process(t.Context(), c.caller, session, p.ID); err != nil || p.Background {
			t.Errorf("afterwards: %+v %v", p, err)
		}
		if got := c.shell(t, session, "pgrep -c -x sleep"); got != "0\n" {
			t.Errorf("%s: %s are left afterwards", line, got)
		}
	}
	p := c.process(t, session, "sleep 1007 & sleep 0")
	c.ended(t, p)
	c.shell(t, session, "pkill -x sleep")
	if !sandboxtest.Await(func() bool {
		p, err := c.live.Process(t.Context(), c.caller, session, p.ID)
		return err == nil && !p.Background
	}) {
		t.Error("what has ended by itself is still told")
	}
}

// TestTreeWithoutRoot ends trees without control groups, and has a terminal.
func TestTreeWithoutRoot(t *testing.T) {
	withoutRoot(t, "^(TestEndOfTree|TestEnterTerminal)$")
}

// The tree of a session has what cells and commands have started, with whose it is. A process of it
// ends with what it has started, and the one that runs the cells does not.
func TestTreeOfSession(t *testing.T) {
	c := newCells(t, start(t))
	session := c.session(t, "python", 60)
	if all, _, err := c.live.Tree(t.Context(), c.caller, session); err != nil || len(all) > 0 {
		t.Errorf("before there is an interpreter: %v %v", all, err)
	}
	const code = "import subprocess; p = subprocess.Popen(['bash', '-c', 'sleep 1011 & sleep 1012; true'])"
	if cell := c.cell(t.Context(), t, session, code, time.Minute); cell.Status != live.StatusOK {
		t.Fatalf("the cell: %+v", cell.Message)
	}
	command := c.process(t, session, "sleep 1013 & sleep 1014 & echo started")
	c.ended(t, command)
	// tree waits until processes with these commands are there, and returns all by command.
	tree := func(want ...string) map[string]live.TreeProcess {
		t.Helper()
		for t.Context().Err() == nil {
			all, _, err := c.live.Tree(t.Context(), c.caller, session)
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]live.TreeProcess{}
			for _, p := range all {
				found[p.Command] = p
			}
			if !slices.ContainsFunc(want, func(name string) bool { return found[name].PID == 0 }) {
				return found
			}
		}
		return nil
	}
	const line = "bash -c sleep 1011 & sleep 1012; true"
	found := tree(line, "sleep 1011", "sleep 1012", "sleep 1013", "sleep 1014")
	var vital live.TreeProcess
	for _, p := range found {
		if p.Interpreter {
			vital = p
		}
	}
	if vital.PID == 0 || found[line].Parent != vital.PID || found["sleep 1012"].Parent != found[line].PID {
		t.Errorf("who is whose parent: %+v", found)
	}
	if found["sleep 1013"].Process != command.ID || found["sleep 1012"].Process != (engine.ID{}) || len(found) != 6 {
		t.Errorf("what whom started: %+v", found)
	}
	end := func(id string) error { return c.live.EndTreeProcess(t.Context(), c.caller, session, id) }
	if err := errors.Join(end(found[line].ID), end(found[line].ID), end(found["sleep 1013"].ID)); err != nil {
		t.Error(err)
	}
	left := tree("sleep 1014")
	if len(left) != 2 {
		t.Errorf("left is %+v", left)
	}
	for id, want := range map[string]error{vital.ID: engine.ErrConflict, "1-1": engine.ErrConflict,
		"x": engine.ErrNotFound, fmt.Sprint(found["sleep 1014"].PID, "-1"): nil} {
		if err := end(strings.ReplaceAll(id, " ", "")); !errors.Is(err, want) {
			t.Errorf("ending %s: %v", id, err)
		}
	}
	tree("sleep 1014") // another one of that number is not ended
}
