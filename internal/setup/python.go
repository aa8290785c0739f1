package setup

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cpython is an interpreter that can be found in this host.
type cpython struct {
	Version string `json:"version"` // "3.11.2"
	Major   int    `json:"major"`
	Minor   int    `json:"minor"`
	Name    string `json:"name"` // "cpython"
}

const describePython = `import sys, json, platform
print(json.dumps({"version": platform.python_version(), "major": sys.version_info[0],
                  "minor": sys.version_info[1], "name": sys.implementation.name}))`

func (in *installer) inspectPython(ctx context.Context) (cpython, error) {
	var py cpython
	if _, err := os.Stat(in.python); err != nil {
		return py, &Error{Problem: "there is no " + in.python, Cure: "install Python 3.11 to 3.14 there (apt-get install python3), then run setup again"}
	}
	out, err := pythonCommand(ctx, nil, in.python, "-c", describePython).Output()
	if err == nil {
		err = json.Unmarshal(out, &py)
	}
	if err != nil {
		return py, fmt.Errorf("asking %s for its version: %w", in.python, err)
	}
	if py.Name != "cpython" || py.Major != 3 || py.Minor < oldestMinor || py.Minor > newestMinor {
		return py, &Error{
			Problem: fmt.Sprintf("%s is %s %s; the packages are locked for CPython 3.%d to 3.%d", in.python, py.Name, py.Version, oldestMinor, newestMinor),
			Cure:    "use a system with one of these, such as Debian 12 or 13 or Ubuntu 24.04; without Python packages: --languages bash",
		}
	}
	return py, nil
}

// plan is which set of packages there should be.
type plan struct {
	python cpython
	lock   []byte
	main   string // name of the set with the locked packages only
	user   []byte // the user's own requirements; nil: none
	source string // the file they came from
	set    string // name of the set with both
}

func (p plan) wanted() Installed {
	wanted := Installed{Python: p.python.Version, Lock: digest(p.lock)}
	if p.user != nil {
		wanted.Requirements = digest(p.user)
	}
	return wanted
}

// userFile is where the user's own requirements are kept.
const userFile = "requirements.txt"

func (in *installer) plan(ctx context.Context) (plan, error) {
	python, err := in.inspectPython(ctx)
	if err != nil {
		return plan{}, err
	}
	lock, err := in.lock(python.Minor)
	if err != nil {
		return plan{}, err
	}
	p := plan{python: python, lock: lock, source: in.requirements}
	p.main = fmt.Sprintf("3.%d-%.16s", python.Minor, digest(lock))
	p.set = p.main
	if p.source == "" {
		p.source = in.path(userFile)
	}
	p.user, err = os.ReadFile(p.source)
	if err != nil && (in.requirements != "" || !os.IsNotExist(err)) {
		return plan{}, &Error{Problem: "the Python requirements cannot be read", Cure: "give --python-requirements the path of a file", Err: err}
	}
	if strings.TrimSpace(uncommented(p.user)) == "" {
		p.user = nil
	} else {
		p.set += fmt.Sprintf("-%.16s", digest(p.user))
	}
	return p, nil
}

func uncommented(requirements []byte) string {
	var out strings.Builder
	for line := range strings.Lines(string(requirements)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// upToDate says whether there is nothing to do: the right set is in use, and
// when it was installed every package could be imported.
func (in *installer) upToDate(p plan) (Installed, bool) {
	have, err := Inspect(in.data)
	want := p.wanted()
	same := err == nil && have.Python == want.Python && have.Lock == want.Lock && have.Requirements == want.Requirements
	return have, same && in.current() == p.set && len(have.Failed()) == 0
}

// pythonPackages brings the set of packages in line with the lock and the
// user's own requirements.
func (in *installer) pythonPackages(ctx context.Context) error {
	in.progress.Step("Python packages")
	p, err := in.plan(ctx)
	if err != nil {
		return err
	}
	if have, ok := in.upToDate(p); ok {
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
	return in.prune(p.main, p.set, before)
}

const mainCure = "run setup again; packages are installed for x86-64 and arm64 with glibc 2.28 or newer"

// installMain makes the set of the locked packages.
func (in *installer) installMain(ctx context.Context, p plan, work string) error {
	if in.hasSet(p.main) {
		return nil
	}
	if err := in.checkRoom(); err != nil {
		return err
	}
	lock, packages := filepath.Join(work, "lock.txt"), filepath.Join(work, "packages")
	if err := os.WriteFile(lock, p.lock, 0o644); err != nil {
		return err
	}
	err := in.pip(ctx, filepath.Join(work, "tmp"), len(packageNames(string(p.lock))), mainCure,
		"--require-hashes", "--only-binary", ":all:", "--no-deps", "--target", packages, "-r", lock)
	if err != nil {
		return err
	}
	return in.keep(ctx, packages, p.main)
}

// keep compiles a directory of packages and gives it its name.
func (in *installer) keep(ctx context.Context, packages, name string) error {
	in.progress.Update(0, 0, "compiling")
	// It reports files that are not meant for this Python, which packages have
	// among their tests, as a failure. What matters is imported below.
	compile := pythonCommand(ctx, nil, in.python, "-m", "compileall", "-q", "-j", "0", packages)
	if err := compile.Run(); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return os.Rename(packages, in.path("sets", name))
}

// finish tries every package of a set, and switches to it.
func (in *installer) finish(ctx context.Context, p plan, work string) error {
	if err := in.cacheFonts(ctx, p.set, work); err != nil {
		return err
	}
	installed := p.wanted()
	var err error
	if installed.Packages, err = in.try(ctx, p); err != nil {
		return err
	}
	if err := in.use(p.set); err != nil {
		return err
	}
	if err := writeManifest(in.data, installed); err != nil {
		return err
	}
	failed := installed.Failed()
	for _, f := range failed {
		in.progress.Warn(fmt.Sprintf("%s cannot be imported; the others can: %s", f.Name, f.Error))
	}
	in.progress.Done(fmt.Sprintf("%d of %d can be imported by Python %s", len(installed.Packages)-len(failed), len(installed.Packages), installed.Python))
	return nil
}

// remember keeps the user's own requirements for the next lock.
func (in *installer) remember(p plan) error {
	if p.user != nil {
		return replaceFile(in.path(userFile), p.user)
	}
	if err := os.Remove(in.path(userFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
