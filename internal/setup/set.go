package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A set is a directory with Python packages, which is complete once it has its name and
// never changes. The link lib, or lib-NAME for a set other than current, leads to the
// directory in use.

func (in *installer) link() string { return in.path(in.kind.suffixed("lib", "")) }

func (in *installer) path(names ...string) string {
	return filepath.Join(append([]string{Dir(in.data)}, names...)...)
}

// workDirectory returns an empty directory on the file system of the sets. It removes
// what an interrupted setup left there.
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

// cloneSet copies a set into dir by hard links: files of packages never change, so that
// sets can share them.
func (in *installer) cloneSet(ctx context.Context, name, dir string) error {
	out, err := command(ctx, "cp", "-al", in.path("sets", name), dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying the Python packages: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// minFreeSpace is the space that pip needs at most, for wheels and their content.
const minFreeSpace = 2 << 30

func (in *installer) checkRoom() error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(Dir(in.data), &stat); err != nil {
		return nil //nolint:nilerr // a full disk is reported later
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

// lockSetup locks the data directory for one setup. A child that outlives a killed setup
// still holds the lock.
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

// Live interpreters need IPython. It has its own directory for each CPython of a set,
// since the sets contain only what their locks list.
//
//	runtimes/python/live-3.11 -> sets/live-3.11-0fd0…

const liveKind = "live"

// ErrNoLive is Live's error for a CPython whose packages are not locked.
var ErrNoLive = errors.New("there are no live interpreters for this version of Python")

// Live installs what live interpreters of an image need whose Python is CPython 3.minor. The
// machine needs no such Python.
func Live(ctx context.Context, data string, minor int, progress Progress) error {
	data, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	in := newInstaller(Options{Data: data, Progress: progress})
	if err := os.MkdirAll(in.path("sets"), 0o755); err != nil {
		return inDirectory(data, err)
	}
	return in.livePackages(ctx, minor)
}

// liveOfSet installs IPython for the interpreter of the set, if it is locked for that.
func (in *installer) liveOfSet(ctx context.Context) error {
	python, err := in.inspectPython(ctx)
	if err != nil {
		return err
	}
	if err := in.livePackages(ctx, python.Minor); !errors.Is(err, ErrNoLive) {
		return err
	}
	return nil
}

// liveOfVersion installs IPython for a version of CPython that an image has, such as 3.13.
func (in *installer) liveOfVersion(ctx context.Context, version string) error {
	minor, ok := strings.CutPrefix(version, "3.")
	number, err := strconv.Atoi(minor)
	if err == nil && ok {
		err = in.livePackages(ctx, number)
	}
	if !ok || errors.Is(err, ErrNoLive) || errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
		return &Error{Problem: "there are no live sessions for Python " + version,
			Cure: "--live takes versions from 3.11 to 3.14, separated by commas"}
	}
	return err
}

// livePackages installs IPython for CPython 3.minor.
func (in *installer) livePackages(ctx context.Context, number int) error {
	python, err := in.describe(ctx, in.python)
	if err != nil {
		return err
	}
	lock, err := in.lock(liveKind, number)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNoLive
	}
	if err != nil {
		return err
	}
	minor := fmt.Sprintf("3.%d", number)
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
	if number != python.Minor {
		in.foreign = minor
		defer func() { in.foreign = "" }()
	}
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
