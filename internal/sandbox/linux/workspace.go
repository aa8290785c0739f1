package linux

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// workspace is the folder a program works in: a tmpfs with a size and a number
// of inodes, made before the sandbox and reached through an open folder, also
// after the sandbox is gone. Nothing here follows a link, leaves the tmpfs, or
// reads a byte of a file: contents move inside the kernel.
type workspace struct {
	root   *os.File
	uid    int // owner of what is put in
	staged map[string]mark
}

// mark is what tells an untouched file from a changed one. The change time
// cannot be set by a program, whatever it does to the other times.
type mark struct {
	inode uint64
	ctime unix.Timespec
	size  int64
}

func markOf(st *unix.Stat_t) mark { return mark{st.Ino, st.Ctim, st.Size} }

// newTmpfs makes a tmpfs that is mounted nowhere yet.
func newTmpfs(size int64, inodes, uid int, mode string) (*os.File, error) {
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen tmpfs: %w", err)
	}
	defer unix.Close(ctx)
	options := [][2]string{
		{"source", "airlock"},
		{"size", fmt.Sprint(size)},
		{"nr_inodes", fmt.Sprint(inodes)},
		{"mode", mode},
		{"uid", fmt.Sprint(uid)},
		{"gid", fmt.Sprint(uid)},
	}
	for _, o := range options {
		if err := unix.FsconfigSetString(ctx, o[0], o[1]); err != nil {
			return nil, fmt.Errorf("tmpfs option %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return nil, fmt.Errorf("make tmpfs: %w", err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	return os.NewFile(uintptr(fd), "tmpfs"), nil
}

// newWorkspace makes an empty workspace. One inode is the root's own.
func newWorkspace(size int64, inodes, uid int) (*workspace, error) {
	root, err := newTmpfs(size, inodes+1, uid, "0755")
	if err != nil {
		return nil, err
	}
	return &workspace{root: root, uid: uid, staged: map[string]mark{}}, nil
}

func (w *workspace) close() { w.root.Close() }

// beneath opens a path inside the workspace and nowhere else.
func beneath(folder int, name string, flags uint64, mode uint64) (int, error) {
	return unix.Openat2(folder, name, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Mode:    mode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// put copies an open file to a path, making the folders on the way. A file
// that is already there is replaced. A read-only one belongs to root, in a
// folder that lets nobody else remove it.
func (w *workspace) put(name string, source *os.File, size int64, readOnly bool) error {
	folder, base := path.Split(name)
	dir, err := w.folder(strings.TrimSuffix(folder, "/"), readOnly)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	if err := unix.Unlinkat(fd, base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	mode := uint64(0o644)
	if readOnly {
		mode = 0o444
	}
	out, err := beneath(fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	defer unix.Close(out)
	if err := copyFile(out, source, size); err != nil {
		return fmt.Errorf("stage %s: %w", name, err)
	}
	if !readOnly {
		if err := unix.Fchown(out, w.uid, w.uid); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(out, &st); err != nil {
		return err
	}
	w.staged[name] = markOf(&st)
	return nil
}

// copyFile moves size bytes from a file's beginning, inside the kernel.
func copyFile(out int, source *os.File, size int64) error {
	var offset int64
	for offset < size {
		n, err := unix.Sendfile(out, int(source.Fd()), &offset, int(min(size-offset, 1<<30)))
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// folder opens a folder of the workspace, making it where it is missing.
func (w *workspace) folder(name string, readOnly bool) (*os.File, error) {
	fd, err := beneath(int(w.root.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	current := os.NewFile(uintptr(fd), ".")
	if err := w.pin(current, readOnly); err != nil || name == "" {
		return current, err
	}
	for part := range strings.SplitSeq(name, "/") {
		made := unix.Mkdirat(int(current.Fd()), part, 0o755)
		if made != nil && !errors.Is(made, unix.EEXIST) {
			current.Close()
			return nil, fmt.Errorf("make folder %s: %w", name, made)
		}
		next, err := beneath(int(current.Fd()), part, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		current.Close()
		if err != nil {
			return nil, fmt.Errorf("open folder %s: %w", name, err)
		}
		current = os.NewFile(uintptr(next), part)
		if made == nil {
			if err := unix.Fchown(next, w.uid, w.uid); err != nil {
				current.Close()
				return nil, err
			}
		}
		if err := w.pin(current, readOnly); err != nil {
			current.Close()
			return nil, err
		}
	}
	return current, nil
}

// pin makes a folder root's, open to all but sticky: the program may add to
// it, and cannot remove or rename what is not its own.
func (w *workspace) pin(folder *os.File, readOnly bool) error {
	if !readOnly {
		return nil
	}
	return errors.Join(unix.Fchown(int(folder.Fd()), 0, 0), unix.Fchmod(int(folder.Fd()), 0o1777))
}

// snapshot marks every file, so that a later collect knows what a run changed.
func (w *workspace) snapshot() {
	w.staged = map[string]mark{}
	w.walk(func(f found) bool {
		if f.kind == unix.S_IFREG {
			w.staged[f.path] = markOf(&f.stat)
		}
		return true
	})
}

// left is what a program left in its workspace.
type left struct {
	files   []leftFile
	deleted []string
	dropped []dropped
}

type leftFile struct {
	path  string
	file  *os.File
	size  int64
	input bool
}

func (l *left) close() {
	for _, f := range l.files {
		f.file.Close()
	}
}

// Reasons for which a file is not kept.
const (
	reasonCount = "too many files"
	reasonSize  = "too large"
	reasonTotal = "all files together are too large"
	reasonName  = "its name is not valid UTF-8"
	reasonKind  = "not a regular file"
	reasonOpen  = "unreadable"
	reasonDepth = "too many folders deep"
)

// collectLimits bound what is kept of a workspace.
type collectLimits struct {
	count        int
	bytes, total int64
}

// maxDropped bounds the list of what was not kept; the rest is only counted.
const maxDropped = 100

// collect opens every file that is new or may have changed, up to the limits.
// It runs when every process of the sandbox is gone, so nothing moves.
func (w *workspace) collect(entry string, limits collectLimits) *left {
	l := &left{}
	seen := map[string]bool{}
	var total int64
	drop := func(path, reason string) {
		if len(l.dropped) < maxDropped {
			l.dropped = append(l.dropped, dropped{strings.ToValidUTF8(path, "\uFFFD"), reason})
		}
	}
	w.walk(func(f found) bool {
		seen[f.path] = true
		if f.tooDeep {
			drop(f.path, reasonDepth)
			return true
		}
		before, input := w.staged[f.path]
		switch {
		case f.path == entry || f.kind == unix.S_IFDIR:
			return true
		case f.kind != unix.S_IFREG:
			drop(f.path, reasonKind)
			return true
		case input && before == markOf(&f.stat):
			return true
		case !utf8.ValidString(f.path):
			drop(f.path, reasonName)
			return true
		case f.stat.Size > limits.bytes:
			drop(f.path, reasonSize)
			return true
		case len(l.files) >= limits.count:
			drop(f.path, reasonCount)
			return true
		case total+f.stat.Size > limits.total:
			drop(f.path, reasonTotal)
			return true
		}
		fd, err := beneath(f.folder, f.name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			drop(f.path, reasonOpen)
			return true
		}
		total += f.stat.Size
		l.files = append(l.files, leftFile{f.path, os.NewFile(uintptr(fd), f.name), f.stat.Size, input})
		return true
	})
	for path := range w.staged {
		if !seen[path] && path != entry {
			l.deleted = append(l.deleted, path)
		}
	}
	slices.Sort(l.deleted)
	slices.SortFunc(l.files, func(a, b leftFile) int { return cmp.Compare(a.path, b.path) })
	return l
}

// found is one entry of a walk. folder is open during the visit only.
type found struct {
	path, name string
	folder     int
	kind       uint32
	stat       unix.Stat_t
	tooDeep    bool // a folder that the walk does not enter
}

// maxDepth bounds the folders inside folders that a walk enters; the names
// that the engine accepts cannot be deeper.
const maxDepth = 128

// walk visits every entry once, folders before what they hold, in order of
// name. Its memory is bounded by the workspace's inodes.
func (w *workspace) walk(visit func(found) bool) {
	fd, err := beneath(int(w.root.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
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
		f.tooDeep = f.kind == unix.S_IFDIR && depth == maxDepth
		if !visit(f) {
			return false
		}
		if f.kind != unix.S_IFDIR || f.tooDeep {
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
