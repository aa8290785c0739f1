package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// kills kills nodes under load, the next one as soon as runs end well again: often while
// the last one is about to start.
func kills(ctx context.Context, o *options) error {
	quick := *o
	quick.runtimes = "" // what is asked needs none, and a node without them starts at once
	c, err := start(ctx, &quick)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := c.four(ctx, o.binary); err != nil {
		return err
	}
	l := c.startLoad(ctx)
	l.addLive()
	began, killed := time.Now(), map[string]int{}
	for i := 0; i < o.kills && ctx.Err() == nil; i++ {
		if !l.more(ctx, 2) {
			return errors.New("no run ends well")
		}
		n := c.nodes[[]int{2, 0, 3, 1}[i%4]]
		n.Kill()
		killed[n.role]++
		if err := n.start(); err != nil {
			return err
		}
		if i%100 == 99 {
			fmt.Fprintf(os.Stderr, "%d kills in %v\n", i+1, time.Since(began).Round(time.Second))
		}
	}
	took := time.Since(began).Round(time.Second)
	for _, n := range c.nodes {
		if !lab.Until(ctx, lab.StartTime, func() bool { return n.ready(ctx) }) {
			return fmt.Errorf("a node of the role %s does not come back", n.role)
		}
	}
	failed := l.failures()
	lost, twice := l.outcome(ctx)
	fmt.Fprintf(o.out, "Under load %d workers and %d apis were killed with `kill -9` in %v, the next one as soon as runs ended well\n"+
		"again. %d runs with a file, %d runs in sessions, %d cells of live sessions, which list their files, and\n"+
		"%d files written into live sessions ended well; %d were answered with an error or not at all. Acknowledged files\n"+
		"lost: %d; of sessions: %d; of live sessions: %d; runs seen on two workers: %d; sessions with another's file: %d.\n",
		killed["worker"], killed["api"], took, len(l.kept), l.sessions, l.cells, l.writes, failed,
		lost, l.bared, l.missing, twice, l.foreign)
	if lost+twice+l.bared+l.missing+l.foreign > 0 {
		return errors.New("something was lost, or done twice")
	}
	return ctx.Err()
}

// more waits until so many more runs have ended well.
func (l *load) more(ctx context.Context, n int) bool {
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.kept) + l.sessions
	}
	before := count()
	return lab.Until(ctx, time.Minute, func() bool { return count() >= before+n })
}
