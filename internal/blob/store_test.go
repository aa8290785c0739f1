package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/airlock-run/airlock/internal/engine"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, content string) engine.Blob {
	t.Helper()
	blob, err := s.Put(t.Context(), strings.NewReader(content), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

func read(t *testing.T, s *Store, d engine.Digest, size int64) []byte {
	t.Helper()
	f, err := s.Open(t.Context(), d, size)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "files")
	s := open(t, dir)
	for _, content := range []string{"", "x", strings.Repeat("abc", bufferSize)} {
		blob := put(t, s, content)
		if want := engine.Digest(sha256.Sum256([]byte(content))); blob.SHA256 != want || blob.Size != int64(len(content)) {
			t.Errorf("Put = %v, %d", blob.SHA256, blob.Size)
		}
		if got := read(t, s, blob.SHA256, blob.Size); string(got) != content {
			t.Errorf("read %d bytes, want %d", len(got), len(content))
		}
		if _, err := s.Open(t.Context(), blob.SHA256, blob.Size+1); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("Open with another size = %v", err)
		}
		name := filepath.Join(dir, blob.SHA256.String()[:2], blob.SHA256.String())
		checkMode(t, name, 0o600)
		checkMode(t, filepath.Dir(name), 0o700)
	}
	checkMode(t, dir, 0o700)
	checkMode(t, filepath.Join(dir, tmpDir), 0o700)
	if _, err := s.Open(t.Context(), engine.Digest{1}, 0); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Open of an absent blob = %v", err)
	}
}

func checkMode(t *testing.T, name string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != want {
		t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
	}
}

func testDamagedBlobIsReplaced(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	blob := put(t, s, "content")
	name := filepath.Join(dir, blobName(blob.SHA256))
	for _, damage := range []func() error{
		func() error { return os.WriteFile(name, []byte("cont"), 0o600) },
		func() error { return os.WriteFile(name, []byte("content and more"), 0o600) },
		func() error { return os.Remove(name) },
		func() error { return os.RemoveAll(filepath.Dir(name)) },
		func() error { return errors.Join(os.Remove(name), os.Symlink("/etc/passwd", name)) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(t.Context(), blob.SHA256, blob.Size); err == nil {
			t.Error("Open returned a damaged blob")
		}
		put(t, s, "content")
		if got := read(t, s, blob.SHA256, blob.Size); string(got) != "content" {
			t.Errorf("after a second Put the blob is %q", got)
		}
	}
}

// A blob that this process made durable is not written again. A blob that it
// only found is, because it may not have reached the disk.
func TestDedup(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	m := newModelDisk(s)
	for range 3 {
		put(t, s, "content")
	}
	if m.calls["rename"] != 1 || m.calls["fsync"] != 1 || m.calls["fsync dir"] != 2 {
		t.Errorf("three uploads of one content made %v", m.calls)
	}
	s = open(t, dir)
	m = newModelDisk(s)
	put(t, s, "content")
	put(t, s, "content")
	if m.calls["fsync"] != 1 || m.calls["fsync dir"] != 2 {
		t.Errorf("uploads of a content found made %v", m.calls)
	}
	if names := files(t, dir); len(names) != 1 {
		t.Errorf("the store holds %q", names)
	}
}

func TestPins(t *testing.T) {
	s := open(t, t.TempDir())
	none := func(engine.Digest) bool { return false }
	blob := put(t, s, "content")
	put(t, s, "content")
	there := func(want bool, when string) {
		t.Helper()
		f, err := s.Open(t.Context(), blob.SHA256, blob.Size)
		if err == nil {
			f.Close()
		}
		if (err == nil) != want {
			t.Fatalf("%s: Open = %v", when, err)
		}
	}
	for _, unpin := range []bool{true, false} {
		if err := s.Delete(t.Context(), blob.SHA256); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Sweep(t.Context(), none); n != 0 || err != nil {
			t.Fatalf("Sweep = %d, %v", n, err)
		}
		there(true, "pinned")
		if unpin {
			s.Unpin(blob.SHA256) // the other Put's pin still holds
		}
	}
	s.Unpin(blob.SHA256)
	if err := s.Delete(t.Context(), blob.SHA256); err != nil {
		t.Fatal(err)
	}
	there(false, "after Delete")
	if err := s.Delete(t.Context(), blob.SHA256); err != nil {
		t.Errorf("Delete of a missing blob = %v", err)
	}
	put(t, s, "content")
	there(true, "after a new Put")
	s.Unpin(blob.SHA256)
	if n, err := s.Sweep(t.Context(), none); n != 1 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	there(false, "after Sweep")
}

func TestFailedPutLeavesNoPin(t *testing.T) {
	s := open(t, t.TempDir())
	m := newModelDisk(s)
	m.failOp, m.failOn, m.failErr = "fsync dir", 2, errInjected
	if _, err := s.Put(t.Context(), strings.NewReader("content"), 100); !errors.Is(err, engine.ErrInternal) {
		t.Fatalf("Put = %v", err)
	}
	if n, err := s.Sweep(t.Context(), func(engine.Digest) bool { return false }); n != 1 || err != nil {
		t.Errorf("Sweep = %d, %v: the blob of the failed Put is still pinned", n, err)
	}
}

// A blob that Put returned stays until its Unpin, whatever deletes and sweeps
// continue beside it.
func testPutAgainstDelete(t *testing.T) {
	s := open(t, t.TempDir())
	const content = "contended"
	digest := engine.Digest(sha256.Sum256([]byte(content)))
	done := make(chan struct{})
	var deleters, putters sync.WaitGroup
	deleters.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := s.Delete(context.Background(), digest); err != nil {
				t.Error(err)
			}
		}
	})
	deleters.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Sweep(context.Background(), func(engine.Digest) bool { return false }); err != nil {
				t.Error(err)
			}
		}
	})
	for range 4 {
		putters.Go(func() {
			for range 50 {
				blob, err := s.Put(context.Background(), strings.NewReader(content), 100)
				if err != nil {
					t.Error(err)
					return
				}
				f, err := s.Open(context.Background(), blob.SHA256, blob.Size)
				if err != nil {
					t.Error(err)
				} else {
					f.Close()
				}
				s.Unpin(blob.SHA256)
			}
		})
	}
	putters.Wait()
	close(done)
	deleters.Wait()
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	kept, waste := put(t, s, "kept"), put(t, s, "waste")
	s.Unpin(kept.SHA256)
	s.Unpin(waste.SHA256)
	foreign := filepath.Join(dir, shardName(kept.SHA256), "README")
	for _, name := range []string{filepath.Join(dir, tmpDir, "left"), foreign} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// An upload that is in progress keeps its temporary file.
	inside, goOn := make(chan struct{}), make(chan struct{})
	var upload sync.WaitGroup
	upload.Go(func() {
		r := io.MultiReader(strings.NewReader("live "), readerFunc(func([]byte) (int, error) {
			close(inside)
			<-goOn
			return 0, io.EOF
		}))
		if _, err := s.Put(context.Background(), r, 100); err != nil {
			t.Error(err)
		}
	})
	<-inside
	n, err := s.Sweep(t.Context(), func(d engine.Digest) bool { return d == kept.SHA256 })
	close(goOn)
	upload.Wait()
	if n != 2 || err != nil {
		t.Errorf("Sweep = %d, %v, want the waste and the temporary file", n, err)
	}
	if got := files(t, dir); len(got) != 3 { // kept, live, README
		t.Errorf("the store holds %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Sweep(ctx, func(engine.Digest) bool { return true }); !errors.Is(err, engine.ErrCanceled) {
		t.Errorf("Sweep with a cancelled context = %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func testUploads(t *testing.T) {
	broken := errors.New("broken")
	content := strings.Repeat("0123456789", 30_000)
	for _, test := range []struct {
		name   string
		reader io.Reader
		limit  int64
		kind   engine.Kind // empty: stored
	}{
		{"at the limit", strings.NewReader(content), 300_000, ""},
		{"one byte over", strings.NewReader(content), 299_999, engine.ErrTooLarge},
		{"one byte at a time", iotest.OneByteReader(strings.NewReader(content)), 300_000, ""},
		{"half of what is asked", iotest.HalfReader(strings.NewReader(content)), 300_000, ""},
		{"last bytes with EOF", iotest.DataErrReader(strings.NewReader(content)), 300_000, ""},
		{"over, last bytes with EOF", iotest.DataErrReader(strings.NewReader(content)), 299_999, engine.ErrTooLarge},
		{"empty, nothing allowed", strings.NewReader(""), 0, ""},
		{"one byte, nothing allowed", strings.NewReader("x"), 0, engine.ErrTooLarge},
		{"negative limit", strings.NewReader("x"), -5, engine.ErrTooLarge},
		{"no limit", strings.NewReader(content), 1<<63 - 1, ""},
		{"error at once", iotest.ErrReader(broken), 10, engine.ErrInternal},
		{"error in the middle", io.MultiReader(strings.NewReader(content), iotest.ErrReader(broken)), 400_000,
			engine.ErrInternal},
		{"cut short", io.MultiReader(strings.NewReader(content), iotest.ErrReader(io.ErrUnexpectedEOF)), 400_000,
			engine.ErrInvalid},
		{"a reader that knows why", iotest.ErrReader(&engine.Error{Kind: engine.ErrTooLarge}), 10, engine.ErrTooLarge},
		{"a reader that knows the kind", iotest.ErrReader(engine.ErrBusy), 10, engine.ErrBusy},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			blob, err := s.Put(t.Context(), test.reader, test.limit)
			if test.kind == "" {
				if err != nil {
					t.Fatal(err)
				}
				read(t, s, blob.SHA256, blob.Size)
				return
			}
			if engine.KindOf(err) != test.kind {
				t.Errorf("Put = %v, want kind %s", err, test.kind)
			}
			if test.kind == engine.ErrInternal && !errors.Is(err, broken) {
				t.Errorf("%v hides its cause", err)
			}
			if names := files(t, dir); len(names) != 0 {
				t.Errorf("the store holds %q", names)
			}
		})
	}
}

func testCancelInMidUpload(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	_, err := s.Put(ctx, readerFunc(func(p []byte) (int, error) {
		if reads++; reads == 3 {
			cancel()
		}
		return len(p), nil
	}), 8<<20)
	if !errors.Is(err, engine.ErrCanceled) || !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v", err)
	}
	if reads != 3 {
		t.Errorf("read %d times", reads)
	}
	if names := files(t, dir); len(names) != 0 {
		t.Errorf("the store holds %q", names)
	}
}

// An upload without end costs one buffer and is read to limit+1.
func TestStreams(t *testing.T) {
	s := open(t, t.TempDir())
	var consumed int64
	endless := readerFunc(func(p []byte) (int, error) {
		clear(p)
		consumed += int64(len(p))
		return len(p), nil
	})
	const limit = 32 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.Put(t.Context(), endless, limit)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, engine.ErrTooLarge) || consumed != limit+1 {
		t.Errorf("Put read %d bytes and returned %v", consumed, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("Put allocated %d bytes for an upload of %d", used, limit)
	}
}

// A link in the store that leads out of it is not followed.
func testLinksStayInside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	s := open(t, dir)
	digest := engine.Digest(sha256.Sum256([]byte("content")))
	if err := os.Symlink(outside, filepath.Join(dir, shardName(digest))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), bytes.NewReader([]byte("content")), 100); err == nil {
		t.Error("Put went through a link")
	}
	if names := files(t, outside); len(names) != 0 {
		t.Errorf("outside there is now %q", names)
	}
	if names := files(t, filepath.Join(dir, tmpDir)); len(names) != 0 {
		t.Errorf("left %q", names)
	}
}
