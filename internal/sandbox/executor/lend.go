package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// Large inputs are lent: the program sees the stored file itself, in a read-only layer,
// instead of a copy (docs/decisions/0136). The service links the file into a folder of
// its own, from which the executor takes it. This file is the service's side.

const (
	// leastLent is the minimum size of a lent input. Creating a workspace with lent
	// inputs takes as long as copying some MiB.
	leastLent = 8 << 20
	// A waiting process already has its workspace, which takes only copies. Creating
	// another one takes as long as copying so many times that size.
	commandFactor, nodeFactor = 8, 32
	// maxLent bounds the lent inputs of a program. The executor keeps each open.
	maxLent = 16
)

// lendingOf returns the folder in which inputs are lent to the executor of a wall: no two executors share one.
func lendingOf(folder, wall string) string {
	if folder == "" || wall == "" {
		return folder
	}
	return folder + "-" + wall
}

// openLending opens the lending folder, creating it if it is missing, and removes the
// files of an earlier service.
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
			_ = os.Remove(filepath.Join(path, name)) // a name that stays keeps its file's space
		}
	}
	if err != nil {
		folder.Close()
		return nil, err
	}
	return folder, nil
}

// lend lends a program's large inputs. release removes the names that the executor did
// not take. An input that cannot be lent is copied, for example if its file is on
// another file system.
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
