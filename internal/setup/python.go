package setup

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// cpython describes an interpreter of the host.
type cpython struct {
	Version string `json:"version"` // "3.11.2"
	Major   int    `json:"major"`
	Minor   int    `json:"minor"`
	Name    string `json:"name"` // "cpython"
}

const describePython = `import sys, json, platform
print(json.dumps({"version": platform.python_version(), "major": sys.version_info[0],
                  "minor": sys.version_info[1], "name": sys.implementation.name}))`

// inspectPython chooses the interpreter of the set: that of the language table, else
// another one of the distribution for which there is a lock.
func (in *installer) inspectPython(ctx context.Context) (cpython, error) {
	if _, err := os.Stat(in.table); err != nil {
		return cpython{}, &Error{Problem: "there is no " + in.table,
			Cure: "install Python 3.11 to 3.14 there (apt-get install python3), then run setup again"}
	}
	first, err := in.describe(ctx, in.table)
	if err != nil || in.fits(first) {
		in.python = in.table
		return first, err
	}
	for _, minor := range in.kind.minors {
		path := fmt.Sprintf("%s.%d", in.table, minor)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if py, err := in.describe(ctx, path); err == nil && in.fits(py) {
			in.python = path
			return py, nil
		}
	}
	var locked []string
	for _, minor := range slices.Sorted(slices.Values(in.kind.minors)) {
		locked = append(locked, fmt.Sprintf("3.%d", minor))
	}
	return first, &Error{
		Problem: fmt.Sprintf("%s is %s %s; the set %s is locked for CPython %s", in.table, first.Name, first.Version,
			in.kind.name, strings.Join(locked, ", ")),
		Cure: fmt.Sprintf("install one of these as %s.%d; or use a system that has one, such as Debian 12 or Ubuntu 24.04; "+
			"or take another set with --packages; without Python packages: --languages bash",
			in.table, in.kind.minors[0]),
	}
}

// pythonFits fails if Python is there and cannot have the sets: Debian packages, which take a
// minute, would be installed in vain.
func (in *installer) pythonFits(ctx context.Context, sets []kind) error {
	if _, err := os.Stat(in.table); errors.Is(err, fs.ErrNotExist) {
		return nil // a package brings it
	}
	for _, k := range sets {
		in.kind = k
		if _, err := in.inspectPython(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (in *installer) fits(py cpython) bool {
	return py.Name == "cpython" && py.Major == 3 && slices.Contains(in.kind.minors, py.Minor)
}

func (in *installer) describe(ctx context.Context, path string) (py cpython, err error) {
	out, err := pythonCommand(ctx, nil, path, "-c", describePython).Output()
	if err == nil {
		err = json.Unmarshal(out, &py)
	}
	if err != nil {
		return py, fmt.Errorf("asking %s for its version: %w", path, err)
	}
	return py, nil
}

// plan is the wanted state of a set.
type plan struct {
	python cpython
	lock   []byte
	main   string // directory with the locked packages only; empty: none
	user   []byte // the user's own requirements; nil: none
	source string // file of the user's requirements
	set    string // directory with both
}

func (p plan) wanted() Installed {
	wanted := Installed{Python: p.python.Version, Lock: digest(p.lock)}
	if p.user != nil {
		wanted.Requirements = digest(p.user)
	}
	return wanted
}

// userFile returns the stored copy of the user's requirements.
func (in *installer) userFile() string { return in.path(in.kind.suffixed("requirements", ".txt")) }

func (in *installer) plan(ctx context.Context) (plan, error) {
	python, err := in.inspectPython(ctx)
	if err != nil {
		return plan{}, err
	}
	p := plan{python: python, source: in.requirements}
	if !in.own() {
		if p.lock, err = in.lock(in.kind.name, python.Minor); err != nil {
			return plan{}, err
		}
		p.main = in.kind.directory(python.Minor, digest(p.lock))
		p.set = p.main
	}
	if p.source == "" {
		p.source = in.userFile()
	}
	p.user, err = os.ReadFile(p.source)
	if err != nil && (in.requirements != "" || !os.IsNotExist(err)) {
		return plan{}, &Error{Problem: "the Python requirements cannot be read",
			Cure: "give --python-requirements the path of a file", Err: err}
	}
	if strings.TrimSpace(uncommented(p.user)) == "" {
		p.user = nil
	}
	switch {
	case in.own() && p.user == nil:
		return plan{}, &Error{Problem: "the set own has no packages",
			Cure: "name a file with them: --packages own --python-requirements FILE"}
	case in.own():
		p.set = in.kind.directory(python.Minor, digest(p.user))
	case p.user != nil:
		p.set = in.kind.directory(python.Minor, digest(p.lock), digest(p.user))
	}
	return p, nil
}

// own reports whether the set has the user's own packages only.
func (in *installer) own() bool { return in.kind.name == language.OwnPackages }

func uncommented(requirements []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(requirements)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// upToDate reports whether the wanted set is in use and all its packages can be imported.
func (in *installer) upToDate(p plan) (Installed, bool) {
	have, err := inspect(in.data, in.kind)
	want := p.wanted()
	same := err == nil && have.Python == want.Python && have.Lock == want.Lock && have.Requirements == want.Requirements
	return have, same && in.current() == p.set && len(have.Failed()) == 0
}

// pythonPackages installs the set as the lock and the user's requirements say.
func (in *installer) pythonPackages(ctx context.Context) error {
	title := "Python packages"
	if in.kind.name != language.CurrentPackages {
		title += ", set " + in.kind.name
	}
	in.progress.Step(title)
	p, err := in.plan(ctx)
	if err != nil {
		return err
	}
	have, same := in.upToDate(p)
	if same && in.fontsFit(p.set) {
		in.progress.Done(fmt.Sprintf("up to date, %d for Python %s", len(have.Packages), have.Python))
		return nil
	}
	release, err := in.lockSetup()
	if err != nil {
		return inDirectory(in.data, err)
	}
	defer release()
	before := in.current()
	work, err := in.workDirectory()
	if err != nil {
		return inDirectory(in.data, err)
	}
	defer os.RemoveAll(work)

	if same {
		if err := in.fonts(ctx, p.set, work); err != nil {
			return inDirectory(in.data, err)
		}
		in.progress.Done(fmt.Sprintf("up to date, %d for Python %s; the list of fonts is new", len(have.Packages),
			have.Python))
		return nil
	}
	if err := in.installMain(ctx, p, work); err != nil {
		return inDirectory(in.data, err)
	}
	if err := in.installUser(ctx, p, work); err != nil {
		return in.withoutUser(ctx, p, work, err)
	}
	if err := in.finish(ctx, p, work); err != nil {
		return inDirectory(in.data, err)
	}
	if err := in.remember(p); err != nil {
		return inDirectory(in.data, err)
	}
	return prune(in.path("sets"), in.kind.owns, p.main, p.set, before)
}

const mainCure = "run setup again; packages are installed for x86-64 and arm64 with glibc 2.28 or newer"

// platforms are those whose packages run wherever a CPython 3.11 or later does, by architecture.
var platforms = map[string][]string{
	"amd64": {"manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64"},
	"arm64": {"manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64"},
}

// installMain makes the set of the locked packages.
func (in *installer) installMain(ctx context.Context, p plan, work string) error {
	if p.main == "" || in.hasSet(p.main) {
		return nil
	}
	if err := in.checkRoom(); err != nil {
		return err
	}
	lock, packages := filepath.Join(work, "lock.txt"), filepath.Join(work, "packages")
	if err := os.WriteFile(lock, p.lock, 0o644); err != nil {
		return err
	}
	args := []string{"--require-hashes", "--only-binary", ":all:", "--no-deps", "--target", packages, "-r", lock}
	if len(in.kind.source) > 0 {
		args = append(args, "--no-binary", strings.Join(in.kind.source, ","), "--no-build-isolation")
	}
	if in.foreign != "" {
		args = append(args, "--implementation", "cp", "--python-version", in.foreign)
		for _, platform := range platforms[runtime.GOARCH] {
			args = append(args, "--platform", platform)
		}
	}
	err := in.pip(ctx, filepath.Join(work, "tmp"), len(packageNames(string(p.lock))), mainCure, args...)
	if err != nil {
		return err
	}
	return in.keep(ctx, packages, p.main)
}

// keep compiles a directory of packages and renames it into place.
func (in *installer) keep(ctx context.Context, packages, name string) error {
	if in.foreign != "" { // nothing here could compile it
		return os.Rename(packages, in.path("sets", name))
	}
	in.progress.Update(0, 0, "compiling")
	// A third of the files are the packages' own tests, which nobody imports. It fails for files for other versions of
	// Python. Importing the packages is the check that counts.
	compile := pythonCommand(ctx, nil, in.python, "-m", "compileall", "-q", "-j", "0",
		"-x", "^"+regexp.QuoteMeta(packages)+"/.*/tests?/", packages)
	if err := compile.Run(); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return os.Rename(packages, in.path("sets", name))
}

// finish imports every package of a set, and puts the set into use.
func (in *installer) finish(ctx context.Context, p plan, work string) error {
	if err := in.fonts(ctx, p.set, work); err != nil {
		return err
	}
	installed := p.wanted()
	installed.Set = in.kind.name
	var err error
	if installed.Packages, err = in.try(ctx, p); err != nil {
		return err
	}
	if err := in.use(p.set); err != nil {
		return err
	}
	if err := in.writeManifest(installed); err != nil {
		return err
	}
	failed := installed.Failed()
	for _, f := range failed {
		in.progress.Warn(fmt.Sprintf("%s cannot be imported; the others can: %s", f.Name, f.Error))
	}
	in.progress.Done(fmt.Sprintf("%d of %d can be imported by Python %s", len(installed.Packages)-len(failed),
		len(installed.Packages), installed.Python))
	return nil
}

// remember stores the user's requirements for the next setup.
func (in *installer) remember(p plan) error {
	if p.user != nil {
		return replaceFile(in.userFile(), p.user)
	}
	if err := os.Remove(in.userFile()); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

//go:embed merge.py
var mergeScript string

const ownCure = "correct the file, then run setup again with --python-requirements"

// userCure returns the remedy for requirements that conflict with a set.
func userCure(file string) string {
	return "correct the file and run setup again; or install a set of its own, with the packages of that file and what " +
		"they need: airlock setup --packages own --python-requirements " + file
}

// installUser makes the set with the user's packages besides the main ones. The lock
// constrains pip, so that the versions of the main packages never change.
func (in *installer) installUser(ctx context.Context, p plan, work string) error {
	if p.user == nil || in.hasSet(p.set) {
		return nil
	}
	in.progress.Update(0, 0, "packages of "+p.source)
	if p.main == "" {
		return in.installOwn(ctx, p, work)
	}
	constraints, extra, packages := filepath.Join(work, "constraints.txt"), filepath.Join(work, "extra"),
		filepath.Join(work, "packages")
	if err := os.WriteFile(constraints, pins(p.lock), 0o644); err != nil {
		return err
	}
	err := in.pip(ctx, filepath.Join(work, "tmp"), 0, userCure(p.source), "--prefer-binary", "--target", extra, "-r",
		p.source, "-c", constraints)
	if err != nil {
		return err
	}
	if err := in.cloneSet(ctx, p.main, packages); err != nil {
		return err
	}
	out, err := pythonCommand(ctx, nil, in.python, "-I", "-c", mergeScript, extra, packages).CombinedOutput()
	if err != nil {
		return fmt.Errorf("adding the packages of %s: %w: %s", p.source, err, strings.TrimSpace(string(out)))
	}
	return in.keep(ctx, packages, p.set)
}

// installOwn makes the set that has the user's own packages only.
func (in *installer) installOwn(ctx context.Context, p plan, work string) error {
	packages := filepath.Join(work, "packages")
	err := in.pip(ctx, filepath.Join(work, "tmp"), 0, ownCure, "--prefer-binary", "--target", packages, "-r", p.source)
	if err != nil {
		return err
	}
	return in.keep(ctx, packages, p.set)
}

// withoutUser leaves a working set behind if the user's packages cannot be installed, and
// returns an error with the reason why.
func (in *installer) withoutUser(ctx context.Context, p plan, work string, why error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	left := "the packages that were there before still work"
	switch {
	case p.main == "" && in.current() == "":
		left = "the set " + in.kind.name + " is not there"
	case !strings.HasPrefix(in.current(), p.main):
		left = "the main packages work"
		main := p
		main.user, main.set = nil, p.main
		if err := in.finish(ctx, main, work); err != nil {
			return errors.Join(why, err)
		}
	}
	if known, ok := errors.AsType[*Error](why); ok {
		return &Error{Problem: fmt.Sprintf("the packages of %s could not be installed, %s: %s", p.source, left,
			known.Problem), Cure: known.Cure, Err: known.Err}
	}
	return fmt.Errorf("the packages of %s could not be installed, %s: %w", p.source, left, why)
}
