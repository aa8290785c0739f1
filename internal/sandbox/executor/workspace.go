package executor

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Workspace is a program's working folder: a tmpfs with a limited size and number of
// inodes. It is created before the sandbox and accessed through an open folder, also
// after the sandbox has ended. No method follows a link, leaves the tmpfs, or reads a
// byte of a file: contents are copied inside the kernel.
type Workspace struct {
	Root   *os.File
	uid    int // owner of the files that are put in
	staged map[string]mark
	seen   map[string]mark // by the current collect; nil: not requested
	tree   *tree           // the same
	within map[string]bool // the paths that the current collect is limited to; nil: it is not
	// installs says that its program can install packages, which are not its output.
	installs bool
	blank    *blank
	loan     *loan // nil: nothing is lent to it
}

// blank is a file created before its content is known, which most programs' files can
// be. The request then waits for one write only.
type blank struct {
	name string
	file *os.File // closed once it is filled
	free uint64   // free inodes when it was the only file
}

// mark tells an unchanged file from a changed one. A program cannot set the change
// time, unlike the other times.
type mark struct {
	inode uint64
	ctime unix.Timespec
	size  int64
}

func markOf(st *unix.Stat_t) mark { return mark{st.Ino, st.Ctim, st.Size} }

// newMount creates a file system of a kind, not mounted yet. If configure is not nil,
// newMount calls it before it sets the options.
func newMount(kind string, attributes int, configure func(ctx int) error, options ...[2]string) (*os.File, error) {
	ctx, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen %s: %w", kind, err)
	}
	defer unix.Close(ctx)
	if configure != nil {
		if err := configure(ctx); err != nil {
			return nil, fmt.Errorf("configure %s: %w", kind, err)
		}
	}
	for _, o := range options {
		if err := unix.FsconfigSetString(ctx, o[0], o[1]); err != nil {
			return nil, fmt.Errorf("%s option %s: %w", kind, o[0], err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return nil, fmt.Errorf("make %s: %w", kind, err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	return os.NewFile(uintptr(fd), kind), nil
}

// NewTmpfs creates a tmpfs that is not mounted yet.
func NewTmpfs(size int64, inodes, uid int, mode string) (*os.File, error) {
	id := fmt.Sprint(uid)
	return newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, func(ctx int) error {
		// Large files in large pages: writing one takes a seventh of the time. Not
		// every kernel has them.
		_ = unix.FsconfigSetString(ctx, "huge", "within_size")
		return nil
	}, [2]string{"source", "airlock"}, [2]string{"size", fmt.Sprint(size)}, [2]string{"nr_inodes", fmt.Sprint(inodes)},
		[2]string{"mode", mode}, [2]string{"uid", id}, [2]string{"gid", id})
}

// newWorkspace creates an empty workspace. One more inode is for the root folder.
func newWorkspace(size int64, inodes, uid int) (*Workspace, error) {
	root, err := NewTmpfs(size, inodes+1, uid, "0755")
	if err != nil {
		return nil, err
	}
	return &Workspace{Root: root, uid: uid, staged: map[string]mark{}}, nil
}

func (w *Workspace) close() {
	w.Root.Close()
	if w.blank != nil {
		w.blank.file.Close()
	}
	if w.loan != nil {
		w.loan.close()
	}
}

// expect creates a file of that name, to be filled later, unless there is a blank
// already.
func (w *Workspace) expect(name string) error {
	fd, err := beneath(int(w.Root.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	b := &blank{name: name, file: os.NewFile(uintptr(fd), name)}
	var fs unix.Statfs_t
	if err := errors.Join(unix.Fchown(fd, w.uid, w.uid), unix.Fstatfs(fd, &fs)); err != nil {
		b.file.Close()
		return err
	}
	b.free = fs.Ffree
	w.blank = b
	return nil
}

// fillBlank writes the program into the blank, which stays the only file. It returns
// false if there is no blank of that name.
func (w *Workspace) fillBlank(name string, content []byte) bool {
	if w.blank == nil || w.blank.name != name || writeAll(int(w.blank.file.Fd()), content) != nil {
		return false
	}
	w.blank.file.Close()
	return true
}

// dropBlank removes an unused blank.
func (w *Workspace) dropBlank() error {
	b := w.blank
	if w.blank = nil; b == nil {
		return nil
	}
	b.file.Close()
	return unix.Unlinkat(int(w.Root.Fd()), b.name, 0)
}

// untouched reports whether the workspace holds only the program's file. Every new file
// or name takes an inode. If as many inodes are free as before, and one file has that
// name, there is no other.
func (w *Workspace) untouched() bool {
	if w.blank == nil {
		return false
	}
	var fs unix.Statfs_t
	var st unix.Stat_t
	root := int(w.Root.Fd())
	return unix.Fstatfs(root, &fs) == nil && fs.Ffree == w.blank.free &&
		unix.Fstatat(root, w.blank.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		st.Nlink == 1
}

// beneath opens a path inside the workspace and nowhere else. A seccomp filter of the
// host may block openat2: systemd's RestrictSUIDSGID= does, because it cannot inspect
// the arguments.
func beneath(folder int, name string, flags uint64, mode uint64) (int, error) {
	fd, err := unix.Openat2(folder, name, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Mode:    mode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ENOSYS) {
		return beneathByStep(folder, name, flags, mode)
	}
	return fd, err
}

// beneathByStep is beneath with one call for each folder. No call follows a link, goes
// up or leaves the file system, so the result is always beneath the first folder.
func beneathByStep(folder int, name string, flags uint64, mode uint64) (int, error) {
	var first, st unix.Stat_t
	if err := unix.Fstat(folder, &first); err != nil {
		return -1, err
	}
	parts := strings.Split(name, "/")
	if parts[0] == "" || slices.Contains(parts, "..") {
		return -1, unix.EXDEV
	}
	at := folder
	for i, part := range parts {
		how, bits := unix.O_PATH|unix.O_DIRECTORY, uint32(0)
		if i == len(parts)-1 {
			how, bits = int(flags), uint32(mode)
		}
		next, err := unix.Openat(at, cmp.Or(part, "."), how|unix.O_CLOEXEC|unix.O_NOFOLLOW, bits)
		if at != folder {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
		if err = unix.Fstat(at, &st); err == nil && st.Dev != first.Dev {
			err = unix.EXDEV
		}
		if err != nil {
			unix.Close(at)
			return -1, err
		}
	}
	return at, nil
}

// put copies an open file to a path, creating missing folders. It replaces an existing
// file. A read-only file belongs to root, in a folder where no other user can remove
// it.
func (w *Workspace) put(name string, source *os.File, size int64, readOnly bool) error {
	return w.place(name, readOnly, func(out int) error { return copyFile(out, source, size) })
}

// putBytes is put for content that is in memory.
func (w *Workspace) putBytes(name string, content []byte) error {
	return w.place(name, false, func(out int) error { return writeAll(out, content) })
}

func writeAll(out int, content []byte) error {
	for len(content) > 0 {
		n, err := unix.Write(out, content)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		content = content[max(n, 0):]
	}
	return nil
}

// place creates the file and calls fill for its content.
func (w *Workspace) place(name string, readOnly bool, fill func(out int) error) error {
	if !readOnly && !strings.Contains(name, "/") { // the common case: directly in the workspace, a new name
		out, err := beneath(int(w.Root.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
		if err == nil {
			return w.fill(name, out, readOnly, fill)
		}
	}
	folder, base := path.Split(name)
	dir, err := w.folder(strings.TrimSuffix(folder, "/"), readOnly)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	if err := removeAll(fd, base); err != nil {
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
	return w.fill(name, out, readOnly, fill)
}

// fill fills a new file, gives it to the program's user, and marks it.
func (w *Workspace) fill(name string, out int, readOnly bool, fill func(out int) error) error {
	defer unix.Close(out)
	if err := fill(out); err != nil {
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

// removeTime bounds the removal of a folder that a program fills meanwhile.
const removeTime = 10 * time.Second

var errBusyFolder = errors.New("it changes faster than it can be removed")

// removeAll removes a name of a folder, of any kind. A program may nest folders as
// deeply as it has inodes, so removeAll does not recurse: it moves each folder that is
// not empty up to the top, and removes it from there.
func removeAll(folder int, name string) error {
	err := unix.Unlinkat(folder, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	fd, err := beneath(folder, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	top := os.NewFile(uintptr(fd), name)
	defer top.Close()
	moved, began := 0, time.Now()
	for {
		if time.Since(began) > removeTime {
			return errBusyFolder
		}
		entries, err := top.Readdirnames(100)
		if len(entries) == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			return unix.Unlinkat(folder, name, unix.AT_REMOVEDIR)
		}
		for _, entry := range entries {
			if err := raise(fd, entry, &moved); err != nil {
				return err
			}
		}
		if _, err := top.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// raise removes an entry of a folder. If the entry is a folder, raise moves its entries
// up beside it.
func raise(top int, entry string, moved *int) error {
	if err := unix.Unlinkat(top, entry, 0); err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	fd, err := beneath(top, entry, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	inner := os.NewFile(uintptr(fd), entry)
	defer inner.Close()
	names, err := inner.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		for { // until a new name is free
			*moved++
			err := unix.Renameat2(fd, name, top, fmt.Sprintf(".%d", *moved), unix.RENAME_NOREPLACE)
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	}
	return unix.Unlinkat(top, entry, unix.AT_REMOVEDIR)
}

// copyFile copies size bytes from the start of a file, inside the kernel.
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

// folder opens a folder of the workspace, creating missing ones.
func (w *Workspace) folder(name string, readOnly bool) (*os.File, error) {
	fd, err := beneath(int(w.Root.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	current := os.NewFile(uintptr(fd), ".")
	if err := w.pin(current, readOnly); err != nil || name == "" {
		return current, err
	}
	for part := range strings.SplitSeq(name, "/") {
		made := makeFolderAt(int(current.Fd()), part)
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

// makeFolderAt creates a folder. It replaces a file that a program left under that
// name. It returns EEXIST if the folder exists.
func makeFolderAt(folder int, name string) error {
	err := unix.Mkdirat(folder, name, 0o755)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(folder, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
		st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return errors.Join(err, unix.EEXIST)
	}
	if err := unix.Unlinkat(folder, name, 0); err != nil {
		return err
	}
	return unix.Mkdirat(folder, name, 0o755)
}

// pin gives a folder to root with the sticky bit: the program may add files, but cannot
// remove or rename those of another user.
func (w *Workspace) pin(folder *os.File, readOnly bool) error {
	if !readOnly {
		return nil
	}
	return errors.Join(unix.Fchown(int(folder.Fd()), 0, 0), unix.Fchmod(int(folder.Fd()), 0o1777))
}

// unlock restores the owner's access to a workspace. If that fails, the run reports
// that it cannot enter.
func (w *Workspace) unlock() {
	fd, err := beneath(int(w.Root.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, st.Mode&0o7777|0o700)
	}
}

// snapshot marks every file, so that a later collect can tell which files a run
// changed. It also restores the folder's mode, so that the next program can enter the
// workspace.
func (w *Workspace) snapshot() {
	w.unlock()
	w.staged = map[string]mark{}
	w.walk(func(f found) bool {
		if f.kind == unix.S_IFREG && !f.tooLong {
			w.staged[f.path] = markOf(&f.stat)
		}
		return true
	})
}
