package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// fill makes a volume with all kinds of files, as a hostile program may.
func fill(t *testing.T) (s *Store, id engine.ID, files string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "volumes")
	s, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	id = engine.NewID()
	if err := s.Create(id); err != nil {
		t.Fatal(err)
	}
	files = filepath.Join(folder, id.String(), Files)
	outside := filepath.Join(folder, "outside")
	err = errors.Join(
		os.WriteFile(outside, make([]byte, 1<<20), 0o600),
		os.WriteFile(filepath.Join(files, "a"), make([]byte, 8192), 0o600),
		os.Link(filepath.Join(files, "a"), filepath.Join(files, "linked")),
		os.Symlink(outside, filepath.Join(files, "link")),
		os.Symlink(folder, filepath.Join(files, "folders")),
		unix.Mkfifo(filepath.Join(files, "fifo"), 0o600),
		os.MkdirAll(filepath.Join(files, "shut/in"), 0o700),
		os.WriteFile(filepath.Join(files, "shut/in/b"), make([]byte, 8192), 0),
		os.Chmod(filepath.Join(files, "shut/in"), 0),
		os.Chmod(filepath.Join(files, "shut"), 0o400),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s, id, files
}

// A folder that a program replaces by a link after it was looked at is not followed.
func TestReplacedFolder(t *testing.T) {
	_, _, files := fill(t)
	at, err := os.Open(files)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if f, err := openFolder(int(at.Fd()), "folders"); !errors.Is(err, fs.ErrNotExist) {
		f.Close()
		t.Errorf("it opened what a link leads to: %v", err)
	}
}

func TestMeasure(t *testing.T) {
	s, id, files := fill(t)
	bytes, count, err := s.Measure(t.Context(), id)
	if err != nil || count != 8 || bytes < 16384 || bytes > 1<<17 {
		t.Errorf("%d bytes, %d files, %v", bytes, count, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Measure(ended, id); !errors.Is(err, context.Canceled) {
		t.Errorf("without a context: %v", err)
	}
	nest(t, files, maxDepth)
	if _, _, err := s.Measure(t.Context(), id); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("nested folders: %v", err)
	}
}

// nest makes folders in one another, which have longer paths together than the kernel takes.
func nest(t *testing.T, in string, depth int) {
	t.Helper()
	at, err := unix.Open(in, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range depth {
		if err == nil {
			const name = "a-folder-with-a-name-that-is-as-long-as-this-one"
			err = unix.Mkdirat(at, name, 0o700)
			next, opened := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			unix.Close(at)
			at, err = next, errors.Join(err, opened)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(at)
}

func TestRemove(t *testing.T) {
	s, id, files := fill(t)
	nest(t, files, 1000)
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(files), lock), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), id); !errors.Is(err, engine.ErrConflict) {
		t.Fatalf("while a program has it: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(files, "a")); err != nil {
		t.Errorf("it lost something: %v", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(filepath.Dir(files)))
	if err != nil || len(left) != 1 || left[0].Name() != "outside" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// What Pack writes Add puts into another folder, with links that lead nowhere else than before, and nothing else.
func TestPack(t *testing.T) {
	s, id, _ := fill(t)
	var archive bytes.Buffer
	to := tar.NewWriter(&archive)
	files, size, err := s.Pack(t.Context(), to, "volumes")
	if err := errors.Join(err, to.Close()); err != nil || files != 3 || size != 3*8192 {
		t.Fatalf("%d files, %d bytes, %v", files, size, err)
	}
	folder := t.TempDir()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	u := &Unpacking{Root: root}
	entries := tar.NewReader(&archive)
	for {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Add("new", strings.TrimPrefix(h.Name, "volumes/"), h, entries); err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
	}
	if err := u.End(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = filepath.WalkDir(filepath.Join(folder, "new", id.String()), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if name, _ = filepath.Rel(filepath.Join(folder, "new", id.String()), name); name != "." {
			got[name] = info.Mode().String()
		}
		return err
	})
	want := map[string]string{"lock": "-rw-------", "files": "drwxr-xr-x", "files/a": "-rw-------",
		"files/linked": "-rw-------", "files/link": "Lrwxrwxrwx", "files/folders": "Lrwxrwxrwx",
		"files/shut": "drwx------", "files/shut/in": "drwx------", "files/shut/in/b": "----------"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}

	for name, h := range map[string]*tar.Header{
		"x/files/a": {Typeflag: tar.TypeReg}, id.String() + "/lock": {Typeflag: tar.TypeReg},
		id.String() + "/files/../../a": {Typeflag: tar.TypeReg}, id.String() + "/files/p": {Typeflag: tar.TypeFifo},
		id.String() + "/files/h": {Typeflag: tar.TypeLink, Linkname: "a"}, id.String(): {Typeflag: tar.TypeSymlink},
	} {
		if _, err := u.Add("new", name, h, strings.NewReader("")); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	link := &tar.Header{Typeflag: tar.TypeSymlink, Linkname: "../../.."}
	file := &tar.Header{Typeflag: tar.TypeReg, Mode: 0o600}
	for name, h := range map[string]*tar.Header{"up": link, "up/a": file} {
		_, err := u.Add("other", id.String()+"/files/"+name, h, strings.NewReader("x"))
		if name == "up/a" && err == nil {
			t.Error("a file is put beside what is no folder")
		}
	}
	if _, err := os.Lstat(filepath.Join(folder, "a")); err == nil {
		t.Error("a file was put where a link leads")
	}
}
