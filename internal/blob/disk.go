package blob

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is the part of the file system that a Put depends on. Tests put
// another in its place, whose n-th call fails.
type disk interface {
	create(name string) (file, error)
	openDir(name string) (dir, error)
	mkdir(name string) error
	rename(from, to string) error
	remove(name string) error
}

// dir is an open directory.
type dir interface {
	Sync() error
	Close() error
}

// file is an open temporary file.
type file interface {
	io.Writer
	dir
}

// rootDisk is the real disk. os.Root keeps every name below the store's
// directory, whatever links another process put there.
type rootDisk struct{ root *os.Root }

func (d rootDisk) create(name string) (file, error) {
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (d rootDisk) openDir(name string) (dir, error) { return d.root.Open(name) }
func (d rootDisk) mkdir(name string) error          { return d.root.Mkdir(name, 0o700) }
func (d rootDisk) rename(from, to string) error     { return d.root.Rename(from, to) }
func (d rootDisk) remove(name string) error         { return d.root.Remove(name) }

// makeDir makes a directory and those above it that are missing, each durable
// in its parent.
func makeDir(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "open store", Path: path, Err: fs.ErrExist}
	}
	if err == nil || !os.IsNotExist(err) {
		return err
	}
	parent := filepath.Dir(path)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
