package engine

import (
	"context"
	"errors"
	"strings"
	"time"
)

// place reserves a place in the queue. An attended run gets none if it would wait too
// long for its slot.
func (s *Service) place(j *job, attended bool) (*ticket, error) {
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
	if j.request.Profile.Apart { // the session's other interpreter is in it for as long as it lives
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

// gaveUp begins the message of a run that got no slot in time.
const gaveUp = "The run was given up before it started"

// AwaitTurn returns when a run has its slot or has ended, and ErrBusy when it was
// abandoned because it got no slot in time.
func (s *Service) AwaitTurn(ctx context.Context, caller Caller, id ID) error {
	j := s.job(caller.Owner, id)
	if j == nil { // it has ended
		if run, err := s.GetRun(ctx, caller, id); err == nil && run.Status == StatusCancelled &&
			strings.HasPrefix(run.Message, gaveUp) {
			return s.queue.tooLong(s.cfg.QueueTime, 0)
		}
		return nil
	}
	select {
	case <-j.turn:
	case <-ctx.Done():
		return &Error{Op: opRun, Kind: ErrCanceled, ID: id.String(), Err: context.Cause(ctx)}
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
