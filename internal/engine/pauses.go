package engine

import (
	"context"
	"sync"
	"time"
)

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

// parkAfter is how long a program waits before it loses its slot and is frozen. A quick
// answer thus changes nothing.
const parkAfter = 20 * time.Millisecond

// toldFor is how long a pending stop need not be revoked after the program continues.
// Most answers are followed by another wait before that. The rest of StopDelay is for a busy machine, on which
// the revocation comes late.
const toldFor = 100 * time.Millisecond

// pauses is the clock of a run whose program may wait long for answers. While it waits,
// the clock is stopped. After parkAfter the program is frozen, too, even if it has busy
// threads, and other runs get its slot: a wait takes no processor. The program gets the
// answer together with a slot.
type pauses struct {
	queue  *queue
	ticket *ticket
	over   func() // called when the program has used up its time
	near   bool   // its sandbox is on this machine, as are the runs that compete for its processor
	rounds bool   // the handler says when the program waits; else each open call does

	moving sync.Mutex // held while the program is stopped or continued, which takes longer than mu is held

	mu     sync.Mutex
	state  pauseState
	since  time.Time          // when it began
	left   time.Duration      // running time, at since
	freeze func(Motion) error // nil: the sandbox cannot freeze
	tellBy time.Time          // deadline for notifying its sandbox that it continues; zero: none
	open   int                // calls without an answer
	timer  *time.Timer        // of what is due next in the state
}

// pauseState is what a program does. An answer leads from waiting to running, and from parked to
// returning.
type pauseState uint8

const (
	stateRunning   pauseState = iota // it has a slot, and its clock runs
	stateWaiting                     // it has a slot for parkAfter
	stateParked                      // it is stopped, without a slot
	stateReturning                   // it has its answers, and waits for a slot
	stateEnded
)

func newPauses(s Sandbox, q *queue, t *ticket, p *Profile, over func()) *pauses {
	pauses := &pauses{queue: q, ticket: t, over: over, near: !s.Distant(), left: p.Limits.Timeout, since: time.Now()}
	if p.Live != nil {
		pauses.left = endless
	}
	pauses.mu.Lock()
	pauses.timer = time.AfterFunc(pauses.left, pauses.fire)
	pauses.mu.Unlock()
	if p.Calls.Rounds != nil {
		pauses.rounds = true
		p.Calls.Rounds(pauses.wait)
	}
	return pauses
}

// SetControls implements Host.
func (h *host) SetControls(controls Controls) {
	if h.pauses != nil {
		h.pauses.mu.Lock()
		h.pauses.freeze = controls.Freeze
		h.pauses.mu.Unlock()
	}
	if resident := h.job.request.Profile.resident(); resident != nil {
		resident.SetControls(controls)
	}
}

// enter changes the state and sets the timer. The caller holds mu.
func (p *pauses) enter(to pauseState) {
	now := time.Now()
	if p.state == stateRunning {
		p.left -= now.Sub(p.since)
	}
	p.state, p.since = to, now
	switch to {
	case stateRunning:
		next := p.left
		if !p.tellBy.IsZero() {
			next = min(next, p.tellBy.Sub(now))
		}
		p.timer.Reset(max(next, 0))
	case stateWaiting:
		p.timer.Reset(parkAfter)
	default:
		p.timer.Stop()
	}
}

// wait records that the program begins or ends to wait.
func (p *pauses) wait(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case yes && p.state == stateRunning:
		p.enter(stateWaiting)
	case yes && p.state == stateReturning:
		p.enter(stateParked)
	case !yes && p.state == stateWaiting:
		p.enter(stateRunning)
	case !yes && p.state == stateParked:
		p.enter(stateReturning)
	}
}

// fire does what is due in the state.
func (p *pauses) fire() {
	p.mu.Lock()
	state, past := p.state, time.Since(p.since)
	if state == stateRunning && past < p.left {
		next := p.left - past
		if pending := time.Until(p.tellBy); pending > 0 {
			next = min(next, pending)
		}
		p.timer.Reset(next)
	}
	p.mu.Unlock()
	switch {
	case state == stateRunning && past >= p.left:
		p.over()
	case state == stateRunning:
		p.moving.Lock()
		defer p.moving.Unlock()
		p.goOn()
	case state == stateWaiting && past >= parkAfter:
		p.park()
	}
}

// park stops a program that waits: at once if another run wants the processor, else soon.
// A program that cannot be stopped keeps its slot.
func (p *pauses) park() {
	p.moving.Lock()
	defer p.moving.Unlock()
	p.mu.Lock()
	freeze, due := p.freeze, p.state == stateWaiting
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
	defer p.mu.Unlock()
	if freeze != nil && !told {
		p.tellBy = time.Now().Add(known)
	}
	switch p.state {
	case stateWaiting:
		p.enter(stateParked)
	case stateRunning: // it was answered meanwhile
		p.enter(stateReturning)
	default:
		return
	}
	p.queue.park(p.ticket)
}

// goOn tells the sandbox that a program runs which it has stopped, or is about to. It must be told before the
// program has its answer. The caller holds moving.
func (p *pauses) goOn() {
	p.mu.Lock()
	due := !p.tellBy.IsZero() && !time.Now().Before(p.tellBy) && (p.state == stateRunning || p.state == stateReturning)
	if due {
		p.tellBy = time.Time{}
	}
	p.mu.Unlock()
	if due {
		_ = p.freeze(GoOn) // fails if the sandbox has ended
	}
}

// addCall records a call.
func (p *pauses) addCall() {
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
	p.moving.Lock()
	defer p.moving.Unlock()
	p.mu.Lock()
	due := p.state == stateReturning
	p.mu.Unlock()
	if !due {
		p.goOn()
		return nil
	}
	p.queue.unpark(p.ticket)
	if _, err := p.queue.wait(ctx, p.ticket); err != nil {
		return err // it is being ended, which needs no slot
	}
	p.goOn()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.state {
	case stateReturning:
		p.enter(stateRunning)
	case stateParked: // it waits again
		p.enter(stateWaiting)
	}
	return nil
}

// end stops the clock for good, after the program has ended.
func (p *pauses) end() {
	p.mu.Lock()
	p.enter(stateEnded)
	p.mu.Unlock()
	p.moving.Lock() // park may be running
	defer p.moving.Unlock()
}
