// Package archive names the files of ZIP archives.
package archive

import (
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Names assigns names to the files of one archive. The zero value is ready.
type Names struct{ taken map[string]bool }

// Name is the name of the file at a clean path: the path itself, if every system can unpack it.
// Windows would take a backslash for a folder, a colon for a drive or a stream of another file,
// and CON for a device; other characters, and a dot or space at an end, it cannot store. They
// become "_", with a number where that name is taken.
func (n *Names) Name(clean string) string {
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	parts := strings.Split(clean, "/")
	for i, part := range parts {
		parts[i] = portable(part)
	}
	name := strings.Join(parts, "/")
	stem, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	for i := 1; n.taken[name]; i++ {
		name = stem + "-" + strconv.Itoa(i) + ext
	}
	n.taken[name] = true
	return name
}

func portable(part string) string {
	part = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, part)
	kept := strings.TrimRight(part, ". ")
	part = kept + strings.Repeat("_", len(part)-len(kept))
	if stem, _, _ := strings.Cut(part, "."); isDevice(strings.ToUpper(strings.TrimRight(stem, " "))) {
		part = "_" + part
	}
	return part
}

// isDevice reports whether Windows has a device of a name, whatever the extension.
func isDevice(name string) bool {
	switch name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	number, is := strings.CutPrefix(name, "COM")
	if !is {
		number, is = strings.CutPrefix(name, "LPT")
	}
	return is && utf8.RuneCountInString(number) == 1 && strings.Contains("0123456789¹²³", number)
}
