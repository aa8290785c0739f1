package workspace

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// folder is an open directory. All files of the user's folder are reached through
// one, by a single name and never through a symbolic link, so that a process that
// swaps directories and links cannot redirect a write.
type folder struct {
	f    *os.File
	path string // relative to the root, "." for it: for messages
	dev  uint64
}

// node is a directory entry.
type node struct {
	fact Fact // without the hash
	typ  fs.FileMode
	uid  int
	gid  int
}

func (n node) exists() bool  { return n.fact.Exists }
func (n node) regular() bool { return n.fact.Exists && n.typ == 0 }

// same reports whether the node has the inode of a file, whatever its content is.
func (n node) same(f Fact) bool {
	return n.fact.Exists && f.Inode != 0 && n.fact.Inode == f.Inode && n.fact.Device == f.Device
}

func (d *folder) close() error { return d.f.Close() }

// at returns the path of a name, for messages.
func (d *folder) at(name string) string {
	if d.path == "." {
		return name
	}
	return d.path + "/" + name
}

func (d *folder) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: d.at(name), Err: err}
}

var errNotRegular = errors.New("it is not a regular file")

var errNoExchange = errors.New("this file system cannot exchange two files")

func splitPath(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return ".", path
}
