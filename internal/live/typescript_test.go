package live

import (
	"strings"
	"testing"
)

// Cells are written as files of JavaScript and TypeScript are, with imports, exports and types.
func TestTypeScript(t *testing.T) {
	p := open(t, Config{})
	for _, language := range []string{"javascript", "typescript", "ts"} {
		t.Run(language, func(t *testing.T) {
			s := p.session(language)
			for _, step := range []struct{ code, want string }{
				{"import fs from 'fs'", ""},
				{"import * as path from 'path'\nimport os, { EOL as end } from 'node:os'\npath.join('a', 'b') + end.length", "'a/b1'"},
				{"fs.writeFileSync('n.txt', 'x'); typeof os.cpus", "'function'"}, // names of earlier cells
				{"import fs from 'fs'; fs.existsSync('n.txt')", "true"},          // once more
				{"interface P { n: number }\nconst p: P = { n: 41 }\np.n + 1", "42"},
				{"enum E { A = 3, B }\nE.B as number", "4"},
				{"class Q<T> { constructor(private x: T) {} get(): T { return this.x } }\nnew Q<string>('q').get()", "'q'"},
				{"export const y: number = 5\ny", "5"},
				{"export default function twice(n: number) { return 2 * n }\ntwice(y)", "10"},
				{"import { readFile } from 'node:fs/promises'\nconst text: string = await readFile('n.txt', 'utf8')\ntext", "'x'"},
				{"const z: number = await Promise.resolve<number>(7); z", "7"},
				{"fs.writeFileSync('part.ts', 'export const add = (a: number, b: number): number => a + b; export type T = {}')", ""},
				{"import { add, T } from './part'\nlet v: T; add(1, 2)", "3"},
				{"fs.writeFileSync('part.ts', 'export const add = (a: number) => a')\nundefined", ""},
				{"import { add } from './part.ts'\nadd(1, 2)", "1"}, // read anew
				{"fs.writeFileSync('old.cjs', 'module.exports = { one: 1 }')", ""},
				{"import { one } from './old.cjs'; one as number", "1"},
				{"fs.writeFileSync('j.json', '{\"a\": 6}')", ""},
				{"import j from './j.json' with { type: 'json' }; j.a", "6"},
				{"import.meta.dirname + ' ' + (1 as number)", "'/workspace 1'"},
				{"`\nimport a from 'b'\n`.length + (0 as number)", "19"},
				{"(await import('path')).sep", "'/'"},
				{"1 + 1", "2"},
				{"({ a: 1 })", "{ a: 1 }"},
			} {
				if got := plain(t, p.want(p.run(s, step.code), StatusOK)); got != step.want {
					t.Errorf("%s: %s, not %s", step.code, got, step.want)
				}
			}
			for code, want := range map[string]string{
				"let a: number = (":                     "SyntaxError: ",
				"import { nothing } from 'fs'; nothing": "SyntaxError: The requested module 'fs' does not provide an export named 'nothing'",
				"import x from './none'":                "Error: Cannot find module '/workspace/none'",
				"import x from 'no-such-package'":       "Error: Cannot find package 'no-such-package'",
				"const b: number = 1\n\nnull.x":         "TypeError: Cannot read properties of null",
				"JSON.parse('{')":                       "SyntaxError: ",
			} {
				c := p.want(p.run(s, code), StatusError)
				if e := raised(c); !strings.HasPrefix(e.Name+": "+e.Value, want) || exitCode(c) != 1 {
					t.Errorf("%s: %+v", code, e)
				}
			}
			c := p.run(s, "const c: number = 1\n\nfunction g(): void { null.x }\ng()")
			if trace := strings.Join(raised(c).Traceback, "\n"); !strings.Contains(trace, ":3:") || !strings.Contains(trace, ":4:1") {
				t.Errorf("lines of the source: %s", trace)
			}
			names, err := p.Variables(t.Context(), p.caller, s)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range names {
				if strings.HasPrefix(v.Name, "__") {
					t.Errorf("a variable of ours: %+v", v)
				}
			}
			running := p.started(s, "console.log('begun' as string)\nfor (;;) {}")
			if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
				t.Fatal(err)
			}
			p.want(p.end(s, running.ID), StatusInterrupted)
			checkCell(t, p.run(s, "path.sep"), facts{Restarted: new(false), Result: "'/'"})
		})
	}
	if info, err := p.Info(t.Context(), p.caller, p.session("ts")); err != nil || info.Language != "typescript" {
		t.Errorf("%+v, %v", info, err)
	}
}
