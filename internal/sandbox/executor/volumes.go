package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// openVolumes opens the volumes that the program asks for, and locks them until the box is released:
// the service knows who uses a volume, but on one machine only. The kernel releases the locks of an
// executor that is killed.
func (b *Box) openVolumes() error {
	for _, v := range b.Request.Volumes {
		root, lock, err := image.OpenVolume(v.ID.String(), v.ReadOnly)
		if errors.Is(err, fs.ErrNotExist) {
			return NewFailure(engine.ErrUnavailable,
				fmt.Sprintf("the folder of the volume at %s is not on this machine", v.Path),
				"all machines that run programs need the folder that volumes_dir names")
		}
		if err != nil {
			return fmt.Errorf("open a volume: %w", err)
		}
		b.Volumes, b.locks = append(b.Volumes, root), append(b.locks, lock)
		how := unix.LOCK_EX
		if v.ReadOnly {
			how = unix.LOCK_SH
		}
		if v.Again { // another program of its session has the lock
			continue
		}
		err = unix.Flock(int(lock.Fd()), how|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return NewFailure(engine.ErrConflict, "the volume is in use elsewhere",
				fmt.Sprintf("The volume at %s is in use by a program on another machine. %s", v.Path, engine.VolumeHint))
		}
		if err != nil {
			return fmt.Errorf("lock a volume: %w", err)
		}
	}
	return nil
}

// closeVolumes unlocks the volumes. Every process of the sandbox has ended, so that another may have them. Closing
// alone would unlock them later: a process that is being created has copies of all files until it executes.
func (b *Box) closeVolumes() {
	for _, lock := range b.locks {
		_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN) // closed, it is unlocked at the latest when there is no copy left
	}
	CloseAll(b.Volumes...)
	CloseAll(b.locks...)
	b.Volumes, b.locks = nil, nil
}

// badPlace reports whether a volume would be mounted where a sandbox has something else.
func badPlace(v engine.VolumePlace) bool {
	folder := path.Dir(v.Path)
	return path.Clean(v.Path) != v.Path || folder != image.VolumesPath && folder != path.Dir(image.RootData) ||
		v.Path == image.RootData
}

// VolumeFolders returns the folders below which the program has volumes, without what else is there.
func (r *RunRequest) VolumeFolders() (folders []string) {
	for _, folder := range []string{image.VolumesPath, path.Dir(image.RootData)} {
		for _, v := range r.Volumes {
			if path.Dir(v.Path) == folder {
				folders = append(folders, folder)
				break
			}
		}
	}
	return folders
}
