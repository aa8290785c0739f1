package blob

import (
	"encoding/hex"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
)

// shard is one of the 256 directories and all that is known about the blobs
// in it. Its mutex is held while a blob appears or disappears, which keeps a
// Put and a Delete of one digest apart; blobs of other shards do not wait.
type shard struct {
	mu   sync.Mutex
	pins map[engine.Digest]int

	// made reports that the directory itself exists and is durable.
	made bool
}

func (s *shard) pin(d engine.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins == nil {
		s.pins = map[engine.Digest]int{}
	}
	s.pins[d]++
}

func (s *shard) unpin(d engine.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins[d]--; s.pins[d] <= 0 {
		delete(s.pins, d)
	}
}

func shardName(d engine.Digest) string { return hex.EncodeToString(d[:1]) }

func blobName(d engine.Digest) string { return shardName(d) + "/" + d.String() }
