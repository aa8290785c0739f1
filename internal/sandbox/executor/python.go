package executor

import (
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
)

// A driver inside the sandbox, package guest's program.py, runs a Python program that
// starts warm, has its last expression echoed, or has its plots saved. Any other is
// plain `python3 main.py`.

// isScript reports whether the program is a Python file, with arguments or
// without.
func (r *RunRequest) isScript() bool {
	return len(r.Argv) >= 2 && r.Argv[0] == r.python && !strings.HasPrefix(r.Argv[1], "-")
}

// drive runs a cold program under the driver if it needs more than the interpreter
// does.
func (r *RunRequest) drive() {
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

// driven reports whether the program needs more than the interpreter does.
func (r *RunRequest) driven() bool { return r.EchoLast || r.ShowPlots || len(r.Globals) > 0 }

// startsAlike reports whether a program may start warm: its environment must equal the
// zygote's in all variables that an interpreter and its packages read at start.
func startsAlike(spec *engine.Spec) bool {
	for name, value := range spec.Env {
		entry := name + "=" + value
		if readAtStart(name) && !slices.Contains(zygoteLanguages, entry) && !slices.Contains(spec.Language.Env, entry) {
			return false
		}
	}
	return true
}

// zygoteLanguages are the locales of programs that start warm. A zygote starts in the first,
// whose only difference from the other, for Python at its start, is the name.
var zygoteLanguages = []string{"LANG=" + language.Neutral, "LANG=" + language.English}

// readAtStart reports whether a variable takes effect when an interpreter starts or
// imports a package, or in the dynamic linker.
func readAtStart(name string) bool {
	prefixes := []string{"PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "MPL", "OPENBLAS_", "OMP_", "MKL_", "NPY_",
		"PANDAS_", "JE_"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// Tier is a set of packages that a zygote has imported. The cost of a fork grows with
// the memory in use, so a program gets the smallest tier that has its imports. The
// program itself imports packages that the tier lacks.
type Tier struct {
	Name           string
	Preload        []string
	Learned        []string // what its programs often import besides
	serves         []string // packages whose import selects this tier
	plots          bool     // its programs benefit from prefaulted memory of plots
	Live           bool     // for live interpreters: with IPython's shell
	RarelyConnects bool     // few of its programs have a socket
}

// loaded are the modules that every interpreter has loaded.
var loaded = []string{"builtins", "os", "sys", "time"}

// light are modules that cost little. A program that imports no others gets a zygote of
// half the memory.
var light = []string{
	"base64", "bisect", "collections", "contextlib", "copy", "csv", "datetime", "enum", "functools", "heapq", "io",
	"itertools",
	"json", "math", "operator", "os", "random", "re", "string", "sys", "textwrap", "time", "traceback",
}

// standard are the modules that programs of every other tier import most.
var standard = []string{
	"argparse", "ast", "asyncio", "base64", "collections", "concurrent.futures", "contextlib", "copy", "csv",
	"dataclasses",
	"datetime", "decimal", "difflib", "enum", "fractions", "functools", "glob", "hashlib", "heapq", "html", "inspect",
	"io",
	"itertools", "json", "logging", "math", "multiprocessing", "operator", "pathlib", "pickle", "pprint", "random", "re",
	"shutil", "socket", "sqlite3", "statistics", "string", "subprocess", "tempfile", "textwrap", "threading", "time",
	"traceback", "typing", "urllib.parse", "uuid", "xml.etree.ElementTree", "zipfile",
}

// tiers are ordered by size.
var tiers = []Tier{
	{Name: "bare", RarelyConnects: true},
	{Name: "light", Preload: light, RarelyConnects: true},
	{Name: "standard", Preload: standard},
	{Name: "numpy", Preload: slices.Concat(standard, []string{"numpy", "numpy.random"}),
		serves: []string{"numpy", "scipy", "cv2", "skimage", "sklearn", "xgboost"}},
	{Name: "pandas", Preload: slices.Concat(standard, []string{"numpy", "numpy.random", "pandas"}),
		serves: []string{"pandas", "statsmodels", "pyarrow"}},
	{
		Name: "full", Preload: slices.Concat(standard, []string{
			"numpy", "numpy.random", "pandas", "matplotlib", "matplotlib.pyplot", "PIL.Image"}),
		serves: []string{"matplotlib", "seaborn", "matplotlib_venn"}, plots: true,
	},
	{Name: liveTier, Preload: standard, Live: true},
}

// tierOf returns the tier for a program that imports these modules.
func tierOf(modules []string) string {
	best := 0
	for _, name := range modules {
		top, _, _ := strings.Cut(name, ".")
		switch {
		case slices.Contains(loaded, top):
		case slices.Contains(light, top):
			best = max(best, 1)
		default:
			best = max(best, 2)
		}
		for i, t := range tiers {
			if i > best && slices.Contains(t.serves, top) {
				best = i
			}
		}
	}
	return tiers[best].Name
}
