package index

import (
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// maxCached bounds the rows in memory: a few hundred bytes each.
const maxCached = 4096

// fileCache caches rows of files, because one file is often looked up many times. A row
// changes in nothing but its expiry, so it is dropped from the cache when its expiry
// moves and when it is deleted.
//
// A look-up that began before such a change must not bring the old row back
// after it: each change begins a new generation, and a row is kept only if it
// was read in the present one.
type fileCache struct {
	mu         sync.RWMutex
	generation uint64
	rows       map[engine.ID]engine.File
}

// A nil cache keeps nothing.
func newFileCache() *fileCache { return &fileCache{rows: map[engine.ID]engine.File{}} }

// get returns the row of a file that has not expired. Without one it returns
// the generation in which the caller is about to read it.
func (c *fileCache) get(
	owner engine.Owner, id engine.ID, now time.Time,
) (file engine.File, ok bool, generation uint64) {
	if c == nil {
		return engine.File{}, false, 0
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	file, ok = c.rows[id]
	if !ok || file.Owner != owner || !file.ExpiresAt.After(now) {
		return engine.File{}, false, c.generation
	}
	return file, true, c.generation
}

// keep keeps a row that was read in a generation.
func (c *fileCache) keep(file engine.File, generation uint64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	if _, known := c.rows[file.ID]; !known && len(c.rows) >= maxCached {
		for id := range c.rows {
			delete(c.rows, id) // any: the order of a map is as good as another
			break
		}
	}
	c.rows[file.ID] = file
}

// forget drops changed rows. It is called when the change is visible, and
// before the method that made the change returns.
func (c *fileCache) forget(ids ...engine.ID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	for _, id := range ids {
		delete(c.rows, id)
	}
}

// clear drops every row.
func (c *fileCache) clear() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	clear(c.rows)
}
