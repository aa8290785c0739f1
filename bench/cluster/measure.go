package main

import (
	"context"
	"errors"
	"fmt"
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
func measure(ctx context.Context, c *cluster) {
	for _, role := range []string{"all", "api", "worker"} {
		c.node(ctx, role, c.options.binary)
	}
	var ways []lab.Contestant
	for i, name := range []string{"`--role all`", "api and worker"} {
		n := c.nodes[i]
		ways = append(ways, lab.Ready(name, func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			if !n.prints(ctx) {
				return 0, errors.New("it runs nothing")
			}
			return time.Since(began), nil
		}))
		if !lab.Until(ctx, lab.StartTime, func() bool { return n.prints(ctx) }) { // until its interpreters are warm
			lab.Fail("%s runs nothing", n.role)
		}
	}
	lab.Turns(ctx, singles/10, ways...)
	took := lab.Turns(ctx, singles, ways...)
	fmt.Fprintf(c.out, "print(1), by turns in one run, at load %.2f; PostgreSQL and bucket on the same machine.\n\n"+
		"| | one at a time, p50 | p99 | %d clients, runs/s | at half of the lower rate, p99 |\n|---|---|---|---|---|\n",
		lab.LoadAverage(), clients)
	var most [2]lab.Load
	for i, way := range ways {
		most[i].Saturate(ctx, way, clients, span)
		lab.Check(most[i].Failed)
	}
	var half [2]float64
	for i, way := range ways {
		l := lab.AtRate(ctx, way, min(most[0].Rate(), most[1].Rate())/2, span)
		half[i] = l.Times.P99()
		fmt.Fprintf(c.out, "| %s | %.2f ms | %.2f ms | %.0f | %.2f ms |\n", way.Name, took[i].P50(), took[i].P99(),
			most[i].Rate(), half[i])
	}
	fmt.Fprintf(c.out, "\nThrough api and worker: %+.2f ms (must: +0.8 ms), p99 at half rate %.2fx (must: 1.5x).\n"+
		"Two workers are not compared with one: api, database and client share the processors of one machine\n"+
		"with them.\n", took[1].P50()-took[0].P50(), half[1]/half[0])
}
