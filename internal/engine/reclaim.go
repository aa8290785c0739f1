package engine

import (
	"context"
	"sync"
)

// reclaim removes blobs that no file has, and never a blob that is about to get a file.
// Put pins a blob until the engine unpins it, after its file is in the index. During a
// removal, unpinning is deferred: each blob is either pinned, or in the index if it ever
// will be, so that the removal may trust what the index returned when it began.
type reclaim struct {
	blobs Blobs

	removal sync.Mutex      // one at a time
	spared  map[Digest]bool // what the first sweep of a young index found; guarded by removal

	mu       sync.Mutex
	removing bool
	deferred []Digest
}

// unpin ends the protection of blobs that are now in the index, or discarded.
func (r *reclaim) unpin(digests ...Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removing {
		r.deferred = append(r.deferred, digests...)
		return
	}
	for _, d := range digests {
		r.blobs.Unpin(d)
	}
}

// while runs a removal.
func (r *reclaim) while(remove func() error) error {
	r.removal.Lock()
	defer r.removal.Unlock()
	r.mu.Lock()
	r.removing = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.removing = false
		for _, d := range r.deferred {
			r.blobs.Unpin(d)
		}
		r.deferred = nil
	}()
	return remove()
}

// sweep removes every blob that no file has, and what uploads that were cut off have left. Of a
// young index, what the first sweep finds stays: it may be of an index that was lost.
func (s *Service) sweep(ctx context.Context) error {
	return s.index.Sweeping(ctx, func() error { return s.sweepAlone(ctx) })
}

func (s *Service) sweepAlone(ctx context.Context) error {
	return s.reclaim.while(func() error {
		known, err := s.index.Digests(ctx)
		if err != nil {
			return err
		}
		young, err := s.index.Young(ctx)
		if err != nil {
			return err
		}
		spared := s.reclaim.spared
		if young && spared == nil {
			spared = make(map[Digest]bool)
		}
		gone, err := s.blobs.Sweep(ctx, func(d Digest) bool {
			if young && s.reclaim.spared == nil && !known[d] {
				spared[d] = true
			}
			return known[d] || young && spared[d]
		})
		if err == nil {
			s.reclaim.spared = spared
		}
		if gone > 0 {
			s.log.InfoContext(ctx, "removed bytes that no file has", "count", gone)
		}
		return err
	})
}

// remove removes those of digests that no file has.
func (s *Service) remove(ctx context.Context, digests []Digest) error {
	return s.reclaim.while(func() error {
		orphans, err := s.index.Unreferenced(ctx, digests)
		if err != nil {
			return err
		}
		for _, d := range orphans {
			if err := s.blobs.Delete(ctx, d); err != nil {
				return err
			}
		}
		return nil
	})
}
