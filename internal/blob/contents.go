package blob

import (
	"bytes"
	"io/fs"
	"os"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	// smallBlob is the most that a blob may have to be kept in memory, so that
	// a file that is fetched again and again is not opened and read each time.
	smallBlob = 256 << 10
	// maxContents bounds what all of them take together, contentCost for each
	// included.
	maxContents = 4 << 20
	contentCost = 1 << 10
)

// contents are small blobs in memory, whole and checked. The disk decides
// nevertheless: bytes count only while the file is the one they were read from.
type contents struct {
	mu    sync.Mutex
	blobs map[engine.Digest]content
	size  int
}

type content struct {
	bytes []byte
	from  stamp
}

func (c content) cost() int { return len(c.bytes) + contentCost }

func (c *contents) get(d engine.Digest) (content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.blobs[d]
	return found, ok
}

func (c *contents) keep(d engine.Digest, added content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(d)
	for other := range c.blobs {
		if c.size+added.cost() <= maxContents {
			break
		}
		c.drop(other) // any: the order of a map is as good as another
	}
	if c.blobs == nil {
		c.blobs = map[engine.Digest]content{}
	}
	c.blobs[d] = added
	c.size += added.cost()
}

func (c *contents) forget(d engine.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(d)
}

func (c *contents) drop(d engine.Digest) {
	if old, ok := c.blobs[d]; ok {
		c.size -= old.cost()
		delete(c.blobs, d)
	}
}

// inMemory reads bytes that other readers share.
type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

// stamp identifies a state of a file: which file it is, and when it was changed
// last.
type stamp struct{ fs.FileInfo }

func (s stamp) is(other stamp) bool {
	return s.FileInfo != nil && other.FileInfo != nil && os.SameFile(s.FileInfo, other.FileInfo) &&
		s.Size() == other.Size() && s.Mode() == other.Mode() && s.ModTime().Equal(other.ModTime())
}

// maxSeals bounds how many blobs are known to be whole.
const maxSeals = 16 << 10

// seals are the blobs that this process has written, or read to the end and
// compared with their digest. If a blob is still the same file with the same
// time of change, it is whole and is not read again.
type seals struct {
	mu sync.Mutex
	of map[engine.Digest]seal
}

type seal struct {
	file stamp

	// durable reports that this process has made the blob durable. A blob of an
	// earlier process may be in the page cache only (if the process was killed
	// between rename and fsync), so its mere presence proves nothing.
	durable bool
}

func (s *seals) set(d engine.Digest, file stamp, durable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[engine.Digest]seal{}
	}
	known, ok := s.of[d]
	if !ok && len(s.of) >= maxSeals {
		for other := range s.of {
			delete(s.of, other)
			break
		}
	}
	s.of[d] = seal{file, durable || known.durable && known.file.is(file)}
}

func (s *seals) remove(d engine.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, d)
}

// get returns the seal of a blob, and reports whether the file is unchanged since it was
// found whole.
func (s *seals) get(d engine.Digest, file stamp) (known seal, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known = s.of[d]
	return known, known.file.is(file)
}
