package remote

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
	slot, changed := s.scheduler.pick(s.tier, s.language, s.asked)
	if slot == nil {
		clear(s.asked)
		return nil, changed
	}
	s.asked[slot.target], s.changed = true, changed
	return slot, nil
}

// Slot is a slot of a worker that the scheduler counts as taken by one program. A nil Slot is
// that of a request that needs none.
type Slot struct {
	scheduler *Scheduler
	target    *target
	placing   bool // the worker has not answered yet; guarded by the scheduler's mu
	computing bool // the program counts; guarded likewise
}

// Epoch returns the epoch of the worker.
func (s *Slot) Epoch() int64 { return s.target.epoch }

// Refused notes that the worker has no room.
func (s *Slot) Refused() { s.Ended(0) }

// Started notes that the worker has admitted the program, and how many slots it has left.
func (s *Slot) Started(free int) { s.note(free, true) }

// Ended notes that the program has ended, and how many slots the worker has free.
func (s *Slot) Ended(free int) { s.note(free, false) }

// unknown stands for the free slots of a worker that did not report them.
const unknown = -1

// release frees the slot, if the worker did not say how the program ended.
func (s *Slot) release() { s.note(unknown, false) }

// setComputing notes whether the program uses its slot: one that waits for something does not.
func (s *Slot) setComputing(yes bool) { s.note(unknown, yes) }

// note notes an answer of the worker: how many slots it has free, and whether the program computes.
func (s *Slot) note(free int, computing bool) {
	if s == nil {
		return
	}
	all, t := s.scheduler, s.target
	all.mu.Lock()
	defer all.mu.Unlock()
	before, stops := t.free(), s.computing && !computing
	if s.placing {
		t.placing--
	}
	switch {
	case stops:
		t.mine--
	case computing && !s.computing:
		t.mine++
	}
	s.placing, s.computing = false, computing
	if free != unknown {
		t.last.Free, t.last.Heard, t.counted = free, all.now(), t.mine-t.placing
	}
	if stops || t.free() > before {
		all.announce()
	}
}
