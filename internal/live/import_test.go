package live

import "testing"

// An import that never ends is interrupted as any cell is, and the interpreter stays. Node cannot
// interrupt a module that computes: it is killed, and the files are there.
func TestEndlessImports(t *testing.T) {
	p := open(t, Config{})
	const busy, waits = "for (;;) {}", "await new Promise(() => {})"
	for language, try := range map[string]struct {
		write func(name, text string) string
		cells map[string]string // text of a module: cell that imports it
		after string
	}{
		"python": {
			func(name, text string) string {
				return "_ = open('" + name + ".py', 'w').write('''print('begun')\n" + text + "''')"
			},
			map[string]string{"while True: pass": "import m", "import time; time.sleep(60)": "from m import *", "import m": "import m; m.x"}, "1"},
		"javascript": {
			func(name, text string) string {
				return "require('fs').writeFileSync('" + name + ".mjs', `console.log('begun'); " + text + "`)"
			},
			map[string]string{busy: "import './m.mjs'", waits: "import * as m from './m.mjs'", "import './m.mjs'; " + waits: "await import('./m.mjs')"}, "1"},
		"typescript": {
			func(name, text string) string {
				return "import fs from 'fs'; fs.writeFileSync('" + name + ".ts', `console.log('begun'); " + text + "`)"
			},
			map[string]string{busy: "import './m'", waits: "import * as m from './m'; m as any"}, "1 as number"},
	} {
		t.Run(language, func(t *testing.T) {
			for text, cell := range try.cells {
				s := p.session(language)
				p.want(p.run(s, try.write("m", text)), StatusOK)
				if text == "import m" { // itself: that ends
					p.want(p.run(s, cell), StatusError)
					continue
				}
				killed := language != "python" && text == busy
				c := p.begin(s, CellRequest{Code: cell, Grace: graceOf(killed)})
				if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
					t.Fatal(err)
				}
				want := facts{Stdout: "begun\n", NotMessage: "killed"}
				if killed {
					want = facts{Stdout: "begun\n", Message: "killed"}
				}
				checkCell(t, p.want(p.end(s, c.ID), StatusInterrupted), want, text)
				checkCell(t, p.run(s, try.after), facts{Result: "1", Restarted: &killed}, text)
			}
		})
	}
}
