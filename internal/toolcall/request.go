package toolcall

import (
	"context"
	"errors"
	"maps"

	"github.com/airlock-run/airlock/internal/engine"
)

// request is one that another can cancel by its id: while it is answered, and then for
// as long as the program that it began or continued waits.
type request struct {
	owner   engine.Owner
	cancel  context.CancelCauseFunc // nil: it is answered
	program *Program                // that waits since
}

var errCancelled = errors.New("it was asked for")

// Enter notes a request by its id, if it has one. Its work is to be done under the
// context. Leave is called when it is answered, with the program that then waits, or nil.
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

// drop forgets a program, and the requests that it has waited for since.
func (s *Programs) drop(p *Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, p.key)
	maps.DeleteFunc(s.requests, func(_ string, r *request) bool { return r.program == p })
}

// Cancel cancels the request with an id, or ends the program that waits since. It reports
// whether there was something to cancel, and ErrForbidden for another owner's.
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
