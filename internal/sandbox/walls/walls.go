// Package walls is the sandbox of a machine that makes several walls: one sandbox of package executor for each, of
// which it starts what is needed.
//
// The service's own wall is there from the start. Another one starts when the first program asks for it, and stays. A
// held workspace is behind one wall as long as it lasts: what is asked about it goes there.
package walls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Config sets up a Sandbox.
type Config struct {
	Own engine.Wall // of programs that ask for none; no program has a weaker one
	// Start starts the sandbox of a wall. An error is for whoever asked for the wall.
	Start func(ctx context.Context, wall engine.Wall) (engine.Sandbox, error)
	Close func() error // called when all sandboxes are closed
}

// Sandbox is an engine.Sandbox. Of the walls it knows which sandbox makes it, and of a held workspace its wall.
type Sandbox struct {
	config Config
	own    engine.Sandbox

	starting sync.Mutex // held while a wall starts

	mu     sync.Mutex
	others map[engine.Wall]engine.Sandbox // that have started
	faults map[engine.Wall]fault
	held   map[engine.ID]engine.Wall // of workspaces that were made and not released; they may be lost
	closed bool
}

// fault is why a wall did not start.
type fault struct {
	err error
	at  time.Time
}

// startAgain is how long a wall that did not start is not tried again: a start costs more than a refusal.
const startAgain = 10 * time.Second

var _ engine.Sandbox = (*Sandbox)(nil)

// Start starts the sandbox of the own wall.
func Start(ctx context.Context, config Config) (*Sandbox, error) {
	own, err := config.Start(ctx, config.Own)
	if err != nil {
		return nil, errors.Join(err, config.Close())
	}
	return &Sandbox{config: config, own: own, others: map[engine.Wall]engine.Sandbox{}, faults: map[engine.Wall]fault{},
		held: map[engine.ID]engine.Wall{}}, nil
}

// started returns the sandbox of a wall that has started, or why it did not a moment ago. Both are nil if it is to be
// started.
func (s *Sandbox) started(wall engine.Wall) (engine.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.others[wall]; one != nil {
		return one, nil
	}
	if s.closed {
		return nil, &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Err: errors.New("the sandbox is closed")}
	}
	if f := s.faults[wall]; f.err != nil && time.Since(f.at) < startAgain {
		return nil, f.err
	}
	return nil, nil
}

// behind returns the sandbox whose programs have a wall, or the own one if that is stronger.
func (s *Sandbox) behind(ctx context.Context, wall engine.Wall) (engine.Sandbox, engine.Wall, error) {
	if wall = wall.Stronger(s.config.Own); wall == s.config.Own {
		return s.own, wall, nil
	}
	if one, err := s.started(wall); one != nil || err != nil {
		return one, wall, err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	if one, err := s.started(wall); one != nil || err != nil { // meanwhile
		return one, wall, err
	}
	one, err := s.config.Start(context.WithoutCancel(ctx), wall) // others may wait for it
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		err = refused(wall, err)
		s.faults[wall] = fault{err, time.Now()}
		return nil, wall, err
	}
	s.others[wall] = one
	return one, wall, nil
}

// refused returns the error of a program whose wall did not start.
func refused(wall engine.Wall, err error) error {
	why, hint := err.Error(), ""
	if e, ok := errors.AsType[*engine.Error](err); ok {
		hint = e.Hint
		if e.Err != nil {
			why = e.Err.Error()
		}
	}
	return engine.NoWall(fmt.Sprintf("%s is not to be had here: %s", wall, why), hint)
}

// all returns the sandboxes that have started, the own one first.
func (s *Sandbox) all() []engine.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []engine.Sandbox{s.own}
	for _, wall := range slices.Sorted(maps.Keys(s.others)) {
		list = append(list, s.others[wall])
	}
	return list
}

// at returns the sandbox that has a held workspace. One that is not known is nowhere, as the own sandbox says.
func (s *Sandbox) at(id engine.ID) engine.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.others[s.held[id]]; one != nil {
		return one
	}
	return s.own
}

// holds notes the wall of a workspace that is made.
func (s *Sandbox) holds(id engine.ID, wall engine.Wall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[id] = wall
}

// Run implements engine.Sandbox.
func (s *Sandbox) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	wall := spec.Wall
	if !spec.Held.IsZero() && !spec.Make {
		s.mu.Lock()
		wall = cmp.Or(s.held[spec.Held], wall)
		s.mu.Unlock()
	}
	one, wall, err := s.behind(ctx, wall)
	if err != nil {
		return nil, err
	}
	if spec.Make {
		s.holds(spec.Held, wall)
	}
	outcome, err := one.Run(ctx, spec, host)
	if outcome != nil {
		outcome.Wall = wall
	}
	return outcome, err
}

// Hold implements engine.Sandbox.
func (s *Sandbox) Hold(
	ctx context.Context, id engine.ID, generation int64, wall engine.Wall, inputs []engine.Input, limits engine.Limits,
) error {
	one, wall, err := s.behind(ctx, wall)
	if err != nil {
		return err
	}
	if err := one.Hold(ctx, id, generation, wall, inputs, limits); err != nil {
		return err
	}
	s.holds(id, wall)
	return nil
}

// Release implements engine.Sandbox.
func (s *Sandbox) Release(ctx context.Context, id engine.ID, generation int64) error {
	err := s.at(id).Release(ctx, id, generation)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, id)
	}
	return err
}

// Changes implements engine.Sandbox.
func (s *Sandbox) Changes(
	ctx context.Context, id engine.ID, limits engine.FileLimit, paths ...string,
) (*engine.Changes, error) {
	return s.at(id).Changes(ctx, id, limits, paths...)
}

// Held implements engine.Sandbox.
func (s *Sandbox) Held(ctx context.Context) (map[engine.ID]int64, error) {
	held := map[engine.ID]int64{}
	for _, one := range s.all() {
		some, err := one.Held(ctx)
		if err != nil {
			return nil, err
		}
		maps.Copy(held, some)
	}
	return held, nil
}

// Start implements engine.Inside.
func (s *Sandbox) Start(ctx context.Context, held engine.ID, spec *engine.ProcessSpec) (engine.Process, error) {
	return s.at(held).Start(ctx, held, spec)
}

// Dial implements engine.Inside.
func (s *Sandbox) Dial(ctx context.Context, held engine.ID, port int) (net.Conn, error) {
	return s.at(held).Dial(ctx, held, port)
}

// Files implements engine.Inside.
func (s *Sandbox) Files(held engine.ID) engine.Files { return s.at(held).Files(held) }

// Usage implements engine.Inside.
func (s *Sandbox) Usage(ctx context.Context, held engine.ID) (engine.SandboxUsage, error) {
	return s.at(held).Usage(ctx, held)
}

// Tmp implements engine.Inside.
func (s *Sandbox) Tmp(held engine.ID) engine.Files { return s.at(held).Tmp(held) }

// Isolation implements engine.Sandbox.
func (s *Sandbox) Isolation(ctx context.Context) (engine.Isolation, error) {
	own, err := s.own.Isolation(ctx)
	if err != nil {
		return own, err
	}
	own.Wall = s.config.Own
	s.mu.Lock()
	others := maps.Clone(s.others)
	s.mu.Unlock()
	for _, wall := range slices.Sorted(maps.Keys(others)) {
		other, err := others[wall].Isolation(ctx)
		if err != nil {
			return own, err
		}
		other.Wall = wall
		own.Others = append(own.Others, other)
	}
	return own, nil
}

// Pools implements engine.Sandbox. Those of another wall than the own one have its name before theirs.
func (s *Sandbox) Pools(ctx context.Context) ([]engine.Pool, error) {
	pools, err := s.own.Pools(ctx)
	s.mu.Lock()
	others := maps.Clone(s.others)
	s.mu.Unlock()
	for _, wall := range slices.Sorted(maps.Keys(others)) {
		some, failed := others[wall].Pools(ctx)
		err = cmp.Or(err, failed)
		for _, p := range some {
			p.Name = string(wall) + " " + p.Name
			pools = append(pools, p)
		}
	}
	return pools, err
}

// Distant implements engine.Sandbox.
func (s *Sandbox) Distant() bool { return s.own.Distant() }

// Close implements engine.Sandbox.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.starting.Lock() // one that starts is closed, too
	defer s.starting.Unlock()
	var errs []error
	for _, one := range s.all() {
		errs = append(errs, one.Close())
	}
	return errors.Join(append(errs, s.config.Close())...)
}
