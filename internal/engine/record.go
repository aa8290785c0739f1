package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// completion is how a run ended, on its way to the index.
type completion struct {
	run     *Run
	chunks  []OutputChunk
	deleted []string // paths of inputs that the program removed
	pinned  []Digest // blobs of run.Files, until the index has recorded them
	err     error    // instead of an outcome, for the waiting caller
	brief   bool     // the index gets the run together with its end
	begun   *Run     // the index refused its insert, which must precede the end; nil: none
	session *Session // implicit, with brief or begun; nil: the index has it
	refused bool     // by the index
}

// deferredInsert defers the first record of a run in the index. A run whose caller
// waits for its end, and that ends soon, is recorded once, when it has ended: no client
// knows of it before, and a record costs more than most programs. The interpreter
// of a new live session, whose first cell does not wait for it, is treated alike.
type deferredInsert struct {
	deferred bool // it was not recorded when it began
	timer    *time.Timer

	mu   sync.Mutex
	done bool // it is in the index, or the run's end is about to insert it
}

const (
	// insertAfter is when a run is recorded that has not ended: from then on its
	// owner sees it in lists, and it reads as interrupted if the service is killed.
	insertAfter = 20 * time.Millisecond
	// briefOutput bounds the output of a run that is recorded only at its end.
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
// ErrNotFound means that its session was deleted, and that the run is cancelled.
func (s *Service) insertStarted(ctx context.Context, j *job) error {
	_, err := s.index.StartRun(ctx, j.snapshot(), j.implicit(), "", Digest{})
	if errors.Is(err, ErrNotFound) {
		j.cancel(errSession)
	}
	j.deferredInsert.done = err == nil
	return err
}

// ensureInserted prepares the index for a completion: that is the end of a run which
// the index has, or, if it is small, recorded together with the run.
func (s *Service) ensureInserted(ctx context.Context, j *job, end *completion) error {
	d := &j.deferredInsert
	if !d.deferred {
		return nil
	}
	d.timer.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return nil
	}
	size := len(end.run.Stdout) + len(end.run.Stderr) + end.run.Source.size()
	if j.session.Implicit && len(end.run.Files) == 0 && size < briefOutput {
		d.done, end.brief, end.session = true, true, &j.session
		return nil
	}
	err := s.insertStarted(ctx, j)
	if err != nil {
		end.begun, end.session = j.snapshot(), j.implicit()
	}
	return err
}

// implicit returns the session that was made for a run, or nil.
func (j *job) implicit() *Session {
	if j.session.Implicit {
		return &j.session
	}
	return nil
}

// conclude finishes and records a completion. Its files are durable before it is published.
func (s *Service) conclude(ctx context.Context, j *job, end *completion) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	run := end.run
	defer s.meter.ended(run)
	run.FinishedAt = s.now()
	end.chunks, run.Stdout, run.Stderr, run.Truncated = j.log.closeOutput()
	if len(run.Dropped) > 0 {
		run.Message = sentences(run.Message, droppedMessage(run.Dropped, j.request.Profile.Limits.Files))
	}
	err := s.ensureInserted(ctx, j, end)
	if errors.Is(err, ErrNotFound) { // its session was deleted before it was recorded
		return
	}
	if err != nil {
		s.log.ErrorContext(ctx, "a run could not be recorded", "run", j.id, "error", err)
	}
	if end.brief && s.gather(end) {
		return
	}
	if err := s.record(ctx, end); err != nil {
		s.log.ErrorContext(ctx, "a run's end could not be recorded", "run", j.id, "error", err)
	}
	if !end.brief {
		s.use(ctx, run.FinishedAt, j.session.life())
	}
}

// record writes a completion to the index. If that fails with its files, as
// on a full disk, record tries without them; if that fails too, the result
// is published all the same, and recorded later.
func (s *Service) record(ctx context.Context, end *completion) error {
	err := s.finish(ctx, end)
	if s.cluster != nil && errors.Is(err, ErrConflict) {
		end.abandon()
		err = nil
	}
	if err != nil && len(end.run.Files) > 0 {
		end.dropAll(reasonFor(err))
		err = s.finish(ctx, end)
	}
	if err != nil {
		end.refused = true
		s.unrecorded.retain(end)
	} else if s.unrecorded.isFailing() {
		s.flushRecords(ctx, true)
	}
	s.reclaim.unpin(end.pinned...)
	if len(end.run.Files) < len(end.pinned) { // files were discarded: nothing may refer to their blobs
		s.janitor.enqueueOrphans(end.pinned...)
	}
	end.pinned = nil
	return err
}

func (s *Service) finish(ctx context.Context, end *completion) error {
	if end.brief {
		return s.index.InsertFinished(ctx, FinishedRun{end.run, end.session, end.chunks})
	}
	if end.begun != nil {
		_, err := s.index.StartRun(ctx, end.begun, end.session, "", Digest{})
		if err != nil && !errors.Is(err, ErrConflict) { // on conflict the index has it after all
			return err
		}
		end.begun, end.session = nil, nil
	}
	return s.index.FinishRun(ctx, end.run, end.chunks, end.deleted)
}

// abandon makes the completion that of a lost run, as the index has it: this node was
// silent for so long that its peers declared it dead.
func (e *completion) abandon() {
	e.interrupt(&Error{Op: opRun, Kind: ErrUnavailable, ID: e.run.ID.String(), Err: errCutOff})
	e.run.Message = "The run was given up: its node did not answer the others for a while. Nothing of it was kept."
}

// dropAll discards the files of a completion.
func (e *completion) dropAll(reason string) {
	for _, file := range e.run.Files {
		e.run.Dropped = append(e.run.Dropped, DroppedFile{Path: file.Path, Reason: reason})
	}
	for i := range e.run.Inputs {
		e.run.Inputs[i].Changed = false
	}
	e.run.Message = sentences(e.run.Message,
		droppedMessage(e.run.Dropped[len(e.run.Dropped)-len(e.run.Files):], FileLimit{}))
	e.run.Files = nil
}

// published returns the run as its caller sees it.
func (e *completion) published() *Run {
	run := *e.run
	if e.refused {
		run.Message = sentences(run.Message, "This result could not be recorded and may be lost.")
	}
	return &run
}

// unrecorded holds completions that are in memory only: those of brief runs, which are
// recorded in batches, and completions that the index refused. A killed service loses
// them, see docs/decisions/0012; Shutdown records them.
type unrecorded struct {
	flushing sync.Mutex // held by one flush at a time

	mu      sync.Mutex
	ends    map[ID]*completion
	due     bool // a flush is scheduled
	failing bool // the index refused one: the next run is recorded at once, so that its caller gets the error
}

const (
	flushDelay    = 5 * time.Millisecond // after the first of several brief runs
	maxUnrecorded = 256                  // further refused completions read as interrupted after a restart
)

// gather takes the completion of a brief run for the next flush. It reports false if there
// are too many, if the index refuses them, or if another node may be asked for the run next.
func (s *Service) gather(end *completion) bool {
	u := &s.unrecorded
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failing || len(u.ends) >= maxUnrecorded || s.cluster != nil {
		return false
	}
	u.put(end)
	if !u.due {
		u.due = true
		time.AfterFunc(flushDelay, func() {
			ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
			defer cancel()
			s.flushRecords(ctx, false)
		})
	}
	return true
}

// put adds a copy: the job keeps using the original.
func (u *unrecorded) put(end *completion) {
	held, run := *end, *end.run
	held.run, held.pinned = &run, nil
	u.ends[run.ID] = &held
}

// retain keeps a completion that the index refused.
func (u *unrecorded) retain(end *completion) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failing = true
	if u.ends[end.run.ID] != nil || len(u.ends) < maxUnrecorded {
		u.put(end)
	}
}

func (u *unrecorded) isFailing() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.failing
}

// find returns the completion of an owner's run, or nil.
func (u *unrecorded) find(owner Owner, id ID) *completion {
	u.mu.Lock()
	defer u.mu.Unlock()
	if end := u.ends[id]; end != nil && end.run.Owner == owner {
		return end
	}
	return nil
}

// hasSession reports whether the record of a session waits with that of its run.
func (u *unrecorded) hasSession(id ID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, end := range u.ends {
		if end.session != nil && end.session.ID == id {
			return true
		}
	}
	return false
}

// take returns the completions to flush: those of brief runs, and others.
func (u *unrecorded) take() (brief, others []*completion) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.due = false
	for _, end := range u.ends {
		if end.brief {
			brief = append(brief, end)
		} else {
			others = append(others, end)
		}
	}
	return brief, others
}

func (u *unrecorded) remove(ends ...*completion) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, end := range ends {
		delete(u.ends, end.run.ID)
	}
	u.failing = u.failing && len(u.ends) > 0
}

// flushRecords records the completions that wait. What the index refuses stays, unless the
// index works: then the fault is that of the run, which is logged and dropped.
func (s *Service) flushRecords(ctx context.Context, works bool) {
	u := &s.unrecorded
	u.flushing.Lock()
	defer u.flushing.Unlock()
	brief, ends := u.take()
	runs := make([]FinishedRun, len(brief))
	for i, end := range brief {
		runs[i] = FinishedRun{end.run, end.session, end.chunks}
	}
	if len(runs) > 0 && s.index.InsertFinished(ctx, runs...) == nil {
		u.remove(brief...)
		works = true
	} else {
		ends = append(brief, ends...)
	}
	refused := map[*completion]error{}
	for _, end := range ends {
		switch err := s.finish(ctx, end); {
		case err == nil:
			u.remove(end)
			works = true
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict): // deleted, or final already
			u.remove(end)
		default:
			again := *end // watchers may have the other
			again.refused = true
			refused[&again] = err
		}
	}
	for end, err := range refused {
		if works && KindOf(err) == ErrInternal {
			s.log.ErrorContext(ctx, "a run could not be recorded", "run", end.run.ID, "error", err)
			u.remove(end)
		} else {
			u.retain(end)
		}
	}
}
