package executor

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A stored tree changes nothing outside of its workspace, gives no right beyond permissions, and
// leaves what belongs to others as it is.
func TestHostileTree(t *testing.T) {
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, folder := range []string{inside, outside} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{
		outside + "/f": 0o600, inside + "/own": 0o644, inside + "/others": 0o444,
	} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"l", "m"} {
		if err := os.Symlink(outside, filepath.Join(inside, link)); err != nil {
			t.Fatal(err)
		}
	}
	uid := os.Geteuid()
	if uid == 0 { // else all files are the user's
		uid = 12345
		if err := os.Chown(inside+"/own", uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenFile(inside, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w := &Workspace{Root: root, uid: uid, staged: map[string]mark{}}
	bad := []string{"../out/x", "a/../../out/x", outside + "/x", "", ".", "..", "l/../../out/x"}
	hostile := &tree{
		Modes: map[string]fs.FileMode{"own": 0o6777 | fs.ModeSetuid, "others": 0o777, "m/f": 0o777, "../out/f": 0o777},
		Links: map[string]string{"own": "x", "l/link": "/"}, Folders: append(bad, "l/x", "own")}
	for _, name := range bad {
		hostile.Links[name], hostile.Modes[name] = "/", 0o777
	}
	if err := w.plant(hostile); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside there are %v %v", entries, err)
	}
	for name, want := range map[string]fs.FileMode{outside + "/f": 0o600, outside: fs.ModeDir | 0o755} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	for name, want := range map[string]fs.FileMode{"own": fs.ModeDir | 0o777, "others": 0o444} {
		info, err := os.Lstat(filepath.Join(inside, name))
		if err != nil || info.Mode() != want && os.Geteuid() == 0 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}
