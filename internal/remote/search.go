package remote

import "sync"

// maxAttempts is the number of workers that one search asks before it waits for a change.
const maxAttempts = 3

// Search looks for a worker for one program. Each worker that Next returns is asked; if it
// refuses, Next returns another.
type Search struct {
	scheduler      *Scheduler
	tier, language string
	asked          map[*target]bool
	changed        <-chan struct{}
}

// Search begins to look for a worker.
func (s *Scheduler) Search(tier, language string) *Search {
	return &Search{scheduler: s, tier: tier, language: language, asked: map[*target]bool{}}
}

// Next reserves a slot of a worker. If no worker has room, or three have refused, Next returns
// nil, and a channel that closes when it is worth calling Next again.
func (s *Search) Next() (*Slot, <-chan struct{}) {
	if len(s.asked) == maxAttempts {
		clear(s.asked)
		return nil, s.changed
	}
	t, changed := s.scheduler.pick(s.tier, s.language, s.asked)
	if t == nil {
		clear(s.asked)
		return nil, changed
	}
	s.asked[t], s.changed = true, changed
	return &Slot{scheduler: s.scheduler, target: t, placing: true, computing: true}, nil
}

// Slot is a slot of a worker that the scheduler counts as taken by one program. A nil Slot is
// that of a request that needs none.
type Slot struct {
	scheduler *Scheduler
	target    *target

	mu        sync.Mutex
	placing   bool // the worker has not answered yet
	computing bool // the program counts
}

// Epoch returns the epoch of the worker.
func (s *Slot) Epoch() int64 { return s.target.Epoch }

// Refused notes that the worker has no room.
func (s *Slot) Refused() { s.Ended(0) }

// Started notes that the worker has admitted the program, and how many slots it has left.
func (s *Slot) Started(free int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	answered := 0
	if s.placing {
		answered, s.placing = 1, false
	}
	s.mu.Unlock()
	if answered > 0 || free != unknown {
		s.scheduler.setFree(s.target, free, answered)
	}
}

// Ended notes that the program has ended, and how many slots the worker has free.
func (s *Slot) Ended(free int) {
	s.setComputing(false)
	s.Started(free)
}

// release frees the slot, if the worker did not say how the program ended.
func (s *Slot) release() {
	s.Started(unknown)
	s.setComputing(false)
}

// setComputing notes whether the program uses its slot: one that waits for something does not.
func (s *Slot) setComputing(yes bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	before := s.computing
	s.computing = yes
	s.mu.Unlock()
	switch {
	case yes && !before:
		s.scheduler.count(s.target, +1)
	case before && !yes:
		s.scheduler.count(s.target, -1)
	}
}
