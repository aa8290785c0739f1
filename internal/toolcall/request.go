package toolcall

import (
	"context"
	"errors"
	"maps"

	"github.com/airlock-run/airlock/internal/engine"
)

// request is a request that another request can cancel by its id: while it is served, and
// then while the program that it started or continued waits.
type request struct {
	owner   engine.Owner
	cancel  context.CancelCauseFunc // nil: it is answered
	program *Program                // that waits since then
}

var errCancelled = errors.New("its caller cancelled it")

// Enter records a request by its id, if it has one. The request uses the returned context.
// The caller calls leave at its end, with the program that then waits, or nil.
func (s *Programs) Enter(ctx context.Context, owner engine.Owner, id string) (
	_ context.Context, leave func(*Program), err error,
) {
	ctx, cancel := context.WithCancelCause(ctx)
	if id == "" {
		return ctx, func(*Program) { cancel(nil) }, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.requests[id]; other != nil && (other.cancel != nil || other.owner != owner) {
		cancel(nil)
		return nil, nil, conflict("a request with this id is under way")
	}
	r := &request{owner: owner, cancel: cancel}
	s.requests[id] = r
	return ctx, func(waits *Program) {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		r.cancel, r.program = nil, waits
		if waits == nil || s.live[waits.key] == nil {
			delete(s.requests, id)
		}
	}, nil
}

// drop removes a program and its requests.
func (s *Programs) drop(p *Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, p.key)
	maps.DeleteFunc(s.requests, func(_ string, r *request) bool { return r.program == p })
}

// Cancel cancels the request with an id, or ends the program that waits since then. It
// reports whether it cancelled anything. The error is ErrForbidden for another owner's.
func (s *Programs) Cancel(id string, owner engine.Owner) (bool, error) {
	s.mu.Lock()
	var r request
	if known := s.requests[id]; known != nil {
		r = *known
	}
	s.mu.Unlock()
	switch {
	case r.cancel == nil && r.program == nil:
	case r.owner != owner:
		return false, &engine.Error{Op: "cancel", Kind: engine.ErrForbidden}
	case r.cancel != nil:
		r.cancel(errCancelled)
		return true, nil
	case r.program.waiting():
		r.program.expire()
		return true, nil
	}
	return false, nil
}
