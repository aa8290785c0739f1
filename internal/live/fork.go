package live

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A fork is an additional interpreter of a session, with its own variables and the same files. It
// has another sandbox, with its own limits, processes and loopback; processes and ports of the
// session are in the sandbox of its first interpreter.

// maxForks bounds the forks of one session.
const maxForks = 16

// ForkRequest asks for an additional interpreter.
type ForkRequest struct {
	Language string // as in Request
	Setup    Setup  // in place of the session's
}

// Fork adds an interpreter to a session. Its id stands for a session's in all methods
// that have to do with cells.
func (s *Service) Fork(ctx context.Context, caller engine.Caller, id engine.ID, req ForkRequest) (engine.ID, error) {
	of, err := s.find(ctx, caller, id)
	if err != nil {
		return engine.ID{}, err
	}
	lang, err := findLanguage(req.Language)
	if err != nil {
		return engine.ID{}, err
	}
	if err := of.hasLive(lang); err != nil {
		return engine.ID{}, err
	}
	fork := &session{id: engine.NewID(), caller: of.caller, record: of.record, settings: of.settings, setup: req.Setup}
	of.mu.Lock()
	fork.secrets = of.secrets
	of.mu.Unlock()
	fork.settings.Language = lang.Name
	_, err = s.add(fork)
	return fork.id, err
}

// fits returns an error if a session has as many forks as it may. The caller holds mu.
func (s *Service) fits(fork *session) error {
	forks := 0
	for _, at := range s.sessions {
		if at.record.ID == fork.record.ID && at.id != at.record.ID {
			forks++
		}
	}
	if forks < maxForks {
		return nil
	}
	return &engine.Error{
		Op: "fork", Kind: engine.ErrBusy, RetryAfter: 5 * time.Second,
		Err: errors.New("this session has as many interpreters as one may have"), Hint: "Delete one that is no longer used.",
	}
}

// within returns a session and its forks.
func (s *Service) within(id engine.ID) []*session {
	return slices.DeleteFunc(s.all(), func(at *session) bool { return at.record.ID != id })
}

// shares reports whether another interpreter uses the workspace of s.
func (s *Service) shares(one *session) bool {
	return slices.ContainsFunc(s.within(one.record.ID), func(at *session) bool { return at != one && at.alive() })
}

// EndFork ends an interpreter that Fork has added, and forgets it.
func (s *Service) EndFork(ctx context.Context, caller engine.Caller, id engine.ID) error {
	at, err := s.find(ctx, caller, id)
	if err != nil {
		return err
	}
	if at.id == at.record.ID {
		return missing(id.String())
	}
	s.forget(id)
	at.quit("It was deleted.")
	at.await(ctx)
	return nil
}

// Delete deletes a session with all that runs in it.
func (s *Service) Delete(ctx context.Context, caller engine.Caller, id engine.ID) error {
	at, err := s.find(ctx, caller, id)
	if err != nil {
		return err
	}
	if at.id != at.record.ID {
		return missing(id.String())
	}
	err = s.engine.DeleteSession(ctx, caller, id)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	for _, one := range s.within(id) {
		s.forget(one.id)
		one.quit("Its session was deleted.")
	}
	return err
}
