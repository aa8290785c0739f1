package remote

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Node describes a worker to apis.
type Node struct {
	Name      string
	Epoch     int64  // a new one for each registration
	Address   string // URL
	Version   string
	Slots     int
	Free      int       // of the slots, as the worker reported last
	Heard     time.Time `json:"-"` // when it reported that
	Languages []string
	Draining  bool
	Held      int       // workspaces
	Since     time.Time // zero: not known

	DiskFree, MemoryFree int64 // bytes; 0: not known
	Revoked              bool  `json:"-"` // it gets nothing more, and what it has is lost
}

// Scheduler decides which worker gets a program.
type Scheduler struct {
	mu       sync.Mutex
	now      func() time.Time
	targets  map[int64]*target // by epoch
	ranks    map[string][]*target
	open     []*target     // scratch space of pick
	changed  chan struct{} // closed when there may be room, or another worker
	setSlots func(slots int)
}

// target is a worker, with what this api has there.
type target struct {
	epoch      int64
	name       string
	address    string              // URL
	last       Node                // as it reported last; the scheduler's mu guards this and what follows
	mine       int                 // programs of this api that compute there, or will
	placing    int                 // of these: the worker has not admitted them yet
	counted    int                 // of these: the worker knew of them when it reported Free
	unreached  bool                // the last request did not reach it
	superseded map[engine.ID]lease // workspaces there that were restored elsewhere since
	lost       context.Context     // canceled when the worker is dead
	lose       context.CancelCauseFunc
}

// free returns an estimate: other apis place programs, too.
func (t *target) free() int {
	if t.last.Draining || t.unreached {
		return 0
	}
	return max(0, min(t.last.Free+t.counted-t.mine, t.last.Slots))
}

// NewScheduler returns a scheduler without workers. It calls setSlots, which may be nil, with
// the number of programs that may compute at once, as far as it knows.
func NewScheduler(setSlots func(slots int), now func() time.Time) *Scheduler {
	if setSlots == nil {
		setSlots = func(int) {}
	}
	return &Scheduler{now: now, targets: map[int64]*target{}, ranks: map[string][]*target{}, setSlots: setSlots,
		changed: make(chan struct{})}
}

// Update replaces the list of workers.
func (s *Scheduler) Update(nodes []Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive, revoked := map[int64]bool{}, map[int64]bool{}
	for _, n := range nodes {
		if n.Revoked {
			revoked[n.Epoch] = true
			continue
		}
		alive[n.Epoch] = true
		t := s.targets[n.Epoch]
		if t == nil {
			t = &target{epoch: n.Epoch, name: n.Name, address: n.Address, last: Node{Free: n.Free}}
			t.lost, t.lose = context.WithCancelCause(context.Background())
			s.targets[n.Epoch] = t
			clear(s.ranks)
		}
		if !n.Heard.After(t.last.Heard) { // a later answer is known
			n.Free, n.Heard = t.last.Free, t.last.Heard
		} else {
			t.counted = t.mine - t.placing
		}
		t.last = n
	}
	for epoch, t := range s.targets {
		if !alive[epoch] {
			delete(s.targets, epoch)
			clear(s.ranks)
			why := errSilent
			if revoked[epoch] {
				why = errRevoked
			}
			t.lose(why)
		}
	}
	s.announce()
}

// nameAt returns the name of the worker at an address.
func (s *Scheduler) nameAt(address string) (name string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.targets {
		if u, err := url.Parse(t.address); err == nil && u.Host == address {
			return t.name, true
		}
	}
	return "", false
}

// announce wakes searches, because something may have changed. The caller holds mu.
func (s *Scheduler) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
	slots := 0
	for _, t := range s.targets {
		slots += t.free() + t.mine
	}
	s.setSlots(slots)
}

// rank orders the workers for a tier by rendezvous hashing: all apis compute the same
// order, and a worker that joins or leaves changes little of it. A workspace without a
// program has no language and a tier of its own. The caller holds mu.
func (s *Scheduler) rank(tier, language string) []*target {
	key := language + "\x00" + tier
	if ranked, ok := s.ranks[key]; ok {
		return ranked
	}
	type scored struct {
		*target
		score uint64
	}
	var all []scored
	for _, t := range s.targets {
		if language != "" && len(t.last.Languages) > 0 && !slices.Contains(t.last.Languages, language) {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(key + "\x00" + t.name))
		score := h.Sum64() // FNV's last bytes move its high bits little
		score ^= score >> 33
		score *= 0xff51afd7ed558ccd
		score ^= score >> 33
		all = append(all, scored{t, score})
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	ranked := make([]*target, len(all))
	for i, a := range all {
		ranked[i] = a.target
	}
	if language != "" {
		s.ranks[key] = ranked
	}
	return ranked
}

// pick returns the worker for a program, and counts a slot of it as taken. Programs of a
// tier stay together on the first workers of its order, which have the tier's imports
// ready, as long as half of the slots there are free; then the next workers are added. Of
// these pick draws two and takes the one with more free slots: if all apis took the best
// worker, they would collide there. Workers that have refused are skipped. The channel
// closes when it is worth asking again.
func (s *Scheduler) pick(tier, language string, refused map[*target]bool) (*Slot, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = s.open[:0]
	slots, free := 0, 0
	for _, t := range s.rank(tier, language) {
		open := t.free()
		if open == 0 || refused[t] {
			continue
		}
		slots += t.last.Slots
		free += open
		if s.open = append(s.open, t); len(s.open) > 1 && 2*free >= slots {
			break
		}
	}
	if len(s.open) == 0 {
		return nil, s.changed
	}
	i := rand.IntN(len(s.open))
	best := s.open[i]
	if len(s.open) > 1 {
		if other := s.open[(i+1+rand.IntN(len(s.open)-1))%len(s.open)]; other.free() > best.free() {
			best = other
		}
	}
	return s.newSlot(best), s.changed
}

// takeSlot counts a slot of a worker as taken, even if the worker has none free.
func (s *Scheduler) takeSlot(t *target) *Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newSlot(t)
}

// newSlot counts a slot of a worker as taken. The caller holds mu.
func (s *Scheduler) newSlot(t *target) *Slot {
	t.mine++
	t.placing++
	return &Slot{scheduler: s, target: t, placing: true, computing: true}
}

func (s *Scheduler) at(epoch int64) (*target, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.targets[epoch]
	return t, ok
}

func (s *Scheduler) all() []*target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.targets))
}
