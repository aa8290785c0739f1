package executor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// This file implements file operations on a held workspace, which a program may change
// at any time. Where it matters, a name is looked up only once. No operation follows a
// link or blocks, and each list is bounded. Contents pass as open files.

// filesRequest is one operation. A program's file names need not be UTF-8.
type filesRequest struct {
	Held      string
	Tmp       bool `json:",omitempty"` // of the sandbox in it, instead of the workspace
	Op        filesOp
	Path      []byte `json:",omitzero"`
	To        []byte `json:",omitzero"`  // move
	Depth     int    `json:",omitempty"` // list
	Replace   bool   `json:",omitempty"` // move
	Recursive bool   `json:",omitempty"` // remove, watch
}

type filesOp string

const (
	opList       filesOp = "list"
	opStat       filesOp = "stat"
	opOpen       filesOp = "open"
	opWrite      filesOp = "write" // accepted with a file to fill, which is named on commit
	opMakeFolder filesOp = "make folder"
	opMove       filesOp = "move"
	opRemove     filesOp = "remove"
	opWatch      filesOp = "watch" // accepted, then answers with events until the service closes
)

// filesControl commits a file that the service has written.
type filesControl struct{ Commit bool }

// entry is engine.Entry between the processes.
type entry struct {
	Path, Target []byte
	Kind         engine.EntryKind
	Size         int64
	Mode         uint32
	Modified     time.Time
}

// maxListed bounds the entries of one list.
const maxListed = 10_000

// temporary is the name prefix of files that will be renamed.
const temporary = ".airlock-"

// openWorkspace is a workspace opened for one operation. It has its own open folder,
// because the workspace may be released meanwhile.
type openWorkspace struct {
	executor *executor
	held     *heldWorkspace
	root     *os.File
	uid      int
	owner    string
}

func (e *executor) files(l *Link, r *filesRequest) error {
	for _, p := range [][]byte{r.Path, r.To} {
		if checkPath(string(p)) != nil && string(p) != "." && (p != nil || r.Op == opMove) {
			return NewFailure(engine.ErrInvalid, fmt.Sprintf("bad path %q", p),
				"a path is relative to the workspace, with one name between two slashes")
		}
	}
	if grows := r.Op == opWrite || r.Op == opMakeFolder; grows && !r.Tmp {
		h, err := e.occupy(r.Held, false)
		if err != nil {
			return err
		}
		e.leave(h, false)
		defer e.measure(r.Held)
	}
	if r.Tmp {
		_, leave, err := e.sandboxIn(r.Held)
		if err != nil {
			return err
		}
		leave() // the workspace is known; an operation in its /tmp must not delay its end
	}
	w, leave, err := e.openWorkspace(r, l)
	if err != nil {
		return err
	}
	defer leave()
	act := func() error { return w.do(l, r) }
	if r.Op == opWrite || r.Op == opWatch { // the service decides how long these take
		open, err := e.machine.shares.files.reserve(w.owner, filesOfCall)
		if err != nil {
			return err
		}
		defer open.release()
		return filesFailure(r, act())
	}
	return filesFailure(r, e.gate.through(w.owner, act))
}

// openWorkspace opens a workspace, or the /tmp of the sandbox in it, for a request. The
// request ends when the workspace is released: with errReleased, unless that is how a watch ends.
func (e *executor) openWorkspace(r *filesRequest, l *Link) (_ *openWorkspace, leave func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.held[r.Held]
	if h == nil {
		return nil, nil, errNotHeld
	}
	root := h.workspace.Root
	if r.Tmp {
		at := e.sandboxes[r.Held]
		if at == nil {
			return nil, nil, ErrNoProgram
		}
		root = at.box.Tmp // closed when the sandbox ends
	}
	fd, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	w := &openWorkspace{e, h, os.NewFile(uintptr(fd), "workspace"), h.uid, h.owner}
	h.visitors[l] = r.Op != opWatch
	return w, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(h.visitors, l)
		w.root.Close()
	}, nil
}

// measure updates the size of a workspace that has no program in it.
func (e *executor) measure(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.held[id]; h != nil {
		h.used = h.workspace.measure()
	}
}

func (w *openWorkspace) do(l *Link, r *filesRequest) error {
	name := string(r.Path)
	var err error
	switch r.Op {
	case opList:
		return w.list(l, name, r.Depth)
	case opOpen:
		return w.open(l, name)
	case opWrite:
		err = w.write(l, name)
	case opMakeFolder:
		var fd int
		if fd, err = w.makeFolders(name); err == nil {
			unix.Close(fd)
		}
	case opMove:
		if err = w.move(name, string(r.To), r.Replace); err == nil {
			name = string(r.To)
		}
	case opRemove:
		if err = w.remove(name, r.Recursive); err == nil {
			return l.Send(answer{})
		}
	case opWatch:
		return w.watch(l, name, r.Recursive)
	case opStat:
	default:
		err = unix.EINVAL
	}
	if err != nil {
		return err
	}
	found, err := w.stat(name)
	if err != nil {
		return err
	}
	return l.Send(answer{Entries: []entry{found}})
}

// stat describes the file at a path, which may be a link.
func (w *openWorkspace) stat(name string) (entry, error) {
	fd, err := beneath(int(w.root.Fd()), name, unix.O_PATH, 0)
	if err != nil {
		return entry{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return entry{}, err
	}
	return entryOf(name, &st, fd, ""), nil
}

// entryOf describes a file; a link is read beneath an open folder.
func entryOf(path string, st *unix.Stat_t, folder int, name string) entry {
	kinds := map[uint32]engine.EntryKind{unix.S_IFREG: engine.EntryFile, unix.S_IFDIR: engine.EntryFolder,
		unix.S_IFLNK: engine.EntryLink}
	found := entry{
		Path: []byte(path), Kind: cmp.Or(kinds[st.Mode&unix.S_IFMT], engine.EntryOther),
		Mode: st.Mode & 0o777, Modified: time.Unix(st.Mtim.Unix()).UTC(),
	}
	if found.Kind == engine.EntryFile || found.Kind == engine.EntryFolder {
		found.Size = st.Size
	}
	if found.Kind == engine.EntryLink {
		target := make([]byte, maxPathLength)
		n, _ := unix.Readlinkat(folder, name, target)
		found.Target = target[:max(n, 0)]
	}
	return found
}

func (w *openWorkspace) list(l *Link, name string, depth int) error {
	fd, err := beneath(int(w.root.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	var all []entry
	more := listFolder(fd, prefix, min(max(depth, 1), MaxDepth), &all)
	for batch := range batches(all, func(e entry) string { return string(e.Path) + string(e.Target) }) {
		if err := l.Send(answer{Entries: batch}); err != nil {
			return err
		}
	}
	return l.Send(answer{Accepted: true, More: more})
}

// listFolder owns fd. It reports whether it omitted entries.
func listFolder(fd int, prefix string, depth int, all *[]entry) (more bool) {
	folder := os.NewFile(uintptr(fd), prefix)
	defer folder.Close()
	names, _ := folder.Readdirnames(maxListed + 1)
	slices.Sort(names)
	for _, name := range names {
		if len(*all) >= maxListed {
			return true
		}
		var st unix.Stat_t
		if strings.HasPrefix(name, temporary) || len(prefix)+len(name) > maxPathLength ||
			unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // it was removed meanwhile
		}
		*all = append(*all, entryOf(prefix+name, &st, fd, name))
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || depth == 1 {
			continue
		}
		next, err := beneath(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err == nil && listFolder(next, prefix+name+"/", depth-1, all) {
			return true
		}
	}
	return false
}

func (w *openWorkspace) open(l *Link, name string) error {
	fd, err := beneath(int(w.root.Fd()), name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errNotRegular
	}
	// Opens the same file, even if its name was reused: opening a file of another kind could block.
	opened, err := unix.Open(fmt.Sprintf("%s/self/fd/%d", image.ProcPath, fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(opened), name)
	defer f.Close()
	return l.Send(answer{Accepted: true, Entries: []entry{entryOf(name, &st, fd, "")}}, f)
}

var errNotRegular = errors.New("it is not a regular file")

// write sends a file without a name. The file is named when the service has filled it.
func (w *openWorkspace) write(l *Link, name string) error {
	folder, base := path.Split(name)
	parent, err := w.makeFolders(path.Clean(folder))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	mode, err := w.replaceable(parent, base)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(parent, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := errors.Join(unix.Fchown(fd, w.uid, w.uid), unix.Fchmod(fd, mode)); err != nil {
		return err
	}
	if err := l.Send(answer{Accepted: true}, f); err != nil {
		return err
	}
	var c filesControl
	files, err := l.Receive(&c)
	CloseAll(files...)
	if err != nil || !c.Commit {
		return err
	}
	if _, err := w.replaceable(parent, base); err != nil { // it may have changed since
		return err
	}
	unnamed, other := fmt.Sprintf("%s/self/fd/%d", image.ProcPath, fd), temporary+engine.NewID().String()
	if err := unix.Linkat(unix.AT_FDCWD, unnamed, parent, base, unix.AT_SYMLINK_FOLLOW); !errors.Is(err, unix.EEXIST) {
		return err // a new file, which is not reported as a change of an old one
	}
	if err := unix.Linkat(unix.AT_FDCWD, unnamed, parent, other, unix.AT_SYMLINK_FOLLOW); err != nil {
		return err
	}
	if err := unix.Renameat(parent, other, parent, base); err != nil {
		_ = unix.Unlinkat(parent, other, 0)
		return err
	}
	return nil
}

// replaceable returns the mode for a file that replaces the one at a name, or an error
// if it must not be replaced.
func (w *openWorkspace) replaceable(parent int, base string) (mode uint32, err error) {
	var st unix.Stat_t
	switch err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return 0o644, nil
	case err != nil:
		return 0, err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return 0, unix.EISDIR
	case int(st.Uid) != w.uid:
		return 0, errReadOnly
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0o644, nil
	}
	return st.Mode & 0o777, nil
}

var errReadOnly = errors.New("it is a read-only input, or a folder of such")

// mine rejects files that do not belong to the session's user.
func (w *openWorkspace) mine(parent int, base string) (st unix.Stat_t, err error) {
	if err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && int(st.Uid) != w.uid {
		err = errReadOnly
	}
	return st, err
}

// makeFolders opens a folder, creating it and its parents if they are missing.
func (w *openWorkspace) makeFolders(name string) (int, error) {
	current, err := beneath(int(w.root.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil || name == "." || name == "" {
		return current, err
	}
	for part := range strings.SplitSeq(name, "/") {
		made := unix.Mkdirat(current, part, 0o755)
		var next int
		if err = made; made == nil || errors.Is(made, unix.EEXIST) {
			next, err = beneath(current, part, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		}
		unix.Close(current)
		if err == nil && made == nil {
			if err = unix.Fchown(next, w.uid, w.uid); err != nil {
				unix.Close(next)
			}
		}
		if err != nil {
			return 0, err
		}
		current = next
	}
	return current, nil
}

// parent opens the parent folder of a path.
func (w *openWorkspace) parent(name string) (fd int, base string, err error) {
	folder, base := path.Split(name)
	fd, err = beneath(int(w.root.Fd()), path.Clean(folder), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	return fd, base, err
}

func (w *openWorkspace) move(from, to string, replace bool) error {
	if from == "." || to == "." {
		return unix.EINVAL
	}
	source, name, err := w.parent(from)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	target, other, err := w.parent(to)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	if _, err := w.mine(source, name); err != nil {
		return err
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if replace {
		flags = 0
		if _, err := w.mine(target, other); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return unix.Renameat2(source, name, target, other, flags)
}

func (w *openWorkspace) remove(name string, recursive bool) error {
	if name == "." {
		return unix.EINVAL
	}
	parent, base, err := w.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	st, err := w.mine(parent, base)
	switch {
	case err != nil:
		return err
	case recursive:
		return removeAll(parent, base)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.Unlinkat(parent, base, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(parent, base, 0)
}

// filesFailure turns the error of an operation into a failure.
func filesFailure(r *filesRequest, err error) error {
	if err == nil {
		return nil
	}
	f := NewFailure(engine.ErrUnavailable, fmt.Sprintf("%s %q: %v", r.Op, r.Path, err))
	is := func(list ...error) bool {
		return slices.ContainsFunc(list, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case is(fs.ErrNotExist, unix.ENOTDIR):
		f.Kind = engine.ErrNotFound
	case is(unix.ELOOP, unix.EXDEV):
		f.Kind, f.Hint = engine.ErrInvalid, engine.HintLink
	case is(errNotRegular, unix.EINVAL, unix.ENAMETOOLONG):
		f.Kind = engine.ErrInvalid
	case is(unix.ENOSPC, unix.EDQUOT):
		f.Kind, f.Hint = engine.ErrTooLarge, "the workspace is full: remove files"
	case is(unix.EEXIST, unix.ENOTEMPTY, unix.EISDIR, errReadOnly, errBusyFolder):
		f.Kind = engine.ErrConflict
	default:
		if known, ok := errors.AsType[*Failure](err); ok {
			return known
		}
	}
	return f
}
