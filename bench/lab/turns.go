package lab

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Call does something once, and returns how long it took. A call of Turns may end the Try around it; those of a Load
// are made in goroutines of their own, and may not.
type Call func(ctx context.Context) (time.Duration, error)

// Contestant is one way to do it. Open prepares one client, which is not measured, and ends the Try around it if that
// fails. The caller calls done after the last call.
type Contestant struct {
	Name string
	Open func(ctx context.Context) (do Call, done func())
}

// Ready is a contestant that has nothing to prepare.
func Ready(name string, do Call) Contestant {
	return Contestant{name, func(context.Context) (Call, func()) { return do, func() {} }}
}

// Rest is how long nothing happens before each single measurement, so that what the one before left to be done is not
// paid for by the next: the service refills its pool behind the answer.
const Rest = 25 * time.Millisecond

// Turns measures contestants round by round, after one for nothing: files come from the disk only then. Each round
// begins with another one, so that none always follows the same other.
func Turns(ctx context.Context, rounds int, list ...Contestant) []Sample {
	calls, times := make([]Call, len(list)), make([]Sample, len(list))
	take := func(i int) time.Duration {
		took, err := calls[i](ctx)
		if err = errors.Join(err, ctx.Err()); err != nil {
			Fail("%s: %w", list[i].Name, err)
		}
		return took
	}
	for i, c := range list {
		do, done := c.Open(ctx)
		defer done()
		calls[i] = do
		take(i)
	}
	for round := range rounds {
		for i := range list {
			k := (i + round) % len(list)
			Pause(ctx, Rest)
			times[k] = append(times[k], take(k))
		}
	}
	return times
}

// Load is what became of the calls of several clients at once.
type Load struct {
	Times  Sample
	Length time.Duration
	Failed error // of those that failed
}

// Rate returns how many calls ended well in a second.
func (l *Load) Rate() float64 { return float64(len(l.Times)) / l.Length.Seconds() }

// Saturate has clients call as fast as they can for a while, and adds what became of it. It ends with the last answer,
// so that what was begun is counted. A client that is refused ends: one that goes on asking would measure refusals.
func (l *Load) Saturate(ctx context.Context, c Contestant, clients int, d time.Duration) {
	l.run(ctx, c, clients, func(began time.Time, do Call) (took time.Duration, more bool, err error) {
		if time.Since(began) < d {
			took, err = do(ctx)
			more = err == nil
		}
		return took, more, err
	})
}

// callers is how many requests at a constant rate can be under way.
const callers = 64

// AtRate calls at fixed times, whatever becomes of the answers. How long one took is counted from when it was due, so
// that a service which stalls is not spared those that would have come meanwhile.
func AtRate(ctx context.Context, c Contestant, rate float64, d time.Duration) (l Load) {
	total, interval := int64(rate*d.Seconds()), time.Duration(float64(time.Second)/rate)
	var next atomic.Int64
	l.run(ctx, c, min(callers, max(int(2*rate), 2)), func(began time.Time, do Call) (time.Duration, bool, error) {
		n := next.Add(1)
		if n > total {
			return 0, false, nil
		}
		due := began.Add(time.Duration(n) * interval)
		Pause(ctx, time.Until(due))
		_, err := do(ctx)
		return time.Since(due), true, err
	})
	return l
}

// run has clients take steps until there are no more. It ends the Try around it if no call ends well.
func (l *Load) run(
	ctx context.Context, c Contestant, clients int,
	step func(began time.Time, do Call) (took time.Duration, more bool, err error),
) {
	calls, each := make([]Call, clients), make([]Load, clients)
	for i := range calls {
		do, done := c.Open(ctx)
		defer done()
		calls[i] = do
	}
	var group sync.WaitGroup
	began := time.Now()
	for i, do := range calls {
		group.Go(func() {
			for more := true; more && ctx.Err() == nil; {
				var took time.Duration
				var err error
				if took, more, err = step(began, do); err != nil {
					each[i].Failed = errors.Join(each[i].Failed, err)
				} else if took > 0 {
					each[i].Times = append(each[i].Times, took)
				}
			}
		})
	}
	group.Wait()
	l.Length += time.Since(began)
	for _, e := range each {
		l.Times, l.Failed = append(l.Times, e.Times...), errors.Join(l.Failed, e.Failed)
	}
	if len(l.Times) == 0 {
		Fail("%s with %d clients: nothing but failures: %w", c.Name, clients, errors.Join(l.Failed, ctx.Err()))
	}
	Check(ctx.Err())
}
