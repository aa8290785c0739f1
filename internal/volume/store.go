// Package volume keeps the folders of volumes, to which programs write at any time. Whatever they
// leave there, the package opens it through os.Root of one volume, and follows no link: all other
// volumes, and what is beside them, stay out of reach. It reads bytes only for a backup.
package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// Names in the folder of a volume. The executor has them too.
const (
	Files = "files" // what programs see
	lock  = "lock"  // locked by executors for each program that has the volume
)

// Store is the folder of all volumes. Its methods may be called by several goroutines.
type Store struct{ root *os.Root }

// Open opens the store in a folder, which it makes if it is not there. Only this user may enter it:
// programs can leave files in it that run with this user's rights.
func Open(folder string) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("the folder of volumes: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("the folder of volumes: %w", err)
	}
	return &Store{root}, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.root.Close() }

// Create implements engine.Volumes.
func (s *Store) Create(id engine.ID) error {
	at := id.String()
	if err := s.root.Mkdir(at, 0o700); err != nil {
		return err
	}
	err := s.root.WriteFile(path.Join(at, lock), nil, 0o600)
	if err == nil {
		err = s.root.Mkdir(path.Join(at, Files), 0o755)
	}
	if err == nil { // whatever the mask says
		err = s.root.Chmod(path.Join(at, Files), 0o755)
	}
	return err
}

// Free implements engine.Volumes.
func (s *Store) Free() (int64, error) {
	folder, err := s.root.Open(".")
	if err != nil {
		return 0, err
	}
	defer folder.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(folder.Fd()), &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

// Remove implements engine.Volumes.
func (s *Store) Remove(_ context.Context, id engine.ID) error {
	at := id.String()
	held, err := s.root.OpenFile(path.Join(at, lock), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the rest of one, or none
	case err != nil:
		return err
	default:
		defer held.Close()
		err = unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return engine.ErrConflict
		}
		if err != nil {
			return err
		}
	}
	folder, err := s.root.OpenRoot(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := removeAll(folder, Files); err != nil {
		return err
	}
	for _, name := range []string{lock, "."} {
		if err := s.root.Remove(path.Join(at, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Measure implements engine.Volumes.
func (s *Store) Measure(ctx context.Context, id engine.ID) (bytes int64, files int, err error) {
	type inode struct{ device, number uint64 }
	linked := map[inode]bool{} // counted files with several names
	err = s.walk(ctx, id, func(_ string, _ int, st *unix.Stat_t) error {
		files++
		if st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if at := (inode{st.Dev, st.Ino}); linked[at] {
				return nil
			} else if len(linked) < engine.MaxVolumeFiles {
				linked[at] = true
			}
		}
		bytes += st.Blocks * 512
		return nil
	})
	return bytes, files, err
}
