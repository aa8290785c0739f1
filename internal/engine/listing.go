package engine

import (
	"context"
	"sync"
	"time"
)

// listing is whether a run is in the index yet. One whose caller waits for its
// end, and that ends soon, is recorded once, when it has ended: nobody can know
// of it before, and a record costs more than most programs.
type listing struct {
	later bool // it was not recorded when it began
	timer *time.Timer

	mu   sync.Mutex
	done bool // it is in the index, or about to be put there by the run's end
}

const (
	// listAfter is when a run is recorded that has not ended: from then on its
	// owner sees it in lists, and a moment later it reads as interrupted should we
	// be killed.
	listAfter = 20 * time.Millisecond
	// briefOutput is what a run may have printed to be recorded at its end only.
	briefOutput = 16 << 10
)

// listSoon records a run that goes on for longer.
func (s *Service) listSoon(j *job) {
	j.listing.timer = time.AfterFunc(listAfter, func() {
		j.listing.mu.Lock()
		defer j.listing.mu.Unlock()
		if j.listing.done {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		if err := s.list(ctx, j); err != nil {
			s.log.Error("a run could not be recorded, which is tried again at its end", "run", j.id, "error", err)
		}
	})
}

// list records a run that has not ended, with its implicit session.
func (s *Service) list(ctx context.Context, j *job) error {
	run := j.snapshot()
	err := s.index.ListRun(ctx, run, &j.session)
	j.listing.done = err == nil
	return err
}

// listed sees to it that an ending can be recorded: as the end of a run that
// the index knows, or, if there is little to it, together with the run.
func (s *Service) listed(ctx context.Context, j *job, end *ending) error {
	l := &j.listing
	if !l.later {
		return nil
	}
	l.timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return nil
	}
	if len(end.run.Files) == 0 && len(end.run.Stdout)+len(end.run.Stderr) < briefOutput {
		l.done, end.session = true, &j.session
		return nil
	}
	return s.list(ctx, j)
}
