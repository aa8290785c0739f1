package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/airlock-run/airlock/internal/engine"
)

// sweepBatch bounds how many names of a directory are in memory at once.
const sweepBatch = 1024

// Holds reports whether there is a blob in a directory, which may be missing.
func Holds(dir string) (found bool, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, notBlob := engine.ParseDigest(entry.Name()); notBlob == nil && entry.Type().IsRegular() {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}

// Sweep removes each blob that keep refuses and that is not pinned, and the
// temporary files that no upload is writing. It returns how many files went.
//
// keep is asked for one blob at a time, under a lock that keeps a Put of the
// same bytes from ending. An answer out of the index as it is at that moment
// is therefore safe beside uploads; an answer out of a list is safe as long as
// nothing was unpinned since the list was made. keep must not call the store.
func (s *Store) Sweep(ctx context.Context, keep func(engine.Digest) bool) (int, error) {
	gone := 0
	err := s.each(ctx, tmpDir, func(name string) error {
		name = tmpDir + "/" + name
		s.mu.Lock()
		busy := s.uploads[name]
		s.mu.Unlock()
		if busy {
			return nil
		}
		err := s.disk.remove(name)
		if err == nil {
			gone++
		}
		return err
	})
	if err != nil {
		return gone, err
	}
	for i := range s.shards {
		shard := fmt.Sprintf("%02x", i)
		err := s.each(ctx, shard, func(name string) error {
			d, invalid := engine.ParseDigest(name)
			if invalid != nil || blobName(d) != shard+"/"+name {
				return nil //nolint:nilerr // another program put it there
			}
			removed, err := s.discard(d, keep)
			if removed {
				gone++
			}
			return err
		})
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// each calls visit with the names in a directory. visit may remove the named
// file.
func (s *Store) each(ctx context.Context, dir string, visit func(name string) error) error {
	d, err := s.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(opSweep, "", err)
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(sweepBatch)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return &engine.Error{Op: opSweep, Kind: engine.ErrCanceled, Err: err}
			}
			if err := visit(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return failed(opSweep, "", err)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return failed(opSweep, "", err)
		}
	}
}
