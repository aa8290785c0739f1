package bucket

import (
	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// Files are sent past the cache, listed, and read back to the end.
func TestMove(t *testing.T) {
	p := newPlace(t)
	s := p.replica(1 << 20)
	want := map[engine.Digest]int64{}
	for _, size := range []int{0, 1, 1000, onePart + 1} {
		text := some(size)
		b := engine.Blob{SHA256: sha256.Sum256(text), Size: int64(size)}
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := s.Check(t.Context(), b); engine.KindOf(err) != engine.ErrNotFound {
			t.Errorf("%d bytes that are not there: %v", size, err)
		}
		if err := s.Send(t.Context(), b, f); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context(), b); err != nil {
			t.Error(err)
		}
		want[b.SHA256] = b.Size
		if size == 1000 {
			p.overwrite(s, b.SHA256, append(some(999), 'x'))
			if err := s.Check(t.Context(), b); engine.KindOf(err) != engine.ErrNotFound {
				t.Errorf("damaged bytes: %v", err)
			}
		}
	}
	if got, err := s.List(t.Context()); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if files, _ := filepath.Glob(filepath.Join(s.cache.Dir(), "??", "*")); len(files) > 0 {
		t.Errorf("the cache has %v", files)
	}
}

// A bucket says whose files were moved there.
func TestClaim(t *testing.T) {
	p := newPlace(t)
	s := p.replica(1 << 20)
	if owner, err := s.Owner(t.Context()); err != nil || owner != "" {
		t.Errorf("%q, %v", owner, err)
	}
	if err := s.Claim(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	if owner, err := p.replica(1 << 20).Owner(t.Context()); err != nil || owner != "ada" {
		t.Errorf("%q, %v", owner, err)
	}
}
