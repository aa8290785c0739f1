package live

import (
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestBash(t *testing.T) {
	p := open(t, Config{})
	s := p.session("bash")
	t.Run("what stays", func(t *testing.T) {
		c := p.want(p.run(s, "mkdir d; cd d\nx='a b'\nf() { echo \"f of $1\"; }\necho out; echo err >&2"), StatusOK)
		if text(c, Stdout) != "out\n" || text(c, Stderr) != "err\n" || c.ExecutionCount != 1 {
			t.Errorf("%q, %q, %d", text(c, Stdout), text(c, Stderr), c.ExecutionCount)
		}
		if c := p.run(s, "pwd; f \"$x\"\ncat > a.txt <<END\nhere\nEND\n"); text(c, Stdout) != "/workspace/d\nf of a b\n" ||
			len(c.Files) != 1 || c.Files[0].Path != "d/a.txt" {
			t.Errorf("%q, %v", text(c, Stdout), c.Files)
		}
	})
	t.Run("status", func(t *testing.T) {
		checkCell(t, p.want(p.run(s, "echo before; false"), StatusError), facts{Error: "ExitStatus", Value: "1"})
		checkCell(t, p.want(p.run(s, "if true; then"), StatusError), facts{StderrHas: "syntax error"})
		p.want(p.run(s, "echo \x00"), StatusError)
	})
	t.Run("interrupt", func(t *testing.T) {
		for _, code := range []string{"sleep 60; echo later", "while :; do :; done", "while :; do sleep 0.01; done"} {
			c := p.started(s, "echo begun\n"+code)
			if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
				t.Fatal(err)
			}
			c = p.want(p.end(s, c.ID), StatusInterrupted)
			checkCell(t, c, facts{Stdout: "begun\n", NotMessage: "killed"}, code)
		}
		checkCell(t, p.run(s, "echo $x"), facts{Stdout: "a b\n", Restarted: new(false)})
	})
	t.Run("questions", func(t *testing.T) {
		done, err := p.Complete(t.Context(), p.caller, s, "echo a.t", 8)
		if err != nil || !slices.Contains(done.Matches, "a.txt") || done.Start != 5 {
			t.Errorf("%+v, %v", done, err)
		}
		names, err := p.Variables(t.Context(), p.caller, s)
		if err != nil || !slices.ContainsFunc(names, func(v Variable) bool { return v.Name == "x" && v.Repr == `"a b"` }) {
			t.Errorf("%+v, %v", names, err)
		}
		if status, _, err := p.IsComplete(t.Context(), p.caller, s, "for i in 1; do"); status != "incomplete" || err != nil {
			t.Errorf("%s, %v", status, err)
		}
		seen, err := p.Inspect(t.Context(), p.caller, s, "f x", 1, 0)
		if err != nil || !seen.Found || !strings.Contains(string(seen.Data["text/plain"]), "f is a function") {
			t.Errorf("%+v, %v", seen, err)
		}
	})
	t.Run("exit", func(t *testing.T) {
		checkCell(t, p.want(p.run(s, "exit 7"), StatusLost), facts{Message: "exit code 7"})
		checkCell(t, p.run(s, "pwd; echo \"[$x]\"; cat d/a.txt"),
			facts{Restarted: new(true), Stdout: "/workspace\n[]\nhere\n"})
	})
}

func TestJavaScript(t *testing.T) {
	p := open(t, Config{})
	made, err := p.Create(t.Context(), p.caller, Request{Language: "javascript"})
	if err != nil || Language(made) != "javascript" || made.Kind != engine.SessionLive {
		t.Fatal(made, err)
	}
	s := made.ID
	t.Run("what stays", func(t *testing.T) {
		c := p.want(p.run(s, "const x = [1, 2]\nconsole.log('out'); console.error('err')\nx.length"), StatusOK)
		if plain(t, c) != "2" || text(c, Stdout) != "out\n" || text(c, Stderr) != "err\n" || c.ExecutionCount != 1 {
			t.Errorf("%+v", c)
		}
		checkCell(t, p.run(s, "const y = await new Promise((r) => setTimeout(r, 10, 'late'))\nx instanceof Array && y"),
			facts{Result: "'late'"})
		if c := p.run(s, "require('fs').writeFileSync('a.txt', y); ({a: x})"); plain(t, c) != "{ a: [ 1, 2 ] }" ||
			len(c.Files) != 1 {
			t.Errorf("%+v", c)
		}
	})
	t.Run("errors", func(t *testing.T) {
		c := p.want(p.run(s, "function f() { null.x }\nf()"), StatusError)
		if e := raised(c); e.Name != "TypeError" || !strings.Contains(strings.Join(e.Traceback, "\n"), "at f (cell 4:1") {
			t.Errorf("%+v", e)
		}
		for code, name := range map[string]string{"let = (": "SyntaxError", "throw 'text'": "Error",
			"await Promise.reject(new RangeError('r'))": "RangeError", "x.y.z": "TypeError"} {
			checkCell(t, p.want(p.run(s, code), StatusError), facts{Error: name}, code)
		}
	})
	t.Run("display", func(t *testing.T) {
		c := p.want(p.run(s, "display({'text/html': '<b>x</b>'})"), StatusOK)
		if len(c.Outputs) != 1 || form(t, c.Outputs[0], "text/html") != "<b>x</b>" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("interrupt", func(t *testing.T) {
		for _, code := range []string{"for (;;) {}", "await new Promise(() => {})"} {
			c := p.started(s, "console.log('begun')\n"+code)
			if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
				t.Fatal(err)
			}
			c = p.want(p.end(s, c.ID), StatusInterrupted)
			checkCell(t, c, facts{Error: "Interrupted"}, code)
		}
		checkCell(t, p.run(s, "x"), facts{Result: "[ 1, 2 ]", Restarted: new(false)})
	})
	t.Run("questions", func(t *testing.T) {
		done, err := p.Complete(t.Context(), p.caller, s, "console.lo", 10)
		if err != nil || !slices.Contains(done.Matches, "console.log") {
			t.Errorf("%+v, %v", done, err)
		}
		names, err := p.Variables(t.Context(), p.caller, s)
		if err != nil || !slices.ContainsFunc(names, func(v Variable) bool {
			return v.Name == "x" && v.Type == "Array" && v.Shape == "2"
		}) {
			t.Errorf("%+v, %v", names, err)
		}
		if status, _, err := p.IsComplete(t.Context(), p.caller, s, "if (x) {"); status != "incomplete" || err != nil {
			t.Errorf("%s, %v", status, err)
		}
	})
	t.Run("exit", func(t *testing.T) {
		checkCell(t, p.want(p.run(s, "process.exit(5)"), StatusLost), facts{Message: "exit code 5"})
		checkCell(t, p.run(s, "require('fs').readFileSync('a.txt', 'utf8')"),
			facts{Restarted: new(true), Result: "'late'"})
	})
}
