package page

import (
	"strings"
	"testing"
)

// TestLexer marks the tokens of each class by the first letter of its name.
func TestLexer(t *testing.T) {
	for language, cases := range map[string]map[string]string{
		"python": {
			"def f(x):  # a 'b'\n":             "k[def] d[f](x):  c[# a 'b']\n",
			"s = f'a\\'b' + '''x\ny''' * 1e-5": "s = fs['a\\'b'] + s['''x\ny'''] * n[1e-5]",
			"@cached\nclass A: pass":           "d[@cached]\nk[class] d[A]: k[pass]",
			"print('open\nx = \"é\"":           "d[print](s['open]\nx = s[\"é\"]",
			"a.round(2).class":                 "a.round(n[2]).class",
			"'a\\":                             "s['a\\]",
		},
		"bash": {"for x in $#; do echo \"a\nb\"; done # c": "k[for] x k[in] $#; k[do] d[echo] s[\"a\nb\"]; k[done] c[# c]"},
		"js":   {"const a = `x\n${y}` // c": "k[const] a = s[`x\n${y}`] c[// c]"},
		"go":   {"func (r *T) A() /* a\nb */": "k[func] (r *T) A() c[/* a\nb */]", "type T struct": "k[type] d[T] k[struct]"},
		"SQL":  {"Select 'it' From t -- x": "k[Select] s['it'] k[From] t c[-- x]"},
		"json": {`{"a": [1, true]}`: `{s["a"]: [n[1], k[true]]}`},
		"html": {`<p class="a">don't</p><!-- x`: `<k[p] class=s["a"]>don't</k[p]>c[<!-- x]`},
		"yaml": {"a: don't # 'x'\nb: 'c'": "a: don't c[# 'x']\nb: s['c']"},
		"c":    {"int x = 0x1F; /*": "k[int] x = n[0x1F]; c[/*]"},
		"none": {"if x": "if x"},
	} {
		for code, want := range cases {
			var got strings.Builder
			done := 0
			for _, token := range NewPalette().tokens(language, code) {
				text := code[done:token.End]
				if token.Class != "" {
					text = strings.TrimPrefix(token.Class, "tok-")[:1] + "[" + text + "]"
				}
				got.WriteString(text)
				done = token.End
			}
			if got.WriteString(code[done:]); got.String() != want {
				t.Errorf("%s: %q is read as\n%s, want\n%s", language, code, got.String(), want)
			}
		}
	}
}
