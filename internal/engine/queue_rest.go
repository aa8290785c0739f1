package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Rest implements Host.
func (h *host) Rest(resting bool, memory int64) {
	if resting {
		h.service.queue.rest(h.job.ticket, memory)
	} else {
		h.service.queue.wake(h.job.ticket)
	}
}

// fits reports whether there is memory for one more run. As many runs as there are slots
// may start whatever memory there is, and so may one of each account: their memory is
// bounded by their limits and by the kernel.
func (q *queue) fits(l *ownerQueue, t *ticket) bool {
	return q.seated < q.slots || l.account.seated == 0 || q.taken+t.memory <= q.memory
}

// seat gives a ticket a seat and a slot.
func (q *queue) seat(t *ticket) {
	q.running++
	q.seated++
	q.owners[t.owner].each(func(at *tally) { at.running++; at.seated++ })
	t.counted, t.resting, t.since = t.memory, false, time.Now()
	q.taken += t.counted
}

// unseat releases the seat and slot of a ticket.
func (q *queue) unseat(t *ticket) {
	l := q.owners[t.owner]
	if !t.resting {
		q.running--
		l.each(func(at *tally) { at.running-- })
		t.held += time.Since(t.since)
	}
	q.seated--
	l.each(func(at *tally) { at.seated-- })
	q.taken -= t.counted
	t.counted, t.resting = 0, false
}

// rest releases the slot of a run, which keeps its seat.
func (q *queue) rest(t *ticket, memory int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != ticketRunning || t.resting {
		return
	}
	q.running--
	q.owners[t.owner].each(func(at *tally) { at.running-- })
	memory = min(max(memory, 0), t.memory)
	q.taken += memory - t.counted
	t.counted, t.resting, t.held = memory, true, t.held+time.Since(t.since)
	q.dispatch()
}

// alone reports whether no other run computes or waits to compute.
func (q *queue) alone(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := 0
	if t.state == ticketRunning && !t.resting {
		own = 1
	}
	return q.running == own && q.waiting == 0
}

// wake gives a resting run a slot at once, because it computes already. No other run
// gets a slot until the computing runs fit the slots again.
func (q *queue) wake(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != ticketRunning || !t.resting {
		return
	}
	q.running++
	q.owners[t.owner].each(func(at *tally) { at.running++ })
	q.taken += t.memory - t.counted
	t.counted, t.resting, t.since = t.memory, false, time.Now()
}

// resize changes the number of slots on other machines, which then decide about
// memory.
func (q *queue) resize(slots int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots, q.seats, q.memory = slots, RestingPerCore*slots, math.MaxInt64
	q.dispatch()
}

func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots
}

// SetSlots sets how many programs a distant sandbox runs at once. The minimum is one, so
// that a run gets the sandbox's reason for having no slots.
func (s *Service) SetSlots(slots int) { s.queue.resize(max(slots, 1)) }

// holds records how long the last runs held their slots.
type holds struct {
	last [31]time.Duration
	n    int // number of recorded holds
}

func (h *holds) add(d time.Duration) {
	h.last[h.n%len(h.last)] = d
	h.n++
}

// typical returns their median: one long run says little about the next.
func (h *holds) typical() time.Duration {
	known := h.last
	sorted := known[:min(h.n, len(known))]
	if len(sorted) == 0 {
		return 0
	}
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// expected returns how long a new run of an owner would wait at least, if the runs before
// it take as long as the last ones. What the started ones have left is not known.
func (q *queue) expected(owner Owner) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := q.owner(owner)
	inAccount := mine.waiting
	for other, l := range q.owners {
		if l.account == mine.account && other != owner {
			inAccount += min(l.waiting, mine.waiting+1) // they are served in turn
		}
	}
	ahead := inAccount
	for name, account := range q.accounts {
		if name != mine.name {
			ahead += min(account.waiting, inAccount+1)
		}
	}
	return q.recent.typical() * time.Duration(ahead) / time.Duration(max(q.slots, 1))
}

// tooLong returns the error of a run that would get its slot too late, or did.
func (q *queue) tooLong(most, expected time.Duration) *Error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.refusal(RefusedWait, fmt.Sprintf("no slot within %v", most))
	err.RetryAfter = min(max(err.RetryAfter, expected-most), maxRetryAfter).Round(time.Second)
	err.Err = errors.Join(errCrowded, err.Err)
	return err
}

// errCrowded is the cause of the end of a run that got no slot in time.
var errCrowded = errors.New("too many runs are waiting")
