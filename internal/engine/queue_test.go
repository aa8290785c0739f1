package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// enter takes a place and waits in it.
func enter(t *testing.T, q *queue, owner Owner, session ID) *ticket {
	t.Helper()
	ticket, err := q.reserve(owner, session)
	if err != nil {
		t.Fatal(err)
	}
	q.join(ticket)
	return ticket
}

func running(ts ...*ticket) (are []bool) {
	for _, t := range ts {
		are = append(are, t.state == ticketRunning)
	}
	return are
}

// A few owners cannot take all places: where several wait, each leaves as many as it has.
func TestQueueLeavesPlaces(t *testing.T) {
	q := newQueue(1, 100, 100)
	for range 10 {
		for n := range 10 {
			for range 10 {
				if ticket, err := q.reserve(Owner(rune('a'+n)), NewID()); err == nil {
					q.join(ticket)
				}
			}
		}
	}
	for n := range 5 {
		if _, err := q.reserve(Owner(rune('p'+n)), NewID()); err != nil {
			t.Errorf("owner %d: %v", n, err)
		}
	}
}

func TestQueueServesOwnersInTurn(t *testing.T) {
	q := newQueue(1, 100, 100)
	names := map[*ticket]string{}
	var all []*ticket
	add := func(owner Owner, name string) {
		ticket := enter(t, q, owner, NewID())
		names[ticket] = name
		all = append(all, ticket)
	}
	for _, name := range []string{"a1", "a2", "a3", "a4"} {
		add("a", name)
	}
	add("b", "b1") // a has flooded the queue: b is next all the same
	add("c", "c1")
	add("b", "b2")
	var order []string
	for range 7 {
		i := slices.IndexFunc(all, func(t *ticket) bool { return t.state == ticketRunning })
		order = append(order, names[all[i]])
		q.leave(all[i])
	}
	if want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if len(q.owners) != 0 || len(q.busy) != 0 || q.waiting != 0 || q.running != 0 {
		t.Errorf("left behind: %+v", q)
	}
}

// An owner that always sends one run at a time does not count as new.
func TestQueueNobodyStarves(t *testing.T) {
	q := newQueue(1, 100, 100)
	current := enter(t, q, "b", NewID())
	waits := enter(t, q, "a", NewID())
	for range 3 {
		next := enter(t, q, "b", NewID())
		q.leave(current)
		if waits.state == ticketRunning {
			return
		}
		current = next
	}
	t.Error("b goes before a for ever")
}

// A stream of new owners does not starve an owner that was served before.
func TestQueueNewcomers(t *testing.T) {
	q := newQueue(1, 100, 100)
	current := enter(t, q, "a", NewID())
	waits := enter(t, q, "a", NewID())
	for _, owner := range []Owner{"b", "c", "d"} {
		next := enter(t, q, owner, NewID())
		q.leave(current)
		if waits.state == ticketRunning {
			return
		}
		current = next
	}
	t.Error("newcomers go before a for ever")
}

func TestQueueSerialisesSessions(t *testing.T) {
	q := newQueue(2, 100, 100)
	session := NewID()
	first, second, third := enter(t, q, "a", session), enter(t, q, "a", session), enter(t, q, "a", session)
	other := enter(t, q, "a", NewID())
	if got := running(first, second, third, other); !slices.Equal(got, []bool{true, false, false, true}) {
		t.Fatalf("running: %v", got) // what waits for its session takes no slot
	}
	q.leave(first)
	if got := running(second, third); !slices.Equal(got, []bool{true, false}) {
		t.Fatalf("running: %v", got)
	}
	q.leave(second)
	q.leave(second)
	if got := running(third); !got[0] {
		t.Fatal("the third does not run")
	}
}

func TestQueueBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, 3, 2)
		slot := enter(t, q, "a", NewID())
		time.Sleep(24 * time.Second)
		enter(t, q, "a", NewID())
		enter(t, q, "a", NewID())
		_, err := q.reserve("a", NewID())
		if !errors.Is(err, ErrBusy) {
			t.Fatalf("over the owner's bound: %v", err)
		}
		last := enter(t, q, "b", NewID())
		_, err = q.reserve("c", NewID())
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != ErrBusy || e.RetryAfter != 4*time.Second {
			t.Fatalf("over the bound: %+v", err)
		}
		q.leave(last)
		if len(q.owners) != 1 {
			t.Errorf("refused owners leave lines: %v", q.owners)
		}
		q.leave(slot) // held for 24 s, against the 1 s that was usual
		enter(t, q, "b", NewID())
		enter(t, q, "c", NewID())
		_, err = q.reserve("c", NewID())
		if e, ok := errors.AsType[*Error](err); !ok || e.RetryAfter != 15500*time.Millisecond {
			t.Fatalf("after a long run: %+v", e)
		}
	})
}

func TestQueueLeave(t *testing.T) {
	q := newQueue(1, 10, 10)
	slot, waits := enter(t, q, "a", NewID()), enter(t, q, "a", NewID())
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := q.wait(ctx, waits); !errors.Is(err, why) {
		t.Errorf("wait: %v", err)
	}
	q.leave(waits)
	q.leave(slot)
	if r, _, w := q.load(); r != 0 || w != 0 {
		t.Errorf("%d run, %d wait", r, w)
	}
	if _, err := q.wait(ctx, slot); !errors.Is(err, why) {
		t.Errorf("with a slot, but cancelled: %v", err)
	}
}
