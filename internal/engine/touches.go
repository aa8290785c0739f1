package engine

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

// touches remembers which files and sessions were used, until the janitor
// writes it down: a read never costs a write.
type touches struct {
	mu       sync.Mutex
	files    map[ID]time.Time
	sessions map[ID]time.Time
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

// flush writes the uses down, each with its own time: written down as of now it
// would bring back what expired after its last use. One that was made in the
// meantime stays for the next time, and all of them do if the index fails.
func (t *touches) flush(ctx context.Context, index Index) error {
	t.mu.Lock()
	files, sessions := maps.Clone(t.files), maps.Clone(t.sessions)
	t.mu.Unlock()
	if len(files) > 0 {
		if err := index.TouchFiles(ctx, files); err != nil {
			return err
		}
		t.settle(t.files, files)
	}
	for id, use := range sessions {
		if err := index.TouchSession(ctx, id, use); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	t.settle(t.sessions, sessions)
	return nil
}

// settle forgets uses that were written down.
func (t *touches) settle(uses, written map[ID]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, use := range written {
		if !uses[id].After(use) {
			delete(uses, id)
		}
	}
}
