package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
	"github.com/airlock-run/airlock/client"
)

// load is the mix of clients, and what they have seen.
type load struct {
	service        *service
	options        options
	tenants        []tenant
	packages, node bool

	mu      sync.Mutex
	done    map[string]int // how often each kind of client did its work
	faults  map[string]int // what was wrong, and how often
	ended   int            // runs
	honest  lab.Sample
	overdue lab.Sample // beyond their time limit
}

// tenant is an owner that clients act for.
type tenant struct {
	*client.Client
	key string
}

// act is something that a client does. An error is a fault of the service.
type act struct {
	name    string
	hostile bool
	weight  int
	do      func(ctx context.Context, l *load, who tenant) error
}

// prepare makes the tenants and finds out what this machine can run.
func (l *load) prepare(ctx context.Context) error {
	for _, owner := range []string{"alice", "bob", "mallory"} {
		c, key, err := l.service.as(ctx, owner)
		if err != nil {
			return err
		}
		l.tenants = append(l.tenants, tenant{c, key})
	}
	for language, code := range map[string]string{"python": "import numpy; print(int(numpy.arange(4).sum()))",
		"js": "console.log(2 * 3)"} {
		run, err := l.tenants[0].Run(ctx, client.RunRequest{Language: language, Code: code})
		works := err == nil && run.Stdout == "6\n"
		if language == "js" {
			l.node = works
		} else {
			l.packages = works
		}
	}
	return l.warmUp(ctx)
}

// warmUp asks for everything once, so that what the service keeps ready is
// there before it is looked at.
func (l *load) warmUp(ctx context.Context) error {
	for range 2 {
		for _, imports := range []string{"", "import numpy", "import pandas", "import matplotlib.pyplot"} {
			if imports != "" && !l.packages {
				continue
			}
			if _, err := l.tenants[0].Run(ctx, client.RunRequest{Language: "python", Code: imports}); err != nil {
				return err
			}
		}
		for _, a := range acts {
			if a.hostile {
				continue
			}
			if err := a.do(ctx, l, l.tenants[0]); err != nil {
				return fmt.Errorf("before the load, %s: %w", a.name, err)
			}
		}
	}
	l.ended, l.honest, l.overdue = 0, nil, nil
	return nil
}

// run lets the clients work for a part of the whole: until its share of the time
// is over, or the runs up to the end of it are done.
func (l *load) run(ctx context.Context, from, to float64) {
	limit := time.Duration(float64(l.options.duration) * (to - from))
	runs := int(float64(l.options.runs) * to)
	if runs > 0 {
		limit = 24 * time.Hour
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var bag []act
	for _, a := range acts {
		for range a.weight {
			bag = append(bag, a)
		}
	}
	var clients sync.WaitGroup
	for i := range l.options.clients {
		clients.Go(func() {
			for ctx.Err() == nil && (runs == 0 || l.finished() < runs) {
				a := bag[rand.IntN(len(bag))]
				who := l.tenants[i%2]
				if a.hostile {
					who = l.tenants[2]
				}
				l.perform(a, who)
			}
		})
	}
	clients.Wait()
}

// perform does one act to its end, also when the time is over meanwhile.
func (l *load) perform(a act, who tenant) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitTime)
	defer cancel()
	err := a.do(ctx, l, who)
	turnedAway := isTurnedAway(ctx, who, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[a.name]++
	if err == nil || turnedAway {
		return
	}
	text := a.name + ": " + err.Error()
	l.faults[text[:min(len(text), 600)]]++
}

// isTurnedAway reports whether a client was turned away for now, which is no fault: by the
// queue, or by its own quota, which differs from a full disk in that the service is ready.
func isTurnedAway(ctx context.Context, who tenant, err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != http.StatusInsufficientStorage {
		return ok && e.Status == http.StatusTooManyRequests
	}
	health, err := who.Health(ctx)
	return err == nil && health.Status == client.HealthOK
}

// execute runs a program and counts it.
func (l *load) execute(ctx context.Context, who tenant, req client.RunRequest) (*client.Run, error) {
	began := time.Now()
	run, err := who.Run(ctx, req)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	l.ended++
	limit := req.Timeout
	switch {
	case run.Status == client.StatusTimeout && limit > 0:
		// Waiting for a slot is not running.
		l.overdue = append(l.overdue, took-limit-run.StartedAt.Sub(run.CreatedAt))
	case run.Status == client.StatusOK:
		l.honest = append(l.honest, took)
	}
	return run, nil
}

func (l *load) finished() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// verdict lists what failed for the clients.
func (l *load) verdict() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(l.faults)) {
		errs = append(errs, fmt.Errorf("%d times %s", l.faults[text], text))
	}
	if l.ended == 0 {
		errs = append(errs, errors.New("not one program ran"))
	}
	return errors.Join(errs...)
}
