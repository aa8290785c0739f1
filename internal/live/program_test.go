package live

import (
	"fmt"
	"os/exec"
	"testing"
)

// Programs of any language run in a session, with its files and beside its variables,
// whatever its interpreter speaks.
func TestPrograms(t *testing.T) {
	p := open(t, Config{})
	for _, speaks := range []string{"python", "bash", "javascript"} {
		t.Run("in "+speaks, func(t *testing.T) {
			s := p.session(speaks)
			p.want(p.run(s, map[string]string{"python": "kept = 42", "bash": "kept=42", "javascript": "kept = 42"}[speaks]),
				StatusOK)
			program := func(language, code, in string, args ...string) Cell {
				t.Helper()
				return p.runCell(s, CellRequest{Code: code, Program: &Program{Language: language, Args: args, Stdin: in}})
			}
			c := p.want(program(
				"python", "import sys\nprint(sys.argv[1:], input())\nopen('lib.py', 'w').write('x = 7')\n"+
					"print('bad', file=sys.stderr)", "grüße\n", "a b", "'"), StatusOK)
			checkCell(t, c,
				facts{Stdout: "['a b', \"'\"] grüße\n", Stderr: "bad\n", Exit: new(0), Files: []string{"lib.py"}})
			checkCell(t, program("python", "import lib\nprint(lib.x)", ""),
				facts{Stdout: "7\n"}, "a module of the session's")
			checkCell(t, p.want(program("bash", "ls; exit 3", ""), StatusError),
				facts{Stdout: "airlock_main.sh\nlib.py\n", Exit: new(3)})
			checkCell(t, p.want(program("bash", "kill -SEGV $$", ""), StatusError), facts{Exit: new(139)})
			if _, err := exec.LookPath("gcc"); err == nil {
				checkCell(t, program("c", "#include <stdio.h>\nint main() { puts(\"c\"); return 4; }", ""),
					facts{Stdout: "c\n", Exit: new(4)})
				checkCell(t, program("c", "int main() { return x; }", ""), facts{StderrHas: "undeclared", Exit: new(1)})
			}
			c = program("js", "require('fs').writeFileSync('m.js', 'module.exports = 8')\nconsole.log(require('./m.js'))", "")
			if text(c, Stdout) != "8\n" || len(c.Files) != 1 || c.Files[0].Path != "m.js" || len(c.Deleted) > 0 {
				t.Errorf("%+v", c)
			}
			c = p.begin(s, CellRequest{Code: "echo begun; sleep 60", Program: &Program{Language: "bash"},
				Grace: graceOf(false)})
			if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
				t.Fatal(err)
			}
			c = p.want(p.end(s, c.ID), StatusInterrupted)
			checkCell(t, c, facts{NotMessage: "killed"})
			if c := p.run(s, map[string]string{"python": "print(kept)", "bash": "echo $kept",
				"javascript": "console.log(kept)"}[speaks]); text(c, Stdout) != "42\n" || c.Restarted {
				t.Errorf("afterwards: %+v", c)
			}
		})
	}
}

// A cell that ignores an interrupt is killed when its caller's grace is over, and no
// later.
func TestGrace(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	const code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun', flush=True)\n" +
		"while True:\n  try: time.sleep(60)\n  except KeyboardInterrupt: pass"
	grace := interruptTime / 4
	c := p.begin(s, CellRequest{Code: code, Grace: grace})
	if err := p.CancelCell(t.Context(), p.caller, s, c.ID); err != nil {
		t.Fatal(err)
	}
	c = p.want(p.end(s, c.ID), StatusInterrupted)
	checkCell(t, c, facts{Message: fmt.Sprintf("within %v, and was killed", grace)})
}
