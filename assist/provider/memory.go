package provider

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Memory is a [LedgerStore] and an [UploadStore] in the memory of one process. The zero value is
// empty. What it knows ends with the process, and with it the way to delete what is left at a
// provider: the stores of package assist/store are durable.
type Memory struct {
	mu      sync.Mutex
	entries map[string]Entry
	uploads []CachedUpload
	holders map[string]bool
}

// Put implements LedgerStore.
func (m *Memory) Put(ctx context.Context, e Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil {
		m.entries = map[string]Entry{}
	}
	e.Names = slices.Clone(e.Names)
	m.entries[e.Key] = e
	return nil
}

// Remove implements LedgerStore.
func (m *Memory) Remove(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
	return nil
}

// Entries implements LedgerStore.
func (m *Memory) Entries(ctx context.Context) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.SortedFunc(maps.Values(m.entries), func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	for i := range all {
		all[i].Names = slices.Clone(all[i].Names)
	}
	return all, ctx.Err()
}

// MarkAlive implements LedgerStore.
func (m *Memory) MarkAlive(ctx context.Context, holder string) (func() error, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holders == nil {
		m.holders = map[string]bool{}
	}
	m.holders[holder] = true
	return func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.holders, holder)
		return nil
	}, nil
}

// Alive implements LedgerStore.
func (m *Memory) Alive(ctx context.Context, holder string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holders[holder], ctx.Err()
}

// Uploads implements UploadStore.
func (m *Memory) Uploads(ctx context.Context, key UploadKey) (found []CachedUpload, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.uploads {
		if u.Key == key {
			found = append(found, u)
		}
	}
	return found, ctx.Err()
}

// PutUpload implements UploadStore.
func (m *Memory) PutUpload(ctx context.Context, u CachedUpload) error {
	if err := m.RemoveUpload(ctx, u.Key, u.File.Ref.ID); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uploads = append(m.uploads, u)
	return nil
}

// RemoveUpload implements UploadStore.
func (m *Memory) RemoveUpload(ctx context.Context, key UploadKey, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uploads = slices.DeleteFunc(m.uploads, func(u CachedUpload) bool { return u.Key == key && u.File.Ref.ID == id })
	return nil
}
