package blob

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

var _ engine.Blobs = (*Store)(nil)

const (
	tmpDir = "tmp"

	opStore  = "open store"
	opPut    = "store file"
	opOpen   = "open file"
	opDelete = "delete file"
	opSweep  = "sweep files"
)

// Store keeps blobs in one directory. Its methods may be called at once from
// many goroutines.
type Store struct {
	root   *os.Root
	disk   disk
	shards [256]shard

	mu      sync.Mutex
	uploads map[string]bool // temporary files that a Put is writing
}

// Open opens the store in dir and makes it when it is missing. The directory
// is the store's own: <data>/files.
func Open(dir string) (*Store, error) {
	if err := makeDir(dir); err != nil {
		return nil, failed(opStore, "", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failed(opStore, "", err)
	}
	s := &Store{root: root, disk: rootDisk{root}, uploads: map[string]bool{}}
	if err := s.disk.mkdir(tmpDir); err != nil && !errors.Is(err, fs.ErrExist) {
		root.Close()
		return nil, failed(opStore, "", err)
	}
	return s, nil
}

// Close gives the directory back. Files that Open returned stay readable.
func (s *Store) Close() error { return s.root.Close() }

// Unpin ends the protection that one Put gave.
func (s *Store) Unpin(d engine.Digest) { s.shard(d).unpin(d) }

// Open returns the bytes of a blob, and engine.ErrNotFound when they are
// absent or are not size bytes long: a damaged blob is as good as a lost one.
func (s *Store) Open(ctx context.Context, d engine.Digest, size int64) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, &engine.Error{Op: opOpen, Kind: engine.ErrCanceled, ID: d.String(), Err: err}
	}
	f, err := s.root.Open(blobName(d))
	if err != nil {
		return nil, failed(opOpen, d.String(), err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != size) {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, failed(opOpen, d.String(), err)
	}
	return f, nil
}

// Delete removes a blob, unless it is pinned. A missing one is no error. The
// removal is not made durable: a blob that a power cut brings back is waste
// that Sweep finds.
func (s *Store) Delete(ctx context.Context, d engine.Digest) error {
	if err := ctx.Err(); err != nil {
		return &engine.Error{Op: opDelete, Kind: engine.ErrCanceled, ID: d.String(), Err: err}
	}
	if _, err := s.discard(d, nil); err != nil {
		return failed(opDelete, d.String(), err)
	}
	return nil
}

// discard removes a blob that is neither pinned nor kept. It asks keep while
// no Put of that digest can end, so that an answer cannot be overtaken.
func (s *Store) discard(d engine.Digest, keep func(engine.Digest) bool) (gone bool, err error) {
	shard := s.shard(d)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.pins[d] > 0 || keep != nil && keep(d) {
		return false, nil
	}
	delete(shard.durable, d)
	err = s.disk.remove(blobName(d))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) shard(d engine.Digest) *shard { return &s.shards[d[0]] }
