package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Node is a worker as apis see it.
type Node struct {
	Name      string
	Epoch     int64  // of one life of it
	Address   string // URL
	Version   string
	Slots     int
	Free      int       // of them, as the worker said last
	Heard     time.Time `json:"-"` // when it said so
	Languages []string
	Draining  bool
	Held      int       // workspaces
	Since     time.Time // zero: not known
}

// scheduler decides which worker gets a program.
type scheduler struct {
	mu      sync.Mutex
	now     func() time.Time
	targets map[int64]*target // by epoch
	ranks   map[string][]*target
	open    []*target     // of the last pick
	changed chan struct{} // closed when there may be room, or another worker
	tell    func(slots int)
}

// target is a worker, with what this api has there.
type target struct {
	Node
	mine    int                // programs of ours that compute there, or are to
	placing int                // of them, that it has not yet let in
	counted int                // of them, that it knew of when it said what is free
	away    bool               // it was not reached
	left    map[engine.ID]bool // workspaces there that were made anew elsewhere since
	gone    context.Context
	lose    context.CancelCauseFunc
}

// free is an estimate: others place programs, too.
func (t *target) free() int {
	if t.Draining || t.away {
		return 0
	}
	return max(0, min(t.Free+t.counted-t.mine, t.Slots))
}

func newScheduler(tell func(slots int)) *scheduler {
	if tell == nil {
		tell = func(int) {}
	}
	return &scheduler{now: time.Now, targets: map[int64]*target{}, ranks: map[string][]*target{}, tell: tell,
		changed: make(chan struct{})}
}

// update takes over which workers there are.
func (s *scheduler) update(nodes []Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := map[int64]bool{}
	for _, n := range nodes {
		alive[n.Epoch] = true
		t := s.targets[n.Epoch]
		if t == nil {
			t = &target{Node: Node{Free: n.Free}}
			t.gone, t.lose = context.WithCancelCause(context.Background())
			s.targets[n.Epoch] = t
			clear(s.ranks)
		}
		if !n.Heard.After(t.Heard) { // it has told us more since
			n.Free, n.Heard = t.Free, t.Heard
		} else {
			t.counted = t.mine - t.placing
		}
		t.Node = n
	}
	for epoch, t := range s.targets {
		if !alive[epoch] {
			delete(s.targets, epoch)
			clear(s.ranks)
			t.lose(errSilent)
		}
	}
	s.announce()
}

// announce says that something may have changed. The caller holds mu.
func (s *scheduler) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
	slots := 0
	for _, t := range s.targets {
		slots += t.free() + t.mine
	}
	s.tell(slots)
}

// rank orders the workers for a tier by rendezvous hashing: whoever asks gets the same
// order, and a worker that comes or goes changes little of it. A workspace without a
// program, whose tier is its own, has no language. The caller holds mu.
func (s *scheduler) rank(tier, language string) []*target {
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
		if language != "" && len(t.Languages) > 0 && !slices.Contains(t.Languages, language) {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(key + "\x00" + t.Name))
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

// pick returns the worker for a program, and takes a slot of it in our books. Programs
// of a tier stay together on the first workers of its order, which have what they
// import ready, as long as half of the slots there are free; then the next ones come
// in. Of these it is the one of two with more free slots: if all apis took the best one,
// they would meet there. Those that have refused are left out. The channel closes when
// it is worth to ask again.
func (s *scheduler) pick(tier, language string, refused map[*target]bool) (*target, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = s.open[:0]
	slots, free := 0, 0
	for _, t := range s.rank(tier, language) {
		open := t.free()
		if open == 0 || refused[t] {
			continue
		}
		slots += t.Slots
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
	best.mine++
	best.placing++
	return best, s.changed
}

// enter takes a slot of a worker in our books, whether it has one or not.
func (s *scheduler) enter(t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.mine++
	t.placing++
}

// unknown is what a worker has free that did not say it.
const unknown = -1

// heard notes what a worker has said to be free. It has let in, or refused, so many of
// those that were on their way.
func (s *scheduler) heard(t *target, free, answered int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := t.free()
	t.placing -= answered
	if free != unknown {
		t.Free, t.Heard, t.counted = free, s.now(), t.mine-t.placing
	}
	if t.free() > before {
		s.announce()
	}
}

// count notes that programs of ours begin or cease to compute at a worker.
func (s *scheduler) count(t *target, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.mine += n
	if n < 0 {
		s.announce()
	}
}

func (s *scheduler) at(epoch int64) (*target, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.targets[epoch]
	return t, ok
}

func (s *scheduler) all() []*target {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*target
	for _, t := range s.targets {
		list = append(list, t)
	}
	return list
}

func decodeJSON[T any](payload []byte) (v T, err error) {
	err = json.Unmarshal(payload, &v)
	return v, err
}
