package linux

import (
	"regexp"
	"slices"
	"strings"
)

// tier is a set of packages that a zygote has imported. A fork costs time in
// proportion to what is in memory, so a program gets the smallest tier that
// has what it imports; what a tier lacks is imported by the program itself.
type tier struct {
	name            string
	preload         []string
	serves          []string // packages whose import asks for this tier
	plots           bool     // and is better for having the memory of plots before
	live            bool     // for live interpreters: with IPython's shell
	reuseNamespaces bool     // hardly a program of it has a socket
}

// loaded are modules that every interpreter has loaded.
var loaded = []string{"builtins", "os", "sys", "time"}

// light are modules that cost little; a program that imports no others finds a
// zygote of half the memory.
var light = []string{
	"base64", "bisect", "collections", "contextlib", "copy", "csv", "datetime", "enum", "functools", "heapq", "io",
	"itertools",
	"json", "math", "operator", "os", "random", "re", "string", "sys", "textwrap", "time", "traceback",
}

// standard is what programs of every other tier import most.
var standard = []string{
	"argparse", "ast", "asyncio", "base64", "collections", "concurrent.futures", "contextlib", "copy", "csv",
	"dataclasses",
	"datetime", "decimal", "difflib", "enum", "fractions", "functools", "glob", "hashlib", "heapq", "html", "inspect",
	"io",
	"itertools", "json", "logging", "math", "multiprocessing", "operator", "pathlib", "pickle", "pprint", "random", "re",
	"shutil", "socket", "sqlite3", "statistics", "string", "subprocess", "tempfile", "textwrap", "threading", "time",
	"traceback", "typing", "urllib.parse", "uuid", "xml.etree.ElementTree", "zipfile",
}

// tiers are in order of size.
var tiers = []tier{
	{name: "bare", reuseNamespaces: true},
	{name: "light", preload: light, reuseNamespaces: true},
	{name: "standard", preload: standard},
	{name: "numpy", preload: slices.Concat(standard, []string{"numpy", "numpy.random"}),
		serves: []string{"numpy", "scipy", "cv2", "skimage", "sklearn", "xgboost"}},
	{name: "pandas", preload: slices.Concat(standard, []string{"numpy", "numpy.random", "pandas"}),
		serves: []string{"pandas", "statsmodels", "pyarrow"}},
	{
		name: "full", preload: slices.Concat(standard, []string{
			"numpy", "numpy.random", "pandas", "matplotlib", "matplotlib.pyplot", "PIL.Image"}),
		serves: []string{"matplotlib", "seaborn", "matplotlib_venn"}, plots: true,
	},
	{name: liveTier, preload: standard, live: true},
}

var imports = regexp.MustCompile(`(?m)^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*(?:[ \t]*,[ \t]*[A-Za-z_][\w.]*)*)`)

// tierOf finds the tier for a program by a quick look at what it imports. It
// may be fooled by text that looks like an import; the program runs all the
// same.
func tierOf(code string) string {
	best := 0
	for _, match := range imports.FindAllStringSubmatch(code, -1) {
		for name := range strings.SplitSeq(match[1], ",") {
			top, _, _ := strings.Cut(strings.TrimSpace(name), ".")
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
	}
	return tiers[best].name
}
