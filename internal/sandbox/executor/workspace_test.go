package executor

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The two ways to open a file of a workspace agree on every name that a program can
// create, and neither follows a link.
func TestBeneathByStep(t *testing.T) {
	root := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "a/b"), 0o755), os.WriteFile(filepath.Join(root, "a/b/file"), nil, 0o600),
		os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(root, "out")),
		os.Symlink("a", filepath.Join(root, "in")), os.Symlink(filepath.Dir(outside), filepath.Join(root, "a/up")),
		os.Symlink("/", filepath.Join(root, "root")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	folder, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	open := map[string]bool{".": true, "a": true, "a/b": true, "a/b/": true, "a//b": true, "a/b/file": true,
		"./a/./b": true}
	names := append(slices.Collect(maps.Keys(open)), "", "/", "/etc", "..", "../x", "a/../../x", "a/b/../file",
		"out", "in", "in/b", "a/up", "a/up/secret", "root/etc", "none")
	for _, name := range names {
		fd, err := beneathByStep(int(folder.Fd()), name, unix.O_RDONLY, 0)
		if (err == nil) != open[name] {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			unix.Close(fd)
		}
		if fd, err := beneath(int(folder.Fd()), name, unix.O_RDONLY, 0); err == nil {
			unix.Close(fd)
			if !open[name] {
				t.Errorf("%q: openat2 opens it", name)
			}
		}
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if other, err := beneathByStep(fd, "proc/self/status", unix.O_RDONLY, 0); !errors.Is(err, unix.EXDEV) {
		unix.Close(other)
		t.Errorf("another file system: %v", err)
	}
}
