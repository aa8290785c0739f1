package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// queue decides which run is next. It bounds how many runs wait, how many have
// started and how many of those compute. It serves accounts round robin, so the
// users of each, and each owner's runs in order. It gives no owner more than a
// share of the slots, and runs one program of a session at a time, unless they may
// run concurrently. A run that waits for its session takes no slot.
//
// A slot is for a program that computes. A program that rests, because it waits
// for a time or an answer, gives its slot to another run, as long as there are
// seats and memory for both. The queue is in memory only.
type queue struct {
	slots, most, mostPerOwner int
	share                     func(account Owner) (all, one int) // slots per account, and of one user; nil: all
	maxWaiting                func(account Owner) int            // runs of an account that wait; nil: mostPerOwner
	seats                     int                                // runs that have started, resting ones included
	memory                    int64                              // for all of them, once there are more than slots

	mu       sync.Mutex
	running  int   // runs that compute
	seated   int   // runs that have started
	taken    int64 // memory of the started runs
	waiting  int   // reserved ones included
	owners   map[Owner]*ownerQueue
	accounts map[Owner]*tally
	busy     map[ID]int // share of sessionRoom that runs with a slot take
	turn     uint64     // of the last ticket that got a slot
	arrival  uint64
	meanHold time.Duration // moving average of how long a slot is held
	recent   holds
}

// tally is what a queue knows of one owner, or of an account. It lasts while there is a
// ticket, so that an owner that returns at once does not count as new.
type tally struct {
	served  uint64 // the turn in which it last got a slot, or came in
	fresh   bool   // has had no slot yet
	held    int    // tickets of any state
	waiting int
	running int
	seated  int
	owners  int // of an account, that have a ticket
}

// ownerQueue is one owner's part of the queue.
type ownerQueue struct {
	tally
	name    Owner // of its account
	account *tally
	user    bool      // it is a user of its account
	tickets []*ticket // waiting, the oldest first
}

// each calls do for the tally of an owner and that of its account.
func (l *ownerQueue) each(do func(*tally)) {
	do(&l.tally)
	do(l.account)
}

// owner returns the part of an owner, which may be new. If so, it precedes the owner that has
// just been served, but not the owners that have waited since an earlier round.
func (q *queue) owner(owner Owner) *ownerQueue {
	l := q.owners[owner]
	if l == nil {
		account := owner.Account()
		l = &ownerQueue{tally: tally{served: q.turn, fresh: true}, name: account, account: q.accounts[account],
			user: account != owner}
		if l.account == nil {
			l.account = &tally{served: q.turn, fresh: true}
		}
	}
	return l
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
		owners: map[Owner]*ownerQueue{}, accounts: map[Owner]*tally{}, busy: map[ID]int{}, meanHold: time.Second,
	}
}

// reserve takes a place in the queue, ErrBusy if there is none. The caller
// then calls join or leave.
func (q *queue) reserve(owner Owner, session ID) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.owner(owner)
	most := q.mostPerOwner
	if q.maxWaiting != nil {
		most = q.maxWaiting(l.name)
	}
	switch {
	case q.waiting >= q.most:
		return nil, q.refusal(RefusedQueue, "the queue is full")
	case l.account.waiting >= most, len(q.accounts) > 1 && l.account.waiting >= q.most-q.waiting:
		// If several accounts wait, none may have more waiting than it leaves to the others.
		return nil, q.refusal(RefusedOwner, tooManyOf(l.user))
	case l.user && (l.waiting >= q.mostPerOwner || l.account.owners > 1 && l.waiting >= most-l.account.waiting):
		return nil, q.refusal(RefusedOwner, tooManyOf(false)) // nor may one user of an account
	}
	if l.held == 0 {
		l.account.owners++
	}
	q.owners[owner], q.accounts[l.name] = l, l.account
	l.each(func(at *tally) { at.held++; at.waiting++ })
	q.waiting++
	q.arrival++
	return &ticket{owner: owner, session: session, number: q.arrival, ready: make(chan struct{})}, nil
}

func tooManyOf(users bool) string {
	if users {
		return "too many runs of all users of this key are waiting"
	}
	return "too many of your runs are waiting"
}

// The bounds of the wait that a refused caller is advised.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

func (q *queue) refusal(why Refusal, reason string) *Error {
	wait := q.meanHold * time.Duration(q.waiting+q.running) / time.Duration(q.slots)
	return &Error{
		Op: "run", Kind: ErrBusy, Refusal: why, Hint: "Try again later.",
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
		l.each(func(at *tally) { at.waiting-- })
		q.waiting--
	case ticketRunning:
		q.unseat(t)
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
	l.each(func(at *tally) { at.held-- })
	if l.held == 0 {
		delete(q.owners, t.owner)
		l.account.owners--
	}
	if l.account.held == 0 {
		delete(q.accounts, l.name)
	}
}

// park gives a running ticket's slot to others. Its session stays busy.
func (q *queue) park(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != ticketRunning {
		return
	}
	q.unseat(t)
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
	l.each(func(at *tally) { at.waiting++ })
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
		q.waiting--
		q.seat(t)
		if !t.inside {
			q.busy[t.session] += t.room()
		}
		q.turn++
		l.each(func(at *tally) { at.waiting--; at.served, at.fresh = q.turn, false })
		t.state, t.inside = ticketRunning, true
		close(t.ready)
	}
}

// next returns the least recently served account that has less than its share, the least
// recently served of its owners, and that owner's first ticket whose session is free.
func (q *queue) next() (best *ownerQueue, at int) {
	for _, l := range q.owners {
		if q.hasShare(l) {
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

// hasShare reports whether an owner or its account has all slots or seats that it may have.
func (q *queue) hasShare(l *ownerQueue) bool {
	all, one := q.slots, q.slots
	if q.share != nil {
		all, one = q.share(l.name)
	}
	full := func(at *tally, share int) bool { return at.running >= share || at.seated >= q.seats-q.slots+share }
	return full(l.account, all) || l.user && full(&l.tally, one)
}

// before reports whether ticket i of owner a goes before ticket j of owner b.
func before(a *ownerQueue, i int, b *ownerQueue, j int) bool {
	if a.account != b.account {
		return a.account.before(b.account, a.tickets[i].number < b.tickets[j].number)
	}
	return a.before(&b.tally, a.tickets[i].number < b.tickets[j].number)
}

// before reports whether a is served before b; otherwise says so if neither precedes.
func (a *tally) before(b *tally, otherwise bool) bool {
	switch {
	case a.served != b.served:
		return a.served < b.served
	case a.fresh != b.fresh:
		return a.fresh
	}
	return otherwise
}

// load returns how many runs have started, how many of them rest, and how many wait.
func (q *queue) load() (seated, resting, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seated, max(q.seated-q.running, 0), q.waiting
}
