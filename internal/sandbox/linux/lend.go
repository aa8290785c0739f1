package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// Large inputs are lent: the program finds the stored file itself, read-only and below
// what it writes, in place of a copy (docs/decisions/0136). The service gives the file
// another name in a folder of its own, and the executor takes it from there; this is the
// service's side.

const (
	// leastLent is the size from which an input is lent. A workspace with lent inputs
	// takes as long to make as some MiB take to copy.
	leastLent = 8 << 20
	// A process that waits has its workspace already, and only a copy gets there. Making
	// another in its place takes as long as to copy so many times that size.
	commandFactor, nodeFactor = 8, 32
	// maxLent is how many inputs of a program are lent. The executor keeps each open.
	maxLent = 16
)

// openLending opens the folder for what is lent, making it where it is missing, and
// removes what an earlier service has left in it.
func openLending(path string) (*os.File, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	folder, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	names, err := folder.Readdirnames(-1)
	for _, name := range names {
		if name != takenFolder {
			_ = os.Remove(filepath.Join(path, name)) // what stays takes the room of its file
		}
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

// lend lends a program's large inputs. What it returns removes the names that the executor
// did not take. An input that cannot be lent, as when its file is on another file system, is
// copied.
func (s *Sandbox) lend(p *program) (release func()) {
	r := &p.request
	if s.lending == nil || r.Held != "" {
		return func() {}
	}
	least := s.leastLent
	switch {
	case r.Node != nil:
		least *= nodeFactor
	case !r.isScript():
		least *= commandFactor
	}
	var names []string
	folder := int(s.lending.Fd())
	for i := range p.list {
		if p.list[i].Size < least || len(names) == maxLent {
			continue
		}
		name := engine.NewID().String()
		open := fmt.Sprintf("/proc/self/fd/%d", p.files[i].Fd())
		if unix.Linkat(unix.AT_FDCWD, open, folder, name, unix.AT_SYMLINK_FOLLOW) == nil {
			names = append(names, name)
			p.list[i].Lent = name
		}
	}
	r.Lends = len(names)
	return func() {
		for _, name := range names {
			_ = unix.Unlinkat(folder, name, 0)
		}
	}
}
