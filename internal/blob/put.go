package blob

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math"

	"github.com/airlock-run/airlock/internal/engine"
)

// bufferSize is the memory of one upload, whatever its length.
const bufferSize = 128 << 10

// Put stores all that r gives and pins it. It returns engine.ErrTooLarge
// after limit+1 bytes and reads no further, engine.ErrFull when there is no
// room, and engine.ErrCanceled when ctx ended. When it returns without an
// error the bytes survive a power cut; else nothing of them can be seen.
func (s *Store) Put(ctx context.Context, r io.Reader, limit int64) (engine.Blob, error) {
	if err := s.room(); err != nil {
		return engine.Blob{}, err
	}
	up, err := s.newUpload()
	if err != nil {
		return engine.Blob{}, failed(opPut, "", err)
	}
	defer up.discard()
	blob, err := up.fill(ctx, r, limit)
	if err != nil {
		return engine.Blob{}, err
	}
	shard := s.shard(blob.SHA256)
	shard.pin(blob.SHA256)
	if err := s.publish(up, blob); err != nil {
		shard.unpin(blob.SHA256)
		return engine.Blob{}, failed(opPut, blob.SHA256.String(), err)
	}
	return blob, nil
}

// publish makes a filled upload visible under its digest, and durable.
func (s *Store) publish(up *upload, blob engine.Blob) error {
	shard := s.shard(blob.SHA256)
	// The one long step, writing out the file, does not hold up the shard.
	if file, ok := s.look(blob.SHA256); !ok || file.Size() != blob.Size {
		if err := up.finalize(); err != nil {
			return err
		}
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if file, ok := s.look(blob.SHA256); ok {
		if seal, holds := s.seals.get(blob.SHA256, file); holds && seal.durable {
			return nil
		}
	}
	if err := up.finalize(); err != nil {
		return err
	}
	if err := s.makeShard(blob.SHA256); err != nil {
		return err
	}
	// Opened before the rename: a directory opened after another upload met
	// an error in it might not be told of that error.
	parent, err := s.disk.openDir(shardName(blob.SHA256))
	if err != nil {
		return err
	}
	if err := s.disk.rename(up.name, blobName(blob.SHA256)); err != nil {
		parent.Close()
		return err
	}
	up.renamed = true
	// Should this fail, the blob stays: it is whole, no caller was told of it,
	// and if it has replaced a blob that a caller was told of, removing it
	// would lose that one.
	if err := s.syncDir(parent); err != nil {
		return err
	}
	if file, ok := s.look(blob.SHA256); ok {
		s.seals.set(blob.SHA256, file, true)
	}
	return nil
}

// syncDir makes the names in a directory durable and closes it.
func (s *Store) syncDir(d dir) error {
	if s.unsynced {
		return d.Close()
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeShard makes the directory of a digest durable, if it is new or this
// process has not done so yet. A directory that an earlier process made may
// be in the page cache only.
func (s *Store) makeShard(d engine.Digest) error {
	shard := s.shard(d)
	top, err := s.disk.openDir(".")
	if err != nil {
		return err
	}
	err = s.disk.mkdir(shardName(d))
	created := err == nil
	switch {
	case errors.Is(err, fs.ErrExist) && shard.made:
		return top.Close()
	case err != nil && !errors.Is(err, fs.ErrExist):
		top.Close()
		return err
	}
	shard.made = false
	if err := s.syncDir(top); err != nil {
		if created {
			// What is found after a failed fsync proves nothing, so the next
			// upload has to make the directory anew.
			_ = s.disk.remove(shardName(d))
		}
		return err
	}
	shard.made = true
	return nil
}

// upload is a temporary file on its way to become a blob.
type upload struct {
	store   *Store
	name    string
	file    file  // nil once closed
	err     error // of finalize
	renamed bool
}

func (s *Store) newUpload() (*upload, error) {
	name := tmpDir + "/" + rand.Text()
	s.mu.Lock()
	s.uploads[name] = true
	s.mu.Unlock()
	up := &upload{store: s, name: name}
	f, err := s.disk.create(name)
	if err != nil {
		up.release()
		return nil, err
	}
	up.file = f
	return up, nil
}

// fill copies r into the temporary file.
func (up *upload) fill(ctx context.Context, r io.Reader, limit int64) (engine.Blob, error) {
	limit = min(max(limit, 0), math.MaxInt64-1)
	var size int64
	hash := sha256.New()
	buffer := make([]byte, bufferSize)
	for {
		if err := context.Cause(ctx); err != nil {
			return engine.Blob{}, &engine.Error{Op: opPut, Kind: engine.ErrCanceled, Err: err}
		}
		// One byte more than allowed reveals a file that is too long.
		room := min(int64(len(buffer)), limit-size+1)
		n, err := r.Read(buffer[:room])
		if size += int64(n); size > limit {
			return engine.Blob{}, &engine.Error{Op: opPut, Kind: engine.ErrTooLarge}
		}
		hash.Write(buffer[:n])
		if n > 0 {
			if err := up.store.room(); err != nil {
				return engine.Blob{}, err
			}
			if _, err := up.file.Write(buffer[:n]); err != nil {
				return engine.Blob{}, failed(opPut, "", err)
			}
		}
		if err == io.EOF {
			return engine.Blob{SHA256: engine.Digest(hash.Sum(nil)), Size: size}, nil
		}
		if err != nil {
			return engine.Blob{}, brokenOff(ctx, err)
		}
	}
}

// finalize makes the bytes durable and closes the file. A second call returns the
// result of the first.
func (up *upload) finalize() error {
	if up.file == nil {
		return up.err
	}
	if !up.store.unsynced {
		up.err = up.file.Sync()
	}
	up.err = errors.Join(up.err, up.file.Close())
	up.file = nil
	return up.err
}

// discard ends the upload and removes the temporary file, if it is still one.
// If the removal fails, Sweep removes it later.
func (up *upload) discard() {
	if up.file != nil {
		up.file.Close()
	}
	if !up.renamed {
		_ = up.store.disk.remove(up.name)
	}
	up.release()
}

func (up *upload) release() {
	up.store.mu.Lock()
	defer up.store.mu.Unlock()
	delete(up.store.uploads, up.name)
}
