package enginetest

import (
	"context"
	"math"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// Folders is an engine.Volumes in memory: a program sets what it has written with Write.
type Folders struct {
	mu    sync.Mutex
	sizes map[engine.ID]int64
	free  int64
}

// NewFolders returns one without volumes.
func NewFolders() *Folders { return &Folders{sizes: map[engine.ID]int64{}, free: math.MaxInt64 / 2} }

// Write sets the size of a volume.
func (f *Folders) Write(id engine.ID, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free -= bytes - f.sizes[id]
	f.sizes[id] = bytes
}

// Has reports whether there is such a volume.
func (f *Folders) Has(id engine.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.sizes[id]
	return ok
}

// Create implements engine.Volumes.
func (f *Folders) Create(id engine.ID) error {
	f.Write(id, 0)
	return nil
}

// Measure implements engine.Volumes.
func (f *Folders) Measure(_ context.Context, id engine.ID) (bytes int64, files int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sizes[id], 1, nil
}

// Remove implements engine.Volumes.
func (f *Folders) Remove(_ context.Context, id engine.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sizes, id)
	return nil
}

// Free implements engine.Volumes.
func (f *Folders) Free() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.free, nil
}
