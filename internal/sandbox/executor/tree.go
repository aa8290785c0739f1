package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// A tree is what a held workspace has beside the content of files: links, the modes of files
// and folders that are not the usual ones, and empty folders. The service stores it like a
// file, engine.TreeMark, and hands it over with the inputs of a workspace that comes back. It
// may have been written by anybody.
type tree struct {
	Modes   map[string]fs.FileMode `json:",omitempty"` // permissions alone
	Links   map[string]string      `json:",omitempty"` // targets
	Folders []string               `json:",omitempty"` // empty ones

	full map[string]bool // folders that have an entry
}

// Modes of which nothing is noted.
const (
	usualFile   = 0o644
	usualFolder = 0o755
)

// maxTree bounds a tree that is stored or read.
const maxTree = 4 << 20

func newTree() *tree {
	return &tree{Modes: map[string]fs.FileMode{}, Links: map[string]string{}, full: map[string]bool{}}
}

// note adds an entry of a walk, unless its name is not one that JSON can carry. It reports
// whether the tree has all of the entry, which then is no file to collect.
func (t *tree) note(f found) bool {
	if !utf8.ValidString(f.path) {
		return false
	}
	t.full[path.Dir(f.path)] = true
	mode := fs.FileMode(f.stat.Mode & 0o777)
	switch {
	case f.kind == unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(f.folder, f.name, target)
		if err != nil || n == len(target) || !utf8.Valid(target[:n]) {
			return false
		}
		t.Links[f.path] = string(target[:n])
		return true
	case f.kind == unix.S_IFDIR:
		t.Folders = append(t.Folders, f.path)
		if mode != usualFolder {
			t.Modes[f.path] = mode
		}
	case f.kind == unix.S_IFREG && mode != usualFile:
		t.Modes[f.path] = mode
	}
	return false
}

// encode returns the tree as it is stored; empty if there is nothing of note.
func (t *tree) encode() ([]byte, error) {
	t.Folders = slices.DeleteFunc(t.Folders, func(folder string) bool { return t.full[folder] })
	if len(t.Modes)+len(t.Links)+len(t.Folders) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(t)
	if err == nil && len(text) > maxTree {
		err = unix.EFBIG
	}
	return text, err
}

// addTree adds the tree of a workspace to the files to store, if it has changed.
func (h *heldWorkspace) addTree(l *left, limits collectLimits) error {
	text, err := h.workspace.tree.encode()
	h.workspace.tree = nil
	switch {
	case errors.Is(err, unix.EFBIG) || int64(len(text)) > limits.bytes:
		l.dropper()(engine.TreeMark, engine.DropTooLarge)
		return nil
	case err != nil || bytes.Equal(text, h.tree):
		return err
	case text == nil:
		l.deleted = append(l.deleted, engine.TreeMark)
	case len(l.files) >= limits.count:
		l.dropper()(engine.TreeMark, engine.DropTooMany) // the next call has it
		return nil
	default:
		file, err := MemoryFile("tree", text)
		if err != nil {
			return err
		}
		l.files = append(l.files, leftFile{path: engine.TreeMark, file: file, size: int64(len(text)), input: h.tree != nil})
	}
	h.tree = text
	return nil
}

// readTree reads a stored tree, which is empty if it is none.
func (h *heldWorkspace) readTree(f *os.File) (*tree, error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxTree))
	if err != nil {
		return nil, err
	}
	t := &tree{}
	if err := json.Unmarshal(text, t); err == nil {
		h.tree = text
		return t, nil
	}
	return &tree{}, nil
}

// plant brings back what a tree has, after all files. No path leads through a link, and what
// cannot be made is left out, unless there is no room for it.
func (w *Workspace) plant(t *tree) error {
	for _, name := range t.Folders {
		if !plantable(name) {
			continue
		}
		folder, err := w.folder(name, false)
		if errors.Is(err, unix.ENOSPC) {
			return err
		}
		if err == nil {
			folder.Close()
		}
	}
	for name, target := range t.Links {
		if !plantable(name) || target == "" {
			continue
		}
		parent, base := path.Split(name)
		folder, err := w.folder(strings.TrimSuffix(parent, "/"), false)
		if err == nil {
			err = unix.Symlinkat(target, int(folder.Fd()), base)
			if err == nil {
				err = unix.Fchownat(int(folder.Fd()), base, w.uid, w.uid, unix.AT_SYMLINK_NOFOLLOW)
			}
			folder.Close()
		}
		if errors.Is(err, unix.ENOSPC) {
			return err
		}
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(t.Modes))) { // a folder may close what is in it
		if plantable(name) {
			w.setMode(name, t.Modes[name])
		}
	}
	return nil
}

// plantable reports whether a name of a tree is that of an entry of a workspace.
func plantable(name string) bool {
	return name != "." && fs.ValidPath(name) && len(name) <= maxPathLength && strings.Count(name, "/") <= MaxDepth
}

// setMode sets the permissions of a file or folder of the workspace's user.
func (w *Workspace) setMode(name string, mode fs.FileMode) {
	fd, err := beneath(int(w.Root.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || int(st.Uid) != w.uid || unix.Fchmod(fd, uint32(mode&0o777)) != nil {
		return
	}
	if _, staged := w.staged[name]; staged && unix.Fstat(fd, &st) == nil {
		w.staged[name] = markOf(&st)
	}
}
