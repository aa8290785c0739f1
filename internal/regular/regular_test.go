package regular

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Only a file is opened. Nothing else is waited for.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("text"), 0o600), os.Mkdir(at("folder"), 0o700),
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("file", at("link")), os.Symlink("pipe", at("link to pipe")),
		os.Symlink("/dev/zero", at("device"))); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for name, want := range map[string]error{"file": nil, "link": nil, "folder": ErrNotFile, "pipe": ErrNotFile,
			"link to pipe": ErrNotFile, "device": ErrNotFile, "socket": ErrNotFile, "nothing": os.ErrNotExist} {
			for i, open := range []func() (*os.File, error){
				func() (*os.File, error) { return Open(at(name)) },
				func() (*os.File, error) { return OpenIn(root, name) },
			} {
				f, err := open()
				if name == "device" && i == 1 {
					want = err // the link leads out of the folder
				}
				if !errors.Is(err, want) || (err == nil) != (want == nil) {
					t.Errorf("%s: %v", name, err)
				}
				if err == nil {
					if text, err := io.ReadAll(f); string(text) != "text" || err != nil {
						t.Errorf("%s: %q, %v", name, text, err)
					}
					f.Close()
				}
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("something is waited for")
	}
}
