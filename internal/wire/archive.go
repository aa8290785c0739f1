package wire

import (
	"path"
	"strconv"
	"strings"
)

// ArchiveNames gives the files of one zip their names. The zero value is ready.
type ArchiveNames struct{ taken map[string]bool }

// Name is the name of the file at a clean path. It is the path, but for a
// backslash: where Windows unpacks the archive it would divide folders and could
// lead out of them, so it becomes "_", with a number where that name is taken.
func (n *ArchiveNames) Name(clean string) string {
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	name := strings.ReplaceAll(clean, `\`, "_")
	stem, ext := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	for i := 1; n.taken[name]; i++ {
		name = stem + "-" + strconv.Itoa(i) + ext
	}
	n.taken[name] = true
	return name
}
