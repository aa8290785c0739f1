// Package enginetest holds in-memory fakes of what the engine needs, for its
// own tests and for those of the protocols on top of it. They keep the
// contracts of the real ones, but nothing survives the process.
package enginetest

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// Blobs keeps bytes in memory.
type Blobs struct {
	faults faults

	mu    sync.Mutex
	bytes map[engine.Digest][]byte
	pins  map[engine.Digest]int
}

var _ engine.Blobs = (*Blobs)(nil)

// NewBlobs returns an empty store.
func NewBlobs() *Blobs {
	return &Blobs{bytes: map[engine.Digest][]byte{}, pins: map[engine.Digest]int{}}
}

// Fail has fault asked before every operation, by the name of its method: an
// error from it is the operation's answer. Nil ends that.
func (b *Blobs) Fail(fault func(method string) error) { b.faults.set(fault) }

// faults is what a test wants to go wrong.
type faults struct {
	mu    sync.Mutex
	fault func(method string) error
}

func (f *faults) set(fault func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faults) of(method string) error {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(method)
}

// Put stores and pins all that r gives.
func (b *Blobs) Put(ctx context.Context, r io.Reader, limit int64) (engine.Blob, error) {
	if err := b.faults.of("Put"); err != nil {
		return engine.Blob{}, err
	}
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return engine.Blob{}, err
	}
	if int64(len(content)) > limit {
		return engine.Blob{}, engine.ErrTooLarge
	}
	if err := ctx.Err(); err != nil {
		return engine.Blob{}, err
	}
	digest := engine.Digest(sha256.Sum256(content))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes[digest] = content
	b.pins[digest]++
	return engine.Blob{SHA256: digest, Size: int64(len(content))}, nil
}

// Unpin ends the protection that one Put gave.
func (b *Blobs) Unpin(d engine.Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pins[d]--; b.pins[d] <= 0 {
		delete(b.pins, d)
	}
}

// Open returns the bytes in a file of their own.
func (b *Blobs) Open(ctx context.Context, d engine.Digest, size int64) (*os.File, error) {
	if err := b.faults.of("Open"); err != nil {
		return nil, err
	}
	b.mu.Lock()
	content, ok := b.bytes[d]
	b.mu.Unlock()
	if !ok || int64(len(content)) != size {
		return nil, engine.ErrNotFound
	}
	f, err := os.CreateTemp("", "blob-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read is Open.
func (b *Blobs) Read(ctx context.Context, d engine.Digest, size int64) (engine.Content, error) {
	f, err := b.Open(ctx, d, size)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Has reports whether Open would find the bytes.
func (b *Blobs) Has(_ context.Context, d engine.Digest, size int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, ok := b.bytes[d]
	return ok && int64(len(content)) == size
}

// Delete removes a blob, unless it is pinned.
func (b *Blobs) Delete(ctx context.Context, d engine.Digest) error {
	if err := b.faults.of("Delete"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pins[d] == 0 {
		delete(b.bytes, d)
	}
	return nil
}

// Sweep removes the blobs that keep refuses and that are not pinned.
func (b *Blobs) Sweep(ctx context.Context, keep func(engine.Digest) bool) (int, error) {
	if err := b.faults.of("Sweep"); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := 0
	for d := range b.bytes {
		if b.pins[d] == 0 && !keep(d) {
			delete(b.bytes, d)
			gone++
		}
	}
	return gone, nil
}

// Lose drops a blob whatever protects it, as a broken disk does.
func (b *Blobs) Lose(d engine.Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.bytes, d)
}

// Len returns how many blobs there are, and how many of them are pinned.
func (b *Blobs) Len() (blobs, pinned int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.bytes), len(b.pins)
}
