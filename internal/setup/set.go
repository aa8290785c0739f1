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
	return work, makeDirectories(in.path("sets"), work, filepath.Join(work, "tmp"))
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
	return pointAt(in.link(), filepath.Join("sets", name))
}

// pointAt makes a link point at a target, in one step.
func pointAt(link, target string) error {
	fresh := link + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}

// prune removes the directories of sets in dir that are owned, but those to keep.
// The set that was in use before is worth keeping: a running service still has it open.
func prune(dir string, owned func(name string) bool, keep ...string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if owned(entry.Name()) && !slices.Contains(keep, entry.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
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

// Live interpreters are IPython's. It lies in a directory of its own for each
// CPython that a set of packages is for, and not in the sets: what programs find
// there stays as it is locked.
//
//	runtimes/python/live-3.11 -> sets/live-3.11-0fd0…

const liveKind = "live"

// livePackages installs what live interpreters need for the interpreter of the set.
func (in *installer) livePackages(ctx context.Context) error {
	python, err := in.inspectPython(ctx)
	if err != nil {
		return err
	}
	lock, err := in.lock(liveKind, python.Minor)
	if errors.Is(err, os.ErrNotExist) {
		return nil // this CPython has none: its programs run all the same
	}
	if err != nil {
		return err
	}
	minor := fmt.Sprintf("3.%d", python.Minor)
	name := fmt.Sprintf("%s-%s-%.16s", liveKind, minor, digest(lock))
	link := in.path(liveKind + "-" + minor)
	before, _ := os.Readlink(link) // there may be none
	if before = filepath.Base(before); before == name && in.hasSet(name) {
		return nil
	}
	in.progress.Step("live interpreters for Python " + minor)
	release, err := in.lockSetup()
	if err != nil {
		return inDirectory(in.data, err)
	}
	defer release()
	work, err := in.workDirectory()
	if err != nil {
		return inDirectory(in.data, err)
	}
	defer os.RemoveAll(work)
	set := in.kind
	defer func() { in.kind = set }()
	in.kind = kind{name: liveKind}
	if err := in.installMain(ctx, plan{python: python, lock: lock, main: name}, work); err != nil {
		return inDirectory(in.data, err)
	}
	if err := pointAt(link, filepath.Join("sets", name)); err != nil {
		return inDirectory(in.data, err)
	}
	in.progress.Done(fmt.Sprintf("%d packages", len(packageNames(string(lock)))))
	live := func(name string) bool { return strings.HasPrefix(name, liveKind+"-"+minor+"-") }
	return prune(in.path("sets"), live, name, before)
}
