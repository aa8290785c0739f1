package linux

import (
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
)

// A Python program that starts warm, or that wants its last expression echoed
// or its plots left, is run by a driver inside the sandbox, package guest's program.py.
// Any other is plain `python3 main.py`.

// isScript reports whether the program is a Python file, with arguments or
// without.
func (r *runRequest) isScript() bool {
	python, _ := language.Find("python")
	return len(r.Argv) >= 2 && r.Argv[0] == python.Run[0] && !strings.HasPrefix(r.Argv[1], "-")
}

// drive puts the driver in front of a program that starts cold and wants what
// the interpreter alone does not do.
func (r *runRequest) drive() {
	if !r.driven() {
		return
	}
	wishes := []string{"", ""}
	if r.EchoLast {
		wishes[0] = "echo"
	}
	if r.ShowPlots {
		wishes[1] = "plots"
	}
	r.Argv = slices.Insert(slices.Clone(r.Argv), 1, guest.DriverPath, strings.Join(append(wishes, r.Globals...), ","))
}

// driven reports whether the program wants what the interpreter alone does not do.
func (r *runRequest) driven() bool { return r.EchoLast || r.ShowPlots || len(r.Globals) > 0 }

// startsAlike reports whether a program may start warm: what an interpreter
// and its packages read from the environment when they start is what a
// zygote's have read.
func startsAlike(spec *engine.Spec) bool {
	for name, value := range spec.Env {
		entry := name + "=" + value
		if readAtStart(name) && entry != zygoteLanguage && !slices.Contains(spec.Language.Env, entry) {
			return false
		}
	}
	return true
}

// zygoteLanguage is the locale of zygotes, and of programs that ask for none.
const zygoteLanguage = "LANG=C.UTF-8"

// readAtStart reports whether a variable of the environment has its effect
// when an interpreter starts or imports a package, or in the dynamic linker.
func readAtStart(name string) bool {
	prefixes := []string{"PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "MPL", "OPENBLAS_", "OMP_", "MKL_", "NPY_",
		"PANDAS_", "JE_"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
