package linux

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// markFolders adds a file to what is left for each folder that is empty, as
// far as there is room. Folders that nobody means to see are passed over.
func (l *left) markFolders(w *workspace, most int) {
	var folders []string
	full := map[string]bool{}
	w.walk(func(f found) bool {
		full[path.Dir(f.path)] = true
		if f.kind == unix.S_IFDIR && !f.tooDeep && utf8.ValidString(f.path) &&
			len(f.path)+len(engine.FolderMark) < maxPathLength && !unseen(f.path) {
			folders = append(folders, f.path)
		}
		return true
	})
	for _, folder := range folders {
		if full[folder] || len(l.files) >= most {
			continue
		}
		mark, err := memoryFile("folder", nil)
		if err != nil {
			return // it is lost, as without marks
		}
		l.files = append(l.files, leftFile{path: folder + "/" + engine.FolderMark, file: mark})
	}
	slices.SortFunc(l.files, func(a, b leftFile) int { return cmp.Compare(a.path, b.path) })
}

func unseen(folder string) bool {
	for part := range strings.SplitSeq(folder, "/") {
		if strings.HasPrefix(part, ".") || part == "__pycache__" {
			return true
		}
	}
	return false
}
