package blob

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// testFullDisk fills a real file system: its bytes, then its inodes.
func testFullDisk(t *testing.T) {
	large := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 400<<10) }
	for _, test := range []struct {
		name, options string
		content       func(i int) []byte
	}{
		{"bytes", "size=1m,mode=0700", large},
		{"inodes", "size=1m,nr_inodes=12,mode=0700", func(i int) []byte { return fmt.Append(nil, i) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := mount(t, test.options)
			s, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close() // before the unmount
			stored := map[engine.Digest][]byte{}
			var full error
			for i := 0; full == nil; i++ {
				content := test.content(i)
				blob, err := s.Put(t.Context(), bytes.NewReader(content), 1<<20)
				if full = err; err == nil {
					stored[blob.SHA256] = content
					s.Unpin(blob.SHA256)
				}
			}
			e, ok := errors.AsType[*engine.Error](full)
			if !ok || e.Kind != engine.ErrFull || !strings.Contains(e.Hint, "no room or no inode") {
				t.Fatalf("Put on a full disk = %#v", full)
			}
			if len(stored) < 2 {
				t.Fatalf("only %d blobs fitted", len(stored))
			}
			if left := files(t, filepath.Join(dir, tmpDir)); len(left) != 0 {
				t.Errorf("the failed upload left %q", left)
			}
			for d, content := range stored {
				if !bytes.Equal(read(t, s, d, int64(len(content))), content) {
					t.Errorf("blob %v is damaged", d)
				}
			}
			for d := range stored { // the cure works, with nothing restarted
				if err := s.Delete(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Put(t.Context(), bytes.NewReader(test.content(0)), 1<<20); err != nil {
				t.Errorf("Put after a deletion = %v", err)
			}
		})
	}
}

func mount(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}
