package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// maxDepth bounds the folders that are open at once. A program can nest them without end.
const maxDepth = 200

var errTooDeep = &engine.Error{Op: "measure volume", Kind: engine.ErrTooLarge,
	Err:  fmt.Errorf("folders are nested more than %d deep", maxDepth),
	Hint: "Delete the volume, or ask for it with read_only, to save what is in it."}

// walk calls do for everything in a volume, with its path below Files, the open folder that has it and what it is,
// but not for Files itself. Programs may change all of it meanwhile: what is gone is left out.
func (s *Store) walk(
	ctx context.Context, id engine.ID, do func(name string, folder int, st *unix.Stat_t) error,
) error {
	root, err := s.root.OpenRoot(path.Join(id.String(), Files))
	if err != nil {
		return err
	}
	defer root.Close()
	top, err := root.Open(".")
	if err != nil {
		return err
	}
	defer top.Close()
	w := &walk{do: do}
	return w.folder(ctx, top, "", 1)
}

type walk struct {
	do    func(name string, folder int, st *unix.Stat_t) error
	count int
}

func (w *walk) folder(ctx context.Context, folder *os.File, name string, depth int) error {
	for {
		entries, err := folder.Readdirnames(1000)
		if len(entries) == 0 {
			if err == nil || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, entry := range entries {
			if err := w.entry(ctx, folder, name, entry, depth); err != nil {
				return err
			}
		}
	}
}

func (w *walk) entry(ctx context.Context, folder *os.File, name, entry string, depth int) error {
	var st unix.Stat_t
	at := int(folder.Fd())
	err := unix.Fstatat(at, entry, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "stat", Path: entry, Err: err}
	}
	name = path.Join(name, entry)
	if err := w.do(name, at, &st); err != nil {
		return err
	}
	// A program that makes files faster than they are counted must not hold the walk for ever.
	if w.count++; w.count > 2*engine.MaxVolumeFiles {
		return &engine.Error{Op: "measure volume", Kind: engine.ErrTooLarge,
			Err: fmt.Errorf("there are more than %d files", 2*engine.MaxVolumeFiles)}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	if depth >= maxDepth {
		return errTooDeep
	}
	inner, err := openFolder(at, entry)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer inner.Close()
	return w.folder(ctx, inner, name, depth+1)
}

// openFolder opens a folder that is in another one. A program may have taken the right to read it
// from its owner, who is this process's user: the owner gets it back.
func openFolder(at int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		if err = allowOwner(at, name, 0o700); err == nil {
			fd, err = unix.Openat(at, name, flags, 0)
		}
	}
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT): // it was replaced
		err = fs.ErrNotExist
	case err == nil:
		// Without the right to search, its entries would be listed but not be found.
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
			err = unix.Fchmod(fd, st.Mode&0o7777|0o700)
		}
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		unix.Close(fd)
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: err}
}

// allowOwner gives the owner of a file rights to it. It follows no link.
func allowOwner(at int, name string, rights uint32) error {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return unix.ENOENT
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), fs.FileMode(st.Mode&0o777|rights))
}

// removeTime bounds the removal of a folder that something fills meanwhile.
const removeTime = 10 * time.Minute

// removeAll removes a folder of a volume with all that is in it. It does not recurse: a folder that is
// not empty is emptied into the top, and removed.
func removeAll(root *os.Root, name string) error {
	parent, err := root.Open(".")
	if err != nil {
		return err
	}
	defer parent.Close()
	top, err := openFolder(int(parent.Fd()), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer top.Close()
	moved, began := 0, time.Now()
	for {
		if time.Since(began) > removeTime {
			return errors.New("it changes faster than it can be removed")
		}
		entries, err := top.Readdirnames(1000)
		if len(entries) == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			return unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR)
		}
		for _, entry := range entries {
			if err := raise(int(top.Fd()), entry, &moved); err != nil {
				return err
			}
		}
		if _, err := top.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// raise removes an entry of a folder. If that is a folder, its entries move up beside it.
func raise(top int, entry string, moved *int) error {
	err := unix.Unlinkat(top, entry, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	inner, err := openFolder(top, entry)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer inner.Close()
	names, err := inner.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if unix.Unlinkat(int(inner.Fd()), name, 0) == nil {
			continue
		}
		// To move a folder changes its "..", for which its owner needs the right to write to it.
		if f, err := openFolder(int(inner.Fd()), name); err == nil {
			f.Close()
		}
		for { // until a new name is free
			*moved++
			err := unix.Renameat2(int(inner.Fd()), name, top, fmt.Sprintf(".%d", *moved), unix.RENAME_NOREPLACE)
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EEXIST) {
				return &fs.PathError{Op: "move", Path: name, Err: err}
			}
		}
	}
	return unix.Unlinkat(top, entry, unix.AT_REMOVEDIR)
}
