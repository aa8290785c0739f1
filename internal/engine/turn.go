package engine

import (
	"context"
	"errors"
	"time"
)

// reserve reserves a place in the queue. An attended run gets none if it would wait too
// long for its slot.
func (s *Service) reserve(j *job, attended bool) (*ticket, error) {
	most := s.cfg.QueueTime
	if attended && most > 0 {
		if expected := s.queue.expected(j.owner); expected > most {
			return nil, s.queue.tooLong(most, expected)
		}
		if j.request.IdempotencyKey == "" {
			j.maxWait = most // one with a key waits on: its caller comes back for it
		}
	}
	within := j.within
	// The session's other interpreter is in it for as long as it lives.
	if live := j.request.Profile.Live; live != nil && live.Apart {
		within = j.id
	}
	t, err := s.queue.reserve(j.owner, within)
	if err == nil {
		t.memory = j.request.Profile.Limits.Memory
	}
	return t, err
}

// awaitSlot returns when a run has its slot, and errCrowded when its maxWait is
// at its end.
func (s *Service) awaitSlot(ctx context.Context, j *job) (time.Duration, error) {
	defer close(j.turn)
	patient := ctx
	select {
	case <-j.ticket.ready: // at once, however short maxWait is
	default:
		if j.maxWait <= 0 {
			break
		}
		var cancel context.CancelFunc
		patient, cancel = context.WithTimeoutCause(ctx, j.maxWait, errCrowded)
		defer cancel()
	}
	waited, err := s.queue.wait(patient, j.ticket)
	j.gaveUp = errors.Is(err, errCrowded)
	return waited, err
}

// A Turn is that of a run to get a slot.
type Turn struct{ job *job }

// StartAttended does what Start does, for a client that waits for the run: if it gets no
// slot in time, it is abandoned, unless it has an idempotency key.
func (s *Service) StartAttended(ctx context.Context, caller Caller, req RunRequest) (*Run, Turn, error) {
	req.Attended = true
	j, earlier, err := s.startRun(ctx, caller, req, false)
	if err != nil {
		return nil, Turn{}, err
	}
	if !earlier.IsZero() {
		run, err := s.GetRun(ctx, caller, earlier)
		return run, Turn{s.job(caller.Owner, earlier)}, err
	}
	return j.snapshot(), Turn{j}, nil
}

// Await returns when the run has its slot or has ended, and ErrBusy when it was abandoned.
func (t Turn) Await(ctx context.Context) error {
	j := t.job
	if j == nil { // an earlier run, which has ended
		return nil
	}
	select {
	case <-j.turn:
	case <-ctx.Done():
		return &Error{Op: opRun, Kind: ErrCanceled, ID: j.id.String(), Err: context.Cause(ctx)}
	}
	if !j.gaveUp {
		return nil
	}
	if err := awaitEnd(ctx, opRun, j); err != nil {
		return err
	}
	_, err := j.result()
	return err
}

// attend waits for the end of a run, or of ctx. If a run with a key gets no slot in time,
// it keeps its place, and the error tells the caller to ask again.
func (s *Service) attend(ctx context.Context, j *job) error {
	var late <-chan time.Time
	if s.cfg.QueueTime > 0 && j.request.IdempotencyKey != "" {
		timer := time.NewTimer(s.cfg.QueueTime)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-j.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			late = nil
			select {
			case <-j.turn:
				continue
			default:
			}
			err := s.queue.tooLong(s.cfg.QueueTime, 0)
			err.Hint = "The run keeps its place: send the same request with its key again."
			return err
		}
	}
}
