//go:build unix

package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func openFolder(path string) (*folder, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return newFolder(f, ".")
}

func newFolder(f *os.File, path string) (*folder, error) {
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "stat", Path: path, Err: err}, f.Close())
	}
	return &folder{f: f, path: path, dev: uint64(st.Dev)}, nil //nolint:unconvert // the types differ between systems
}

// do runs a system call on the directory's descriptor.
func (d *folder) do(op, name string, call func(fd int) error) error {
	conn, err := d.f.SyscallConn()
	if err != nil {
		return d.fail(op, name, err)
	}
	var result error
	err = conn.Control(func(fd uintptr) {
		result = ignoringEINTR(func() error { return call(int(fd)) })
	})
	if err != nil {
		return d.fail(op, name, err)
	}
	return d.fail(op, name, result)
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (d *folder) openat(name string, flags int, mode uint32) (*os.File, error) {
	var fd int
	err := d.do("open", name, func(dir int) (err error) {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), d.at(name)), nil
}

// child opens a directory in this one.
func (d *folder) child(name string) (*folder, error) {
	f, err := d.openat(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return newFolder(f, d.at(name))
}

// stat returns the zero node for a name that does not exist.
func (d *folder) stat(name string) (node, error) {
	var st unix.Stat_t
	err := d.do("stat", name, func(dir int) error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, fs.ErrNotExist) {
		return node{}, nil
	}
	if err != nil {
		return node{}, err
	}
	return nodeOf(&st), nil
}

func nodeOf(st *unix.Stat_t) node {
	n := node{uid: int(st.Uid), gid: int(st.Gid), fact: Fact{
		Exists: true, Size: st.Size, Mode: fs.FileMode(st.Mode & 0o777),
		ModTime: time.Unix(st.Mtim.Unix()), Device: uint64(st.Dev), Inode: st.Ino, Links: uint64(st.Nlink), //nolint:unconvert // the types differ between systems
	}}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		n.typ = fs.ModeDir
	case unix.S_IFLNK:
		n.typ = fs.ModeSymlink
	default:
		n.typ = fs.ModeIrregular
	}
	return n
}

// open opens a regular file for reading.
func (d *folder) open(name string) (*os.File, node, error) {
	f, err := d.openat(name, unix.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait
	if err != nil {
		return nil, node{}, err
	}
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return nil, node{}, errors.Join(d.fail("stat", name, err), f.Close())
	}
	n := nodeOf(&st)
	if !n.regular() {
		return nil, n, errors.Join(d.fail("open", name, errNotRegular), f.Close())
	}
	return f, n, nil
}

// create creates a file that must not exist yet.
func (d *folder) create(name string, mode fs.FileMode) (*os.File, error) {
	return d.openat(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, uint32(mode.Perm()))
}

func (d *folder) mkdir(name string) error {
	return d.do("mkdir", name, func(dir int) error { return unix.Mkdirat(dir, name, 0o777) })
}

func (d *folder) rmdir(name string) error {
	return d.do("rmdir", name, func(dir int) error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
}

func (d *folder) unlink(name string) error {
	return d.do("remove", name, func(dir int) error { return unix.Unlinkat(dir, name, 0) })
}

func (d *folder) readlink(name string) (string, error) {
	buf := make([]byte, 4096)
	var n int
	err := d.do("readlink", name, func(dir int) (err error) {
		n, err = unix.Readlinkat(dir, name, buf)
		return err
	})
	return string(buf[:max(n, 0)]), err
}

// move renames a file, in this or to another directory of the same file system. The
// new name must be free.
func (d *folder) move(name string, to *folder, newName string) error {
	return d.two("move", name, to, newName, moveNew)
}

// exchange swaps two files in one step. It fails with errNoExchange if the file
// system cannot.
func (d *folder) exchange(name string, with *folder, other string) error {
	return d.two("exchange", name, with, other, exchange)
}

func (d *folder) two(
	op, name string, to *folder, newName string, call func(from int, name string, to int, newName string) error,
) error {
	return d.do(op, name, func(from int) error {
		if d == to {
			return call(from, name, from, newName)
		}
		conn, err := to.f.SyscallConn()
		if err != nil {
			return err
		}
		var result error
		err = conn.Control(func(fd uintptr) { result = call(from, name, int(fd), newName) })
		return errors.Join(err, result)
	})
}

// linkNew moves a file to a free name where one system call cannot.
func linkNew(from int, name string, to int, newName string) error {
	if err := unix.Linkat(from, name, to, newName, 0); err != nil {
		return err
	}
	return unix.Unlinkat(from, name, 0)
}

// names lists the directory.
func (d *folder) names() ([]string, error) {
	again, err := d.child(".")
	if err != nil {
		return nil, err
	}
	defer again.f.Close()
	return again.f.Readdirnames(-1)
}

// sync makes the names in the directory durable.
func (d *folder) sync() error {
	if err := d.f.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems have nothing to sync
		return d.fail("sync", ".", err)
	}
	return nil
}

// free returns the number of bytes that an ordinary user can still write here.
func (d *folder) free() (int64, error) {
	var st unix.Statfs_t
	err := d.do("statfs", ".", func(dir int) error { return unix.Fstatfs(dir, &st) })
	return int64(st.Bavail) * int64(st.Bsize), err //nolint:unconvert // the types differ between systems
}

// lock locks the directory against all processes that commit into it, whatever
// store they use.
func (d *folder) lock(ctx context.Context) error {
	err := flock(ctx, d.f, true)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EBADF) {
		return nil // a network file system: the store's lock has to do
	}
	return err
}

// chown changes the owner of the directory.
func (d *folder) chown(uid, gid int) error {
	return d.do("give away", ".", func(fd int) error { return unix.Fchown(fd, uid, gid) })
}

// explain adds a hint to an error of the file system.
func explain(err error) error {
	var hint string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		hint = "the disk is full, or your share of it: free some space and try again"
	case errors.Is(err, unix.EROFS):
		hint = "the folder is on a read-only file system: choose another one, or write an archive"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		hint = "you may not write there: ask its owner, or write an archive"
	case errors.Is(err, unix.ENAMETOOLONG):
		hint = "the name is too long for this file system"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		hint = "too many files are open"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}

// tryFlock locks an open file, and reports whether it was free.
func tryFlock(f *os.File, exclusive bool) (bool, error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}
