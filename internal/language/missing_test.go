package language

import (
	"slices"
	"strings"
	"testing"
)

func TestMissing(t *testing.T) {
	for _, tt := range []struct {
		name         string
		compile, run []string
		want         string
	}{
		{name: "all there", compile: []string{Toolchain, "compile"}, run: []string{"/usr/bin/env", "{entry}"}},
		{name: "interpreter", run: []string{"/usr/bin/no-interpreter", "{entry}"}, want: "/usr/bin/no-interpreter"},
		{name: "compiler", compile: []string{"/usr/bin/no-compiler++"}, run: []string{"{build}/main"},
			want: "/usr/bin/no-compiler++"},
		{name: "compiler in a shell", compile: []string{"/bin/sh", "-c", `cp a b && exec /usr/bin/no-javac -d "$2"`},
			run: []string{"/usr/bin/env"}, want: "/usr/bin/no-javac"},
		{name: "what runs it", compile: []string{"/usr/bin/env"}, run: []string{"/usr/bin/no-java"},
			want: "/usr/bin/no-java"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := (Language{Compile: tt.compile, Run: tt.run}).Missing(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	for _, l := range All() {
		if words := strings.Join(append(slices.Clone(l.Compile), l.Run...), " "); !hostCommand.MatchString(words) {
			t.Errorf("%s has no command that could be missing: %s", l.Name, words)
		}
	}
}
