package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// What is measured: single requests in turn, then clients at once for a while.
const (
	singles = 200
	clients = 8
	span    = 5 * time.Second
)

// measure compares print(1) through an api and a worker with a service that does both.
func measure(ctx context.Context, o *options) error {
	c, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer c.stop()
	for _, role := range []string{"all", "api", "worker"} {
		if _, err := c.node(ctx, role, o.binary); err != nil {
			return err
		}
	}
	ways := c.nodes[:2]
	took := make([]lab.Sample, len(ways))
	for _, n := range ways { // until its interpreters are warm
		if !lab.Until(ctx, lab.StartTime, func() bool { return n.prints(ctx) }) {
			return fmt.Errorf("%s runs nothing", n.role)
		}
		n.alone(ctx, singles/10)
	}
	for range singles {
		for i, n := range ways {
			took[i] = append(took[i], n.alone(ctx, 1)...)
		}
	}
	fmt.Fprintf(o.out, "print(1), by turns in one run, at load %.2f; PostgreSQL and bucket on the same machine.\n\n"+
		"| | one at a time, p50 | p99 | %d clients, runs/s | at half of the lower rate, p99 |\n|---|---|---|---|---|\n",
		lab.LoadAverage(), clients)
	rates := make([]float64, len(ways))
	for i, n := range ways {
		rates[i] = float64(len(n.crowd(ctx, 0))) / span.Seconds()
	}
	half := make([]time.Duration, len(ways))
	for i, n := range ways {
		half[i] = n.crowd(ctx, slices.Min(rates)/2).At(99)
		fmt.Fprintf(o.out, "| %s | %.2f ms | %.2f ms | %.0f | %.2f ms |\n", []string{"`--role all`", "api and worker"}[i],
			lab.Millis(took[i].At(50)), lab.Millis(took[i].At(99)), rates[i], lab.Millis(half[i]))
	}
	fmt.Fprintf(o.out, "\nThrough api and worker: %+.2f ms (must: +0.8 ms), p99 at half rate %.2fx (must: 1.5x).\n"+
		"Two workers are not compared with one: api, database and client share the processors of one machine\n"+
		"with them.\n", lab.Millis(took[1].At(50)-took[0].At(50)), float64(half[1])/float64(half[0]))
	return ctx.Err()
}

// alone is how long requests take, one after the other.
func (n *node) alone(ctx context.Context, count int) (t lab.Sample) {
	for range count {
		began := time.Now()
		if n.prints(ctx) {
			t = append(t, time.Since(began))
		}
	}
	return t
}

// crowd is how long requests take of clients at once: each as fast as it can, or all
// together at a rate, from when each was due.
func (n *node) crowd(ctx context.Context, rate float64) (t lab.Sample) {
	var group sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for i := range clients {
		group.Go(func() {
			for k := i; ctx.Err() == nil && time.Since(began) < span; k += clients {
				due := time.Now()
				if rate > 0 {
					due = began.Add(time.Duration(float64(k) / rate * float64(time.Second)))
					<-time.After(time.Until(due))
				}
				if n.prints(ctx) {
					mu.Lock()
					t = append(t, time.Since(due))
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return t
}

// upgrade replaces the nodes of an earlier version one by one, under load.
func upgrade(ctx context.Context, o *options) error {
	if o.former == "" {
		return errors.New("--former names the binary of an earlier version")
	}
	c, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := c.four(ctx, o.former); err != nil {
		return err
	}
	l := c.startLoad(ctx)
	for _, i := range []int{2, 0, 3, 1} { // both versions side by side, in both roles
		if !l.more(ctx, 10) {
			return errors.New("no run ends well")
		}
		n := c.nodes[i]
		_ = n.Stop() // what it cut off is counted
		n.binary = o.binary
		if err := n.launch(ctx); err != nil {
			return err
		}
	}
	if !l.more(ctx, 10) {
		return errors.New("no run ends well")
	}
	lost, twice := l.outcome(ctx)
	failed := l.failures()
	fmt.Fprintf(o.out, "From commit %s, at a load of %.2f: %d runs with a file and %d in sessions ended well while four\n"+
		"nodes were replaced. %d times an api that was about to end refused one before it began, and the other one\n"+
		"did it, as by way of a load balancer. Cut off, or ended with an error: %d. Files lost: %d, of sessions: %d,\n"+
		"runs seen on two workers: %d, another's file: %d.\n",
		o.from, lab.LoadAverage(), len(l.kept), l.sessions, l.turned, failed, lost, l.bared, twice, l.foreign)
	if lost+twice+l.bared+l.foreign+failed > 0 {
		return errors.New("something was lost, cut off, or done twice")
	}
	return ctx.Err()
}
