package engine

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const gigabyte = 1 << 30

// roomyQueue has one slot, and seats and memory for resting programs.
func roomyQueue(seats int, memory int64) *queue {
	q := newQueue(1, 100, 100)
	q.seats, q.memory = seats, memory
	return q
}

// come takes a place for a run that may have a gigabyte.
func come(t *testing.T, q *queue, owner Owner) *ticket {
	t.Helper()
	ticket, err := q.reserve(owner, NewID())
	if err != nil {
		t.Fatal(err)
	}
	ticket.memory = gigabyte
	q.join(ticket)
	return ticket
}

func TestQueueRest(t *testing.T) {
	q := roomyQueue(3, 10*gigabyte)
	a, b, c, d := come(t, q, "x"), come(t, q, "x"), come(t, q, "x"), come(t, q, "x")
	want := func(when string, are ...bool) {
		t.Helper()
		if got := running(a, b, c, d); !slices.Equal(got, are) {
			t.Fatalf("%s: %v, want %v", when, got, are)
		}
	}
	want("one slot", true, false, false, false)
	q.rest(a, 1)
	want("a rests", true, true, false, false)
	q.rest(a, 1)
	want("twice is once", true, true, false, false)
	q.wake(a)
	q.rest(b, 1)
	want("a computes again: b's slot is its", true, true, false, false)
	q.rest(a, 1)
	want("both rest", true, true, true, false)
	q.rest(c, 1)
	want("no more seats", true, true, true, false)
	if r, resting, w := q.load(); r != 3 || resting != 3 || w != 1 {
		t.Errorf("%d go on, %d rest, %d wait", r, resting, w)
	}
	q.leave(a)
	want("a seat is free", false, true, true, true)
	q.wake(a)
	q.rest(a, 1)
	for _, ticket := range []*ticket{b, c, d} {
		q.leave(ticket)
	}
	if q.running != 0 || q.seated != 0 || q.taken != 0 || len(q.owners) != 0 {
		t.Errorf("left behind: %+v", q)
	}
}

func TestQueueRestMemory(t *testing.T) {
	q := roomyQueue(100, 3*gigabyte)
	a := come(t, q, "x")
	q.rest(a, gigabyte/2)
	b := come(t, q, "x")
	q.rest(b, 5*gigabyte) // never more than its limit
	c := come(t, q, "x")
	q.rest(c, gigabyte/2)
	if d := come(t, q, "x"); !slices.Equal(running(a, b, c, d), []bool{true, true, true, true}) {
		t.Fatalf("3 gigabytes hold 0.5 + 1 + 0.5 + 1: %v, %d taken", running(a, b, c, d), q.taken)
	} else {
		q.rest(d, gigabyte)
	}
	e, other := come(t, q, "x"), come(t, q, "y")
	if e.state == ticketRunning {
		t.Error("there was memory for a fifth")
	}
	q.leave(a)
	if !slices.Equal(running(e, other), []bool{false, true}) {
		t.Errorf("another owner's first run goes on: %v", running(e, other))
	}
}

// Those of one owner that rest leave seats to the others.
func TestQueueRestShare(t *testing.T) {
	q := newQueue(2, 100, 100)
	q.seats, q.memory, q.share = 5, 100*gigabyte, func(Owner) (all, one int) { return 1, 1 }
	for range 10 {
		if ticket := come(t, q, "x"); ticket.state == ticketRunning {
			q.rest(ticket, 1)
		}
	}
	if q.seated != 4 {
		t.Fatalf("%d of 5 seats are one owner's", q.seated)
	}
	if other := come(t, q, "y"); other.state != ticketRunning {
		t.Error("no seat for another")
	}
}

func TestQueueRestAndPark(t *testing.T) {
	q := roomyQueue(5, 100*gigabyte)
	a := come(t, q, "x")
	q.rest(a, 1)
	q.park(a)
	q.wake(a)
	if q.running != 0 || q.seated != 0 || q.taken != 0 {
		t.Fatalf("parked while it rested: %+v", q)
	}
	q.unpark(a)
	q.rest(a, 1)
	q.leave(a)
	if q.running != 0 || q.seated != 0 || q.taken != 0 {
		t.Fatalf("left: %+v", q)
	}
}

func TestQueueExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2, 100, 100)
		if wait := q.expected("x"); wait != 0 {
			t.Errorf("at first: %v", wait)
		}
		for _, d := range []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second, time.Hour} {
			slot := come(t, q, "x")
			time.Sleep(d)
			q.leave(slot)
		}
		come(t, q, "x")
		come(t, q, "x")
		for range 8 {
			come(t, q, "x")
		}
		if wait := q.expected("x"); wait != 40*time.Second {
			t.Errorf("behind 8 of 10 s on 2 slots: %v", wait)
		}
		if wait := q.expected("y"); wait != 5*time.Second {
			t.Errorf("another owner is served in turn: %v", wait)
		}
		err := q.tooLong(30*time.Second, 75*time.Second)
		if !errors.Is(err, ErrBusy) || err.RetryAfter < 45*time.Second || err.RetryAfter > time.Minute {
			t.Errorf("%+v", err)
		}
	})
}
