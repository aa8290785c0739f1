package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// measureLoad finds how many programs a second each can run, how long one takes at half of that, and how a class of
// thirty fares.
func (b *bench) measureLoad(ctx context.Context) {
	s := b.service(ctx)
	b.saturate(ctx, s, &printing)
	b.saturate(ctx, s, &b.plot)
	var most lab.Load
	one := airlock(nameWarm, s, &printing)
	most.Saturate(ctx, one, 4, 4*time.Second)
	half := lab.AtRate(ctx, one, most.Rate()/2, time.Duration(b.full(15, 4))*time.Second)
	lab.Check(half.Failed)
	b.Row(fmt.Sprintf("print(1) at %.0f a second, half of the most", most.Rate()/2), nameWarm, half.Times)
	b.Goal("p99 of print(1) at half of the most, against its median", "x", 4, 2, half.Times.P99()/half.Times.P50())
	b.class(ctx, s)
}

// saturate has clients send requests as fast as possible, contestants in turn, and records the most that each did in a
// second with whatever number of clients.
func (b *bench) saturate(ctx context.Context, s *lab.Service, p *program) {
	fork, stop := b.floor(ctx, p)
	defer stop()
	everybody := append([]lab.Contestant{fork, airlock(nameWarm, s, p)}, b.peers(ctx, p)...)
	most := make([]float64, len(everybody))
	for _, clients := range []int{2, 4, 8} {
		loads := make([]lab.Load, len(everybody))
		for range b.full(2, 1) {
			for i, one := range everybody {
				lab.Pause(ctx, 10*lab.Rest)
				loads[i].Saturate(ctx, one, clients, 2*time.Second)
			}
		}
		for i := range loads {
			if err := loads[i].Failed; err != nil {
				lab.Fail("%s: %w", everybody[i].Name, err)
			}
			most[i] = max(most[i], loads[i].Rate())
		}
	}
	for i, one := range everybody {
		b.Value(p.name+" as fast as clients can", one.Name, "a second", most[i])
	}
	if p != &printing {
		b.Goal(p.name+" saturated, against bare forks over HTTP", "x", 0.95, 1, most[1]/most[0])
	}
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
func (b *bench) class(ctx context.Context, s *lab.Service) {
	const think = 4 * time.Second
	programs := []*program{&printing, &b.plot, &bigTable}
	var times [pupils]lab.Sample
	var failed [pupils]error
	length := time.Duration(b.full(40, 12)) * time.Second
	var work sync.WaitGroup
	began := time.Now()
	for i := range pupils {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			failed[i] = lab.Try(func() {
				for time.Since(began) < length && ctx.Err() == nil {
					do, done := airlock(nameWarm, s, programs[random.IntN(len(programs))]).Open(ctx)
					lab.Pause(ctx, time.Duration(random.Int64N(int64(think))))
					times[i] = append(times[i], lab.Must(do(ctx)))
					done()
				}
			})
		})
	}
	work.Wait()
	lab.Check(errors.Join(failed[:]...))
	all := slices.Concat(times[:]...)
	b.Row("a class of 30: print(1), plots, pandas on 50 MB", nameWarm, all)
	b.Goal("a class of 30 that prints, plots and uses pandas: p95", "s", 2.5, 1.5, lab.Millis(all.At(95))/1000)
}
