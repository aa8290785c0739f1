package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// deferredInsert defers the first record of a run in the index. A run whose caller
// waits for its end, and that ends soon, is recorded once, when it has ended: nobody
// can know of it before, and a record costs more than most programs. So it is with the
// interpreter of a new live session, whose first cell does not wait for it.
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
		if err := s.insertStarted(ctx, j); err != nil && !errors.Is(err, ErrNotFound) {
			s.log.Error("a run could not be recorded, which is tried again at its end", "run", j.id, "error", err)
		}
	})
}

// insertStarted records a run that has not ended, with its session if that is implicit.
// ErrNotFound means that its session is gone, and the run is to end.
func (s *Service) insertStarted(ctx context.Context, j *job) (err error) {
	if run := j.snapshot(); j.session.Implicit {
		err = s.index.InsertStarted(ctx, run, &j.session)
	} else if _, err = s.index.StartRun(ctx, run, nil, "", Digest{}); errors.Is(err, ErrNotFound) {
		j.cancel(errSession)
	}
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
	size := len(end.run.Stdout) + len(end.run.Stderr) + end.run.Source.size()
	if j.session.Implicit && len(end.run.Files) == 0 && size < briefOutput {
		l.done, end.session = true, &j.session
		return nil
	}
	return s.insertStarted(ctx, j)
}
