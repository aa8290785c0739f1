package conversation

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// FolderEntry is a file or a folder in a project's folder.
type FolderEntry struct {
	Name   string
	Path   string // in the project, with slashes
	Folder bool
	Size   int64
}

// mostEntries bounds what is listed of one folder.
const mostEntries = 1000

// ListFolder lists one folder of a project, folders first. Links and what is
// no file are left out, since no turn can have them. More says that there are
// more entries than are listed.
func ListFolder(root, name string) (list []FolderEntry, more bool, err error) {
	folder, err := os.OpenRoot(root)
	if err != nil {
		return nil, false, errors.New("the project's folder cannot be read")
	}
	defer folder.Close()
	if name != "." {
		if err := plainFolder(folder, name); err != nil {
			return nil, false, err
		}
	}
	dir, err := folder.Open(name)
	if err != nil {
		return nil, false, errOutside
	}
	defer dir.Close()
	entries, err := dir.ReadDir(mostEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, errors.New("it cannot be read")
	}
	if more = len(entries) > mostEntries; more {
		entries = entries[:mostEntries]
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() || strings.EqualFold(e.Name(), ".git") {
			continue
		}
		list = append(list, FolderEntry{Name: e.Name(), Path: path.Join(name, e.Name()), Folder: info.IsDir(),
			Size: info.Size()})
	}
	slices.SortFunc(list, func(a, b FolderEntry) int {
		if a.Folder != b.Folder {
			if a.Folder {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list, more, nil
}

// plainFolder makes sure that a name leads to a folder without links.
func plainFolder(folder *os.Root, name string) error {
	if !fs.ValidPath(name) || strings.Contains(name, "\\") {
		return errOutside
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		info, err := folder.Lstat(path.Join(parts[:i+1]...))
		if err != nil || !info.IsDir() || strings.EqualFold(parts[i], ".git") {
			return errOutside
		}
	}
	return nil
}

// OpenProjectFile gives a file of a project's folder to a turn, by its path
// there. It follows no links.
func OpenProjectFile(root, name string) (File, error) {
	f, err := projectFile(root, name)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}
