package setup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// What live interpreters need is locked for every CPython that has a set.
func TestLiveLocks(t *testing.T) {
	for _, minor := range kinds[0].minors {
		lock, err := embeddedLock(liveKind, minor)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range packageNames(embeddedRoots(liveKind)) {
			if !strings.Contains(string(lock), "\n"+name+"==") || !strings.Contains(string(lock), "--hash=sha256:") {
				t.Errorf("3.%d: %s is not locked", minor, name)
			}
		}
	}
}

// They lie beside the sets, and a newer lock takes the place of an older one.
func TestLivePackages(t *testing.T) {
	s := newShop(t)
	lock := s.wheel("ipython", "1.0", "IPython", "version = 1")
	in, j := bench(t, func(set string, _ int) ([]byte, error) {
		if set != liveKind {
			return nil, os.ErrNotExist
		}
		return []byte(lock), nil
	}, "")
	python, err := in.inspectPython(t.Context())
	s.must(err)
	read := func(minor int) string {
		t.Helper()
		text, err := os.ReadFile(in.path(fmt.Sprintf("live-3.%d", minor), "IPython.py"))
		s.must(err)
		return string(text)
	}
	module := func() string {
		t.Helper()
		if err := in.liveOfSet(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, j)
		}
		return read(python.Minor)
	}
	if got := module(); got != "version = 1" {
		t.Errorf("there is %q", got)
	}
	lock = s.wheel("ipython", "2.0", "IPython", "version = 2")
	if got := module(); got != "version = 2" {
		t.Errorf("after a newer lock there is %q", got)
	}
	other := python.Minor + 1 // which this machine need not have
	if err := in.livePackages(t.Context(), other); err != nil || read(other) != "version = 2" || in.foreign != "" {
		t.Errorf("for another Python: %v, %q", err, read(other))
	}
	in.lock = func(string, int) ([]byte, error) { return nil, os.ErrNotExist }
	if err := in.livePackages(t.Context(), 9); !errors.Is(err, ErrNoLive) {
		t.Errorf("for a Python without a lock: %v", err)
	}
	if in.kind.name != kinds[0].name {
		t.Errorf("the set is now %q", in.kind.name)
	}
}
