package conversation

import (
	"context"
	"slices"
	"sync"

	"github.com/airlock-run/airlock/provider"
)

// passingUploads remembers what a conversation has sent for as long as it goes
// on: then it is deleted. Of what earlier ones have kept it knows too.
type passingUploads struct {
	kept provider.UploadStore

	mu   sync.Mutex
	list []provider.CachedUpload
}

// Uploads implements provider.UploadStore.
func (u *passingUploads) Uploads(
	ctx context.Context, key provider.UploadKey,
) (found []provider.CachedUpload, err error) {
	u.mu.Lock()
	for _, c := range u.list {
		if c.Key == key {
			found = append(found, c)
		}
	}
	u.mu.Unlock()
	kept, err := u.kept.Uploads(ctx, key)
	return append(found, kept...), err
}

// PutUpload implements provider.UploadStore.
func (u *passingUploads) PutUpload(_ context.Context, c provider.CachedUpload) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, c)
	return nil
}

// RemoveUpload implements provider.UploadStore.
func (u *passingUploads) RemoveUpload(ctx context.Context, key provider.UploadKey, id string) error {
	u.mu.Lock()
	before := len(u.list)
	u.list = slices.DeleteFunc(u.list, func(c provider.CachedUpload) bool { return c.Key == key && c.File.Ref.ID == id })
	ours := len(u.list) < before
	u.mu.Unlock()
	if ours {
		return nil
	}
	return u.kept.RemoveUpload(ctx, key, id)
}
