package oci

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// keepLayers is how long the layers of an interrupted add are kept.
const keepLayers = 24 * time.Hour

func (s *Store) layerPath(d v1.Hash) string { return s.path(layersFolder, imagePrefix+d.Hex) }

// lockFile opens a file or a folder and locks it.
func lockFile(path string, flags, how int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// locked calls do while no other process gives names to folders, or takes them away.
func (s *Store) locked(do func() error) error {
	lock, err := lockFile(s.path(lockName), os.O_CREATE|os.O_RDWR, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	return do()
}

// work is the folder of an image that is being written.
type work struct {
	path string
	lock *os.File
}

// newWork makes a folder in which an image is written. It is locked, so that no sweep removes it.
func (s *Store) newWork() (*work, error) {
	if err := s.makeFolders(); err != nil {
		return nil, err
	}
	w := &work{path: s.path(addingPrefix + rand.Text())}
	return w, s.locked(func() (err error) {
		if err = os.Mkdir(w.path, 0o700); err == nil {
			w.lock, err = lockFile(w.path, os.O_RDONLY, syscall.LOCK_EX)
		}
		return err
	})
}

func (w *work) end() {
	os.RemoveAll(w.path)
	w.lock.Close()
}

// hold locks the folder of an image against its removal; nil if there is no such image.
func (s *Store) hold(id string) (*os.File, error) {
	lock, err := lockFile(s.path(id), os.O_RDONLY, syscall.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return lock, err
}

// Sweep removes what interrupted commands and removed images left, and returns how many images
// without a name remain, because programs use their files.
func (s *Store) Sweep() (inUse int, err error) {
	if !exists(s.Dir) {
		return 0, nil
	}
	var gone []string
	err = s.locked(func() (err error) {
		gone, inUse, err = s.setAllAside()
		return err
	})
	for _, path := range gone {
		err = errors.Join(err, os.RemoveAll(path))
	}
	entries, _ := os.ReadDir(s.path(layersFolder)) // there may be none
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > keepLayers {
			os.Remove(s.path(layersFolder, e.Name()))
		}
	}
	return inUse, err
}

// setAllAside takes the names of folders away that nobody needs, and returns the folders.
func (s *Store) setAllAside() (gone []string, inUse int, err error) {
	named := map[string]bool{}
	names, err := s.names()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		r, err := s.record(name)
		if err != nil {
			return nil, 0, err // its image could be any
		}
		named[r.ID] = true
	}
	unfinished, _ := filepath.Glob(s.path(namesFolder, newPrefix+"*")) // files get their names under this lock
	for _, path := range unfinished {
		os.Remove(path)
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		name := e.Name()
		left := strings.HasPrefix(name, addingPrefix) || strings.HasPrefix(name, removingPrefix)
		if !left && (!isID(name) || named[name]) {
			continue
		}
		switch path, err := s.setAside(name); {
		case err != nil:
			return gone, inUse, err
		case path != "":
			gone = append(gone, path)
		case isID(name):
			inUse++
		}
	}
	return gone, inUse, nil
}

// setAside renames a folder that is to be removed, and returns its new path; "" if it is in use.
func (s *Store) setAside(name string) (path string, err error) {
	lock, err := lockFile(s.path(name), os.O_RDONLY, syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		return "", nil // another process has it
	}
	defer lock.Close() // when nobody finds the folder any more
	path = s.path(removingPrefix + rand.Text())
	return path, os.Rename(s.path(name), path)
}
