package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// measureLoad finds how many programs a second each can run, and how long one
// takes at half of that.
func (b *bench) measureLoad(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	everybody := append(b.peers(ctx), airlock(nameWarm, b.warm))
	if err := b.saturate(ctx, &printing, printLevels, b.plan.printLoad, everybody); err != nil {
		return err
	}
	if err := b.saturate(ctx, &b.plain, b.plan.plotLevels, b.plan.plotLoad, everybody); err != nil {
		return err
	}
	if err := b.saturate(ctx, &b.plot, b.plan.plotLevels, b.plan.plotLoad, everybody); err != nil {
		return err
	}
	if err := b.saturate(ctx, &kilobyte, []int{8}, b.plan.printLoad, []contestant{airlock(nameWarm, b.warm)}); err != nil {
		return err
	}
	best, ok := b.results.saturated(printing.name, nameWarm)
	if !ok {
		return nil
	}
	constant, err := constantRate(ctx, airlock(nameWarm, b.warm), &printing, best/2, b.plan.constant)
	if err != nil {
		return err
	}
	b.results.Constant = constant
	fmt.Fprintf(b.progress, "   at %.0f a second: p50 %.2f ms, p99 %.2f ms\n", constant.Rate, constant.P50, constant.P99)
	return nil
}

// saturate has each number of clients send requests as fast as possible, contestants in turn.
func (b *bench) saturate(
	ctx context.Context, w *workload, levels []int, d time.Duration, everybody []contestant,
) error {
	for _, clients := range levels {
		spans := make([]span, len(everybody))
		for range b.plan.segments {
			for i, one := range everybody {
				if spans[i].length >= time.Duration(b.plan.segments)*d {
					continue // what it had begun took as long as all of its segments
				}
				pause(ctx, 10*rest)
				if err := spans[i].add(ctx, one, w, clients, d); err != nil {
					return err
				}
			}
		}
		for i, one := range everybody {
			l := Load{
				Workload: w.name, Contestant: one.name, Clients: clients,
				PerSecond: float64(len(spans[i].times)) / spans[i].length.Seconds(),
				Failed:    spans[i].failed, Summary: spans[i].times.summary(),
			}
			b.results.Load = append(b.results.Load, l)
			fmt.Fprintf(b.progress, "   %-6s %-18s %3d clients %8.1f a second", w.name, one.name, clients, l.PerSecond)
			if spans[i].failed > 0 {
				fmt.Fprintf(b.progress, ", %d failed: %v", spans[i].failed, spans[i].why)
			}
			fmt.Fprintln(b.progress)
		}
	}
	return nil
}

// span is a time of load.
type span struct {
	times  sample
	length time.Duration
	failed int
	why    error // one of them
}

// add loads one contestant for a while. The span ends with its last answer,
// so that what was begun is counted.
func (s *span) add(ctx context.Context, one contestant, w *workload, clients int, d time.Duration) error {
	open := make([]*client, clients)
	for i := range open {
		c, err := one.open(ctx, w)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", one.name, w.name, err)
		}
		defer c.close()
		open[i] = c
	}
	results := make([]span, clients)
	var work sync.WaitGroup
	began := time.Now()
	for i, c := range open {
		work.Go(func() { results[i].loop(ctx, c, began.Add(d)) })
	}
	work.Wait()
	s.length += time.Since(began)
	for _, r := range results {
		s.times = append(s.times, r.times...)
		s.failed += r.failed
		s.why = errors.Join(s.why, r.why)
	}
	if len(s.times) == 0 {
		return fmt.Errorf("%s, %s with %d clients: nothing but failures: %w", one.name, w.name, clients,
			errors.Join(s.why, ctx.Err()))
	}
	return ctx.Err()
}

// loop asks until the deadline, or until it was refused: a client that goes
// on asking what refuses it would measure refusals.
func (s *span) loop(ctx context.Context, c *client, deadline time.Time) {
	s.times = make(sample, 0, 4096)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		took, err := c.time(ctx)
		if err != nil {
			s.failed++
			s.why = err
			return
		}
		s.times = append(s.times, took)
	}
}

// callers is how many requests at a constant rate can be under way.
const callers = 64

// constantRate asks at fixed times, whatever becomes of the answers. How long
// one took is counted from when it was due, so that a service which stalls is
// not spared those that would have come meanwhile.
func constantRate(ctx context.Context, one contestant, w *workload, rate float64, d time.Duration) (*Constant, error) {
	total := int64(rate * d.Seconds())
	interval := time.Duration(float64(time.Second) / rate)
	// A service closes a connection on which nothing comes for some seconds.
	open := make([]*client, min(callers, max(int(2*rate), 2)))
	for i := range open {
		c, err := one.open(ctx, w)
		if err != nil {
			return nil, err
		}
		defer c.close()
		open[i] = c
	}
	results := make([]span, len(open))
	var next atomic.Int64
	var work sync.WaitGroup
	before := processorsNow()
	began := time.Now().Add(10 * time.Millisecond)
	for i, c := range open {
		work.Go(func() {
			for n := next.Add(1) - 1; n < total && ctx.Err() == nil; n = next.Add(1) - 1 {
				due := began.Add(time.Duration(n) * interval)
				if wait := time.Until(due); wait > 0 {
					pause(ctx, wait)
				}
				if err := c.attempt(ctx); err != nil {
					results[i].failed++
					results[i].why = err
					continue
				}
				results[i].times = append(results[i].times, time.Since(due))
			}
		})
	}
	work.Wait()
	length, stolen := time.Since(began), processorsNow().stolenSince(before)
	var all span
	for _, r := range results {
		all.times = append(all.times, r.times...)
		all.failed += r.failed
		all.why = errors.Join(all.why, r.why)
	}
	if len(all.times) == 0 {
		return nil, errors.Join(errors.New("nothing but failures"), all.why, ctx.Err())
	}
	return &Constant{
		Rate: rate, Reached: float64(len(all.times)) / length.Seconds(), Failed: all.failed, Stolen: stolen,
		Summary: all.times.summary(),
	}, ctx.Err()
}
