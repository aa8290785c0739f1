package engine

import (
	"context"
	"iter"
	"time"
)

// GetRun returns the current state of a run. It has output and files once it
// is final. Before that, Watch returns them.
func (s *Service) GetRun(ctx context.Context, caller Caller, id ID) (*Run, error) {
	const op = "get run"
	run, j, err := s.run(ctx, op, caller.Owner, id)
	if err == nil && j == nil && !run.Status.Final() && s.foreign(run.Node) && canRedirect(ctx) {
		return nil, s.Elsewhere(ctx, op, id.String(), run.Node)
	}
	return run, err
}

// run finds a run: the job if it has not ended, else its completion if that is not
// recorded yet, else its record.
func (s *Service) run(ctx context.Context, op string, owner Owner, id ID) (*Run, *job, error) {
	if j := s.job(owner, id); j != nil {
		return j.snapshot(), j, nil
	}
	if end := s.records.find(owner, id); end != nil {
		return end.published(), nil, nil
	}
	run, err := s.index.Run(ctx, owner, id)
	return run, nil, missing(op, id.String(), err)
}

// Watch returns the events of a run with Seq > after. Past events come first,
// later events as they happen. The sequence ends with EventResult or when ctx
// ends. Any number of watchers may follow a run, each from its own position
// and at its own speed; none slows the program. The Run of an event is shared
// and must not be changed.
func (s *Service) Watch(ctx context.Context, caller Caller, id ID, after int) (iter.Seq[Event], error) {
	const op = "watch run"
	run, j, err := s.run(ctx, op, caller.Owner, id)
	if err != nil {
		return nil, err
	}
	if j != nil {
		return j.log.events.Watch(ctx, after), nil
	}
	if !run.Status.Final() && s.cluster != nil {
		if s.foreign(run.Node) {
			return nil, s.Elsewhere(ctx, op, id.String(), run.Node)
		}
		if run, err = s.awaitReaped(ctx, run); err != nil {
			return nil, err
		}
	}
	var chunks []OutputChunk
	if end := s.records.find(caller.Owner, id); end != nil {
		chunks = end.chunks
	} else if chunks, err = s.index.RunLog(ctx, caller.Owner, id); err != nil {
		return nil, failure(op, id.String(), err)
	}
	events := replay(run, chunks)
	if run.Status == StatusInterrupted && after >= len(events) { // it lost output that the watcher has seen
		last := &events[len(events)-1]
		last.Seq, after = after+1, len(events)-1
	}
	return func(yield func(Event) bool) {
		for _, e := range events[min(max(after, 0), len(events)):] {
			if ctx.Err() != nil || !yield(e) {
				return
			}
		}
	}, nil
}

// ListRuns returns the caller's runs, newest first, without their output.
func (s *Service) ListRuns(ctx context.Context, caller Caller, query RunQuery) ([]Run, error) {
	query.Owner = caller.Owner
	if err := query.Page.check(); err != nil {
		return nil, err
	}
	s.records.flushNow(ctx, false)
	if query.Text != "" {
		if _, err := s.indexRuns(ctx, searchTime); err != nil {
			return nil, failure("list runs", "", err)
		}
	}
	runs, err := s.index.Runs(ctx, query)
	if err != nil {
		return nil, failure("list runs", "", err)
	}
	for i := range runs {
		if runs[i].Status.Final() {
			continue
		}
		if j := s.job(caller.Owner, runs[i].ID); j != nil {
			runs[i] = *j.snapshot()
		} else if end := s.records.find(caller.Owner, runs[i].ID); end != nil {
			runs[i] = *end.published()
		}
		runs[i].Stdout, runs[i].Stderr = "", "" // a list has no output of runs that have not ended
	}
	return runs, nil
}

// Both a search and the janitor index runs for search.
const (
	searchTime  = time.Second
	searchBatch = 32 // a run that ends meanwhile is recorded after it
)

// indexRuns indexes the words of ended runs, for about as long as most, and returns how
// many it indexed.
func (s *Service) indexRuns(ctx context.Context, most time.Duration) (done int, err error) {
	for start := time.Now(); time.Since(start) < most; {
		n, err := s.index.IndexRuns(ctx, searchBatch)
		done += n
		if n < searchBatch || err != nil {
			return done, err
		}
	}
	return done, nil
}

// indexInTurns indexes a batch of runs, for the janitor: after an upgrade there may be
// millions. It returns how long to wait before the next batch, which leaves half of the time to
// recording runs.
func (s *Service) indexInTurns(ctx context.Context) (wait time.Duration) {
	j := &s.janitor
	began := time.Now()
	n, err := s.index.IndexRuns(ctx, searchBatch)
	if err != nil {
		s.logFailure(ctx, "index runs", err)
	}
	if j.indexed == 0 {
		j.indexing = began
	}
	j.indexed += n
	if n == searchBatch {
		if !j.indexingSaid && time.Since(j.indexing) >= searchTime {
			j.indexingSaid = true
			s.log.InfoContext(ctx, "runs are being made findable by their words, the newest first, beside everything else")
		}
		return time.Since(began)
	}
	if j.indexingSaid {
		s.log.InfoContext(ctx, "runs were made findable by their words", "runs", j.indexed,
			"took", time.Since(j.indexing).Round(time.Second))
	}
	j.indexed, j.indexingSaid = 0, false
	return cleanUpInterval
}
