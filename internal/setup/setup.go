// Package setup prepares a host to run programs: it installs Debian packages for the
// languages, a system user for the service, and the Python packages that every sandbox
// can import.
//
// Setup is idempotent: it keeps what is installed, and finishes what was interrupted. It
// installs Python packages in a new directory and puts them into use by replacing one
// symbolic link, so that there is always a working set:
//
//	runtimes/python/lib            -> sets/3.11-4f0c…
//	runtimes/python/lib-onyx       -> sets/onyx-3.11-77a1…
//	runtimes/python/live-3.11      -> sets/live-3.11-0fd0…
//	runtimes/python/sets/3.11-4f0c…   numpy/ pandas/ …
//	runtimes/python/matplotlib/       the font cache
//	runtimes/python/manifest.json     what is installed, and what imports
//	runtimes/node/lib              -> sets/5b21…
//
// Everything under runtimes is read-only in the sandbox. If root runs setup, it belongs to
// root, so that the service cannot change what programs import.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/airlock-run/airlock/internal/language"
)

// Options say what to set up.
type Options struct {
	Data      string   // the data directory
	Languages []string // names or aliases, or "all"; none: the table's defaults

	// Packages are the names of sets of Python packages; none: the installed ones, else
	// current. Other sets are not changed.
	Packages []string

	Live   []string // versions of Python of images in which live sessions start too
	Extras []string // names of programs beside the languages, such as office

	// Requirements is the path of a pip requirements file with the user's packages, which
	// are added to each set in Packages, or to the first of the installed ones. If it is
	// empty, the file of an earlier setup counts; an empty file drops that one.
	Requirements string

	Progress Progress
}

// Run installs what is missing. An *Error describes a failure that the user can fix.
// Running again continues.
func Run(ctx context.Context, opts Options) error {
	data, err := filepath.Abs(opts.Data)
	if err != nil {
		return err
	}
	opts.Data = data
	return newInstaller(opts).run(ctx, opts)
}

// installer is one setup of one data directory.
type installer struct {
	data         string
	kind         kind // the set that is being installed
	requirements string
	extras       []string // Debian packages
	progress     Progress
	held         *os.File // the lock of this setup
	foreign      string   // version of the Python that packages are for, if it is not on this machine

	// Tests replace these.
	uid    int
	table  string                  // interpreter of the language table
	python string                  // interpreter of the set
	roots  func(set string) string // names of a set's main packages, one a line: locks/SET.in
	lock   lockFile                // lock for a CPython version
	room   int64                   // bytes that must be free
}

func newInstaller(opts Options) *installer {
	return &installer{
		data:         opts.Data,
		requirements: opts.Requirements,
		progress:     opts.Progress,
		uid:          os.Geteuid(),
		kind:         kinds[0],
		table:        interpreter(),
		python:       interpreter(),
		roots:        embeddedRoots,
		lock:         embeddedLock,
		room:         minFreeSpace,
	}
}

// interpreter returns the Python of the language table.
func interpreter() string {
	if python, ok := language.Find("python"); ok {
		return python.Run[0]
	}
	return "/usr/bin/python3"
}

func (in *installer) run(ctx context.Context, opts Options) error {
	languages, err := choose(opts.Languages)
	if err != nil {
		return err
	}
	chosen, err := chooseKinds(in.data, opts.Packages)
	if err != nil {
		return err
	}
	if in.extras, err = extraPackages(opts.Extras); err != nil {
		return err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(languages, func(l language.Language) bool { return l.Name == name })
	}
	if (in.requirements != "" || len(opts.Packages) > 0) && !has("python") {
		return &Error{Problem: "there are Python packages to install, but Python is not among the languages",
			Cure: "add python to --languages"}
	}
	if !has("python") {
		chosen = nil
	}
	if err := in.pythonFits(ctx, chosen); err != nil {
		return err
	}
	if err := in.debianPackages(ctx, languages, chosen); err != nil {
		return err
	}
	if len(chosen) > 0 {
		in.compileLocale(ctx)
	}
	if err := in.dataDirectory(ctx); err != nil {
		return err
	}
	for i, k := range chosen {
		in.kind, in.requirements = k, opts.Requirements
		if len(opts.Packages) == 0 && i > 0 {
			in.requirements = "" // only the first set gets the requirements
		}
		if err := in.pythonPackages(ctx); err != nil {
			return err
		}
		if err := in.liveOfSet(ctx); err != nil {
			return err
		}
		if k.node && has("js") {
			if err := in.nodePackages(ctx); err != nil {
				return err
			}
		}
	}
	for _, version := range opts.Live {
		if err := in.liveOfVersion(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the languages of those names, each once.
func choose(names []string) ([]language.Language, error) {
	if slices.Contains(names, "all") {
		return language.All(), nil
	}
	var chosen []language.Language
	if len(names) == 0 {
		return slices.DeleteFunc(language.All(), func(l language.Language) bool { return !l.Default }), nil
	}
	for _, name := range names {
		l, ok := language.Find(strings.TrimSpace(name))
		if !ok {
			return nil, &Error{Problem: "there is no language " + name,
				Cure: "choose from " + strings.Join(known(), ", ") + " or all"}
		}
		if !slices.ContainsFunc(chosen, func(c language.Language) bool { return c.Name == l.Name }) {
			chosen = append(chosen, l)
		}
	}
	return chosen, nil
}

func known() []string {
	var names []string
	for _, l := range language.All() {
		names = append(names, l.Name)
	}
	return names
}

// Dir returns the directory of the Python runtime in a data directory.
func Dir(data string) string { return filepath.Join(data, "runtimes", "python") }

// Error is a failure that the user can fix.
type Error struct {
	Problem string // what is wrong
	Cure    string // what to do about it
	Err     error  // the cause, if there is one to tell
}

func (e *Error) Error() string {
	s := e.Problem
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "\n" + e.Cure
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// inDirectory explains an error of writing below dir.
func inDirectory(dir string, err error) error {
	_, known := errors.AsType[*Error](err)
	switch {
	case known, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskFull(dir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &Error{
			Problem: "no permission to write in " + dir,
			Cure:    "run setup as the directory's owner, or choose another one with --data",
			Err:     err,
		}
	}
	return fmt.Errorf("setting up %s: %w", dir, err)
}

func diskFull(dir string) error {
	return &Error{
		Problem: "the disk that holds " + dir + " is full",
		Cure:    "free about 2 GB there or choose another place with --data, then run setup again: it continues",
	}
}
