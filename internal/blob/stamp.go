package blob

import "github.com/airlock-run/airlock/internal/engine"

// stamp tells one state of a file from all others: which file it is, and when
// it was changed last.
type stamp struct {
	device, inode uint64
	size          int64
	changed       int64 // ns
	mode          uint32
}

// look returns the stamp of the regular file that has a blob's name now, false
// if there is none. It is cheap, because lists look at many; whoever then opens
// the file does so below the root.
func (s *Store) look(d engine.Digest) (stamp, bool) { return lookAt(s.dir, blobName(d)) }
