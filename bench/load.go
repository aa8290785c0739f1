package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// measureLoad finds how many programs a second each can run, how long one takes at half of that, and how a class of
// thirty fares.
func (b *bench) measureLoad(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	for _, p := range []*program{&printing, &b.plot} {
		if err := b.saturate(ctx, p); err != nil {
			return err
		}
	}
	if err := b.halfRate(ctx); err != nil {
		return err
	}
	return b.class(ctx)
}

// saturate has clients send requests as fast as possible, contestants in turn, and records the most that each did in a
// second with whatever number of clients.
func (b *bench) saturate(ctx context.Context, p *program) error {
	floor, err := b.startFloor(ctx, p)
	if err != nil {
		return err
	}
	defer floor.Kill()
	everybody := append([]contestant{fork(floor, p), airlock(nameWarm, b.warm, p)}, b.peers(ctx, p)...)
	most := make([]float64, len(everybody))
	for _, clients := range []int{2, 4, 8} {
		spans := make([]span, len(everybody))
		for range b.full(2, 1) {
			for i, one := range everybody {
				lab.Pause(ctx, 10*rest)
				if err := spans[i].add(ctx, one, clients, 2*time.Second); err != nil {
					return err
				}
			}
		}
		for i := range spans {
			if err := spans[i].why; err != nil {
				return fmt.Errorf("%s: %w", everybody[i].name, err)
			}
			most[i] = max(most[i], 1/spans[i].pace())
		}
	}
	for i, one := range everybody {
		b.value(p.name+" as fast as clients can", one.name, "a second", most[i])
	}
	if p != &printing {
		b.goal(p.name+" saturated, against bare forks over HTTP", "x", 0.95, 1, most[1]/most[0])
	}
	return nil
}

// span is a time of load.
type span struct {
	times  lab.Sample
	length time.Duration
	why    error // of those that failed
}

// pace returns the time of a span for each answer in it, in seconds.
func (s *span) pace() float64 { return s.length.Seconds() / float64(len(s.times)) }

// add loads one contestant for a while. The span ends with its last answer, so that what was begun is counted. A client
// that is refused ends: one that goes on asking would measure refusals.
func (s *span) add(ctx context.Context, one contestant, clients int, d time.Duration) error {
	calls := make([]call, clients)
	for i := range calls {
		do, done, err := one.open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		defer done()
		calls[i] = do
	}
	each := make([]span, clients)
	var work sync.WaitGroup
	began := time.Now()
	for i, do := range calls {
		work.Go(func() {
			for time.Since(began) < d && each[i].why == nil {
				took, err := do(ctx)
				if err != nil {
					each[i].why = err
					return
				}
				each[i].times = append(each[i].times, took)
			}
		})
	}
	work.Wait()
	s.length += time.Since(began)
	for _, e := range each {
		s.times, s.why = append(s.times, e.times...), errors.Join(s.why, e.why)
	}
	if len(s.times) == 0 {
		return fmt.Errorf("%s with %d clients: nothing but failures: %w", one.name, clients, errors.Join(s.why, ctx.Err()))
	}
	return ctx.Err()
}

// halfRate asks for print(1) at half of the most.
func (b *bench) halfRate(ctx context.Context) error {
	var most span
	one := airlock(nameWarm, b.warm, &printing)
	if err := most.add(ctx, one, 4, 4*time.Second); err != nil {
		return err
	}
	times, failed, err := atRate(ctx, one, 0.5/most.pace(), time.Duration(b.full(15, 4))*time.Second)
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	b.row(fmt.Sprintf("print(1) at %.0f a second, half of the most", 0.5/most.pace()), nameWarm, times)
	b.goal("p99 of print(1) at half of the most, against its median", "x", 4, 2, times.P99()/times.P50())
	return nil
}

// callers is how many requests at a constant rate can be under way.
const callers = 64

// atRate asks at fixed times, whatever becomes of the answers. How long one took is counted from when it was due, so
// that a service which stalls is not spared those that would have come meanwhile.
func atRate(
	ctx context.Context, one contestant, rate float64, d time.Duration,
) (times lab.Sample, failed error, err error) {
	total, interval := int64(rate*d.Seconds()), time.Duration(float64(time.Second)/rate)
	calls := make([]call, min(callers, max(int(2*rate), 2)))
	for i := range calls {
		do, done, err := one.open(ctx)
		if err != nil {
			return nil, nil, err
		}
		defer done()
		calls[i] = do
	}
	each := make([]span, len(calls))
	var next atomic.Int64
	var work sync.WaitGroup
	began := time.Now().Add(10 * time.Millisecond)
	for i, do := range calls {
		work.Go(func() {
			for n := next.Add(1) - 1; n < total && ctx.Err() == nil; n = next.Add(1) - 1 {
				due := began.Add(time.Duration(n) * interval)
				lab.Pause(ctx, time.Until(due))
				if _, err := do(ctx); err != nil {
					each[i].why = errors.Join(each[i].why, err)
					continue
				}
				each[i].times = append(each[i].times, time.Since(due))
			}
		})
	}
	work.Wait()
	for _, e := range each {
		times, failed = append(times, e.times...), errors.Join(failed, e.why)
	}
	if len(times) == 0 {
		return nil, failed, errors.Join(errors.New("nothing but failures"), ctx.Err())
	}
	return times, failed, ctx.Err()
}

// pupils is how many people there are in a class.
const pupils = 30

// bigTable groups a table of 50 MB in memory.
var bigTable = program{name: "pandas on 50 MB", packages: true, stdout: "50 MB",
	code: `import numpy, pandas
rows = 2_100_000
t = pandas.DataFrame({"a": numpy.arange(rows) % 97, "b": numpy.arange(rows) * 0.5, "c": numpy.arange(rows)})
t.groupby("a")[["b", "c"]].mean()
print(round(t.memory_usage().sum() / 1e6), "MB")
`}

// class has thirty people work at once: each runs print(1), a plot or pandas, reads the answer, thinks for up to four
// seconds, and goes on.
func (b *bench) class(ctx context.Context) error {
	const think = 4 * time.Second
	programs := []*program{&printing, &b.plot, &bigTable}
	each := make([]span, pupils)
	length := time.Duration(b.full(40, 12)) * time.Second
	var work sync.WaitGroup
	began := time.Now()
	for i := range each {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for time.Since(began) < length && each[i].why == nil && ctx.Err() == nil {
				do, done, err := airlock(nameWarm, b.warm, programs[random.IntN(len(programs))]).open(ctx)
				if err != nil {
					each[i].why = err
					return
				}
				lab.Pause(ctx, time.Duration(random.Int64N(int64(think))))
				took, err := do(ctx)
				done()
				each[i].times, each[i].why = append(each[i].times, took), err
			}
		})
	}
	work.Wait()
	var all span
	for _, e := range each {
		all.times, all.why = append(all.times, e.times...), errors.Join(all.why, e.why)
	}
	b.row("a class of 30: print(1), plots, pandas on 50 MB", nameWarm, all.times)
	b.goal("a class of 30 that prints, plots and uses pandas: p95", "s", 2.5, 1.5, lab.Millis(all.times.At(95))/1000)
	return all.why
}
