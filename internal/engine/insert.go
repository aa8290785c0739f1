package engine

import (
	"context"
	"sync"
	"time"
)

// deferredInsert defers the first record of a run in the index. A run whose caller
// waits for its end, and that ends soon, is recorded once, when it has ended: nobody
// can know of it before, and a record costs more than most programs.
type deferredInsert struct {
	deferred bool // it was not recorded when it began
	timer    *time.Timer

	mu   sync.Mutex
	done bool // it is in the index, or about to be put there by the run's end
}

const (
	// insertAfter is when a run is recorded that has not ended: from then on its
	// owner sees it in lists, and a moment later it reads as interrupted should we
	// be killed.
	insertAfter = 20 * time.Millisecond
	// briefOutput is what a run may have printed to be recorded at its end only.
	briefOutput = 16 << 10
)

// deferInsert records a run that has not ended after insertAfter.
func (s *Service) deferInsert(j *job) {
	j.deferredInsert.timer = time.AfterFunc(insertAfter, func() {
		j.deferredInsert.mu.Lock()
		defer j.deferredInsert.mu.Unlock()
		if j.deferredInsert.done {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		if err := s.insertStarted(ctx, j); err != nil {
			s.log.Error("a run could not be recorded, which is tried again at its end", "run", j.id, "error", err)
		}
	})
}

// insertStarted records a run that has not ended, with its implicit session.
func (s *Service) insertStarted(ctx context.Context, j *job) error {
	run := j.snapshot()
	err := s.index.InsertStarted(ctx, run, &j.session)
	j.deferredInsert.done = err == nil
	return err
}

// ensureInserted prepares the index for a completion: that is the end of a run which
// the index has, or, if it is small, recorded together with the run.
func (s *Service) ensureInserted(ctx context.Context, j *job, end *completion) error {
	l := &j.deferredInsert
	if !l.deferred {
		return nil
	}
	l.timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return nil
	}
	if len(end.run.Files) == 0 && len(end.run.Stdout)+len(end.run.Stderr)+end.run.Source.size() < briefOutput {
		l.done, end.session = true, &j.session
		return nil
	}
	return s.insertStarted(ctx, j)
}
