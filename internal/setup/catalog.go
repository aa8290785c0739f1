package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// kind is a set of Python packages that can be installed. Several stand side
// by side in a data directory.
type kind struct {
	name   string
	minors []int // the CPython 3.x that it is locked for
	// source are the packages that have no wheel. They are built with the
	// distribution's setuptools; their sources have hashes like all others.
	source []string
	// broken are the packages that cannot be imported in the application's image
	// either.
	broken []string
	debian []string // libraries and programs that its packages call
	node   bool     // packages of Node belong to it
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

// suffixed is the name of a file that each set has: base for the set current,
// whose files were there before there were others, base-NAME for another.
func (k kind) suffixed(base, extension string) string {
	if k.name == language.CurrentPackages {
		return base + extension
	}
	return base + "-" + k.name + extension
}

// directory is the name of a directory of the set: 3.11-4f0c… or
// onyx-3.11-4f0c….
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

// owns reports whether a directory is one of the set's.
func (k kind) owns(directory string) bool {
	if k.name == language.CurrentPackages {
		return strings.HasPrefix(directory, "3.")
	}
	return strings.HasPrefix(directory, k.name+"-")
}

// chooseKinds turns names into sets. Without names they are those that are
// installed, else current.
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
