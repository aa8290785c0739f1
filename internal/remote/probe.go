package remote

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// An api may be cut off from a worker that other apis, and the database, still hear. Then
// the worker is dead for this api alone: it places nothing there, and restores workspaces
// that it had there on other workers. What the worker stores of them afterwards is not
// recorded: this api leads their sessions, and no longer reads the worker's answers.

// probeEvery is the interval in which an unreached worker is probed.
const probeEvery = 500 * time.Millisecond

// probe asks an unreached worker until it answers or is declared dead. Until then no
// program is placed there.
func (s *Sandbox) probe(t *target) {
	if !s.scheduler.setUnreached(t) || !s.enter() {
		return
	}
	go func() {
		defer s.probes.Done()
		tick := time.NewTicker(probeEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-t.lost.Done():
				return
			case <-s.life.Done():
				return
			}
			if s.reaches(t) {
				s.scheduler.setReached(t)
				return
			}
		}
	}()
}

// enter counts a goroutine that Close waits for. It reports false once Close was called.
func (s *Sandbox) enter() bool {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.probes.Add(1)
	return true
}

// reaches reports whether a worker answers, and has released the superseded workspaces.
func (s *Sandbox) reaches(t *target) bool {
	ctx, cancel := context.WithTimeout(s.life, dialTime)
	defer cancel()
	a, err := s.query(ctx, t, question{Held: true})
	for id := range a.Held {
		if l, superseded := s.scheduler.superseded(t, id); err == nil && superseded {
			_, err = s.query(ctx, t, question{Release: &id, Lease: l})
		}
	}
	return err == nil
}

// isDeadHere reports whether a worker that could not be reached since a time has lost its
// workspaces, as far as this api is concerned: its process has ended, because no process
// listens at its address, or it does not answer.
func isDeadHere(since time.Time, err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || time.Since(since) >= dialTime
}

// setUnreached keeps programs off a worker. It reports whether they were not before.
func (s *Scheduler) setUnreached(t *target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := t.unreached
	t.unreached = true
	return !before
}

func (s *Scheduler) setReached(t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.unreached, t.superseded = false, nil
	s.announce()
}

// supersede notes that a workspace is restored on another worker.
func (s *Scheduler) supersede(t *target, held engine.ID, l lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.superseded == nil {
		t.superseded = map[engine.ID]lease{}
	}
	t.superseded[held] = l
}

func (s *Scheduler) superseded(t *target, held engine.ID) (l lease, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, yes = t.superseded[held]
	return l, yes
}
