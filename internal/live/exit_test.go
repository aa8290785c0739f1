package live

import (
	"strings"
	"testing"
)

// exitCode returns the exit code of a cell, -1 if it has none.
func exitCode(c Cell) int {
	if c.ExitCode == nil {
		return -1
	}
	return *c.ExitCode
}

// A cell ends as a script of the same text does, and its interpreter stays.
func TestExitCodes(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	p.want(p.run(s, "import sys, asyncio\nkept = 'kept'"), StatusOK)
	for code, want := range map[string]struct {
		exit           int
		value          string // of the SystemExit that notebooks show; "-": none
		stdout, stderr string
	}{
		"1":                                   {exit: 0, value: "-"},
		"1/0":                                 {exit: 1, value: "-"},
		"print(1); sys.exit(); print(2)":      {exit: 0, value: "", stdout: "1\n"},
		"sys.exit(0)":                         {exit: 0, value: "0"},
		"raise SystemExit":                    {exit: 0},
		"sys.exit(3)":                         {exit: 3, value: "3"},
		"sys.exit('no')":                      {exit: 1, value: "no", stderr: "no\n"},
		"sys.exit(256 + 3)":                   {exit: 3, value: "259"},
		"raise SystemExit(-1)":                {exit: 255, value: "-1"},
		"sys.exit(True)":                      {exit: 1, value: "True"},
		"sys.exit(1.5)":                       {exit: 1, value: "1.5", stderr: "1.5\n"},
		"exit(4)":                             {exit: 4, value: "4"},
		"quit('bye')":                         {exit: 1, value: "bye", stderr: "bye\n"},
		"await asyncio.sleep(0)\nsys.exit(5)": {exit: 5, value: "5"},
		"try:\n    sys.exit(6)\nexcept SystemExit as e:\n    print(e.code)": {exit: 0, value: "-", stdout: "6\n"},
		"def f():\n    sys.exit(7)\nf()":                                    {exit: 7, value: "7"},
	} {
		c := p.run(s, code)
		status := StatusOK
		if want.exit != 0 {
			status = StatusError
		}
		if c.Status != status || exitCode(c) != want.exit || text(c, Stdout) != want.stdout || text(c, Stderr) != want.stderr {
			t.Errorf("%q: %s, exit code %d, %q, %q", code, c.Status, exitCode(c), text(c, Stdout), text(c, Stderr))
		}
		if e := raised(c); e.Name == "SystemExit" {
			t.Errorf("%q: an error %+v", code, e)
		}
		events, err := p.Watch(t.Context(), p.caller, s, c.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		value := "-"
		for e := range events {
			if e.Type == ExitEvent {
				value = e.Value
				if e.Name != "SystemExit" || !strings.HasPrefix(strings.Join(e.Traceback, "\n"), "An exception has occurred, use %tb") {
					t.Errorf("%q: %+v", code, e)
				}
			}
		}
		if value != want.value {
			t.Errorf("%q: the exit says %q, not %q", code, value, want.value)
		}
	}
	checkCell(t, p.run(s, "kept"), facts{Result: "'kept'", Restarted: new(false)})
}

// An interpreter that ends itself has the exit code of its program.
func TestExitOfInterpreter(t *testing.T) {
	p := open(t, Config{})
	for language, codes := range map[string]map[string]int{
		"python":     {"import os; os._exit(3)": 3},
		"bash":       {"exit 0": 0, "set -e; false": 1, "exit 7": 7},
		"javascript": {"process.exit()": 0, "process.exit(5)": 5},
	} {
		s := p.session(language)
		for code, want := range codes {
			if c := p.want(p.run(s, code), StatusLost); exitCode(c) != want {
				t.Errorf("%s: exit code %d", code, exitCode(c))
			}
		}
	}
	s := p.session("bash")
	for range 50 { // the shell's files are closed before it has ended, and its end may come at any time after that
		p.want(p.run(s, "exit"), StatusLost)
	}
	for code, want := range map[string]int{"false": 1, "(exit 7)": 7, "true": 0} {
		if c := p.run(s, code); exitCode(c) != want {
			t.Errorf("%s: exit code %d", code, exitCode(c))
		}
	}
	s = p.session("python")
	c := p.started(s, "print('begun')\nwhile True: pass")
	if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
		t.Fatal(err)
	}
	if c = p.want(p.end(s, c.ID), StatusInterrupted); c.ExitCode != nil {
		t.Errorf("of an interrupted cell: %d", *c.ExitCode)
	}
}
