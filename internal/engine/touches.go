package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// life is what an object's lifetime depends on: a use moves its expiry to now + ttl.
type life struct {
	id      ID
	expires time.Time // as the index has it
	ttl     time.Duration
}

func (f *File) life() life    { return life{f.ID, f.ExpiresAt, f.TTL} }
func (s *Session) life() life { return life{s.ID, s.ExpiresAt, s.TTL} }

// touches buffers access times of files and sessions in the memory of this process, until
// the janitor writes them to the index: a read never costs a write. A process that is
// killed loses those of its last cleanUpInterval; what would expire by then is written at
// once.
type touches struct {
	mu      sync.Mutex
	uses    map[ID]time.Time
	failing bool // the index refused some
}

// expiry returns when an object expires, buffered uses included.
func (t *touches) expiry(l life) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if use, ok := t.uses[l.id]; ok && use.Add(l.ttl).After(l.expires) {
		return use.Add(l.ttl)
	}
	return l.expires
}

// add buffers a use.
func (t *touches) add(id ID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.uses[id] = now
}

// has reports whether a use of an object is buffered.
func (t *touches) has(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.uses[id]
	return ok
}

func (t *touches) isFailing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failing
}

// flush writes the uses to the index, each with its own time: as of now it would bring
// back what expired after its last use. A use that is added meanwhile stays for the next
// flush, and all stay if the index fails.
func (t *touches) flush(ctx context.Context, index Index) error {
	t.mu.Lock()
	uses := maps.Clone(t.uses)
	t.mu.Unlock()
	var err error
	if len(uses) > 0 {
		err = index.Touch(ctx, uses)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing = err != nil
	maps.DeleteFunc(t.uses, func(id ID, use time.Time) bool {
		return err == nil && !use.After(uses[id])
	})
	return err
}

// use begins the lifetime of objects anew. The janitor writes that to the index, which is
// done at once if it might come too late.
func (s *Service) use(ctx context.Context, now time.Time, lives ...life) {
	soon := map[ID]time.Time{}
	for _, l := range lives {
		if s.touches.expiry(l).Sub(now) <= 2*cleanUpInterval {
			soon[l.id] = now
		}
		s.touches.add(l.id, now)
	}
	if len(soon) == 0 {
		return
	}
	if err := s.index.Touch(ctx, soon); err != nil {
		s.touches.mu.Lock()
		s.touches.failing = true
		s.touches.mu.Unlock()
		s.logFailure(ctx, "write down a use", err)
	}
}

// find calls look, and calls it again if it found nothing because what the index does
// not know of ids yet had to be written first: a use, without which they have expired, or
// the session of a brief run. If writing fails, it is not known what has expired:
// the error is that of the index.
func (s *Service) find(ctx context.Context, look func() error, ids ...ID) error {
	err := look()
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	used, made := slices.ContainsFunc(ids, s.touches.has), slices.ContainsFunc(ids, s.records.hasSession)
	if !used && !made {
		return err
	}
	s.records.flushNow(ctx, false)
	if err := s.touches.flush(ctx, s.index); err != nil {
		return err
	}
	return look()
}

// retryUses writes the uses that the index refused, ahead of a list, which would lack
// what the index takes for expired.
func (s *Service) retryUses(ctx context.Context) error {
	if !s.touches.isFailing() {
		return nil
	}
	return s.touches.flush(ctx, s.index)
}
