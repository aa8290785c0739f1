package language

import (
	"strings"
	"testing"
)

// An image's commands replace those of the table wherever a row has them, and nothing else.
func TestAt(t *testing.T) {
	for _, test := range []struct{ language, path, tool, compile, run, inline string }{
		{"python", "/opt/venv/bin/python3.13", "/usr/bin/python3", "", "/opt/venv/bin/python3.13 {entry}",
			"/opt/venv/bin/python3.13 -c {code}"},
		{"bash", "/bin/sh", "/usr/bin/bash", "", "/bin/sh {entry}", "/bin/sh -c {code} bash"},
		{"js", "/usr/local/bin/node", "/usr/bin/node", "", "/usr/local/bin/node -r /opt/airlock/node.cjs {entry}", ""},
		{"ts", "/usr/local/bin/node", "/usr/bin/node", "/opt/airlock/airlock compile typescript {entry} {build}/main.mjs",
			"/usr/local/bin/node --enable-source-maps -r /opt/airlock/node.cjs {build}/main.mjs", ""},
		{"rust", "/usr/local/cargo/bin/rustc", "/usr/bin/rustc",
			"/usr/local/cargo/bin/rustc --edition=2021 -C opt-level=1 -o {build}/main {entry}", "{build}/main", ""},
		{"r", "/usr/local/bin/Rscript", "/usr/bin/Rscript", "", "/usr/local/bin/Rscript --vanilla {entry}", ""},
	} {
		t.Run(test.language, func(t *testing.T) {
			l, _ := Find(test.language)
			before := strings.Join(l.Run, " ")
			if got := l.Tool(); got != test.tool {
				t.Errorf("tool %q, want %q", got, test.tool)
			}
			at := l.At(test.path)
			for what, pair := range map[string][2]string{
				"compile": {strings.Join(at.Compile, " "), test.compile}, "run": {strings.Join(at.Run, " "), test.run},
				"inline": {strings.Join(at.Inline, " "), test.inline},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s\n%q, want\n%q", what, pair[0], pair[1])
				}
			}
			if at.Inline != nil != (l.Inline != nil) || at.Compile != nil != (l.Compile != nil) {
				t.Error("it has gained or lost a command")
			}
			if again, _ := Find(test.language); strings.Join(again.Run, " ") != before {
				t.Error("the table has changed")
			}
		})
	}
	java, _ := Find("java")
	java = java.At("/opt/java/openjdk/bin/java")
	if java.Run[0] != "/opt/java/openjdk/bin/java" || java.Compile[0] != "/bin/sh" ||
		!strings.Contains(java.Compile[2], "exec /opt/java/openjdk/bin/javac -J") {
		t.Errorf("java %q, %q", java.Run, java.Compile)
	}
	for _, l := range All() {
		if tool := l.Tool(); tool == "" {
			t.Errorf("%s has no tool", l.Name)
		}
	}
}
