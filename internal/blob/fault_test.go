package blob

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// testFaults fails the n-th call of every operation, for n = 1, 2, ... until
// none is left to fail, and then asks what a restart and what a power cut
// would find.
func testFaults(t *testing.T) {
	first := []byte(strings.Repeat("first ", 40_000)) // over one buffer
	second := sibling(first)
	contents := [][]byte{first, second, first, []byte("third"), first, {}}
	for _, op := range operations {
		for _, cause := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			t.Run(fmt.Sprint(op, " ", cause.Error()), func(t *testing.T) {
				n := 1
				for oneFault(t, op, n, cause, contents) {
					n++
				}
				if n == 1 {
					t.Fatal("the operation was never called")
				}
			})
		}
	}
}

// oneFault stores contents while the n-th call of op fails, and reports
// whether there was such a call.
func oneFault(t *testing.T, op string, n int, cause error, contents [][]byte) bool {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	m := newModelDisk(s)
	m.failOp, m.failOn, m.failErr = op, n, cause
	acked := map[engine.Digest][]byte{}
	for i, content := range contents {
		before := m.failed
		blob, err := s.Put(t.Context(), bytes.NewReader(content), 1<<20)
		if err == nil {
			// A duplicate's temporary file may fail to close or to go.
			if duplicate := acked[blob.SHA256] != nil; before != m.failed && op != "remove" && (!duplicate || op != "close") {
				t.Fatalf("%s %d: Put %d hides the fault", op, n, i)
			}
			if blob.SHA256 != sha256.Sum256(content) || blob.Size != int64(len(content)) {
				t.Fatalf("Put %d = %v, %d", i, blob.SHA256, blob.Size)
			}
			acked[blob.SHA256] = content
			s.Unpin(blob.SHA256)
			continue
		}
		kind := engine.ErrInternal
		if errors.Is(cause, syscall.ENOSPC) {
			kind = engine.ErrFull
		}
		if !errors.Is(err, kind) || before == m.failed {
			t.Fatalf("%s %d: Put %d = %v", op, n, i, err)
		}
	}
	keep := func(d engine.Digest) bool { return acked[d] != nil }
	checkStore(t, dir, acked)
	if _, err := s.Sweep(t.Context(), keep); err != nil && op != "remove" {
		t.Fatalf("%s %d: Sweep: %v", op, n, err)
	}
	if _, err := s.Sweep(t.Context(), keep); err != nil {
		t.Fatalf("%s %d: second Sweep: %v", op, n, err)
	}
	checkStore(t, dir, acked)
	if names := files(t, dir); len(names) != len(acked) {
		t.Fatalf("%s %d: the store holds %q, want %d blobs", op, n, names, len(acked))
	}
	checkStore(t, m.cutPower(t), acked)
	return m.failed
}

// checkStore opens the directory anew and checks that what was acknowledged
// is there and that every blob that can be seen is whole.
func checkStore(t *testing.T, dir string, acked map[engine.Digest][]byte) {
	t.Helper()
	s := open(t, dir)
	for d, content := range acked {
		if got := read(t, s, d, int64(len(content))); !bytes.Equal(got, content) {
			t.Fatalf("acknowledged blob %v has %d bytes, want %d", d, len(got), len(content))
		}
	}
	for _, name := range files(t, dir) {
		if strings.HasPrefix(name, tmpDir+"/") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if d := engine.Digest(sha256.Sum256(content)); blobName(d) != name {
			t.Fatalf("%s holds the bytes of %v", name, d)
		}
	}
}

// files lists the regular files below dir by their relative names.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// sibling finds other bytes whose digest lies in the same shard.
func sibling(content []byte) []byte {
	want := sha256.Sum256(content)[0]
	for i := 0; ; i++ {
		other := fmt.Appendf(nil, "sibling %d", i)
		if sha256.Sum256(other)[0] == want {
			return other
		}
	}
}
