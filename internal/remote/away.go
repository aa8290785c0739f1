package remote

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// An api may be cut off from a worker that the others, and the database, still hear. Then
// that worker is dead for this api alone: it places nothing there, and makes workspaces
// that it had there anew elsewhere. Files of theirs that the worker might still store are
// not recorded: this api is the one that leads their sessions, and listens to it no more.

// probeEvery is how often a worker that was not reached is asked whether it is there.
const probeEvery = 500 * time.Millisecond

// lookAgain asks a worker that was not reached until it answers or is given up. Until then
// no program is placed there.
func (s *Sandbox) lookAgain(t *target) {
	if !s.scheduler.takeAway(t) || !s.enter() {
		return
	}
	go func() {
		defer s.probes.Done()
		tick := time.NewTicker(probeEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-t.gone.Done():
				return
			case <-s.life.Done():
				return
			}
			if s.reaches(t) {
				s.scheduler.bringBack(t)
				return
			}
		}
	}()
}

// enter counts a goroutine that Close waits for, unless it waits already.
func (s *Sandbox) enter() bool {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.probes.Add(1)
	return true
}

// reaches reports whether a worker answers, and has released what is elsewhere by now.
func (s *Sandbox) reaches(t *target) bool {
	ctx, cancel := context.WithTimeout(s.life, dialTime)
	defer cancel()
	a, err := s.ask(ctx, t, question{Held: true})
	for id := range a.Held {
		if err == nil && s.scheduler.isLeft(t, id) {
			_, err = s.ask(ctx, t, question{Release: &id})
		}
	}
	return err == nil
}

// isDeadHere reports whether a worker that could not be reached since some time has lost
// what it held, as far as this api is concerned: its process is gone, for nobody listens
// at its address, or it does not answer.
func isDeadHere(since time.Time, err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || time.Since(since) >= dialTime
}

// takeAway keeps programs off a worker. It reports whether they were not kept off before.
func (s *scheduler) takeAway(t *target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := t.away
	t.away = true
	return !before
}

func (s *scheduler) bringBack(t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.away, t.left = false, nil
	s.announce()
}

// leave notes that a workspace is made anew elsewhere.
func (s *scheduler) leave(t *target, held engine.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.left == nil {
		t.left = map[engine.ID]bool{}
	}
	t.left[held] = true
}

func (s *scheduler) isLeft(t *target, held engine.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.left[held]
}
