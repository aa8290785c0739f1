package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// unpack writes layers into a folder and returns it.
func unpack(t *testing.T, limits Limits, layers ...[]entry) (string, error) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	limits = New(Config{Limits: limits}).Limits
	tree, err := newTree(root, limits, func(int64) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	for _, entries := range layers {
		if err := tree.apply(bytes.NewReader(tarOf(t, entries...))); err != nil {
			return root, err
		}
	}
	return root, nil
}

// listing returns what a folder has: "path content", "path/" and "path -> target".
func listing(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir():
			name += "/"
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			name += " -> " + target
		default:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name += " " + string(content)
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Layers lie one above the other, with whiteouts that remove what earlier ones have.
func TestLayers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		layers [][]entry
		want   []string
	}{
		{"replaced", [][]entry{{file("a", "1"), file("d/x", "1")}, {file("./a", "2"), file("/d/y", "2")}},
			[]string{"a 2", "d/", "d/x 1", "d/y 2"}},
		{"file over folder", [][]entry{{file("d/x", "1")}, {file("d", "2")}}, []string{"d 2"}},
		{"folder over file", [][]entry{{file("d", "1")}, {dir("d/"), file("d/x", "2")}}, []string{"d/", "d/x 2"}},
		{"folder over link", [][]entry{{dir("e"), symlink("d", "e")}, {dir("d"), file("d/x", "2")}},
			[]string{"d/", "d/x 2", "e/"}},
		{"folder stays", [][]entry{{file("d/x", "1")}, {dir("d/")}}, []string{"d/", "d/x 1"}},
		{"whiteout", [][]entry{{file("d/x", "1"), file("d/y", "1")}, {file("d/.wh.x", "")}}, []string{"d/", "d/y 1"}},
		{"whiteout of a folder", [][]entry{{file("d/e/x", "1")}, {file("d/.wh.e", "")}}, []string{"d/"}},
		{"whiteout of nothing", [][]entry{{file("d/.wh.e", "")}}, []string{"d/"}},
		{"whiteout of what comes in the same layer", [][]entry{{file("x", "1")}, {file("x", "2"), file(".wh.x", "")}},
			[]string{"x 2"}},
		{"opaque", [][]entry{{file("d/x", "1"), file("d/e/y", "1")}, {file("d/.wh..wh..opq", ""), file("d/z", "2")}},
			[]string{"d/", "d/z 2"}},
		{"opaque at the end", [][]entry{{file("d/x", "1"), file("d/e/y", "1")},
			{file("d/z", "2"), file("d/e/w", "2"), file("d/.wh..wh..opq", "")}}, []string{"d/", "d/e/", "d/e/w 2", "d/z 2"}},
		{"files of the storage", [][]entry{{file(".wh..wh.plnk", ""), file("x", "1")}}, []string{"x 1"}},
		{"links", [][]entry{{dir("usr/lib"), symlink("lib", "usr/lib"), symlink("run", "/usr/lib"),
			symlink("usr/up", "../usr/lib")}, {file("lib/a", "1"), file("run/b", "2"), file("usr/up/c", "3")}},
			[]string{"lib -> usr/lib", "run -> /usr/lib", "usr/", "usr/lib/", "usr/lib/a 1", "usr/lib/b 2", "usr/lib/c 3",
				"usr/up -> ../usr/lib"}},
		{"link to nothing", [][]entry{{symlink("var/run", "/run"), file("var/run/x", "1")}},
			[]string{"run/", "run/x 1", "var/", "var/run -> /run"}},
		{"hard link", [][]entry{{file("d/a", "1"), hardlink("b", "d/a"), hardlink("c", "/d/a")}},
			[]string{"b 1", "c 1", "d/", "d/a 1"}},
		{"hard link to a lower layer", [][]entry{{file("a", "1"), file("b", "0")}, {hardlink("b", "a")}},
			[]string{"a 1", "b 1"}},
		{"hard link to itself", [][]entry{{file("a", "1"), hardlink("a", "./a")}}, []string{"a 1"}},
		{"hard link through a link", [][]entry{{file("usr/a", "1"), symlink("u", "/usr"), hardlink("b", "u/a")}},
			[]string{"b 1", "u -> /usr", "usr/", "usr/a 1"}},
		{"special files", [][]entry{{{&tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, ""},
			{&tar.Header{Name: "disk", Typeflag: tar.TypeBlock}, ""}, {&tar.Header{Name: "fifo", Typeflag: tar.TypeFifo}, ""},
			file("x", "1")}}, []string{"x 1"}},
		{"root", [][]entry{{dir("./"), file("./x", "1")}}, []string{"x 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, err := unpack(t, Limits{}, tt.layers...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, listing(t, root)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A hostile layer is refused, and writes nothing outside.
func TestHostileLayers(t *testing.T) {
	long := strings.Repeat("x", 200)
	var links, files []entry
	for i := range 100_000 {
		links = append(links, hardlink(fmt.Sprintf("l/%d", i), "a"))
	}
	for i := range 101 {
		files = append(files, file(fmt.Sprintf("f%d", i), ""))
	}
	for _, tt := range []struct {
		name   string
		limits Limits
		layer  []entry
		kind   engine.Kind
		want   string
	}{
		{"dots", Limits{}, []entry{file("../x", "")}, engine.ErrForbidden, "leads out"},
		{"dots inside", Limits{}, []entry{file("a/b/../../../x", "")}, engine.ErrForbidden, "leads out"},
		{"dots that stay", Limits{}, []entry{file("a/../x", "")}, engine.ErrForbidden, "leads out"},
		{"hard link out", Limits{}, []entry{hardlink("x", "../outside")}, engine.ErrForbidden, "leads out"},
		{"hard link by a link", Limits{}, []entry{symlink("up", "../.."), hardlink("x", "up/outside")}, engine.ErrForbidden,
			"not there"},
		{"hard link to nothing", Limits{}, []entry{hardlink("x", "y")}, engine.ErrForbidden, "not there"},
		{"hard link to a folder", Limits{}, []entry{dir("d"), hardlink("x", "d")}, engine.ErrForbidden, "is a folder"},
		{"circle", Limits{}, []entry{symlink("a", "b"), symlink("b", "a"), file("a/x", "")}, engine.ErrForbidden, "circle"},
		{"below a file", Limits{}, []entry{file("a", ""), file("a/x", "")}, engine.ErrForbidden, "no folder"},
		{"long name", Limits{}, []entry{file(strings.Repeat("x", 4096), "")}, engine.ErrForbidden, "longer than"},
		{"long part", Limits{}, []entry{file(strings.Repeat("x", 256), "")}, engine.ErrForbidden, "too long"},
		{"long path", Limits{}, []entry{file(strings.Repeat(long+"/", 20)+"x", "")}, engine.ErrForbidden, "longer than"},
		{"deep path", Limits{}, []entry{file(strings.Repeat("d/", 200)+"x", "")}, engine.ErrForbidden, "longer than"},
		{"long target", Limits{}, []entry{symlink("x", strings.Repeat("y", 5000))}, engine.ErrForbidden, "longer than"},
		{"whiteout of itself", Limits{}, []entry{file("d/.wh...", "")}, engine.ErrForbidden, "removes no file"},
		{"many files", Limits{Files: 100}, files, engine.ErrTooLarge, "more than 100 files"},
		{"many links", Limits{Files: 2000}, append([]entry{file("a", "")}, links...), engine.ErrTooLarge,
			"more than 2000 files"},
		{"size", Limits{Bytes: 100}, []entry{file("a", strings.Repeat("x", 60)), file("b", strings.Repeat("x", 60))},
			engine.ErrTooLarge, "more than the 100 B"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, err := unpack(t, tt.limits, tt.layer)
			checkError(t, err, tt.kind, tt.want)
			if got, _ := os.ReadDir(filepath.Dir(root)); len(got) != 1 {
				t.Errorf("beside the root is %v", got)
			}
		})
	}
}

// Symbolic links out of the image are kept, and no file is written through them.
func TestLinksOut(t *testing.T) {
	root, err := unpack(t, Limits{}, []entry{symlink("up", "../.."), symlink("abs", "/../../tmp"), file("up/x", "1"),
		file("abs/y", "2"), symlink("f", "../outside"), file("f", "3")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"abs -> /../../tmp", "f 3", "tmp/", "tmp/y 2", "up -> ../..", "x 1"}
	if diff := cmp.Diff(want, listing(t, root)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, _ := os.ReadDir(filepath.Dir(root)); len(got) != 1 {
		t.Errorf("beside the root is %v", got)
	}
}

// An image's files give no rights, and are readable by those who could not read them as another
// user.
func TestModes(t *testing.T) {
	with := func(e entry, mode int64, uid int) entry {
		e.Mode, e.Uid, e.Gid = mode, uid, uid
		return e
	}
	capability := with(file("capability", "1"), 0o755, 0)
	capability.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00"}
	root, err := unpack(t, Limits{}, []entry{
		with(file("setuid", ""), 0o6755, 0), with(file("open", ""), 0o666, 0), with(file("shadow", ""), 0o600, 0),
		with(file("users", ""), 0o600, 1000), with(file("run", ""), 0o700, 1000), with(file("none", ""), 0, 0),
		with(dir("tmp"), 0o1777, 0), with(dir("home"), 0o700, 1000), with(dir("root"), 0o700, 0), with(dir("closed"), 0, 0),
		file("closed/x", ""), capability,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"setuid": 0o755, "open": 0o644, "shadow": 0o600, "users": 0o644,
		"run": 0o755, "none": 0o400, "tmp": 0o755 | fs.ModeDir, "home": 0o755 | fs.ModeDir, "root": 0o700 | fs.ModeDir,
		"closed": 0o700 | fs.ModeDir, "closed/x": 0o644, "capability": 0o755} {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("mode of %s is %v, want %v", name, info.Mode(), want)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Getuid() {
			t.Errorf("%s belongs to %d, want %d", name, stat.Uid, os.Getuid())
		}
	}
	if n, err := syscall.Getxattr(filepath.Join(root, "capability"), "security.capability", nil); err == nil {
		t.Errorf("capability has %d bytes of file capabilities", n)
	}
}

// Files and folders keep their times, by which caches of modules and fonts are compared.
func TestTimes(t *testing.T) {
	root, err := unpack(t, Limits{}, []entry{dir("d"), file("d/x", "1"), file("d/y", "1")})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d", "d/x"} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || !info.ModTime().Equal(written) {
			t.Errorf("time of %s is %v (%v), want %v", name, info.ModTime(), err, written)
		}
	}
}
