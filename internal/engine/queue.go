package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// queue decides which run is next. It bounds how many runs wait, how many have
// started and how many of those compute. It serves owners round robin and each
// owner's runs in order, gives no owner more than a share of the slots, and runs
// one program of a session at a time, unless they may run concurrently. A run
// that waits for its session takes no slot.
//
// A slot is for a program that computes. A program that rests, because it waits
// for a time or an answer, gives its slot to another run, as long as there are
// seats and memory for both. The queue is in memory only.
type queue struct {
	slots, most, mostPerOwner int
	share                     func() int // slots per owner; nil: all
	seats                     int        // runs that have started, resting ones included
	memory                    int64      // for all of them, once there are more than slots

	mu       sync.Mutex
	running  int   // runs that compute
	seated   int   // runs that have started
	taken    int64 // memory of the started runs
	waiting  int   // reserved places included
	owners   map[Owner]*ownerQueue
	busy     map[ID]int // share of sessionRoom that runs with a slot take
	turn     uint64     // of the last ticket that got a slot
	arrival  uint64
	meanHold time.Duration // moving average of how long a slot is held
	recent   holds
}

// ownerQueue is one owner's part of the queue. It lasts while the owner has a
// ticket, so that an owner that returns at once does not count as new.
type ownerQueue struct {
	served  uint64 // the turn in which this owner last got a slot, or came in
	fresh   bool   // has had no slot yet
	held    int    // tickets of any state
	waiting int
	running int
	seated  int
	tickets []*ticket // waiting, the oldest first
}

// ticket is one run's claim to a slot.
type ticket struct {
	owner   Owner
	session ID
	beside  bool          // runs of its session may run beside it, and it beside them
	number  uint64        // order of arrival
	inside  bool          // its run has begun: the session is busy with it
	ready   chan struct{} // closed when the ticket has a slot
	state   ticketState
	since   time.Time     // it has been in this state, or has computed
	resting bool          // running, but without a slot
	held    time.Duration // its slot, up to since
	memory  int64         // its limit
	counted int64         // the part of that which counts as taken
}

// sessionRoom is how many runs may be in one session at once. A run that must be
// alone takes all of it.
const sessionRoom = 8

func (t *ticket) room() int {
	if t.beside {
		return 1
	}
	return sessionRoom
}

type ticketState int

const (
	ticketReserved ticketState = iota // counts, but cannot be called yet
	ticketWaiting
	ticketRunning
	ticketParked // began, and needs no slot at the moment
	ticketGone
)

func newQueue(slots, most, mostPerOwner int) *queue {
	return &queue{
		slots: slots, most: most, mostPerOwner: mostPerOwner, seats: slots,
		owners: map[Owner]*ownerQueue{}, busy: map[ID]int{}, meanHold: time.Second,
	}
}

// reserve takes a place in the queue, ErrBusy if there is none. The caller
// then calls join or leave.
func (q *queue) reserve(owner Owner, session ID) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.owners[owner]
	if l == nil {
		// A new owner precedes the owner that has just been served, but not the
		// owners that have waited since an earlier round.
		l = &ownerQueue{served: q.turn, fresh: true}
	}
	switch {
	case q.waiting >= q.most:
		return nil, q.refusal("the queue is full")
	case l.waiting >= q.mostPerOwner, len(q.owners) > 1 && l.waiting >= q.most-q.waiting:
		// If several owners wait, none may have more places than it leaves to the others.
		return nil, q.refusal("too many of your runs are waiting")
	}
	q.owners[owner] = l
	l.held++
	l.waiting++
	q.waiting++
	q.arrival++
	return &ticket{owner: owner, session: session, number: q.arrival, ready: make(chan struct{})}, nil
}

// The bounds of the wait that a refused caller is advised.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

func (q *queue) refusal(reason string) *Error {
	wait := q.meanHold * time.Duration(q.waiting+q.running) / time.Duration(q.slots)
	return &Error{
		Op: "run", Kind: ErrBusy, Hint: "Try again later.",
		RetryAfter: min(max(wait, minRetryAfter), maxRetryAfter), Err: errors.New(reason),
	}
}

// join makes a reserved ticket wait for its slot.
func (q *queue) join(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.state, t.since = ticketWaiting, time.Now()
	l := q.owners[t.owner]
	l.tickets = append(l.tickets, t)
	q.dispatch()
}

// wait returns when the ticket has its slot, with how long that took, or
// with the cause of ctx's end. Either way the caller must call leave.
func (q *queue) wait(ctx context.Context, t *ticket) (time.Duration, error) {
	start := time.Now()
	select {
	case <-t.ready:
	case <-ctx.Done():
	}
	return time.Since(start), context.Cause(ctx)
}

// leave releases the place or slot of a ticket. It may be called twice.
func (q *queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.owners[t.owner]
	switch t.state {
	case ticketGone:
		return
	case ticketWaiting:
		l.tickets = slices.DeleteFunc(l.tickets, func(waiting *ticket) bool { return waiting == t })
		fallthrough
	case ticketReserved:
		l.waiting--
		q.waiting--
	case ticketRunning:
		q.stand(t)
		q.meanHold += (t.held - q.meanHold) / 8
		q.recent.add(t.held)
	}
	if t.inside {
		if q.busy[t.session] -= t.room(); q.busy[t.session] <= 0 {
			delete(q.busy, t.session)
		}
	}
	t.state = ticketGone
	q.dispatch()
	if l.held--; l.held == 0 {
		delete(q.owners, t.owner)
	}
}

// park gives a running ticket's slot to others. Its session stays busy.
func (q *queue) park(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != ticketRunning {
		return
	}
	q.stand(t)
	t.state = ticketParked
	q.dispatch()
}

// isParked reports whether a ticket's run needs no slot at the moment.
func (q *queue) isParked(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.state == ticketParked
}

// unpark makes a parked ticket wait for a slot again, ahead of its owner's other
// tickets.
func (q *queue) unpark(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != ticketParked {
		return
	}
	t.state, t.since, t.ready = ticketWaiting, time.Now(), make(chan struct{})
	l := q.owners[t.owner]
	l.tickets = slices.Insert(l.tickets, 0, t)
	l.waiting++
	q.waiting++
	q.dispatch()
}

// dispatch hands out free slots.
func (q *queue) dispatch() {
	for q.running < q.slots && q.seated < q.seats {
		l, i := q.next()
		if l == nil || !q.fits(l, l.tickets[i]) {
			return
		}
		t := l.tickets[i]
		l.tickets = slices.Delete(l.tickets, i, i+1)
		l.waiting--
		q.waiting--
		q.sit(t)
		if !t.inside {
			q.busy[t.session] += t.room()
		}
		q.turn++
		l.served, l.fresh = q.turn, false
		t.state, t.inside = ticketRunning, true
		close(t.ready)
	}
}

// next returns the least recently served owner that has less than its share, and
// that owner's first ticket whose session is free.
func (q *queue) next() (best *ownerQueue, at int) {
	share := q.slots
	if q.share != nil {
		share = q.share()
	}
	for _, l := range q.owners {
		if l.running >= share || l.seated >= q.seats-q.slots+share {
			continue
		}
		for i, t := range l.tickets {
			if !t.inside && q.busy[t.session]+t.room() > sessionRoom {
				continue
			}
			if best == nil || before(l, i, best, at) {
				best, at = l, i
			}
			break
		}
	}
	return best, at
}

// before reports whether ticket i of owner a goes before ticket j of owner b.
func before(a *ownerQueue, i int, b *ownerQueue, j int) bool {
	switch {
	case a.served != b.served:
		return a.served < b.served
	case a.fresh != b.fresh:
		return a.fresh
	}
	return a.tickets[i].number < b.tickets[j].number
}

// load returns how many runs have started, how many of them rest, and how many wait.
func (q *queue) load() (seated, resting, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seated, max(q.seated-q.running, 0), q.waiting
}

// Turns is the queue of a Service by itself, for simulations.
type Turns struct{ queue *queue }

// NewTurns returns an empty queue.
func NewTurns(most, mostPerOwner int) *Turns { return &Turns{newQueue(1, most, mostPerOwner)} }

// Resize does what Service.SetSlots does.
func (t *Turns) Resize(slots int) { t.queue.resize(max(slots, 1)) }

// Enter queues a run, which has its slot once ready is closed. The caller calls leave when
// the run has ended. ErrBusy means that the queue is full.
func (t *Turns) Enter(owner Owner) (ready <-chan struct{}, leave func(), err error) {
	ticket, err := t.queue.reserve(owner, NewID())
	if err != nil {
		return nil, nil, err
	}
	t.queue.join(ticket)
	return ticket.ready, func() { t.queue.leave(ticket) }, nil
}
