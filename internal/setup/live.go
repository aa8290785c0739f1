package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	if err := pointAt(link, name); err != nil {
		return inDirectory(in.data, err)
	}
	in.progress.Done(fmt.Sprintf("%d packages", len(packageNames(string(lock)))))
	return in.pruneLive(minor, name, before)
}

// pruneLive removes the directories of a CPython but the ones to keep.
func (in *installer) pruneLive(minor string, keep ...string) error {
	entries, err := os.ReadDir(in.path("sets"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), liveKind+"-"+minor+"-") && !slices.Contains(keep, entry.Name()) {
			if err := os.RemoveAll(in.path("sets", entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
