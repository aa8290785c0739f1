package providertest

import (
	"context"
	"slices"
	"sync"

	"github.com/airlock-run/airlock/provider"
)

// Store is a provider.LedgerStore and provider.UploadStore in memory.
type Store struct {
	mu      sync.Mutex
	entries []provider.Entry
	uploads []provider.CachedUpload
	holders map[string]bool
}

// Put implements provider.LedgerStore.
func (s *Store) Put(ctx context.Context, e provider.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.entries, func(k provider.Entry) bool { return k.Key == e.Key })
	if i < 0 {
		s.entries = append(s.entries, e)
	} else {
		s.entries[i] = e
	}
	return nil
}

// Remove implements provider.LedgerStore.
func (s *Store) Remove(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = slices.DeleteFunc(s.entries, func(k provider.Entry) bool { return k.Key == key })
	return nil
}

// Entries implements provider.LedgerStore.
func (s *Store) Entries(context.Context) ([]provider.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries), nil
}

// MarkAlive implements provider.LedgerStore.
func (s *Store) MarkAlive(_ context.Context, holder string) (func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders == nil {
		s.holders = map[string]bool{}
	}
	s.holders[holder] = true
	return func() error { s.Crash(holder); return nil }, nil
}

// Crash ends a holder; "" means all.
func (s *Store) Crash(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holder == "" {
		s.holders = nil
	}
	delete(s.holders, holder)
}

// Alive implements provider.LedgerStore.
func (s *Store) Alive(_ context.Context, holder string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holders[holder], nil
}

// Uploads implements provider.UploadStore.
func (s *Store) Uploads(_ context.Context, key provider.UploadKey) (found []provider.CachedUpload, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.uploads {
		if u.Key == key {
			found = append(found, u)
		}
	}
	return found, nil
}

// PutUpload implements provider.UploadStore.
func (s *Store) PutUpload(_ context.Context, u provider.CachedUpload) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads = append(s.uploads, u)
	return nil
}

// RemoveUpload implements provider.UploadStore.
func (s *Store) RemoveUpload(_ context.Context, key provider.UploadKey, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads = slices.DeleteFunc(s.uploads, func(u provider.CachedUpload) bool {
		return u.Key == key && u.File.Ref.ID == id
	})
	return nil
}
