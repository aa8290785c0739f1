package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/trick"
)

// completion is how a run ended, on its way to the index.
type completion struct {
	run     *Run
	chunks  []OutputChunk
	deleted []string // paths of inputs that the program removed
	unkept  int      // of run.Dropped: output that could not be kept whole, which says so itself
	pinned  []Digest // blobs of run.Files, until the index has recorded them
	err     error    // instead of an outcome, for the waiting caller
	brief   bool     // the index gets the run together with its end
	begun   *Run     // the index refused its insert, which must precede the end; nil: none
	session *Session // implicit, with brief or begun; nil: the index has it
	refused bool     // by the index
}

const (
	// insertAfter is when a run is recorded that has not ended: from then on its
	// owner sees it in lists, and it reads as interrupted if the service is killed.
	insertAfter = 20 * time.Millisecond
	// briefOutput bounds the output of a run that is recorded only at its end.
	briefOutput = 16 << 10
	// flushDelay is when brief runs are recorded, after the first of several.
	flushDelay = 5 * time.Millisecond
	// maxUnrecorded bounds the completions in memory: further ones that the index refused
	// read as interrupted after a restart.
	maxUnrecorded = 256
)

// records brings the runs of this process to the index. A run whose caller waits for its
// end, and that ends soon, is recorded once, when it has ended: no client knows of it
// before, and a record costs more than most programs. The interpreter of a new live
// session, whose first cell does not wait for it, is treated alike.
//
// In memory only are the completions of such brief runs, which are recorded in batches,
// and those that the index refused. A killed service loses them, see docs/decisions/0012;
// close records them.
type records struct {
	index  Index
	log    *slog.Logger
	shared bool  // another node may be asked for a run next
	flush  delay // of the completions in memory

	flushing sync.Mutex // held by one flush at a time

	mu      sync.Mutex
	ends    map[ID]*completion
	failing bool // the index refused one: the next run is recorded at once, so that its caller gets the error
}

func newRecords(index Index, log *slog.Logger, shared bool) *records {
	r := &records{index: index, log: log, shared: shared, ends: map[ID]*completion{}}
	r.flush.call = func() {
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		r.flushNow(ctx, false)
	}
	return r
}

// close records what is in memory. A run that ends later is recorded at once.
func (r *records) close(ctx context.Context) {
	r.flush.end()
	r.flushNow(ctx, false)
}

// insertSoon inserts a run that has not ended after insertAfter.
func (r *records) insertSoon(j *job) {
	j.insert.call = func() {
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		if err := r.insert(ctx, j); err != nil && !errors.Is(err, ErrNotFound) {
			r.log.Error("a run could not be recorded, which is tried again at its end", "run", j.id, "error", err)
		}
	}
	j.insert.start(insertAfter)
}

// insert records a run that has not ended, with its session if that is implicit.
// ErrNotFound means that its session was deleted, and that the run is cancelled.
func (r *records) insert(ctx context.Context, j *job) error {
	_, err := r.index.StartRun(ctx, j.snapshot(), j.implicit(), "", Digest{})
	if errors.Is(err, ErrNotFound) {
		j.cancel(errSession)
	}
	j.inserted = err == nil
	return err
}

// prepare prepares the index for a completion: that is the end of a run which the index
// has, or, if it is small, recorded together with the run.
func (r *records) prepare(ctx context.Context, j *job, end *completion) error {
	j.insert.end()
	if j.inserted {
		return nil
	}
	size := len(end.run.Stdout) + len(end.run.Stderr) + end.run.Source.size()
	if j.session.Implicit && len(end.run.Files) == 0 && size < briefOutput {
		end.brief, end.session = true, &j.session
		return nil
	}
	err := r.insert(ctx, j)
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
	defer s.meter.ended(run, s.programOf(j), j.request.Profile.Live != nil)
	defer s.consumed(j, run)
	run.FinishedAt = s.now()
	end.chunks, run.Stdout, run.Stderr, run.Truncated = j.log.closeOutput()
	if len(run.Dropped) > 0 {
		most := FileLimit{}
		if j.request.Profile.Origin == OriginNative { // other protocols have no such fields
			most = s.cfg.Maxima.Files
		}
		run.Message = sentences(run.Message, droppedMessage(run.Dropped, j.request.Profile.Limits.Files, most))
	}
	err := s.records.prepare(ctx, j, end)
	if errors.Is(err, ErrNotFound) { // its session was deleted before it was recorded
		return
	}
	if err != nil {
		s.log.ErrorContext(ctx, "a run could not be recorded", "run", j.id, "error", err)
	}
	if end.brief && s.records.add(end) {
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
	err := s.records.write(ctx, end)
	if s.cluster != nil && errors.Is(err, ErrConflict) {
		end.abandon()
		err = nil
	}
	if err != nil && len(end.run.Files) > 0 {
		end.dropAll(reasonFor(err))
		end.missesFiles()
		err = s.records.write(ctx, end)
	}
	s.records.wrote(ctx, end, err)
	s.reclaim.unpin(end.pinned...)
	if len(end.run.Files) < len(end.pinned) { // files were discarded: nothing may refer to their blobs
		s.janitor.enqueueOrphans(end.pinned...)
	}
	end.pinned = nil
	return err
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
		droppedMessage(e.run.Dropped[len(e.run.Dropped)-len(e.run.Files):], FileLimit{}, FileLimit{}))
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

// add takes the completion of a brief run for the next flush. It reports false if there
// are too many, if the index refuses them, or if another node may be asked for the run next.
func (r *records) add(end *completion) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !trick.On(trick.Records) || r.failing || len(r.ends) >= maxUnrecorded || r.shared || !r.flush.start(flushDelay) {
		return false
	}
	r.put(end)
	return true
}

// put adds a copy: the job keeps using the original. The caller holds mu.
func (r *records) put(end *completion) {
	held, run := *end, *end.run
	held.run, held.pinned = &run, nil
	r.ends[run.ID] = &held
}

// write writes one completion to the index.
func (r *records) write(ctx context.Context, end *completion) error {
	if end.brief {
		return r.index.InsertFinished(ctx, FinishedRun{end.run, end.session, end.chunks})
	}
	if end.begun != nil {
		_, err := r.index.StartRun(ctx, end.begun, end.session, "", Digest{})
		if err != nil && !errors.Is(err, ErrConflict) { // on conflict the index has it after all
			return err
		}
		end.begun, end.session = nil, nil
	}
	return r.index.FinishRun(ctx, end.run, end.chunks, end.deleted)
}

// wrote keeps a completion that the index refused. If the index did not, but refused
// others before, they are written now.
func (r *records) wrote(ctx context.Context, end *completion, err error) {
	if err != nil {
		end.refused = true
		r.retain(end)
		return
	}
	r.mu.Lock()
	failing := r.failing
	r.mu.Unlock()
	if failing {
		r.flushNow(ctx, true)
	}
}

// retain keeps a completion that the index refused.
func (r *records) retain(end *completion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = true
	if r.ends[end.run.ID] != nil || len(r.ends) < maxUnrecorded {
		r.put(end)
	}
}

// find returns the completion of an owner's run, or nil.
func (r *records) find(owner Owner, id ID) *completion {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := r.ends[id]; end != nil && end.run.Owner == owner {
		return end
	}
	return nil
}

// hasSession reports whether the record of a session waits with that of its run.
func (r *records) hasSession(id ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, end := range r.ends {
		if end.session != nil && end.session.ID == id {
			return true
		}
	}
	return false
}

// all returns the completions in memory: those of brief runs, and others.
func (r *records) all() (brief, others []*completion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, end := range r.ends {
		if end.brief {
			brief = append(brief, end)
		} else {
			others = append(others, end)
		}
	}
	return brief, others
}

func (r *records) remove(ends ...*completion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, end := range ends {
		delete(r.ends, end.run.ID)
	}
	r.failing = r.failing && len(r.ends) > 0
}

// flushNow records the completions that are in memory. What the index refuses stays, unless
// the index works: then the fault is that of the run, which is logged and dropped.
func (r *records) flushNow(ctx context.Context, works bool) {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	brief, ends := r.all()
	runs := make([]FinishedRun, len(brief))
	for i, end := range brief {
		runs[i] = FinishedRun{end.run, end.session, end.chunks}
	}
	if len(runs) > 0 && r.index.InsertFinished(ctx, runs...) == nil {
		r.remove(brief...)
		works = true
	} else {
		ends = append(brief, ends...)
	}
	refused := map[*completion]error{}
	for _, end := range ends {
		switch err := r.write(ctx, end); {
		case err == nil:
			r.remove(end)
			works = true
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict): // deleted, or final already
			r.remove(end)
		default:
			again := *end // watchers may have the other
			again.refused = true
			refused[&again] = err
		}
	}
	for end, err := range refused {
		if works && KindOf(err) == ErrInternal {
			r.log.ErrorContext(ctx, "a run could not be recorded", "run", end.run.ID, "error", err)
			r.remove(end)
		} else {
			r.retain(end)
		}
	}
}
