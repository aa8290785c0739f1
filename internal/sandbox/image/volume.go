package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Volumes are folders that programs write to, and that outlive them. Each has a folder below that of
// all volumes, which is called like its ID and has these names in it.
const (
	VolumeFiles = "files" // what programs see
	VolumeLock  = "lock"  // locked by who uses the volume, on any machine
)

// VolumesPath is the folder below which sandboxes have volumes, unless they ask for others.
const VolumesPath = "/volumes"

// OpenVolume opens a copy of a volume's mount, which is mounted nowhere, and the file by which it is
// locked. The error is fs.ErrNotExist if this machine has no such volume. Nothing of its content is looked at.
func OpenVolume(id string, readOnly bool) (root, lock *os.File, err error) {
	if path.Base(id) != id || id == "." || id == ".." { // the service may be taken over
		return nil, nil, &fs.PathError{Op: "open", Path: id, Err: fs.ErrNotExist}
	}
	folder, err := openIn(unix.AT_FDCWD, path.Join(volumesPath, id), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, err
	}
	defer folder.Close()
	files, err := openIn(int(folder.Fd()), VolumeFiles, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil, err
	}
	defer files.Close()
	fd, err := unix.OpenTree(int(files.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, nil, fmt.Errorf("open a volume: %w", err)
	}
	root = os.NewFile(uintptr(fd), "volume")
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if readOnly {
		attributes.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attributes)
	if err == nil {
		lock, err = openIn(int(folder.Fd()), VolumeLock, unix.O_RDWR)
	}
	if err != nil {
		root.Close()
		return nil, nil, err
	}
	return root, lock, nil
}

// openIn opens a name, which is no link.
func openIn(folder int, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(folder, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
