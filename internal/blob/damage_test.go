package blob

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// contentOf reads a blob as its reader does.
func contentOf(t *testing.T, s *Store, blob engine.Blob) (string, error) {
	t.Helper()
	r, err := s.Read(t.Context(), blob.SHA256, blob.Size)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

// A blob that is lost or no longer what was stored is not found, whether its
// bytes are in memory or not, and is whole again when it is stored again.
func TestDamageIsFound(t *testing.T) {
	replace := func(name string, change func([]byte)) error {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		change(text)
		return errors.Join(os.Remove(name), os.WriteFile(name, text, 0o600))
	}
	damages := map[string]func(name string) error{
		"removed": os.Remove,
		"cut":     func(name string) error { return os.Truncate(name, 3) },
		"a link": func(name string) error {
			return errors.Join(os.Rename(name, name+".old"), os.Symlink(name+".old", name))
		},
		"a pipe": func(name string) error { return errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)) },
		"another file of that size": func(name string) error {
			return replace(name, func(text []byte) { clear(text) })
		},
		"one byte in place": func(name string) error {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("?"), 2)
			// Clocks of file systems are coarse; damage comes later than this.
			return errors.Join(err, f.Close(), os.Chtimes(name, time.Time{}, time.Now().Add(time.Second)))
		},
	}
	for what, damage := range damages {
		for size, text := range map[string]string{"small": "content", "large": strings.Repeat("content", smallBlob)} {
			for state, prepare := range map[string]func(*Store, engine.Blob) *Store{
				"stored just now": func(s *Store, _ engine.Blob) *Store { return s },
				"read before": func(s *Store, blob engine.Blob) *Store {
					if got, err := contentOf(t, s, blob); err != nil || got != text {
						t.Fatalf("%d bytes, %v", len(got), err)
					}
					return s
				},
				"after a restart": func(s *Store, _ engine.Blob) *Store { return open(t, s.root.Name()) },
			} {
				t.Run(what+", "+size+", "+state, func(t *testing.T) {
					dir := t.TempDir()
					s := open(t, dir)
					blob, err := s.Put(t.Context(), strings.NewReader(text), 1<<30)
					if err != nil {
						t.Fatal(err)
					}
					s = prepare(s, blob)
					if err := damage(filepath.Join(dir, blobName(blob.SHA256))); err != nil {
						t.Fatal(err)
					}
					if got, err := contentOf(t, s, blob); !errors.Is(err, engine.ErrNotFound) {
						t.Errorf("Read gives %d bytes, %v", len(got), err)
					}
					if known := s.Has(t.Context(), blob.SHA256, blob.Size); known && (size == "small" || state != "after a restart") {
						t.Error("Has finds it")
					}
					if f, err := s.Open(t.Context(), blob.SHA256, blob.Size); !errors.Is(err, engine.ErrNotFound) {
						if err == nil {
							f.Close()
						}
						t.Errorf("Open: %v", err)
					}
					if _, err := s.Put(t.Context(), strings.NewReader(text), 1<<30); err != nil {
						t.Fatal(err)
					}
					if got, err := contentOf(t, s, blob); err != nil || got != text || !s.Has(t.Context(), blob.SHA256, blob.Size) {
						t.Errorf("stored again: %d bytes, %v", len(got), err)
					}
				})
			}
		}
	}
}

// Readers of one blob do not disturb each other.
func TestReadersOfMemory(t *testing.T) {
	s := open(t, t.TempDir())
	blob := put(t, s, "content")
	one, err := s.Read(t.Context(), blob.SHA256, blob.Size)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Read(t.Context(), blob.SHA256, blob.Size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Seek(3, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if _, err := one.WriteTo(&a); err != nil {
		t.Fatal(err)
	}
	if _, err := two.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if a.String() != "tent" || b.String() != "content" {
		t.Errorf("%q, %q", &a, &b)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range 2 * maxContents / smallBlob {
		blob := put(t, s, strings.Repeat(string(rune('a'+i)), smallBlob))
		if _, err := contentOf(t, s, blob); err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	for _, kept := range s.contents.blobs {
		sum += len(kept.bytes)
	}
	if sum == 0 || sum > maxContents || s.contents.size > maxContents {
		t.Errorf("%d bytes are kept, counted as %d, of at most %d", sum, s.contents.size, maxContents)
	}
	for d := range s.contents.blobs {
		if err := s.Delete(t.Context(), d); err == nil {
			s.Unpin(d)
			_ = s.Delete(t.Context(), d)
		}
	}
	if len(s.contents.blobs) != 0 || s.contents.size != 0 {
		t.Errorf("after they were deleted %d are kept, counted as %d", len(s.contents.blobs), s.contents.size)
	}
}

func TestSealsAreBounded(t *testing.T) {
	var s seals
	for i := range maxSeals + 10 {
		s.set(engine.Digest{byte(i), byte(i >> 8), byte(i >> 16)}, stamp{}, false)
	}
	if len(s.of) != maxSeals {
		t.Errorf("%d are kept, not %d", len(s.of), maxSeals)
	}
}
