package engine

import (
	"context"
	"slices"
	"sync"
	"time"
)

// The intervals and batch sizes of the janitor.
const (
	cleanUpInterval = 30 * time.Second
	sweepEvery      = 5 * time.Minute
	sweepAgain      = 65 * time.Minute // a bucket keeps unreferenced blobs for an hour
	lowDiskInterval = time.Second      // when the disk is low
	tidyBatch       = 500
)

// janitor is the one goroutine that cleans up: it flushes uses, and removes expired
// objects and unreferenced blobs.
type janitor struct {
	mu      sync.Mutex
	waiting []Digest      // blobs that may have lost their last file
	wake    chan struct{} // holds a token while waiting is not empty
	low     chan struct{} // holds a token when the disk turned out to be low
	cancel  context.CancelFunc
	done    chan struct{}

	unswept   bool // files have expired since the last sweep
	leftover  bool // files were deleted, and their blobs may have been too young to delete
	lastSweep time.Time
	lastHurry time.Time // because the disk was low

	indexed      int       // runs, in turns that left some for the next
	indexing     time.Time // when indexing began
	indexingSaid bool      // a slow indexing was logged
}

// startJanitor starts the janitor. It is called once, with s.mu held.
func (s *Service) startJanitor() (swept <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	j := &s.janitor
	j.cancel, j.done = cancel, make(chan struct{})
	j.lastSweep = s.now()
	first := make(chan error, 1)
	go func() {
		defer close(j.done)
		err := s.sweep(ctx)
		if err != nil && ctx.Err() == nil {
			s.logFailure(ctx, "remove bytes that no file has", err)
		}
		first <- err
		ticker := time.NewTicker(cleanUpInterval)
		defer ticker.Stop()
		again := time.NewTimer(searchTime)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
				again.Reset(s.indexInTurns(ctx))
			case <-ticker.C:
				s.cleanUp(ctx, false)
			case <-j.low:
				if now := s.now(); now.Sub(j.lastHurry) >= lowDiskInterval {
					j.lastHurry = now
					s.cleanUp(ctx, true)
				}
			case <-j.wake:
			}
			s.removeOrphans(ctx)
		}
	}()
	return first
}

// stopJanitor ends the janitor and waits for it. It may be called twice, and
// before the start.
func (s *Service) stopJanitor() {
	s.mu.Lock()
	cancel, done := s.janitor.cancel, s.janitor.done
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

// enqueueOrphans queues blobs that may have lost their last file.
func (j *janitor) enqueueOrphans(digests ...Digest) {
	j.mu.Lock()
	j.waiting = append(j.waiting, digests...)
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (s *Service) removeOrphans(ctx context.Context) {
	s.janitor.mu.Lock()
	digests := s.janitor.waiting
	s.janitor.waiting = nil
	s.janitor.mu.Unlock()
	for batch := range slices.Chunk(digests, tidyBatch) {
		s.janitor.leftover = true
		if err := s.remove(ctx, batch); err != nil {
			s.logFailure(ctx, "remove bytes", err) // the next sweep finds them
		}
	}
}

// runSoon wakes the janitor, because the disk is low.
func (j *janitor) runSoon() {
	select {
	case j.low <- struct{}{}:
	default:
	}
}

// cleanUp does one round. The next round retries failed steps. When the disk is low,
// the bytes of expired files are removed at once.
func (s *Service) cleanUp(ctx context.Context, low bool) {
	now := s.now()
	s.records.flushNow(ctx, false)
	if err := s.touches.flush(ctx, s.index); err != nil {
		s.logFailure(ctx, "write down uses", err)
		return // otherwise files and sessions in use would expire
	}
	s.meterLive(ctx)
	s.expireSessions(ctx, now)
	s.inBatches(ctx, "expire runs", func() (int, error) {
		return s.index.ExpireRuns(ctx, now.Add(-s.cfg.RunTTL), tidyBatch)
	})
	s.inBatches(ctx, "expire the audit log of the network", func() (int, error) {
		return s.index.ExpireContacts(ctx, now.Add(-contactTTL), tidyBatch)
	})
	s.inBatches(ctx, "expire the audit log", func() (int, error) {
		return s.index.ExpireAudit(ctx, now.Add(-s.cfg.AuditTTL), tidyBatch)
	})
	s.inBatches(ctx, "expire what was used", func() (int, error) {
		return s.index.ExpireConsumption(ctx, DayOf(now.Add(-s.cfg.ConsumptionTTL)), tidyBatch)
	})
	s.inBatches(ctx, "expire files", func() (int, error) {
		n, err := s.index.ExpireFiles(ctx, now, tidyBatch)
		s.janitor.unswept = s.janitor.unswept || n > 0
		return n, err
	})
	s.inBatches(ctx, "expire snapshots", func() (int, error) {
		n, err := s.index.ExpireSnapshots(ctx, now, tidyBatch)
		s.janitor.unswept = s.janitor.unswept || n > 0
		return n, err
	})
	since := now.Sub(s.janitor.lastSweep)
	if s.janitor.unswept && (low || since >= sweepEvery) || s.janitor.leftover && since >= sweepAgain {
		s.janitor.lastSweep = now
		if err := s.sweep(ctx); err != nil {
			s.logFailure(ctx, "sweep", err)
			return
		}
		s.janitor.unswept, s.janitor.leftover = false, s.janitor.unswept
	}
}

// inBatches calls step until it does less than a whole batch.
func (s *Service) inBatches(ctx context.Context, what string, step func() (int, error)) {
	for {
		n, err := step()
		if err != nil {
			s.logFailure(ctx, what, err)
		}
		if err != nil || n < tidyBatch {
			return
		}
	}
}

// expireSessions drops expired sessions.
func (s *Service) expireSessions(ctx context.Context, now time.Time) {
	for ctx.Err() == nil {
		sessions, err := s.index.ExpiredSessions(ctx, now, tidyBatch)
		if err != nil {
			s.logFailure(ctx, "expire sessions", err)
			return
		}
		gone := 0
		for _, session := range sessions {
			if s.expireSession(ctx, session, now) {
				gone++
			}
		}
		if len(sessions) < tidyBatch || gone == 0 {
			return
		}
	}
}

func (s *Service) expireSession(ctx context.Context, session Session, now time.Time) (gone bool) {
	if s.foreign(session.Place.Holder) {
		return false // that node does it
	}
	return s.dropIdle(ctx, "expire session", session, func() bool {
		return !s.touches.expiry(session.life()).After(now) // otherwise it was used after this round began
	})
}

// dropIdle drops a session, unless due reports false once no run can enter it. A session
// with a run in it stays, and counts as used.
func (s *Service) dropIdle(ctx context.Context, op string, session Session, due func() bool) (gone bool) {
	if _, err := s.beginDelete(op, session, false); err != nil {
		if KindOf(err) == ErrConflict {
			s.use(ctx, s.now(), session.life())
		}
		return false
	}
	defer s.endDelete(session.ID)
	if !due() {
		return false
	}
	if err := s.dropSession(ctx, op, session); err != nil {
		s.logFailure(ctx, op, err)
		return false
	}
	return true
}

// logFailure logs a failed step of the clean-up, unless the janitor is being stopped.
func (s *Service) logFailure(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		s.log.ErrorContext(ctx, "clean-up failed", "step", what, "error", err)
	}
}
