package language

import (
	"strings"
	"testing"
)

func TestImports(t *testing.T) {
	for code, want := range map[string]string{
		"import os":                              "os",
		"import a.b as c, d,e as f  # g, h":      "a.b d e",
		"x = 1; import a; import b\nimport c; 1": "a b c",
		"def f():\n\timport a":                   "a",
		"from a.b import c as d, e":              "a.b a.b.c a.b.e",
		"from a import (b,\n  c)":                "a a.b",
		"from a import *":                        "a",
		"from . import a":                        ". ..a",
		"importa\nx = 'import b'\n#import c":     "",
		"import":                                 "",
	} {
		if got := strings.Join(Imports(code), " "); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
}
