package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// kills kills nodes under load, the next one as soon as runs end well again: often while
// the last one is about to start.
func kills(ctx context.Context, c *cluster) {
	c.options.runtimes = "" // what is asked needs none, and a node without them starts at once
	c.four(ctx, c.options.binary)
	l := c.startLoad(ctx)
	l.addLive()
	began, killed := time.Now(), map[string]int{}
	for i := range c.options.kills {
		n := l.next(ctx, i, 2)
		n.Kill()
		killed[n.role]++
		n.start()
		if i%100 == 99 {
			fmt.Fprintf(os.Stderr, "%d kills in %v\n", i+1, time.Since(began).Round(time.Second))
		}
	}
	took := time.Since(began).Round(time.Second)
	for _, n := range c.nodes {
		n.await(ctx)
	}
	failed := l.failures()
	l.end(ctx)
	fmt.Fprintf(c.out, "Under load %d workers and %d apis were killed with `kill -9` in %v, the next one as soon as runs "+
		"ended well\nagain. %d runs with a file, %d runs in sessions, %d cells of live sessions, which list their "+
		"files, and\n"+
		"%d files written into live sessions ended well; %d were answered with an error or not at all. Acknowledged files\n"+
		"lost: %d; of sessions: %d; of live sessions: %d; runs seen on two workers: %d; sessions with another's file: %d.\n",
		killed["worker"], killed["api"], took, len(l.kept), l.sessions, l.cells, l.writes, failed,
		l.lost, l.bared, l.missing, l.twice, l.foreign)
	l.check(0)
}

// upgrade replaces the nodes of an earlier version one by one, under load.
func upgrade(ctx context.Context, c *cluster) {
	if c.options.former == "" {
		lab.Fail("--former names the binary of an earlier version")
	}
	c.four(ctx, c.options.former)
	l := c.startLoad(ctx)
	for i := range c.nodes {
		n := l.next(ctx, i, 10)
		_ = n.Stop() // what it cut off is counted
		n.binary = c.options.binary
		n.launch(ctx)
	}
	l.next(ctx, 0, 10)
	l.end(ctx)
	failed := l.failures()
	fmt.Fprintf(c.out, "From commit %s, at a load of %.2f: %d runs with a file and %d in sessions ended well while four\n"+
		"nodes were replaced. %d times an api that was about to end refused one before it began, and the other one\n"+
		"did it, as by way of a load balancer. Cut off, or ended with an error: %d. Files lost: %d, of sessions: %d,\n"+
		"runs seen on two workers: %d, another's file: %d.\n",
		c.options.from, lab.LoadAverage(), len(l.kept), l.sessions, l.turned, failed, l.lost, l.bared, l.twice, l.foreign)
	l.check(failed)
}

// next waits until some more runs have ended well, and returns the node whose turn it is. Of two versions both roles
// are then side by side.
func (l *load) next(ctx context.Context, i, runs int) *node {
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.kept) + l.sessions
	}
	before := count()
	until(ctx, time.Now(), "no run ends well", func() bool { return count() >= before+runs })
	return l.cluster.nodes[[]int{2, 0, 3, 1}[i%4]]
}
