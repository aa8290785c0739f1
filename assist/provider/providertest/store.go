package providertest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider"
)

// Store is a provider.Memory whose holders can end as in a crash.
type Store struct {
	provider.Memory
	mu      sync.Mutex
	release []func() error
}

// MarkAlive implements provider.LedgerStore.
func (s *Store) MarkAlive(ctx context.Context, holder string) (func() error, error) {
	release, err := s.Memory.MarkAlive(ctx, holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release = append(s.release, release)
	return release, err
}

// Crash ends all holders.
func (s *Store) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, release := range s.release {
		_ = release() // of a Memory: never fails
	}
	s.release = nil
}

// TestStore is the suite of stores. open returns empty ones.
func TestStore(t *testing.T, open func(*testing.T) (provider.LedgerStore, provider.UploadStore)) {
	t.Run("entries", func(t *testing.T) {
		store, _ := open(t)
		testEntries(t, store)
	})
	t.Run("holders", func(t *testing.T) {
		store, _ := open(t)
		testHolders(t, store)
	})
	t.Run("uploads", func(t *testing.T) {
		_, store := open(t)
		testUploads(t, store)
	})
}

func testEntries(t *testing.T, s provider.LedgerStore) {
	ctx := t.Context()
	wanted := func(want ...provider.Entry) {
		t.Helper()
		got, err := s.Entries(ctx)
		if diff := cmp.Diff(append([]provider.Entry(nil), want...), got); err != nil || diff != "" {
			t.Errorf("error %v, entries (-want +got):\n%s", err, diff)
		}
	}
	put := func(e provider.Entry) {
		t.Helper()
		if err := s.Put(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	wanted()
	names := []string{"a.csv"}
	one := provider.Entry{Key: "1", Holder: "h", Provider: provider.OpenAI, Kind: provider.EntryFile, Name: "x"}
	two := provider.Entry{Key: "2", Holder: "h", Provider: provider.OpenAI, Kind: provider.EntryRun, Names: names}
	put(two)
	put(one)
	one.ID, one.Size = "file-1", 3
	put(one)
	names[0] = "changed"
	two.Names = []string{"a.csv"}
	wanted(one, two)
	ended, end := context.WithCancel(ctx)
	end()
	if err := s.Put(ended, provider.Entry{Key: "3"}); !errors.Is(err, context.Canceled) {
		t.Errorf("put after the end of the context: error %v", err)
	}
	for range 2 {
		if err := s.Remove(ctx, "1"); err != nil {
			t.Error(err)
		}
	}
	wanted(two)
}

func testHolders(t *testing.T, s provider.LedgerStore) {
	ctx := t.Context()
	alive := func(holder string, want bool) {
		t.Helper()
		if got, err := s.Alive(ctx, holder); err != nil || got != want {
			t.Errorf("%s is alive: %v, %v; want %v", holder, got, err, want)
		}
	}
	alive("h-1", false)
	release, err := s.MarkAlive(ctx, "h-1")
	if err != nil {
		t.Fatal(err)
	}
	alive("h-1", true)
	alive("h-2", false)
	if err := release(); err != nil {
		t.Error(err)
	}
	alive("h-1", false)
}

func testUploads(t *testing.T, s provider.UploadStore) {
	ctx := t.Context()
	key := provider.UploadKey{Provider: provider.XAI, Account: "a", SHA256: "s", Name: "n"}
	other := key
	other.Name = "m"
	upload := func(key provider.UploadKey, id, conversation string) provider.CachedUpload {
		t.Helper()
		u := provider.CachedUpload{Key: key, Conversation: conversation,
			File: provider.FileInfo{Name: key.Name, Size: 1, Ref: provider.FileRef{ID: id}}}
		if err := s.PutUpload(ctx, u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	wanted := func(key provider.UploadKey, want ...provider.CachedUpload) {
		t.Helper()
		got, err := s.Uploads(ctx, key)
		if diff := cmp.Diff(append([]provider.CachedUpload(nil), want...), got); err != nil || diff != "" {
			t.Errorf("error %v, uploads of %s (-want +got):\n%s", err, key.Name, diff)
		}
	}
	wanted(key)
	upload(key, "file_1", "c")
	one, two, apart := upload(key, "file_1", ""), upload(key, "file_2", "c"), upload(other, "file_1", "c")
	wanted(key, one, two)
	wanted(other, apart)
	for range 2 {
		if err := s.RemoveUpload(ctx, key, "file_1"); err != nil {
			t.Error(err)
		}
	}
	wanted(key, two)
	wanted(other, apart)
}
