package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Redirect records which node has the object of a request.
type Redirect struct{ to atomic.Int64 }

// To returns the node that has the object; zero: no other node has it.
func (r *Redirect) To() Epoch { return Epoch(r.to.Load()) }

type redirectKey struct{}

// WithRedirect returns a context for requests that can be forwarded to another node. A
// method that fails because another node has the object records that in the Redirect.
func WithRedirect(ctx context.Context) (context.Context, *Redirect) {
	r := &Redirect{}
	return context.WithValue(ctx, redirectKey{}, r), r
}

// NoteHolder records in a context's Redirect, if there is one, which node has the object.
func NoteHolder(ctx context.Context, holder Epoch) {
	if r, ok := ctx.Value(redirectKey{}).(*Redirect); ok {
		r.to.Store(int64(holder))
	}
}

// HolderNoted returns the node that a context's Redirect names; zero: none.
func HolderNoted(ctx context.Context) Epoch {
	if r, ok := ctx.Value(redirectKey{}).(*Redirect); ok {
		return r.To()
	}
	return 0
}

// canRedirect reports whether a request can be forwarded.
func canRedirect(ctx context.Context) bool { return ctx.Value(redirectKey{}) != nil }

// Elsewhere returns the error of a request that only another node can serve, and records
// that node in the context's Redirect.
func (s *Service) Elsewhere(ctx context.Context, op, id string, holder Epoch) error {
	if s.cluster == nil {
		return &Error{Op: op, Kind: ErrNotFound, ID: id}
	}
	node, ok := s.cluster.Node(holder)
	if !ok {
		return &Error{Op: op, Kind: ErrUnavailable, ID: id, RetryAfter: takeOver,
			Hint: "Try again in some seconds: what can be saved is taken over by another node.",
			Err:  errors.New("the node that had it does not answer")}
	}
	NoteHolder(ctx, holder)
	return &Error{Op: op, Kind: ErrUnavailable, ID: id, RetryAfter: time.Second,
		Hint: fmt.Sprintf("Ask that node, at %s, or try again.", node.Address),
		Err:  fmt.Errorf("the node %s has it", node.Name)}
}

// takeOver is how long it takes until another node takes over a dead node's objects.
const takeOver = 3 * time.Second

// Self returns the epoch of this node; zero without a cluster.
func (s *Service) Self() Epoch {
	if s.cluster == nil {
		return 0
	}
	return s.cluster.Self()
}

// foreign reports whether holder is another, live node.
func (s *Service) foreign(holder Epoch) bool {
	if s.cluster == nil || holder == 0 || holder == s.cluster.Self() {
		return false
	}
	_, alive := s.cluster.Node(holder)
	return alive
}

// Reap cleans up after dead nodes: it marks the runs that they had not finished as
// interrupted.
func (s *Service) Reap(ctx context.Context) error {
	n, err := s.index.InterruptRuns(ctx, s.now())
	if err != nil {
		return failure("open", "", err)
	}
	if n > 0 {
		s.log.WarnContext(ctx, "runs were interrupted by the end of a process", "count", n)
	}
	return nil
}

// NeedsKey reports whether callers on loopback need a key: since the first one was created. It asks the index, where
// another node may have created it.
func (s *Service) NeedsKey(ctx context.Context) (bool, error) {
	if s.cluster != nil {
		if err := s.Refresh(ctx); err != nil {
			return true, err
		}
	}
	return s.meter.keys.Load() > 0, nil
}

// Refresh looks up whether another node has created the first key.
func (s *Service) Refresh(ctx context.Context) error {
	if s.meter.keys.Load() > 0 {
		return nil
	}
	return failure("count keys", "", s.loadAccounts(ctx))
}

// CutOff cancels the runs of a former epoch of this node, which its peers have declared dead.
func (s *Service) CutOff(former Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.node == former {
			j.cancel(errCutOff)
		}
	}
}

var errCutOff = errors.New("this node was cut off from the others, which gave the run up")

// Claim makes this node the holder of a session, unless another node is, and returns
// the session with its new place.
func (s *Service) Claim(ctx context.Context, session Session) (Session, error) {
	const op = "claim session"
	if s.cluster == nil {
		return session, nil
	}
	defer s.claims.lock(session.ID)() // what another call claims may be used when it has released what it must
	for range 3 {
		switch {
		case session.Place.Holder == s.cluster.Self():
			return session, nil
		case s.foreign(session.Place.Holder):
			return session, s.Elsewhere(ctx, op, session.ID.String(), session.Place.Holder)
		}
		place, err := s.cluster.Claim(ctx, session.ID, session.Place.Generation, session.Place.Worker)
		if err == nil {
			if session.Place.Holder != 0 {
				s.meter.takeOver(session.Kind)
			}
			session.Place = place
			// What this node has of it is from before another one held it. Distant workspaces of live sessions are known
			// by their generation.
			if session.Kind == SessionHeld || !s.sandbox.Distant() {
				err = s.release(ctx, session)
			}
			return session, err
		}
		if !errors.Is(err, ErrConflict) {
			return session, failure(op, session.ID.String(), err)
		}
		if session, err = s.session(ctx, op, session.ID.String(), session.Owner, session.ID); err != nil {
			return session, err
		}
	}
	return session, s.Elsewhere(ctx, op, session.ID.String(), session.Place.Holder)
}

// awaitReaped waits until the run of a dead node is marked as interrupted.
func (s *Service) awaitReaped(ctx context.Context, run *Run) (*Run, error) {
	const op = "watch run"
	ctx, cancel := context.WithTimeout(ctx, 4*takeOver)
	defer cancel()
	look := time.NewTicker(takeOver / 10)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, s.Elsewhere(ctx, op, run.ID.String(), run.Node)
		}
		now, err := s.index.Run(ctx, run.Owner, run.ID)
		if err != nil {
			return nil, failure(op, run.ID.String(), err)
		}
		if now.Status.Final() {
			return now, nil
		}
	}
}
