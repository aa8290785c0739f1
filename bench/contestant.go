package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// contestant is one way to run a program.
type contestant struct {
	name string
	// open prepares one client for a workload: whatever is not to be measured.
	open func(ctx context.Context, w *workload) (*client, error)
}

// The names of contestants in the results.
const (
	namePython   = "python3, cold"
	nameBwrap    = "bubblewrap, cold"
	nameJudge    = "go-judge"
	nameCold     = "airlock, cold"
	nameWarm     = "airlock, warm"
	nameResident = "warm in process"
)

// client runs one workload again and again, one at a time.
type client struct {
	// attempt runs it once. An answer that is wrong is an error.
	attempt func(ctx context.Context) error
	// took, where it is set, is how long the last attempt took by its own
	// clock, and after puts away what it left: neither is measured.
	took  func() time.Duration
	after func() error
	close func()
}

func (c *client) time(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := c.attempt(ctx)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	if c.took != nil {
		took = c.took()
	}
	if c.after != nil {
		err = c.after()
	}
	return took, err
}

// takeTurns measures a workload with all contestants, round by round. Each round begins
// with another one, so that none always follows the same other.
func takeTurns(ctx context.Context, w *workload, rounds int, everybody []contestant) (map[string]sample, error) {
	clients := make([]*client, len(everybody))
	for i, one := range everybody {
		c, err := one.open(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", one.name, w.name, err)
		}
		defer c.close()
		clients[i] = c
		// Once for nothing: files come from the disk only now.
		if _, err := c.time(ctx); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", one.name, w.name, err)
		}
	}
	times := map[string]sample{}
	for round := range rounds {
		for i := range everybody {
			k := (i + round) % len(everybody)
			pause(ctx, rest)
			took, err := clients[k].time(ctx)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", everybody[k].name, w.name, err)
			}
			times[everybody[k].name] = append(times[everybody[k].name], took)
		}
	}
	return times, nil
}
