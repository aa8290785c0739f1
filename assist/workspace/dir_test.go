package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/assist/workspace/workspacetest"
)

func TestDir(t *testing.T) {
	workspacetest.TestStore(t, func(t *testing.T, dir string) workspace.Store {
		s, err := workspace.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

// A store in the folder would be changed by replies, and undo by what it undoes.
func TestStoreInsideFolder(t *testing.T) {
	at := t.TempDir()
	folder, link := filepath.Join(at, "folder"), filepath.Join(at, "link")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		store, root string
		protected   []string
		want        bool
	}{
		{store: filepath.Join(at, "store"), root: folder, want: true},
		{store: filepath.Join(at, "folder-store"), root: folder, want: true},
		{store: filepath.Join(folder, ".history"), root: folder},
		{store: filepath.Join(link, "sub/.history"), root: folder},
		{store: filepath.Join(folder, ".history"), root: link},
		{store: folder, root: folder},
		{store: at, root: folder, want: true},
		{store: filepath.Join(folder, ".history"), root: folder, protected: []string{filepath.Join(folder, ".history")},
			want: true},
		{store: filepath.Join(folder, ".history"), root: folder, protected: []string{filepath.Join(folder, ".git")}},
	} {
		store, err := workspace.OpenDir(c.store)
		if err != nil {
			t.Fatal(err)
		}
		_, err = workspace.Open(t.Context(), c.root, workspace.Options{Store: store, Protected: c.protected})
		if (err == nil) != c.want || err != nil && !strings.Contains(err.Error(), "Protected") {
			t.Errorf("a store at %s for %s: %v", c.store, c.root, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
