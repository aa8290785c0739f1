package setup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Sets stand side by side: installing one, or a newer lock of one, leaves the
// others alone.
func TestSetsSideBySide(t *testing.T) {
	s := newShop(t)
	old, newer := s.wheel("alpha", "1.0", "alpha", "version = 1"), s.wheel("alpha", "2.0", "alpha", "version = 2")
	in, j := bench(t, nil, rootsOf("alpha"))
	lock := map[string]string{"current": newer, "onyx": old}
	in.lock = func(set string, _ int) ([]byte, error) { return []byte(lock[set]), nil }
	install := func(name string) {
		t.Helper()
		k, ok := findKind(name)
		if !ok {
			t.Fatal(name)
		}
		k.source, in.kind = nil, k
		if err := in.pythonPackages(t.Context()); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, j)
		}
	}
	versions := func() string {
		t.Helper()
		sets, err := InspectSets(in.data)
		s.must(err)
		var all []string
		for _, set := range sets {
			all = append(all, set.Set+" "+set.Packages[0].Version)
		}
		return strings.Join(all, ", ")
	}
	install("onyx")
	if got := versions(); got != "onyx 1.0" {
		t.Errorf("with one set there is %s", got)
	}
	if installed, err := Inspect(in.data); err != nil || installed.Set != "onyx" {
		t.Errorf("the default of a directory with one set is %q, %v", installed.Set, err)
	}
	install("current")
	if got := versions(); got != "current 2.0, onyx 1.0" {
		t.Errorf("with two sets there is %s", got)
	}
	lock["onyx"] = lock["current"]
	install("onyx")
	lock["current"] = old
	install("current")
	install("current")
	if got := versions(); got != "current 1.0, onyx 2.0" {
		t.Errorf("after new locks there is %s", got)
	}
	for link, want := range map[string]string{"lib": "version = 1", "lib-onyx": "version = 2"} {
		if text, err := os.ReadFile(in.path(link, "alpha.py")); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v", link, text, err)
		}
	}
	// Without names, setup is for those that are installed.
	chosen, err := chooseKinds(in.data, nil)
	if names := kindNames(chosen); err != nil || !slices.Equal(names, []string{"current", "onyx"}) {
		t.Errorf("chosen: %v, %v", names, err)
	}
}

func kindNames(kinds []kind) (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func TestChooseKinds(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  []string
	}{
		{nil, []string{"current"}},
		{[]string{"onyx", " librechat", "onyx"}, []string{"onyx", "librechat"}},
		{[]string{"own"}, []string{"own"}},
	} {
		if chosen, err := chooseKinds(t.TempDir(), test.names); err != nil || !slices.Equal(kindNames(chosen), test.want) {
			t.Errorf("%v: %v, %v", test.names, kindNames(chosen), err)
		}
	}
	if _, err := chooseKinds(t.TempDir(), []string{"nosuch"}); err == nil ||
		!strings.Contains(err.Error(), "current, onyx, librechat, own") {
		t.Errorf("an unknown set: %v", err)
	}
}

// A requirement that does not go with the set is named together with what it
// does not go with, and the set "own" can be made of it.
func TestConflictAndOwnSet(t *testing.T) {
	s := newShop(t)
	lock := lockOf(s.wheel("alpha", "2.0", "alpha", "version = 2"))
	s.wheel("alpha", "1.0", "alpha", "version = 1")
	s.wheel("picky", "0.1", "picky", "import alpha", "alpha<2")
	in, j := bench(t, lock, rootsOf("alpha"))
	file := filepath.Join(s.dir, "requirements.txt")
	s.must(os.WriteFile(file, []byte("picky\n"), 0o600))
	in.requirements = file
	err := in.pythonPackages(t.Context())
	if err == nil {
		t.Fatal("it was installed")
	}
	for _, want := range []string{"picky 0.1, which needs alpha<2", "this set has: alpha==2.0",
		"--packages own --python-requirements " + file} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	in.kind, _ = findKind("own")
	if err := in.pythonPackages(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, j)
	}
	if text, err := os.ReadFile(in.path("lib-own", "alpha.py")); err != nil || string(text) != "version = 1" {
		t.Errorf("the set own has %q, %v", text, err)
	}
	if text, err := os.ReadFile(in.path("lib", "alpha.py")); err != nil || string(text) != "version = 2" {
		t.Errorf("the set current has %q, %v", text, err)
	}
	in.requirements = "" // it is remembered
	j.lines = nil
	if err := in.pythonPackages(t.Context()); err != nil || !j.has("up to date") {
		t.Errorf("again: %v\n%s", err, j)
	}
	fresh, _ := bench(t, lock, rootsOf("alpha"))
	fresh.kind = in.kind
	if err := fresh.pythonPackages(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "--python-requirements FILE") {
		t.Errorf("own without a file: %v", err)
	}
}

// A set that the host's python3 is too new for takes another interpreter of the
// distribution.
func TestInterpreterOfASet(t *testing.T) {
	in, _ := bench(t, lockOf(""), "")
	in.kind, _ = findKind("onyx")
	say := func(minor string) string {
		out, _ := json.Marshal(map[string]any{"version": "3." + minor + ".1", "major": 3, "minor": json.Number(minor),
			"name": "cpython"})
		return "echo '" + string(out) + "'\n"
	}
	in.table = script(t, "python3", say("13"))
	if _, err := in.inspectPython(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "the set onyx is locked for CPython 3.11, 3.12") {
		t.Errorf("only 3.13: %v", err)
	}
	script(t, "apt-get", "echo must not be called >&2; exit 99\n")
	script(t, "dpkg-query", "exit 99\n")
	if err := in.run(t.Context(), Options{Packages: []string{"onyx"}}); err == nil ||
		!strings.Contains(err.Error(), "the set onyx is locked for CPython 3.11, 3.12") {
		t.Errorf("before Debian's packages are looked at: %v", err)
	}
	if err := os.WriteFile(in.table+".12", []byte("#!/bin/sh\n"+say("12")), 0o755); err != nil {
		t.Fatal(err)
	}
	if py, err := in.inspectPython(t.Context()); err != nil || py.Minor != 12 || in.python != in.table+".12" {
		t.Errorf("with 3.12 beside it: %+v, %s, %v", py, in.python, err)
	}
}
