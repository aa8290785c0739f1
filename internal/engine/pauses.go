package engine

import (
	"context"
	"sync"
	"time"
)

// Freezable is a Host that can have its program stopped. A sandbox that can
// do that says how, before the program's first call.
type Freezable interface {
	// Freezer is told what stops every process of the program, and lets them go
	// on. It returns when the sandbox has been told.
	Freezer(freeze func(frozen bool) error)
}

// RoundHandler is a CallHandler that collects calls and gives them out in
// rounds. Its program waits only while a round is out: before that, others of
// its calls may be on their way.
type RoundHandler interface {
	CallHandler
	// Rounds is told what to call when a round goes out, and when it is answered,
	// before any of its calls return. That never blocks.
	Rounds(out func(bool))
}

// parkAfter is how long a program waits before it loses its slot and stands
// still: a quick answer finds it as it was.
const parkAfter = 20 * time.Millisecond

// pauses is the clock of a run whose program may wait long for answers. While
// it waits the clock is stopped. Soon the program is too, whatever its threads were
// about to do, and its slot is for others: a wait costs nobody a processor.
// When the answer is there the program gets it together with a slot.
type pauses struct {
	queue  *queue
	ticket *ticket
	over   func() // called once, when the program has run for long enough
	rounds bool   // the handler says when the program waits; else each open call does

	turn sync.Mutex // held while the program is stopped or set going

	mu        sync.Mutex
	freeze    func(bool) error // nil: the sandbox has no means
	open      int              // calls without an answer
	waits     bool
	parked    bool // without slot, and stopped
	ended     bool
	left      time.Duration // of running
	since     time.Time     // it has been running; zero: the clock is stopped
	timer     *time.Timer
	parkTimer *time.Timer
}

func newPauses(q *queue, t *ticket, p *Profile, over func()) *pauses {
	limit := p.Limits.Timeout
	if p.Live {
		limit = endless
	}
	pauses := &pauses{queue: q, ticket: t, over: over, left: limit, since: time.Now(), timer: time.AfterFunc(limit, over)}
	pauses.parkTimer = time.AfterFunc(time.Hour, pauses.park)
	pauses.parkTimer.Stop()
	if handler, ok := p.Host.(RoundHandler); ok {
		pauses.rounds = true
		handler.Rounds(pauses.wait)
	}
	return pauses
}

// Freezer implements Freezable.
func (h *host) Freezer(freeze func(bool) error) {
	if h.pauses == nil {
		return
	}
	h.pauses.mu.Lock()
	defer h.pauses.mu.Unlock()
	h.pauses.freeze = freeze
}

// wait notes that the program begins to wait, or has what it waits for.
func (p *pauses) wait(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits == yes || p.ended {
		return
	}
	p.waits = yes
	if yes {
		p.parkTimer.Reset(parkAfter)
	} else {
		p.parkTimer.Stop()
	}
	p.setClock()
}

// setClock lets the clock run while the program does. The caller holds mu.
func (p *pauses) setClock() {
	switch runs := !p.waits && !p.parked && !p.ended; {
	case runs && p.since.IsZero():
		p.since = time.Now()
		p.timer.Reset(max(p.left, 0))
	case !runs && !p.since.IsZero():
		p.timer.Stop()
		p.left -= time.Since(p.since)
		p.since = time.Time{}
	}
}

// park stops a program that waits. One that cannot be stopped keeps its slot.
func (p *pauses) park() {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	freeze, due := p.freeze, p.waits && !p.parked && !p.ended
	p.mu.Unlock()
	if !due || freeze != nil && freeze(true) != nil {
		return
	}
	p.mu.Lock()
	p.parked = true
	p.mu.Unlock()
	p.queue.park(p.ticket)
}

// begin notes a call.
func (p *pauses) begin() {
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	if !p.rounds {
		p.wait(true)
	}
}

// resume notes that a call is answered. A program that waits for nothing more
// goes on, once the run has a slot; the error is the cause of ctx's end.
func (p *pauses) resume(ctx context.Context) error {
	p.mu.Lock()
	p.open--
	last := p.open == 0
	p.mu.Unlock()
	if last && !p.rounds {
		p.wait(false)
	}
	p.turn.Lock()
	p.mu.Lock()
	freeze, due := p.freeze, p.parked && !p.waits
	p.mu.Unlock()
	if !due {
		p.turn.Unlock()
		return nil
	}
	p.queue.unpark(p.ticket)
	if _, err := p.queue.wait(ctx, p.ticket); err != nil {
		p.turn.Unlock()
		return err // it is being ended, which needs no processor of ours
	}
	p.mu.Lock()
	p.parked = false
	p.setClock()
	p.mu.Unlock()
	if freeze == nil {
		p.turn.Unlock()
		return nil
	}
	go func() { // its answer need not wait for that; end does
		defer p.turn.Unlock()
		_ = freeze(false) // fails when the sandbox is gone
	}()
	return nil
}

// end stops the clock for good. The program is gone.
func (p *pauses) end() {
	p.mu.Lock()
	p.ended = true
	p.parkTimer.Stop()
	p.setClock()
	p.mu.Unlock()
	p.turn.Lock() // park may be at it
	defer p.turn.Unlock()
}
