package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

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
	root     *os.Root
	disk     disk
	shards   [256]shard
	unsynced bool // nothing is fsynced

	seals    seals
	contents contents

	room func() error // returns nil as long as there is some

	mu      sync.Mutex
	uploads map[string]bool // temporary files that a Put is writing
}

// Option changes how a store is opened.
type Option func(*Store)

// WithRoom sets a function that Put calls before it writes. Put returns its
// error.
func WithRoom(room func() error) Option { return func(s *Store) { s.room = room } }

// asCache makes a store that need not survive a power cut, because another store has its
// blobs. The next Open detects torn bytes, like any damage.
func asCache(s *Store) { s.unsynced = true }

// Open opens the store in dir and makes it when it is missing. The directory
// is the store's own: <data>/files.
func Open(dir string, options ...Option) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = makeDir(dir)
	}
	if err != nil {
		return nil, failed(opStore, "", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failed(opStore, "", err)
	}
	s := &Store{root: root, disk: rootDisk{root}, uploads: map[string]bool{}, room: func() error { return nil }}
	for _, option := range options {
		option(s)
	}
	if err := s.disk.mkdir(tmpDir); err != nil && !errors.Is(err, fs.ErrExist) {
		s.Close()
		return nil, failed(opStore, "", err)
	}
	return s, nil
}

// Close closes the directory. Files that Open returned stay readable.
func (s *Store) Close() error { return s.root.Close() }

// look returns the stamp of the regular file that has a blob's name now, false
// if there is none. It is cheap, because lists look at many: a reader then opens
// the file below the root.
func (s *Store) look(d engine.Digest) (stamp, bool) {
	info, err := os.Lstat(filepath.Join(s.root.Name(), blobName(d)))
	return stamp{info}, err == nil && info.Mode().IsRegular()
}

// Unpin ends the protection that one Put gave.
func (s *Store) Unpin(d engine.Digest) { s.shard(d).unpin(d) }

// Open returns the bytes of a blob. If they are absent or damaged, it returns
// engine.ErrNotFound. The first time, and when the file has changed, Open
// reads the whole file to check it.
func (s *Store) Open(ctx context.Context, d engine.Digest, size int64) (*os.File, error) {
	f, _, err := s.open(ctx, d, size)
	return f, err
}

func (s *Store) open(ctx context.Context, d engine.Digest, size int64) (_ *os.File, file stamp, _ error) {
	if err := ctx.Err(); err != nil {
		return nil, file, &engine.Error{Op: opOpen, Kind: engine.ErrCanceled, ID: d.String(), Err: err}
	}
	// A pipe that another process put there must not block the open.
	f, err := s.root.OpenFile(blobName(d), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if info, stat := s.root.Lstat(blobName(d)); stat == nil && !info.Mode().IsRegular() {
			err = fs.ErrNotExist
		}
		return nil, file, failed(opOpen, d.String(), err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != size) {
		err = fs.ErrNotExist
	}
	if err == nil {
		file = stamp{info}
		if _, holds := s.seals.get(d, file); !holds {
			err = s.check(ctx, d, f, size)
		}
	}
	if err == nil {
		s.seals.set(d, file, false)
	}
	if err != nil {
		f.Close()
		if own, ok := errors.AsType[*engine.Error](err); ok {
			return nil, file, own
		}
		return nil, file, failed(opOpen, d.String(), err)
	}
	return f, file, nil
}

// check reads a blob to find out whether it is whole.
func (s *Store) check(ctx context.Context, d engine.Digest, f *os.File, size int64) error {
	hash := sha256.New()
	buffer := make([]byte, min(max(size, 1), bufferSize))
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return &engine.Error{Op: opOpen, Kind: engine.ErrCanceled, ID: d.String(), Err: err}
		}
		n, err := f.ReadAt(buffer[:min(size-at, int64(len(buffer)))], at)
		hash.Write(buffer[:n])
		at += int64(n)
		if errors.Is(err, io.EOF) && at < size {
			return fs.ErrNotExist
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if engine.Digest(hash.Sum(nil)) != d {
		return fs.ErrNotExist
	}
	return nil
}

// Read returns the bytes of a blob, under the
// conditions of Open. Small ones may come from memory.
func (s *Store) Read(ctx context.Context, d engine.Digest, size int64) (engine.Content, error) {
	if size > smallBlob {
		f, err := s.Open(ctx, d, size)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	if known, ok := s.contents.get(d); ok {
		if file, ok := s.look(d); ok && file.is(known.from) && file.Size() == size {
			return inMemory{bytes.NewReader(known.bytes)}, nil
		}
		s.contents.forget(d)
	}
	f, file, err := s.open(ctx, d, size)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text := make([]byte, size)
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, failed(opOpen, d.String(), err)
	}
	s.contents.keep(d, content{text, file})
	return inMemory{bytes.NewReader(text)}, nil
}

// Has reports whether Open would find a blob. It checks only the length of a large
// blob that this process has neither written nor checked.
func (s *Store) Has(ctx context.Context, d engine.Digest, size int64) bool {
	file, ok := s.look(d)
	if !ok || file.Size() != size {
		return false
	}
	if known, holds := s.seals.get(d, file); holds || size > smallBlob && known.file.FileInfo == nil {
		return true
	}
	f, err := s.Open(ctx, d, size)
	if err != nil {
		return engine.KindOf(err) != engine.ErrNotFound
	}
	return f.Close() == nil
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
	s.seals.remove(d)
	s.contents.forget(d)
	err = s.disk.remove(blobName(d))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) shard(d engine.Digest) *shard { return &s.shards[d[0]] }
