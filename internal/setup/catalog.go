package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// kind is a set of Python packages that can be installed. A data directory may have
// several.
type kind struct {
	name   string
	minors []int // minor versions of CPython 3 for which there is a lock
	// source are the packages without a wheel. They are built with the distribution's
	// setuptools. Their sources have hashes, too.
	source []string
	// broken are the packages that cannot be imported in the application's image either.
	broken []string
	debian []string // libraries and programs that its packages use
	node   bool     // it includes packages of Node
}

var kinds = []kind{
	{name: language.CurrentPackages, minors: []int{11, 12, 13, 14}},
	// it wants IPython
	{name: language.OnyxPackages, minors: []int{11, 12}, source: []string{"matplotlib-venn"},
		broken: []string{"matplotlib-inline"}},
	{
		name: language.LibreChatPackages, minors: []int{14, 13, 12, 11}, node: true,
		debian: []string{"libcairo2", "libpango-1.0-0", "libpangoft2-1.0-0", "poppler-utils", "tesseract-ocr"},
	},
	{name: language.OwnPackages, minors: []int{11, 12, 13, 14}},
}

func findKind(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// suffixed returns the name of a file of the set: base for the set current, which is
// older than the others, and base-NAME for another.
func (k kind) suffixed(base, extension string) string {
	if k.name == language.CurrentPackages {
		return base + extension
	}
	return base + "-" + k.name + extension
}

// directory returns the name of a directory of the set: 3.11-4f0c… or onyx-3.11-4f0c….
func (k kind) directory(minor int, digests ...string) string {
	name := fmt.Sprintf("3.%d", minor)
	if k.name != language.CurrentPackages {
		name = k.name + "-" + name
	}
	for _, d := range digests {
		name += fmt.Sprintf("-%.16s", d)
	}
	return name
}

// owns reports whether a directory belongs to the set.
func (k kind) owns(directory string) bool {
	if k.name == language.CurrentPackages {
		return strings.HasPrefix(directory, "3.")
	}
	return strings.HasPrefix(directory, k.name+"-")
}

// chooseKinds returns the sets of those names. Without names it returns the installed
// ones, else current.
func chooseKinds(data string, names []string) ([]kind, error) {
	var chosen []kind
	for _, name := range names {
		k, ok := findKind(strings.TrimSpace(name))
		if !ok {
			return nil, &Error{Problem: "there is no set of Python packages " + name,
				Cure: "choose from " + strings.Join(language.PackageSets(), ", ")}
		}
		if !slices.ContainsFunc(chosen, func(c kind) bool { return c.name == k.name }) {
			chosen = append(chosen, k)
		}
	}
	if len(names) > 0 {
		return chosen, nil
	}
	for _, k := range kinds {
		if _, err := os.Stat(filepath.Join(Dir(data), k.suffixed("manifest", ".json"))); err == nil {
			chosen = append(chosen, k)
		}
	}
	if len(chosen) == 0 {
		chosen = kinds[:1]
	}
	return chosen, nil
}
