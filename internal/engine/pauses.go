package engine

import (
	"context"
	"sync"
	"time"
)

// Freezable is a Host that can have its program frozen. A sandbox that can
// freeze it calls Freezer before the program's first call.
type Freezable interface {
	// Freezer receives a function that stops or continues every process of the
	// program. That function returns when the sandbox has been notified.
	Freezer(freeze func(Motion) error)
}

// Motion is the state that the processes of a program should have.
type Motion uint8

// A program continues, or all of its processes are stopped: at once, or after StopDelay
// unless they are told to continue before.
const (
	GoOn Motion = iota
	Stop
	StopSoon
)

// StopDelay is short for other runs that wait, and long for the next call of a program: to
// stop and to resume it takes a tenth of a short cell's time.
const StopDelay = 230 * time.Millisecond

// RoundHandler is a CallHandler that collects calls and issues them in rounds.
// Its program waits only while a round is out. Before that, further calls may
// be on their way.
type RoundHandler interface {
	CallHandler
	// Rounds sets the functions to call when a round is issued, and when it is
	// answered, before any of its calls return. They never block.
	Rounds(out func(bool))
}

// parkAfter is how long a program waits before it loses its slot and is frozen. A quick
// answer thus changes nothing.
const parkAfter = 20 * time.Millisecond

// toldFor is how long a pending stop need not be revoked after the program continues.
// Most answers are followed by another wait before that.
const toldFor = StopDelay - 50*time.Millisecond

// pauses is the clock of a run whose program may wait long for answers. While it waits,
// the clock is stopped. After parkAfter the program is frozen, too, even if it has busy
// threads, and other runs get its slot: a wait takes no processor. The program gets the
// answer together with a slot.
type pauses struct {
	queue  *queue
	ticket *ticket
	over   func() // called once, when the program has used up its time
	near   bool   // its sandbox is on this machine, as are the runs that compete for its processor
	rounds bool   // the handler says when the program waits; else each open call does

	turn sync.Mutex // held while the program is stopped or continued

	mu        sync.Mutex
	freeze    func(Motion) error // nil: the sandbox cannot freeze
	open      int                // calls without an answer
	waits     bool
	parked    bool      // without slot, and stopped
	tellBy    time.Time // deadline for notifying its sandbox that it continues; zero: none
	tell      *time.Timer
	ended     bool
	left      time.Duration // remaining running time
	since     time.Time     // start of the running time; zero: the clock is stopped
	timer     *time.Timer
	parkTimer *time.Timer
}

func newPauses(s Sandbox, q *queue, t *ticket, p *Profile, over func()) *pauses {
	limit := p.Limits.Timeout
	if p.Live {
		limit = endless
	}
	pauses := &pauses{queue: q, ticket: t, over: over, left: limit, since: time.Now(), timer: time.AfterFunc(limit, over)}
	pauses.parkTimer = time.AfterFunc(time.Hour, pauses.park)
	pauses.tell = time.AfterFunc(time.Hour, pauses.goOn)
	pauses.parkTimer.Stop()
	pauses.tell.Stop()
	_, distant := s.(Distant)
	pauses.near = !distant
	if handler, ok := p.Host.(RoundHandler); ok {
		pauses.rounds = true
		handler.Rounds(pauses.wait)
	}
	return pauses
}

// Freezer implements Freezable.
func (h *host) Freezer(freeze func(Motion) error) {
	if h.pauses == nil {
		return
	}
	h.pauses.mu.Lock()
	defer h.pauses.mu.Unlock()
	h.pauses.freeze = freeze
}

// wait records that the program begins or ends to wait.
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

// setClock runs the clock while the program runs. The caller holds mu.
func (p *pauses) setClock() {
	switch runs := !p.waits && !p.parked && !p.ended; {
	case runs && p.since.IsZero():
		p.since = time.Now()
		p.timer.Reset(max(p.left, 0))
		if !p.tellBy.IsZero() && !time.Now().Before(p.tellBy) {
			p.tell.Reset(0)
		}
	case !runs && !p.since.IsZero():
		p.timer.Stop()
		p.left -= time.Since(p.since)
		p.since = time.Time{}
	}
}

// park stops a program that waits: at once if another run wants the processor, else soon.
// A program that cannot be stopped keeps its slot.
func (p *pauses) park() {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	freeze, due := p.freeze, p.waits && !p.parked && !p.ended
	told := !p.tellBy.IsZero() // the sandbox does not know yet that it continued
	p.mu.Unlock()
	motion, known := Stop, time.Duration(0)
	if p.near && p.queue.alone(p.ticket) {
		motion, known = StopSoon, toldFor
	}
	if !due || freeze != nil && !told && freeze(motion) != nil {
		return
	}
	p.mu.Lock()
	p.parked = true
	if freeze != nil && !told {
		p.tellBy = time.Now().Add(known)
		p.tell.Reset(known)
	}
	p.mu.Unlock()
	p.queue.park(p.ticket)
}

// goOn revokes a pending stop of a program at its sandbox.
func (p *pauses) goOn() {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	due := !p.tellBy.IsZero() && !p.since.IsZero()
	if due {
		p.tellBy = time.Time{}
	}
	p.mu.Unlock()
	if due {
		_ = p.freeze(GoOn) // fails if the sandbox has ended
	}
}

// begin records a call.
func (p *pauses) begin() {
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	if !p.rounds {
		p.wait(true)
	}
}

// resume records that a call is answered. A program without further open calls
// continues once the run has a slot. The error is the cause of ctx's end.
func (p *pauses) resume(ctx context.Context) error {
	p.mu.Lock()
	p.open--
	last := p.open == 0
	p.mu.Unlock()
	if last && !p.rounds {
		p.wait(false)
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	due := p.parked && !p.waits
	p.mu.Unlock()
	if !due {
		return nil
	}
	p.queue.unpark(p.ticket)
	if _, err := p.queue.wait(ctx, p.ticket); err != nil {
		return err // it is being ended, which needs no slot
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = false
	p.setClock()
	return nil
}

// end stops the clock for good, after the program has ended.
func (p *pauses) end() {
	p.mu.Lock()
	p.ended = true
	p.parkTimer.Stop()
	p.tell.Stop()
	p.setClock()
	p.mu.Unlock()
	p.turn.Lock() // park may be running
	defer p.turn.Unlock()
}
