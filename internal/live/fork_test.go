package live

import (
	"errors"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// A fork has variables of its own, and the files of its session.
func TestFork(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	p.run(session, "x = 1; open('a.txt', 'w').write('first')")
	setup := Setup{Env: map[string]string{"NAME": "it's"}, Dir: "/home/user"}
	for language, code := range map[string]string{
		"python":     "import os; print('x' in globals(), open('/home/user/a.txt').read(), os.getcwd(), os.environ['NAME'], os.environ.get('CALL'))",
		"javascript": "console.log(typeof x !== 'undefined', require('fs').readFileSync('/workspace/a.txt', 'utf8'), process.cwd(), process.env.NAME, process.env.CALL)",
		"bash":       "echo ${x-false} $(cat a.txt) $PWD $NAME $CALL",
	} {
		fork, err := p.Fork(t.Context(), p.caller, session, ForkRequest{Language: language, Setup: setup})
		if err != nil {
			t.Fatal(err)
		}
		c := p.runCell(fork, CellRequest{Code: code, Env: map[string]string{"CALL": "its own"}})
		if got := strings.ToLower(text(c, Stdout)); got != "false first /home/user it's its own\n" {
			t.Errorf("%s: %q %v", language, got, c.Outputs)
		}
		if c := p.run(fork, code); strings.Contains(text(c, Stdout), "its own") {
			t.Errorf("%s: the environment of a cell stays: %q", language, text(c, Stdout))
		}
		if language == "python" { // its end leaves the workspace to others
			p.run(fork, "import os; os._exit(3)")
			checkCell(t, p.run(fork, code),
				facts{Restarted: new(true), StdoutHas: "False first /home/user it's"}, "after its end")
		}
		if err := p.EndFork(t.Context(), p.caller, fork); err != nil {
			t.Error(err)
		}
		if _, err := p.Info(t.Context(), p.caller, fork); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("after its end: %v", err)
		}
	}
	checkCell(t, p.run(session, "print(x, open('a.txt').read())"),
		facts{Stdout: "1 first\n", Restarted: new(false)}, "the session itself")
}

// What is begun beside a session's cells is in the sandbox of its first interpreter,
// whichever was there before.
func TestForkFirst(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	fork, err := p.Fork(t.Context(), p.caller, session, ForkRequest{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	p.run(fork, "open('b.txt', 'w').write('of a fork')")
	made := p.process(session, ProcessRequest{Shell: "cat b.txt"})
	if out, _, end := p.output(session, made.ID, 0); out[ProcessStdout] != "of a fork" || end == nil {
		t.Errorf("%q %+v", out, end)
	}
	checkCell(t, p.run(session, "1 + 1"), facts{Restarted: new(false), Status: StatusOK})
}

func TestForksAreBounded(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	for range maxForks {
		if _, err := p.Fork(t.Context(), p.caller, session, ForkRequest{Language: "python"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Fork(t.Context(), p.caller, session, ForkRequest{Language: "python"}); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	if _, err := p.Fork(t.Context(), engine.Caller{Owner: "bob"}, session, ForkRequest{Language: "python"}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another owner's: %v", err)
	}
	if err := p.Delete(t.Context(), p.caller, session); err != nil {
		t.Error(err)
	}
	if n := len(p.all()); n != 0 {
		t.Errorf("%d are left of a deleted session", n)
	}
}

// A setup that ends its interpreter takes no cell along for ever.
func TestSetupThatFails(t *testing.T) {
	p := open(t, Config{})
	made, err := p.Create(t.Context(), p.caller, Request{Setup: Setup{Code: "import os; os._exit(4)"}})
	if err != nil {
		t.Fatal(err)
	}
	checkCell(t, p.run(made.ID, "1"), facts{Status: StatusLost})
	made, err = p.Create(t.Context(), p.caller, Request{Setup: Setup{Code: "shell.user_ns['given'] = 5", Dir: "/nowhere"}})
	if err != nil {
		t.Fatal(err)
	}
	checkCell(t, p.run(made.ID, "print(2)"), facts{Stdout: "2\n"})
}

// A follower of a process misses no output, however slow it is. When it leaves, the
// process continues.
func TestFollowProcess(t *testing.T) {
	p := open(t, Config{})
	session := p.session("python")
	const bytes = 5 << 20
	made := p.process(session, ProcessRequest{Shell: "head -c 5242880 /dev/zero; echo late"})
	events, err := p.FollowProcess(t.Context(), p.caller, session, made.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	first := true
	for e := range events {
		if first { // the process gets ahead as far as it may
			first = false
			other := p.process(session, ProcessRequest{Shell: "sleep 1"})
			p.output(session, other.ID, 0)
		}
		if e.Dropped > 0 {
			t.Fatalf("%d bytes are lost", e.Dropped)
		}
		all.Write(e.Data)
	}
	if got := all.String(); len(got) != bytes+len("late\n") || !strings.HasSuffix(got, "late\n") {
		t.Errorf("%d bytes, the end is %q", len(got), got[max(0, len(got)-20):])
	}
	made = p.process(session, ProcessRequest{Shell: "head -c 5242880 /dev/zero; exit 3"})
	if events, err = p.FollowProcess(t.Context(), p.caller, session, made.ID, true); err != nil {
		t.Fatal(err)
	}
	for range events {
		break
	}
	if _, _, end := p.output(session, made.ID, 0); end == nil || *end.ExitCode != 3 {
		t.Errorf("nobody reads it: %+v", end)
	}
}
