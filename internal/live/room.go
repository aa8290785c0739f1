package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Interpreters are memory, so there are a number of them for each owner, for all users of a
// key, and for all. One more takes the place of the one that was idle for longest. If none is
// idle, it waits, as runs do: until one is, until its time is over, or it is refused at once
// because too many wait.

// rooms is who waits for an interpreter.
type rooms struct {
	admit sync.Mutex // held while interpreters are counted and one more is admitted

	queued engine.Tally

	mu      sync.Mutex
	waiting []*waiter // the first comes first
}

// waiter waits for an interpreter of an owner.
type waiter struct {
	owner engine.Owner
	woken chan struct{} // has an entry when there may be room
}

// notify wakes the waiters, because there may be room.
func (r *rooms) notify() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		select {
		case w.woken <- struct{}{}:
		default:
		}
	}
}

// first reports whether no other waiter of the owner was there before; w is nil for one that
// has just come.
func (r *rooms) first(owner engine.Owner, w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.waiting {
		if other.owner == owner {
			return other == w
		}
	}
	return true
}

// makeRoom admits an interpreter of a session, which the caller launches, or calls
// leaveRoom.
func (s *Service) makeRoom(ctx context.Context, at *session) error {
	evicted, err := s.tryRoom(at, nil)
	if err != nil {
		evicted, err = s.awaitRoom(ctx, at.caller.Owner, err, func(w *waiter) (*session, error) { return s.tryRoom(at, w) })
	}
	if err != nil {
		return err
	}
	if evicted != nil {
		evicted.await(ctx)
	}
	return nil
}

// AwaitRoom waits until the caller may have one more interpreter: there are fewer than there
// may be, or one is idle. It does not end that one, nor does it keep the room.
func (s *Service) AwaitRoom(ctx context.Context, caller engine.Caller) error {
	try := func(*waiter) (*session, error) {
		if among, why := s.crowded(caller.Owner); why != "" && !slices.ContainsFunc(among, (*session).isIdle) {
			return nil, tooMany(why)
		}
		return nil, nil
	}
	_, err := try(nil)
	if err != nil {
		_, err = s.awaitRoom(ctx, caller.Owner, err, try)
	}
	return err
}

// awaitRoom waits until try succeeds, which has failed with an error.
func (s *Service) awaitRoom(
	ctx context.Context, owner engine.Owner, failed error, try func(*waiter) (*session, error),
) (*session, error) {
	r := &s.rooms
	if _, _, ok := r.queued.Add(1, int64(s.config.Queue), s.engine.Bounds(owner, int64(s.config.QueuePerOwner))); !ok {
		return nil, failed
	}
	defer r.queued.Remove(owner, 1)
	w := &waiter{owner: owner, woken: make(chan struct{}, 1)}
	w.woken <- struct{}{} // the room may have come meanwhile
	r.mu.Lock()
	r.waiting = append(r.waiting, w)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.waiting = slices.DeleteFunc(r.waiting, func(other *waiter) bool { return other == w })
		r.mu.Unlock()
		r.notify() // the next of this owner is the first now
	}()
	over := time.NewTimer(s.config.Wait)
	defer over.Stop()
	for {
		select {
		case <-w.woken:
		case <-over.C:
			return nil, failed
		case <-ctx.Done():
			return nil, canceled(ctx)
		case <-s.life.Done():
			return nil, closing()
		}
		evicted, err := try(w)
		if err == nil {
			return evicted, nil
		}
		failed = err
	}
}

// tryRoom admits an interpreter of a session if there is room, or another one makes room. That
// one is being ended then.
func (s *Service) tryRoom(at *session, w *waiter) (evicted *session, err error) {
	owner := at.caller.Owner
	if at.takesRoom() { // another cell of the session has come first
		return nil, nil
	}
	if !s.rooms.first(owner, w) {
		return nil, tooMany("others of your cells wait for a live interpreter, too")
	}
	s.rooms.admit.Lock()
	defer s.rooms.admit.Unlock()
	if among, why := s.crowded(owner); why != "" {
		if evicted = s.evict(among); evicted == nil {
			return nil, tooMany(why)
		}
	}
	at.mu.Lock()
	at.admitted = true
	at.mu.Unlock()
	return evicted, nil
}

// crowded reports why there is no room for one more interpreter of an owner, and of which
// sessions one may make room, the first to be asked first.
func (s *Service) crowded(owner engine.Owner) (among []*session, why string) {
	count := map[engine.Owner]int64{}
	all := slices.DeleteFunc(s.all(), func(at *session) bool { return !at.takesRoom() })
	for _, at := range all {
		for _, each := range at.caller.Owner.Accounts() {
			count[each]++
		}
	}
	slices.SortFunc(all, func(a, b *session) int { return a.lastUse().Compare(b.lastUse()) })
	for _, bound := range s.engine.Bounds(owner, int64(s.config.PerOwner)) {
		if count[bound.Owner] < bound.Most {
			continue
		}
		why = "you have as many live interpreters as one owner may have, and all are in use"
		if bound.Owner != owner {
			why = "the users of this key have as many live interpreters as they may have together, and all are in use"
		}
		return slices.DeleteFunc(all, func(at *session) bool {
			return !slices.Contains(at.caller.Owner.Accounts(), bound.Owner)
		}), why
	}
	if len(all) < s.config.Total {
		return nil, ""
	}
	// Those with the most make room, and nobody for one who has more then.
	own := owner.Account()
	count[own]++
	all = slices.DeleteFunc(all, func(at *session) bool { return count[at.caller.Owner.Account()] < count[own] })
	slices.SortStableFunc(all, func(a, b *session) int {
		return cmp.Compare(count[b.caller.Owner.Account()], count[a.caller.Owner.Account()])
	})
	return all, "there are as many live interpreters as fit, and none that may make room is idle"
}

// takesRoom reports whether a session has an interpreter, or is about to have one.
func (at *session) takesRoom() bool {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.admitted || at.interpreter != nil && at.interpreter.ending == ""
}

// leaveRoom gives up what makeRoom has reserved. The caller holds mu.
func (at *session) leaveRoom() {
	at.admitted = false
	at.service.rooms.notify()
}

// maxRefused is how many refused interpreters in a row evict others. It keeps an interpreter
// that fits nowhere from ending all others.
const maxRefused = 4

// makeRoomFor evicts the longest idle interpreter, because at's interpreter got no memory. It
// reports whether to try again.
func (s *Service) makeRoomFor(at *session) bool {
	at.mu.Lock()
	at.refused++
	wanted := at.refused < maxRefused && len(at.orders) > 0
	at.mu.Unlock()
	if !wanted {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	others := slices.DeleteFunc(s.all(), func(other *session) bool { return other == at })
	slices.SortFunc(others, func(a, b *session) int { return a.lastUse().Compare(b.lastUse()) })
	evicted := s.evict(others)
	if evicted != nil {
		evicted.await(ctx)
	}
	return evicted != nil
}

// evict begins to end the first idle interpreter of some sessions, and returns its session;
// nil if none is idle.
func (s *Service) evict(among []*session) *session {
	for _, at := range among {
		if at.endIdle("It was ended to make room for another one, because it was idle for longest.") {
			s.evicted.Add(1)
			return at
		}
	}
	return nil
}

func tooMany(why string) error {
	return &engine.Error{
		Op: "live session", Kind: engine.ErrBusy, RetryAfter: 5 * time.Second, Err: errors.New(why),
		Hint: "Try again later, or end a program or a session that is no longer used. " +
			"The operator can allow more: owner_live, and --users of a key.",
	}
}
