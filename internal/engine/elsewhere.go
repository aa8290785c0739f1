package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Redirect notes which node has what a request is about.
type Redirect struct{ to atomic.Int64 }

// To returns the node that has what was asked for; zero: none other has.
func (r *Redirect) To() Epoch { return Epoch(r.to.Load()) }

type redirectKey struct{}

// WithRedirect returns a context for requests that can be passed on to another node.
// Whatever fails under it because that node has what was asked for says so in the
// Redirect.
func WithRedirect(ctx context.Context) (context.Context, *Redirect) {
	r := &Redirect{}
	return context.WithValue(ctx, redirectKey{}, r), r
}

// NoteHolder says in a context's Redirect, if it has one, that a node has what was asked
// for.
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

// canRedirect reports whether a request can be passed on.
func canRedirect(ctx context.Context) bool { return ctx.Value(redirectKey{}) != nil }

// Elsewhere is the error of what only another node can do, and notes that node for the
// request. A node that is no more has lost it.
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

// takeOver is how long it takes until what a dead node had is somebody else's.
const takeOver = 3 * time.Second

// Self is this life of this node; zero without a cluster.
func (s *Service) Self() Epoch {
	if s.cluster == nil {
		return 0
	}
	return s.cluster.Self()
}

// foreign reports whether another node that is alive has something.
func (s *Service) foreign(holder Epoch) bool {
	if s.cluster == nil || holder == 0 || holder == s.cluster.Self() {
		return false
	}
	_, alive := s.cluster.Node(holder)
	return alive
}

// Reap puts right what nodes that are no more left half done. Runs that they had not
// finished become interrupted, and workspaces that they held are gone.
func (s *Service) Reap(ctx context.Context) error {
	const op = "open"
	if n, err := s.index.InterruptRuns(ctx, s.now()); err != nil {
		return failure(op, "", err)
	} else if n > 0 {
		s.log.WarnContext(ctx, "runs were interrupted by the end of a process", "count", n)
	}
	lost, err := s.index.LostSessions(ctx)
	if err != nil {
		return failure(op, "", err)
	}
	for _, session := range lost {
		if err := s.sandbox.Release(ctx, session.ID); err != nil {
			return failure(op, session.ID.String(), err)
		}
		if err := s.index.DeleteSession(ctx, session.Owner, session.ID); err != nil && !errors.Is(err, ErrNotFound) {
			return failure(op, session.ID.String(), err)
		}
	}
	return nil
}

// Refresh learns whether another node has made the first key, which closes the door that
// is open on loopback without one.
func (s *Service) Refresh(ctx context.Context) error {
	if s.meter.keys.Load() > 0 {
		return nil
	}
	keys, err := s.index.Keys(ctx)
	if err != nil {
		return failure("count keys", "", err)
	}
	s.meter.keys.Add(int64(len(keys)))
	return nil
}

// CutOff ends what a former life of this node began: its peers have given that up.
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

// Claim makes this node the one that leads a session, unless another one does, and
// returns the session as it is then.
func (s *Service) Claim(ctx context.Context, session Session) (Session, error) {
	const op = "claim session"
	for range 3 {
		switch {
		case s.cluster == nil, session.Place.Holder == s.cluster.Self():
			return session, nil
		case s.foreign(session.Place.Holder):
			return session, s.Elsewhere(ctx, op, session.ID.String(), session.Place.Holder)
		}
		place, err := s.cluster.Claim(ctx, session.ID, session.Place.Generation, session.Place.Worker)
		if err == nil {
			session.Place = place
			return session, nil
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

// awaitReaped waits until the run of a node that is no more is marked.
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
