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
	case <-time.After(time.Minute):
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
			if _, err := d.sendAll(t.Context(), []string{"data.csv"}, nil); err == nil ||
				err.Error() != `files: "data.csv" is not a file` {
				t.Errorf("%v", err)
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
}
