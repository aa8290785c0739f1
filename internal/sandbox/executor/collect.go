package executor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// left holds the outputs of a workspace.
type left struct {
	files   []leftFile
	deleted []string
	dropped []dropped
}

type leftFile struct {
	path      string
	file      *os.File
	size      int64
	input     bool
	respelled bool // path differs from the program's name
}

func (l *left) close() {
	for _, f := range l.files {
		f.file.Close()
	}
}

// collectLimits limit the outputs collected from a workspace.
type collectLimits struct {
	count        int
	bytes, total int64
}

// maxDropped bounds the list of dropped files; further ones are only counted, by
// reason.
const maxDropped = 100

// dropper returns a function that records a dropped file.
func (l *left) dropper() func(path, reason string) {
	latest := map[string]int{} // entry of each reason
	return func(path, reason string) {
		i, known := latest[reason]
		if known && len(l.dropped) >= maxDropped {
			l.dropped[i].More++
			return
		}
		latest[reason] = len(l.dropped)
		l.dropped = append(l.dropped, dropped{Path: strings.ToValidUTF8(path, "\uFFFD"), Reason: reason})
	}
}

// pathSet returns the paths for wanted; nil if there are none.
func pathSet(paths []string) map[string]bool {
	if len(paths) == 0 {
		return nil
	}
	set := map[string]bool{}
	for _, p := range paths {
		set[path.Clean(p)] = true
	}
	return set
}

// wanted reports whether the current collect is for a path.
func (w *Workspace) wanted(name string) bool {
	if w.within == nil || w.within["."] {
		return true
	}
	for ; name != "."; name = path.Dir(name) {
		if w.within[name] {
			return true
		}
	}
	return false
}

// see has the next collect find a file only if it changes from now on, unless the current one is not for it.
func (w *Workspace) see(f found, before mark, input, outside bool) {
	switch {
	case w.seen == nil || f.kind != unix.S_IFREG:
	case !outside:
		w.seen[f.path] = markOf(&f.stat)
	case input:
		w.seen[f.path] = before
	}
}

// unsee has the next collect find a file that this one had no room for.
func (w *Workspace) unsee(path string, before mark, input bool) {
	switch {
	case w.seen == nil:
	case input:
		w.seen[path] = before
	default:
		delete(w.seen, path)
	}
}

// collect opens every file that is new or may have changed, up to the limits.
// It runs when every process of the sandbox has exited, so no file changes.
func (w *Workspace) collect(entry string, limits collectLimits) *left {
	l := &left{}
	there := map[string]bool{} // of the staged files
	var total int64
	var respelled []leftFile
	drop := l.dropper()
	w.walk(func(f found) bool {
		before, input := w.staged[f.path]
		switch {
		case w.installs && !input && isInstalled(f.path):
			return true
		case f.tooDeep:
			drop(f.path, engine.DropDepth)
			return true
		case f.tooLong:
			drop(f.path[:maxPathLength], engine.DropPath)
			return true
		}
		if input {
			there[f.path] = true
		}
		outside := !w.wanted(f.path)
		w.see(f, before, input, outside)
		switch {
		case w.tree != nil && (w.tree.note(f) || f.path == engine.TreeMark), f.path == entry || f.kind == unix.S_IFDIR,
			outside:
			return true
		case f.kind != unix.S_IFREG:
			drop(f.path, engine.DropNotRegular)
			return true
		case input && before == markOf(&f.stat):
			return true
		case len(spell(f.path)) > maxPathLength:
			drop(f.path, engine.DropPath)
			return true
		case f.stat.Size > limits.bytes:
			drop(f.path, engine.DropTooLarge)
			return true
		case len(l.files) >= limits.count:
			drop(f.path, engine.DropTooMany)
			w.unsee(f.path, before, input)
			return true
		case total+f.stat.Size > limits.total:
			drop(f.path, engine.DropTotal)
			w.unsee(f.path, before, input)
			return true
		}
		fd, err := openFound(f)
		if err != nil {
			drop(f.path, engine.DropUnreadable)
			return true
		}
		total += f.stat.Size
		file := leftFile{path: spell(f.path), file: os.NewFile(uintptr(fd), f.name), size: f.stat.Size, input: input}
		if file.respelled = file.path != f.path; file.respelled {
			respelled = append(respelled, file)
		} else {
			l.files = append(l.files, file)
		}
		return true
	})
	for _, file := range respelled {
		if there[file.path] || slices.ContainsFunc(l.files, func(f leftFile) bool { return f.path == file.path }) {
			drop(file.path, engine.DropSpelling)
			file.file.Close()
			continue
		}
		l.files = append(l.files, file)
	}
	for path, before := range w.staged {
		switch {
		case there[path] || path == entry:
		case w.wanted(path):
			l.deleted = append(l.deleted, path)
		default:
			w.seen[path] = before // a later collect finds that it is gone
		}
	}
	slices.Sort(l.deleted)
	slices.SortFunc(l.files, func(a, b leftFile) int { return cmp.Compare(a.path, b.path) })
	return l
}

// spell returns a path that JSON can carry: each byte that is not UTF-8 becomes %XX.
func spell(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	var b strings.Builder
	for len(path) > 0 {
		r, n := utf8.DecodeRuneInString(path)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, "%%%02X", path[0])
		} else {
			b.WriteString(path[:n])
		}
		path = path[n:]
	}
	return b.String()
}

// openFound opens a regular file for reading. The file is the one that the walk found: no
// process can rename files now, and even a renamed one would be inside the workspace.
func openFound(f found) (int, error) {
	fd, err := beneath(f.folder, f.name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Dev != f.stat.Dev || markOf(&st) != markOf(&f.stat)) {
		err = errors.New("it changed while it was opened")
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// found is one entry of a walk. folder is open only during the visit.
type found struct {
	path, name string
	folder     int
	kind       uint32
	stat       unix.Stat_t
	tooDeep    bool // a folder that the walk does not enter
	tooLong    bool // the path is too long; the walk does not enter such a folder
}

// MaxDepth bounds the depth of a walk. File names that the engine accepts are never
// deeper.
const MaxDepth = 128

// walk visits every entry once, folders before their entries, ordered by name. Its
// memory is bounded by the workspace's inodes.
func (w *Workspace) walk(visit func(found) bool) {
	fd, err := beneath(int(w.Root.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	walkFolder(fd, "", 0, visit)
}

// walkFolder owns fd.
func walkFolder(fd int, prefix string, depth int, visit func(found) bool) bool {
	folder := os.NewFile(uintptr(fd), prefix)
	defer folder.Close()
	names, _ := folder.Readdirnames(-1)
	slices.Sort(names)
	for _, name := range names {
		f := found{path: prefix + name, name: name, folder: fd}
		if err := unix.Fstatat(fd, name, &f.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue
		}
		f.kind = f.stat.Mode & unix.S_IFMT
		f.tooDeep = f.kind == unix.S_IFDIR && depth == MaxDepth
		f.tooLong = len(f.path) > maxPathLength
		if !visit(f) {
			return false
		}
		if f.kind != unix.S_IFDIR || f.tooDeep || f.tooLong {
			continue
		}
		next, err := beneath(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		if !walkFolder(next, f.path+"/", depth+1, visit) {
			return false
		}
	}
	return true
}

// markFolders adds a marker file for each empty folder, up to the limit. It skips
// folders that are not shown to users.
func (l *left) markFolders(w *Workspace, most int) {
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
		mark, err := MemoryFile("folder", nil)
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
