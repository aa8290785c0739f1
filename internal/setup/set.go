package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A set is a directory with Python packages, complete from the moment it has
// its name and never changed after. The link lib, or lib-NAME of a set other
// than current, says which one is in use.

func (in *installer) link() string { return in.path(in.kind.suffixed("lib", "")) }

func (in *installer) path(names ...string) string {
	return filepath.Join(append([]string{Dir(in.data)}, names...)...)
}

// workDirectory returns an empty directory on the file system of the sets.
// What an interrupted setup left in it goes.
func (in *installer) workDirectory() (string, error) {
	work := in.path("work")
	if err := os.RemoveAll(work); err != nil {
		return "", err
	}
	for _, dir := range []string{in.path("sets"), work, filepath.Join(work, "tmp")} {
		if err := makeDirectory(dir, 0o755); err != nil {
			return "", err
		}
	}
	return work, nil
}

func (in *installer) hasSet(name string) bool {
	info, err := os.Stat(in.path("sets", name))
	return err == nil && info.IsDir()
}

// current returns the name of the set in use, empty if there is none.
func (in *installer) current() string {
	target, err := os.Readlink(in.link())
	if err != nil || !in.hasSet(filepath.Base(target)) {
		return ""
	}
	return filepath.Base(target)
}

// use points the link at a set, in one step.
func (in *installer) use(name string) error {
	if in.current() == name {
		return nil
	}
	return pointAt(in.link(), name)
}

// pointAt makes a link point at a set.
func pointAt(link, name string) error {
	fresh := link + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Join("sets", name), fresh); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}

// prune removes directories of this set but the ones to keep. The set that was in use before is
// worth keeping: a service that is running still has it open.
func (in *installer) prune(keep ...string) error {
	entries, err := os.ReadDir(in.path("sets"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if in.kind.owns(entry.Name()) && !slices.Contains(keep, entry.Name()) {
			if err := os.RemoveAll(in.path("sets", entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// cloneSet copies a set into dir by hard links: packages are never changed in
// place, so both may share their files.
func (in *installer) cloneSet(ctx context.Context, name, dir string) error {
	out, err := command(ctx, "cp", "-al", in.path("sets", name), dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying the Python packages: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// minFreeSpace is what pip takes at most while it works: wheels and what is
// unpacked from them.
const minFreeSpace = 2 << 30

func (in *installer) checkRoom() error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(Dir(in.data), &stat); err != nil {
		return nil //nolint:nilerr // Then the disk is full when it is full.
	}
	if free := int64(stat.Bavail) * stat.Bsize; free < in.room {
		return &Error{
			Problem: fmt.Sprintf("the Python packages need %.1f GB while they are installed, and %s has %.1f GB",
				float64(in.room)/(1<<30), in.data, float64(free)/(1<<30)),
			Cure: "free some space there or choose another place with --data, then run setup again",
		}
	}
	return nil
}

// lockSetup makes sure that one setup works on a data directory at a time. A
// child that outlives a setup that was killed holds the lock with it.
func (in *installer) lockSetup() (release func(), err error) {
	in.held, err = os.OpenFile(in.path("setup.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(in.held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		in.held.Close()
		return nil, &Error{Problem: "another setup of " + in.data + " is running",
			Cure: "wait for it to end, then run setup again"}
	}
	return func() { in.held.Close() }, nil
}
