package conversation

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A named pipe is no file, also where a file was when the folder was looked at.
func TestPipesInProjects(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "data.csv")
	if err := os.WriteFile(name, []byte("a,b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ofPerson, err := OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ofProject, err := projectFile(root, "data.csv")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for what, read := range map[string]func() error{
			"a file":                  func() error { _, err := OpenFile(name); return err },
			"a file of a project":     func() error { _, err := projectFile(root, "data.csv"); return err },
			"what was a file":         func() error { _, err := ofPerson.Open(); return err },
			"what was a project's":    func() error { _, err := ofProject.Open(); return err },
			"an output to write over": func() error { _, err := currentSum(root, "data.csv"); return err },
		} {
			if err := read(); !errors.Is(err, ErrNotFile) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it waits for somebody to write to a pipe")
	}
}
