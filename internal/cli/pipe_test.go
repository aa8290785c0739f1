package cli

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/regular"
)

// returns fails the test unless do returns.
func returns(t *testing.T, do func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); do() }()
	select {
	case <-ended:
		return
	case <-time.After(10 * time.Second):
	}
	t.Fatal("it waits for somebody to write to a pipe")
}

// A named pipe in a person's folder is no file: it is refused, not waited for.
func TestPipesInFolders(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	pipe := filepath.Join(dir, "data.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("airlock mcp --files", func(t *testing.T) {
		d := &mcpServer{options: mcpOptions{files: dir}, sent: map[string]string{}}
		returns(t, func() {
			if _, err := d.sendAll(t.Context(), []string{"data.csv"}); err == nil ||
				err.Error() != `files: "data.csv" is not a file` {
				t.Errorf("%v", err)
			}
		})
	})
	t.Run("a file that a prompt names", func(t *testing.T) {
		returns(t, func() {
			if text, _, err := fill("prompt.txt", `{{file "data.csv"}}`, nil); err == nil {
				t.Errorf("%q", text)
			}
		})
	})
	t.Run("an input that has become one", func(t *testing.T) {
		returns(t, func() {
			send := func(input, *os.File) error { return nil }
			if err := eachInput([]input{{name: pipe, path: "data.csv"}}, send); !errors.Is(err, regular.ErrNotFile) {
				t.Errorf("%v", err)
			}
		})
	})
	t.Run("in the place of a folder of outputs", func(t *testing.T) {
		s := newSaver(t, dir, chooseRename)
		returns(t, func() {
			if s.has("data.csv", "config") {
				t.Error("it has an entry")
			}
			if _, err := s.save(t.Context(), made("data.csv/out.txt", "text")); err == nil {
				t.Error("saved below a pipe")
			}
		})
	})
	t.Run("in the place of an output", func(t *testing.T) {
		s := newSaver(t, dir, chooseRename)
		returns(t, func() {
			if _, err := s.save(t.Context(), made("data.csv", "")); err != nil {
				t.Error(err)
			}
			if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
				t.Errorf("the pipe is gone: %v, %v", info, err)
			}
		})
	})
}
