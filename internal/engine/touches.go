package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// touches remembers which files and sessions were used, until the janitor
// writes it down: a read never costs a write.
type touches struct {
	mu       sync.Mutex
	files    map[ID]time.Time
	sessions map[ID]time.Time
	failing  bool // the index could not write some down
}

func newTouches() *touches {
	return &touches{files: map[ID]time.Time{}, sessions: map[ID]time.Time{}}
}

func (t *touches) file(f File, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files[f.ID] = now
}

func (t *touches) session(s Session, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions[s.ID] = now
}

// fileExpiry returns when a file expires, uses that are not yet written down
// included.
func (t *touches) fileExpiry(f File) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return later(f.ExpiresAt, t.files[f.ID], f.TTL)
}

func (t *touches) sessionExpiry(s Session) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return later(s.ExpiresAt, t.sessions[s.ID], s.TTL)
}

func later(expiry, use time.Time, ttl time.Duration) time.Time {
	if use.IsZero() || use.Add(ttl).Before(expiry) {
		return expiry
	}
	return use.Add(ttl)
}

// knows reports whether there is a use of a file or of a session that is not
// written down.
func (t *touches) knows(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.files[id].IsZero() || !t.sessions[id].IsZero()
}

func (t *touches) failed(failing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing = failing
}

func (t *touches) isFailing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failing
}

// recall writes the uses down where the index hides one of ids, which it does not
// know was used. It reports whether to look again. Where that fails nobody can
// tell what has expired: the error is what keeps the index from being written.
func (s *Service) recall(ctx context.Context, ids ...ID) (again bool, err error) {
	if !slices.ContainsFunc(ids, s.touches.knows) {
		return false, nil
	}
	return true, s.touches.flush(ctx, s.index)
}

// retryUses writes down what could not be written before, ahead of a list, which
// would lack what the index hides.
func (s *Service) retryUses(ctx context.Context) error {
	if !s.touches.isFailing() {
		return nil
	}
	return s.touches.flush(ctx, s.index)
}

// flush writes the uses down, each with its own time: written down as of now it
// would bring back what expired after its last use. One that was made in the
// meantime stays for the next time, and all of them do if the index fails.
func (t *touches) flush(ctx context.Context, index Index) (err error) {
	defer func() { t.failed(err != nil) }()
	t.mu.Lock()
	files, sessions := maps.Clone(t.files), maps.Clone(t.sessions)
	t.mu.Unlock()
	if len(files) > 0 {
		if err := index.TouchFiles(ctx, files); err != nil {
			return err
		}
		t.clearFlushed(t.files, files)
	}
	for id, use := range sessions {
		if err := index.TouchSession(ctx, id, use); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	t.clearFlushed(t.sessions, sessions)
	return nil
}

// clearFlushed forgets uses that were written to the index.
func (t *touches) clearFlushed(uses, written map[ID]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, use := range written {
		if !uses[id].After(use) {
			delete(uses, id)
		}
	}
}
