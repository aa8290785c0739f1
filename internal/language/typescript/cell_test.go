package typescript

import (
	"strings"
	"testing"
)

func TestCell(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"default":   {`import fs from 'fs'`, `var { "default": fs } = await __import("fs", null, (at) => import(at));`},
		"bare":      {`import "x"`, `await __import("x", null, (at) => import(at));`},
		"namespace": {`import * as p from "path"; p.sep`, "var p = await __import(\"path\", null, (at) => import(at));\np.sep;"},
		"both": {`import d, * as ns from "x"; d; ns`,
			"var ns = await __import(\"x\", [\"default\"], (at) => import(at)), { \"default\": d } = ns;\nd;\nns;"},
		"named": {"import d, {\n a,\n b as c,\n 's;t' as e } from 'x'\nc(e)",
			`var { "default": d, "a": a, "b": c, "s;t": e } = await __import("x", ["b","s;t"], (at) => import(at));`},
		"a type":       {`import type { T } from "x"; let a: T = 1 as any`, "let a = 1;"},
		"maybe a type": {`import { T } from "x"; let a: T`, "var { \"T\": T } = await __import(\"x\", null, (at) => import(at));\nlet a;"},
		"attributes": {`import j from "./j.json" with { type: "json" }`,
			`var { "default": j } = await __import("./j.json", null, (at) => import(at, { with: { type: "json" } }));`},
		"export":           {`export const x: number = 1; x`, "const x = 1;\nx;"},
		"export default":   {`export default { a: 1 }`, "module.exports.default = { a: 1 };"},
		"default function": {`export default function f<T>(a: T) {}`, "function f(a) {"},
		"async function":   {`export async function f() {}`, "async function f() {"},
		"class":            {`export class A { constructor(private x: number) {} }`, "class A {"},
		"list":             {"let a = 1; export { a as b }", "let a = 1;\n;"},
		"reexport":         {`export * as y from "x"; export { z } from 'x'`, `await __import("x", null, (at) => import(at));`},
		"enum":             {"enum E { One = 1 }\nE.One", "var E = "},
		"in a template":    {"`\nimport a from 'b'\nexport const c = 1`", `"\nimport a from 'b'\nexport const c = 1";`},
		"in a tagged one":  {"String.raw`\nimport a from 'b'\n`; import c from 'd'", `"\nimport a from 'b'\n"`},
		"dynamic":          {"await import('fs')", `await import("fs");`},
		"meta":             {"import.meta.dirname", `__meta.dirname;`},
		"require":          {"import fs = require('fs')", `const fs = require("fs");`},
	} {
		if got := cell(c.source); got.Error != "" || !strings.Contains(got.Code, c.want) || got.Map == "" {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
	got := cell("let a = 1\nlet b = (")
	if got.Code != "" || got.Error != "Unexpected end of file" || !strings.Contains(got.Report, "cell:2:9") {
		t.Errorf("%+v", got)
	}
}
