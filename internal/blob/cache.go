package blob

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Cache is a store of blobs that another store has too. It evicts the least recently
// used blobs.
type Cache struct {
	*Store
	dir   string
	bound int64

	mu   sync.Mutex
	used map[engine.Digest]*use
	size int64
}

type use struct {
	size int64
	last time.Time
}

// OpenCache opens the cache in dir, which is its own, and lets it take bound bytes.
func OpenCache(ctx context.Context, dir string, bound int64, options ...Option) (*Cache, error) {
	local, err := Open(dir, append(options, asCache)...)
	if err != nil {
		return nil, err
	}
	c := &Cache{Store: local, dir: dir, bound: bound, used: map[engine.Digest]*use{}}
	if err := c.load(ctx); err != nil {
		return nil, errors.Join(err, local.Close())
	}
	return c, nil
}

// Dir returns the directory of the cache.
func (c *Cache) Dir() string { return c.dir }

// Size returns how many bytes the blobs of the cache have.
func (c *Cache) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// load adds the blobs of an earlier process.
func (c *Cache) load(ctx context.Context) error {
	err := filepath.WalkDir(c.dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		d, err := engine.ParseDigest(entry.Name())
		if err != nil {
			return nil //nolint:nilerr // an upload that was cut off, which Sweep removes
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		c.used[d] = &use{info.Size(), info.ModTime()}
		c.size += info.Size()
		return nil
	})
	if err != nil {
		return &engine.Error{Op: "open cache", Err: err}
	}
	_, err = c.Sweep(ctx, func(engine.Digest) bool { return true })
	c.evict(ctx)
	return err
}

// Touch records a use of a blob.
func (c *Cache) Touch(ctx context.Context, b engine.Blob) {
	c.mu.Lock()
	known, ok := c.used[b.SHA256]
	if !ok {
		known = &use{size: b.Size}
		c.used[b.SHA256] = known
		c.size += b.Size
	}
	known.last = time.Now()
	over := c.size > c.bound
	c.mu.Unlock()
	if over {
		c.evict(ctx)
	}
}

// Delete removes a blob and its entry.
func (c *Cache) Delete(ctx context.Context, d engine.Digest) error {
	c.mu.Lock()
	if known, ok := c.used[d]; ok {
		c.size -= known.size
		delete(c.used, d)
	}
	c.mu.Unlock()
	return c.Store.Delete(ctx, d)
}

// evict makes room, a tenth more than is needed. Files that are open stay readable. A
// blob that is being uploaded is pinned and stays.
func (c *Cache) evict(ctx context.Context) {
	c.mu.Lock()
	type old struct {
		engine.Digest
		use
	}
	var all []old
	for d, u := range c.used {
		all = append(all, old{d, *u})
	}
	excess := c.size - c.bound*9/10
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b old) int { return cmp.Or(a.last.Compare(b.last), cmp.Compare(a.size, b.size)) })
	for _, o := range all {
		if excess <= 0 {
			return
		}
		excess -= o.size
		_ = c.Delete(ctx, o.Digest) // the next process finds a blob that stays
	}
}
