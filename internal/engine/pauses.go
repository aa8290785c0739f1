package engine

import (
	"context"
	"sync"
	"time"
)

// pauses is the clock of a run whose program may wait long for answers. While
// a call is open the program is taken to stand still: the clock stops, and the
// run's slot is for others. When the answer is there the program gets it
// together with a slot.
type pauses struct {
	queue  *queue
	ticket *ticket
	over   func() // called once, when the program has run for long enough

	turn sync.Mutex // held while a slot is given up or got back

	mu    sync.Mutex
	open  int           // calls without an answer
	left  time.Duration // of running
	since time.Time     // it has been running
	timer *time.Timer
}

func newPauses(q *queue, t *ticket, limit time.Duration, over func()) *pauses {
	return &pauses{queue: q, ticket: t, over: over, left: limit, since: time.Now(), timer: time.AfterFunc(limit, over)}
}

// begin notes a call. The first of several stops the clock.
func (p *pauses) begin() {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open++; p.open > 1 {
		return
	}
	p.timer.Stop()
	p.left -= time.Since(p.since)
	p.queue.park(p.ticket)
}

// resume notes an answer. The last one sets the clock going again, once the
// run has a slot; the error is the cause of ctx's end.
func (p *pauses) resume(ctx context.Context) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	last := p.open == 1
	if !last {
		p.open--
	}
	p.mu.Unlock()
	if !last {
		return nil
	}
	p.queue.unpark(p.ticket)
	_, err := p.queue.wait(ctx, p.ticket)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.since = time.Now()
	p.timer.Reset(max(p.left, 0))
	return err
}

func (p *pauses) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
}
