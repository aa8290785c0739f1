package setup

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInstallAndInstallAgain(t *testing.T) {
	s := newShop(t)
	lock := lockOf(
		s.wheel("alpha", "1.0", "alpha", "import beta"),
		s.wheel("beta", "2.0", "beta", "x = 1"),
	)
	// What programs import must be readable by their users.
	defer syscall.Umask(syscall.Umask(0o077))
	in, j := bench(t, lock, rootsOf("alpha"))
	if err := in.pythonPackages(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, j)
	}
	got, err := Inspect(in.data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Package{{Name: "alpha", Version: "1.0", Module: "alpha", OK: true}}, got.Packages); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{"lib/alpha.py", "lib/beta.py", "lib/__pycache__", "lib/alpha_more/__pycache__"} {
		if info, err := os.Stat(in.path(path)); err != nil || info.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if _, err := os.Stat(in.path("lib/alpha_more/tests/__pycache__")); !os.IsNotExist(err) {
		t.Errorf("tests of packages are compiled: %v", err)
	}
	if _, err := os.Stat(in.path("work")); !os.IsNotExist(err) {
		t.Errorf("the work directory is still there: %v", err)
	}

	// Again, with nothing to install from: nothing is done.
	s.must(os.RemoveAll(s.dir))
	j.lines = nil
	if err := in.pythonPackages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !j.has("done up to date") || j.has("now ") {
		t.Errorf("said:\n%s", j)
	}
}

func TestOnePackageThatFailsLeavesTheOthers(t *testing.T) {
	s := newShop(t)
	lock := lockOf(
		s.wheel("alpha", "1.0", "alpha", "x = 1"),
		s.wheel("crash", "1.0", "crash", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
		s.wheel("gamma", "1.0", "other_name", "raise ImportError('libGL.so.1: cannot open shared object file')"),
	)
	in, j := bench(t, lock, rootsOf("alpha", "crash", "gamma"))
	if err := in.pythonPackages(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := Inspect(in.data)
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{
		{Name: "alpha", Version: "1.0", Module: "alpha", OK: true},
		{Name: "crash", Version: "1.0", Module: "crash", Error: "signal: killed"},
		{Name: "gamma", Version: "1.0", Module: "other_name",
			Error: "ImportError: libGL.so.1: cannot open shared object file"},
	}
	if diff := cmp.Diff(want, got.Packages); diff != "" {
		t.Error(diff)
	}
	if !j.has("warn gamma cannot be imported") || !j.has("done 1 of 3") {
		t.Errorf("said:\n%s", j)
	}

	// What failed may have been fixed: it is tried again, and not installed again.
	s.must(os.WriteFile(in.path("lib", "other_name.py"), []byte(
		"mended = True # and longer than before, so that it is compiled anew"), 0o644))
	s.must(os.WriteFile(in.path("lib", "crash.py"), nil, 0o644))
	s.must(os.RemoveAll(s.dir))
	if err := in.pythonPackages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, _ = Inspect(in.data); len(got.Failed()) != 0 {
		t.Errorf("after mending: %v", got.Failed())
	}
}

func TestFailureKeepsTheOldSet(t *testing.T) {
	s := newShop(t)
	first := s.wheel("alpha", "1.0", "alpha", "version = 1")
	second := s.wheel("alpha", "2.0", "alpha", "version = 2")
	in, _ := bench(t, lockOf(first), rootsOf("alpha"))
	if err := in.pythonPackages(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := in.current()

	in.lock = lockOf(strings.Replace(second, "sha256:", "sha256:00", 1)[:len(second)-1], "\n")
	if err := in.pythonPackages(t.Context()); err == nil {
		t.Fatal("a wrong hash was accepted")
	}
	in.lock = lockOf(strings.ReplaceAll(second, hashOf(second), strings.Repeat("0", 64)))
	err := in.pythonPackages(t.Context())
	if mendable, ok := errors.AsType[*Error](err); !ok || !strings.Contains(
		mendable.Problem, "other bytes than the ones that were locked") {
		t.Errorf("other bytes: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	in.lock = lockOf(second)
	if err := in.pythonPackages(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if in.current() != before {
		t.Errorf("in use: %q, want %q", in.current(), before)
	}

	// What an interrupted setup leaves does not disturb the next.
	s.must(os.MkdirAll(in.path("work", "packages"), 0o700))
	s.must(os.WriteFile(in.path("work", "packages", "half.py"), nil, 0o600))
	s.must(os.Symlink("nowhere", in.path("lib.new")))
	if err := in.pythonPackages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if source, _ := os.ReadFile(in.path("lib", "alpha.py")); string(source) != "version = 2" {
		t.Errorf("lib has %q", source)
	}
	if _, err := os.Stat(in.path("lib", "half.py")); err == nil {
		t.Error("half of an interrupted setup is in use")
	}
	if !in.hasSet(before) {
		t.Error("the set that a running service has open is gone")
	}
}

func hashOf(line string) string { return strings.TrimSpace(line[strings.Index(line, "sha256:")+7:]) }

func TestUserRequirements(t *testing.T) {
	s := newShop(t)
	lock := lockOf(s.wheel("alpha", "1.0", "alpha", "version = 1"))
	s.wheel("alpha", "2.0", "alpha", "version = 2")
	s.wheel("mine", "0.1", "mine", "import needed, alpha", "needed", "alpha")
	s.wheel("needed", "0.1", "needed", "")
	s.wheel("picky", "0.1", "picky", "", "alpha>=2")
	in, j := bench(t, lock, rootsOf("alpha"))

	asks := func(text string) error {
		in.requirements = filepath.Join(s.dir, "requirements.txt")
		s.must(os.WriteFile(in.requirements, []byte(text), 0o600))
		return in.pythonPackages(t.Context())
	}
	modules := func() string {
		t.Helper()
		installed, err := Inspect(in.data)
		s.must(err)
		var names []string
		for _, p := range installed.Packages {
			if !p.OK {
				t.Errorf("%s: %s", p.Name, p.Error)
			}
			names = append(names, p.Name+" "+p.Version)
		}
		return strings.Join(names, ", ")
	}

	err := asks("absent\n")
	if err == nil || !strings.Contains(err.Error(), "the main packages work") ||
		!strings.Contains(err.Error(), "has no absent") {
		t.Errorf("a package that does not exist: %v", err)
	}
	if got := modules(); got != "alpha 1.0" {
		t.Errorf("after it there is %s", got)
	}
	if err := asks("# mine\nmine\n"); err != nil {
		t.Fatalf("%v\n%s", err, j)
	}
	if got := modules(); got != "alpha 1.0, mine 0.1" {
		t.Errorf("with the user's there is %s", got)
	}
	if err := asks("picky\n"); err == nil || !strings.Contains(err.Error(), "were there before still work") {
		t.Errorf("a package that wants another main package: %v", err)
	}
	in.requirements = "" // The ones that worked are remembered.
	j.lines = nil
	if err := in.pythonPackages(t.Context()); err != nil || !j.has("up to date, 2") {
		t.Errorf("without the option: %v\n%s", err, j)
	}
	if err := asks("# none any more\n"); err != nil {
		t.Fatal(err)
	}
	if got := modules(); got != "alpha 1.0" {
		t.Errorf("after dropping them there is %s", got)
	}
	in.requirements = filepath.Join(s.dir, "not-there.txt")
	if err := in.pythonPackages(t.Context()); err == nil || !strings.Contains(err.Error(), "--python-requirements") {
		t.Errorf("no such file: %v", err)
	}
}

func TestOneSetupAtATime(t *testing.T) {
	in, _ := bench(t, lockOf(""), "")
	release, err := in.lockSetup()
	if err != nil {
		t.Fatal(err)
	}
	other := *in
	if _, err := other.lockSetup(); err == nil || !strings.Contains(err.Error(), "another setup") {
		t.Errorf("the second: %v", err)
	}
	release()
	release, err = other.lockSetup()
	if err != nil {
		t.Fatalf("after the first: %v", err)
	}
	release()
}

func TestPythonThatDoesNotFit(t *testing.T) {
	for _, test := range []struct {
		name, python string
		want         string
	}{
		{"too old", `{"version":"3.10.12","major":3,"minor":10,"name":"cpython"}`, "3.11, 3.12, 3.13, 3.14"},
		{"too new", `{"version":"3.15.0","major":3,"minor":15,"name":"cpython"}`, "3.11, 3.12, 3.13, 3.14"},
		{"another", `{"version":"3.11.9","major":3,"minor":11,"name":"pypy"}`, "is pypy 3.11.9"},
		{"broken", `Segmentation fault`, "asking"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in, _ := bench(t, lockOf(""), "")
			in.table = script(t, "python3", "echo '"+test.python+"'\n")
			if err := in.pythonPackages(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
	in, _ := bench(t, lockOf(""), "")
	in.table = filepath.Join(t.TempDir(), "python3")
	if err := in.pythonPackages(t.Context()); err == nil || !strings.Contains(err.Error(), "apt-get install python3") {
		t.Errorf("no Python: %v", err)
	}
}

func TestNoRoom(t *testing.T) {
	in, _ := bench(t, lockOf("alpha==1\n"), "")
	in.room = 1 << 60
	in.table = script(t, "python3", `echo '{"version":"3.11.2","major":3,"minor":11,"name":"cpython"}'`)
	if err := in.pythonPackages(t.Context()); err == nil || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("got %v", err)
	}
}

func TestInspect(t *testing.T) {
	data := t.TempDir()
	if installed, err := Inspect(data); err != nil || installed.Python != "" {
		t.Errorf("an empty directory: %v, %v", installed, err)
	}
	if err := os.MkdirAll(Dir(data), 0o755); err != nil {
		t.Fatal(err)
	}
	in := newInstaller(Options{Data: data})
	want := Installed{Set: "current", Python: "3.11.2", Lock: "l",
		Packages: []Package{{Name: "a", OK: true}, {Name: "b", Error: "no"}}}
	if err := in.writeManifest(want); err != nil {
		t.Fatal(err)
	}
	got, err := Inspect(data)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if failed := got.Failed(); len(failed) != 1 || failed[0].Name != "b" {
		t.Errorf("failed: %v", failed)
	}
	if err := os.WriteFile(filepath.Join(Dir(data), "manifest.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Inspect(data)
	if _, ok := errors.AsType[*json.SyntaxError](err); !ok || !strings.Contains(err.Error(), "run setup again") {
		t.Errorf("a damaged list: %v", err)
	}
}
